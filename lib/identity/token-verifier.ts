// Verifies the bearer token of a producer.
//
// A token is valid if a key in the JWKS signed it with an asymmetric algorithm, if it has not expired, and if it is
// bound to the client certificate of its connection: by `cnf.x5t#S256` (RFC 8705, section 3.1), or by a `sub` that
// equals the SPIFFE ID in the certificate (JWT-SVID). Its `aud` must contain the audience.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  errors,
  jwksCache,
  jwtVerify,
  type JSONWebKeySet,
  type JWKSCacheInput,
  type JWTPayload,
  type JWTVerifyGetKey,
  type FetchImplementation,
} from 'jose';
import { audienceMissing, unauthenticated, type ClientIdentity, type Verdict } from './producer-identity.ts';
import { messageOf } from '../process/message-of.ts';
import { EXIT, StartFailure } from '../process/program.ts';

/** No symmetric algorithms, because a public key must never be used as a secret (RFC 8725, section 3.1). */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
const KEY_SERVER_TIMEOUT_MS = 2_000;
/** Keys from a URL, and verdicts based on them, are valid for this long, even if a key is withdrawn. */
const KEYS_AGE_MS = 600_000;
/** A verdict reached without the right key is valid for this long. Then the token is verified again. */
const UNKNOWN_FOR_MS = 500;
type FetchOptions = Parameters<FetchImplementation>[1];
const BEARER = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*) *$/i;

export type TokenKeys = JWTVerifyGetKey;

export interface TokenVerifierOptions {
  /** The keys in a file (`tokenKeys`), or the https URL of a JWKS that is requested when the first token arrives. */
  readonly keys: TokenKeys | URL;
  readonly issuer: string | undefined;
  readonly audience: string;
}

export class TokenVerifier {
  readonly #options: TokenVerifierOptions;
  #keys: JWTVerifyGetKey;
  /** The latest keys from the URL. jose writes this object. */
  readonly #fetched: JWKSCacheInput = {};
  /** The fetched keys at the latest verification, which show whether the keys have changed. */
  #seen: { readonly atMs: number; readonly keys: string } | undefined;
  #changed: () => void = () => undefined;

  constructor(options: TokenVerifierOptions) {
    this.#options = options;
    this.#keys = options.keys instanceof URL ? keysOfUrl(options.keys, this.#fetched) : options.keys;
  }

  replaceKeys(keys: TokenKeys): void {
    this.#keys = keys;
  }

  /** Calls `changed` when the URL returns different keys, because verdicts based on the old keys are invalid. */
  onChange(changed: () => void): void {
    this.#changed = changed;
  }

