// Verifies the bearer token of a producer.
//
// A token is valid if a key in the JWKS signed it with an asymmetric algorithm, if it has not expired, and if it is
// bound to the client certificate of its connection: by `cnf.x5t#S256` (RFC 8705, section 3.1), or by a `sub` that
// equals the SPIFFE ID in the certificate (JWT-SVID). Its `aud` must contain the audience.
import { createPublicKey, hash } from 'node:crypto';
import * as jose from 'jose';
import { audienceMissing, unauthenticated, type ClientIdentity, type Verdict } from './producer-identity.ts';
import { messageOf } from '../process/message-of.ts';
import { JSON_BYTES_MAX, readOperatorFile, strictJson, textOf } from '../process/operator-file.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { EXIT, StartFailure } from '../process/program.ts';

/** No symmetric algorithms, because a public key must never be used as a secret (RFC 8725, section 3.1). */
const ALGORITHMS = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');
const RSA_BITS_MIN = 2_048;
/** Clocks of token issuers differ by this much (RFC 7519, sections 4.1.4 and 4.1.5). */
const LEEWAY_S = 5;
const KEY_SERVER_TIMEOUT_MS = 2_000;
/** Keys from a URL, and verdicts based on them, are valid for this long, even if a key is withdrawn. */
const KEYS_AGE_MS = 600_000;
const KEYS_BYTES_MAX = 1 << 20;
/** A verdict reached without the right key is valid for this long. Then the token is verified again. */
const UNKNOWN_FOR_MS = 500;
/** A new key in a file is in use after this time. */
const FILE_RELOAD_MS = 1_000;
/** A key id that was unknown for this long may be new again. */
const KEY_IDS_AGE_MS = 60_000;
const KEY_IDS_MAX = 1_000;
const BEARER = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*) *$/i;

export type TokenKeys = jose.JWTVerifyGetKey;

export interface TokenVerifierOptions {
  /** The keys in a file (`tokenKeys`), or the https URL of a JWKS that is requested when the first token arrives. */
  readonly keys: TokenKeys | URL;
  readonly issuer: string | undefined;
  readonly audience: string;
}

export class TokenVerifier {
  keys: TokenKeys;
  /** Called when the URL returns different keys, because verdicts based on the old keys are invalid. */
  onChange: () => void = () => undefined;
  /** Called after each request for the keys at the URL, with the reason if it failed. */
  onFetched: (failure: string | undefined) => void = () => undefined;
  readonly #options: TokenVerifierOptions;
  readonly #remote?: ReturnType<typeof jose.createRemoteJWKSet>;
  /** When each unknown key id was seen first. */
  readonly #unknown = new Map<string, number>();
  /** The latest keys from the URL, which arrived at the time `uat`. */
  readonly #fetched: Partial<jose.ExportedJWKSCache> = {};

  constructor(options: TokenVerifierOptions) {
    this.#options = options;
    const { keys } = options;
    this.keys = keys instanceof URL ? (this.#remote = this.#keysOf(keys)) : keys;
  }

  /** Never rejects. `authorization` is the value of the Authorization field. */
  async verify(authorization: string | undefined, identity: ClientIdentity, nowMs: number): Promise<Verdict> {
    const token = BEARER.exec(authorization ?? '')?.[1];
    if (token === undefined) return unauthenticated('a bearer token is required');
    if ((this.#fetched.uat ?? 0) > nowMs + LEEWAY_S * 1000) await this.#fetch(); // The clock was set back.
    const verdict = await this.#verdict(token, identity, nowMs).catch((cause: unknown) =>
      cause instanceof jose.errors.JWKSNoMatchingKey ? this.#keyUnknown(token, nowMs) : failure(cause, nowMs),
    );
    const { uat = Infinity } = this.#fetched;
    return verdict.kind === 'unknown' ? verdict : { ...verdict, untilMs: Math.min(verdict.untilMs, uat + KEYS_AGE_MS) };
  }

  /** Requests keys at a URL. A request that is running may have been answered before the latest keys were published. */
  async reload(): Promise<void> {
    if (this.#remote?.reloading === true) await this.#fetch();
    await this.#fetch();
  }

  async #fetch(): Promise<void> {
    await this.#remote?.reload().catch(() => undefined);
  }

  async #verdict(token: string, identity: ClientIdentity, nowMs: number): Promise<Verdict> {
    const payload = await this.#payloadOf(token, nowMs).catch(async (cause: unknown) => {
      // A key without an id may have been replaced.
      if (!isWrongKey(cause) || this.#remote?.coolingDown !== false) throw cause;
      await this.#remote.reload();
      return this.#payloadOf(token, nowMs);
    });
    if (!isBound(payload, identity)) return unauthenticated('the token is not bound to the client certificate');
    const { producer } = identity;
    const { audience } = this.#options;
    const untilMs = Math.min(identity.untilMs, ((payload.exp ?? 0) + LEEWAY_S) * 1000);
    const isMeant = [payload.aud].flat().includes(audience);
    return isMeant ? { kind: 'producer', producer, untilMs } : audienceMissing(producer, audience, untilMs);
  }

  /** The key may have been published a moment ago. Keys that arrived after its id was seen first decide. */
  #keyUnknown(token: string, nowMs: number): Verdict {
    const { kid = '' } = jose.decodeProtectedHeader(token);
    const firstMs = this.#unknown.get(kid) ?? 0;
    const sinceMs = nowMs - firstMs > KEY_IDS_AGE_MS ? nowMs : firstMs;
    if (this.#unknown.size >= KEY_IDS_MAX) this.#unknown.clear();
    this.#unknown.set(kid, sinceMs);
    const untilMs = nowMs + UNKNOWN_FOR_MS;
    const isDecided =
      this.#remote === undefined ? nowMs - sinceMs >= FILE_RELOAD_MS : (this.#fetched.uat ?? 0) >= sinceMs;
    if (isDecided) return unauthenticated('no known key signed the token', untilMs);
    return { kind: 'tokenKeyUnknown', detail: 'the key that signed the token is not known yet', untilMs };
  }

  /** Fetches keys from the URL, and again if a token names an unknown key. Unusable keys do not replace known ones. */
  #keysOf(url: URL) {
    let latest: string | undefined;
    return jose.createRemoteJWKSet(url, {
      timeoutDuration: KEY_SERVER_TIMEOUT_MS,
      cooldownDuration: 5_000,
      cacheMaxAge: KEYS_AGE_MS,
      [jose.jwksCache]: this.#fetched as jose.ExportedJWKSCache,
      [jose.customFetch]: async (address, options) => {
        try {
          const text = await bodyOf(await fetch(address, options));
          keysIn(text);
          this.onFetched(undefined);
          if (text !== (latest ??= text)) this.onChange();
          latest = text;
          return new Response(text);
        } catch (cause) {
          // The reason for "fetch failed" is in its cause.
          this.onFetched(messageOf((cause as Error).cause ?? cause));
          throw cause;
        }
      },
    });
  }

  async #payloadOf(token: string, nowMs: number): Promise<jose.JWTPayload> {
    const options = {
      algorithms: ALGORITHMS,
      requiredClaims: ['exp', 'aud'],
      currentDate: new Date(nowMs),
      clockTolerance: LEEWAY_S,
      ...(this.#options.issuer !== undefined && { issuer: this.#options.issuer }),
    };
    try {
      return (await jose.jwtVerify(token, this.keys, options)).payload;
    } catch (cause) {
      if (!(cause instanceof jose.errors.JWKSMultipleMatchingKeys)) throw cause;
      // Several keys may match if the token names none, for example during a rotation of keys without ids.
      for await (const key of cause) {
        const verified = await jose.jwtVerify(token, key, options).catch((failed: unknown) => {
          if (!isWrongKey(failed)) throw failed;
        });
        if (verified !== undefined) return verified.payload;
      }
      throw new jose.errors.JWSSignatureVerificationFailed();
    }
  }
}

const isWrongKey = (cause: unknown): boolean => cause instanceof jose.errors.JWSSignatureVerificationFailed;