  /** Never rejects. `authorization` is the value of the Authorization field. */
  async verify(authorization: string | undefined, identity: ClientIdentity, nowMs: number): Promise<Verdict> {
    const verdict = await this.#verdict(authorization, identity, nowMs);
    this.#noteFetchedKeys();
    if (this.#seen === undefined || verdict.kind === 'unknown') return verdict;
    return { ...verdict, untilMs: Math.min(verdict.untilMs, this.#seen.atMs + KEYS_AGE_MS) };
  }

  #noteFetchedKeys(): void {
    const { uat: atMs, jwks } = this.#fetched;
    const seen = this.#seen;
    if (atMs === undefined || atMs === seen?.atMs) return;
    this.#seen = { atMs, keys: JSON.stringify(jwks) };
    if (seen !== undefined && seen.keys !== this.#seen.keys) this.#changed();
  }

  async #verdict(authorization: string | undefined, identity: ClientIdentity, nowMs: number): Promise<Verdict> {
    const token = BEARER.exec(authorization ?? '')?.[1];
    if (token === undefined) return unauthenticated('a bearer token is required');
    let payload: JWTPayload;
    try {
      payload = await this.#payloadOf(token, nowMs);
    } catch (cause) {
      return failure(cause, nowMs);
    }
    if (!isBound(payload, identity)) return unauthenticated('the token is not bound to the client certificate');
    const untilMs = Math.min(identity.untilMs, (payload.exp ?? 0) * 1000);
    const audiences = Array.isArray(payload.aud) ? payload.aud : [payload.aud];
    if (audiences.includes(this.#options.audience)) return { kind: 'producer', producer: identity.producer, untilMs };
    return audienceMissing(identity.producer, this.#options.audience, untilMs);
  }

  async #payloadOf(token: string, nowMs: number): Promise<JWTPayload> {
    const options = {
      algorithms: ALGORITHMS,
      requiredClaims: ['exp', 'aud'],
      currentDate: new Date(nowMs),
      ...(this.#options.issuer === undefined ? {} : { issuer: this.#options.issuer }),
    };
    try {
      return (await jwtVerify(token, this.#keys, options)).payload;
    } catch (cause) {
      if (!(cause instanceof errors.JWKSMultipleMatchingKeys)) throw cause;
      // Several keys may match if the token names none, for example during a rotation of keys without ids.
      for await (const key of cause) {
        try {
          return (await jwtVerify(token, key, options)).payload;
        } catch (failed) {
          if (!(failed instanceof errors.JWSSignatureVerificationFailed)) throw failed;
        }
      }
      throw new errors.JWSSignatureVerificationFailed();
    }
  }
}

function failure(cause: unknown, nowMs: number): Verdict {
  if (cause instanceof errors.JWTExpired) return unauthenticated('the token has expired');
  if (cause instanceof errors.JWTClaimValidationFailed) {
    const { claim } = cause;
    return unauthenticated(`the token's claim ${claim} is not accepted`, claim === 'nbf' ? nowMs : undefined);
  }
  if (cause instanceof errors.JWKSNoMatchingKey)
    return unauthenticated('no known key signed the token', nowMs + UNKNOWN_FOR_MS);
  const isOfToken =
    cause instanceof errors.JOSEError && !(cause instanceof errors.JWKSTimeout) && cause.code !== 'ERR_JOSE_GENERIC';
  if (isOfToken) return unauthenticated('the token is not valid');
  return { kind: 'unknown', detail: 'the token keys are unavailable', untilMs: nowMs + UNKNOWN_FOR_MS };
}

/** True if the token is bound to the certificate. jose does not check the types of these claims. */
function isBound({ cnf, sub }: Readonly<Record<string, unknown>>, identity: ClientIdentity): boolean {
  if (cnf === undefined) return typeof sub === 'string' && sub.startsWith('spiffe://') && identity.uris.includes(sub);
  const thumbprint = createHash('sha256').update(identity.certificate.raw).digest('base64url');
  return typeof cnf === 'object' && cnf !== null && 'x5t#S256' in cnf && cnf['x5t#S256'] === thumbprint;
}

/** Fetches keys from the URL, and again when a token names an unknown key. jose stores them in `fetched`. */
const keysOfUrl = (url: URL, fetched: JWKSCacheInput): TokenKeys =>
  createRemoteJWKSet(url, {
    timeoutDuration: KEY_SERVER_TIMEOUT_MS,
    cooldownDuration: 5_000,
    cacheMaxAge: KEYS_AGE_MS,
    [jwksCache]: fetched,
    [customFetch]: fetchKeys,
  });

/** Fetches a JWKS. A set without keys is treated as a failure, so that the known keys stay in use. */
async function fetchKeys(url: string, options: FetchOptions): Promise<Response> {
  const response = await fetch(url, options);
  if (response.status !== 200) return response;
  const text = await response.text();
  return /"keys"\s*:\s*\[\s*\]/.test(text) ? new Response(null, { status: 503 }) : new Response(text);
}

/** Reads the keys in a JWKS file. Rejects with a StartFailure. */
export async function tokenKeys(path: string): Promise<TokenKeys> {
  try {
    const set = JSON.parse(await readFile(path, 'utf8')) as JSONWebKeySet;
    const keys = createLocalJWKSet(set);
    // An empty set is probably a file that is still being written.
    if (set.keys.length === 0) throw new Error('it has no keys');
    return keys;
  } catch (cause) {
    const expected = `INGEST_TOKEN_JWKS=${JSON.stringify(path)}: expected a JSON Web Key Set (RFC 7517)`;
    throw new StartFailure(EXIT.configuration, `${expected} (${messageOf(cause)})`);
  }
}