/** The codes of jose's errors for key servers. Other causes, such as a failed connection, have none of jose's codes. */
const OF_KEYS = ['ERR_JOSE_GENERIC', 'ERR_JWKS_INVALID', 'ERR_JWKS_TIMEOUT'];

function failure(cause: unknown, nowMs: number): Verdict {
  if (cause instanceof jose.errors.JWTExpired) return unauthenticated('the token has expired');
  if (cause instanceof jose.errors.JWTClaimValidationFailed)
    return unauthenticated(
      `the token's claim ${cause.claim} is not accepted`,
      cause.claim === 'nbf' ? nowMs : undefined,
    );
  if (cause instanceof jose.errors.JOSEError && !OF_KEYS.includes(cause.code))
    return unauthenticated('the token is not valid');
  return { kind: 'unknown', detail: 'the token keys are unavailable', untilMs: nowMs + UNKNOWN_FOR_MS };
}

/** True if the token is bound to the certificate. jose does not check the types of these claims. */
function isBound({ cnf, sub }: Readonly<Record<string, unknown>>, { certificate, uris }: ClientIdentity): boolean {
  if (cnf === undefined)
    return typeof sub === 'string' && sub.startsWith('spiffe://') && uris.some((uri) => isSameProducer(uri, sub));
  const { 'x5t#S256': thumbprint } = Object(cnf) as Readonly<Record<string, unknown>>;
  return thumbprint === hash('sha256', certificate.raw, 'base64url');
}

async function bodyOf({ status, body }: Response): Promise<string> {
  if (status !== 200) throw new Error(`the status of its answer is ${status}`);
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of (body ?? []) as AsyncIterable<Uint8Array>) {
    length += piece.length;
    if (length > KEYS_BYTES_MAX) throw new Error(`its answer has more than ${KEYS_BYTES_MAX} bytes`);
    pieces.push(piece);
  }
  return textOf(Buffer.concat(pieces));
}

/** Returns the keys of a set. Throws if it has none, or a private or symmetric one (RFC 7517, section 9.2). */
function keysIn(text: string): jose.JSONWebKeySet {
  const set = strictJson(text) as jose.JSONWebKeySet;
  jose.createLocalJWKSet(set);
  // An empty set is probably a file that is still being written.
  if (set.keys.length === 0) throw new Error('it has no keys');
  for (const key of set.keys)
    // RFC 7518, sections 6.2.2, 6.3.2 and 6.4: the members of private and of symmetric keys.
    if (Object.keys(key).some((member) => /^(?:d|p|q|dp|dq|qi|oth|k)$/.test(member)))
      throw new Error(`the key ${JSON.stringify(key.kid ?? '')} is private or symmetric: publish public keys only`);
  return set;
}

/** True if a token can be verified with the key. Throws if it is malformed. */
function isUsable(key: jose.JWK): boolean {
  const { kty, crv = '', use = 'sig', alg = '', key_ops: operations = ['verify'] } = key;
  const isKnown = kty === 'RSA' || (kty === 'EC' && /^P-(256|384|521)$/.test(crv)) || crv === 'Ed25519';
  const isOfOtherAlgorithm = alg !== '' && !ALGORITHMS.includes(alg);
  if (!isKnown || isOfOtherAlgorithm || use !== 'sig' || !operations.includes('verify')) return false;
  const { modulusLength = RSA_BITS_MIN } =
    createPublicKey({ key: { ...key }, format: 'jwk' }).asymmetricKeyDetails ?? {};
  if (modulusLength < RSA_BITS_MIN) throw new Error(`an RSA key has fewer than ${RSA_BITS_MIN} bits`);
  return true;
}

export async function tokenKeys(path: string, read = readOperatorFile): Promise<TokenKeys> {
  try {
    const set = keysIn(textOf(await read(path, JSON_BYTES_MAX)));
    if (set.keys.filter(isUsable).length === 0) throw new Error('none of its keys can verify a token');
    return jose.createLocalJWKSet(set);
  } catch (cause) {
    const expected = `INGEST_TOKEN_JWKS=${JSON.stringify(path)}: expected a JSON Web Key Set (RFC 7517)`;
    throw new StartFailure(EXIT.configuration, `${expected} (${messageOf(cause)})`);
  }
}
