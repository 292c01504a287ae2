import { createHash, X509Certificate } from 'node:crypto';
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';
import type { ClientCertificate } from './pki.ts';

/** Returns the thumbprint that a bound token contains (RFC 8705, section 3.1). */
export function thumbprint(certificate: ClientCertificate): string {
  return createHash('sha256').update(new X509Certificate(certificate.cert).raw).digest('base64url');
}

export const boundTo = (certificate: ClientCertificate): JWTPayload => ({
  cnf: { 'x5t#S256': thumbprint(certificate) },
});

type Claims = { readonly [Claim in keyof JWTPayload]: JWTPayload[Claim] | undefined };

export class TokenIssuer {
  readonly kid: string | undefined;
  readonly jwk: JWK;
  readonly publicPem: string;
  readonly #key: CryptoKey;

  private constructor(kid: string | undefined, jwk: JWK, publicPem: string, key: CryptoKey) {
    this.kid = kid;
    this.jwk = jwk;
    this.publicPem = publicPem;
    this.#key = key;
  }

  /** Without `kid`, neither the key nor its tokens have a key id. */
  static async create(kid?: string): Promise<TokenIssuer> {
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
    const jwk = { ...(await exportJWK(publicKey)), alg: 'ES256', use: 'sig', ...(kid === undefined ? {} : { kid }) };
    return new TokenIssuer(kid, jwk, await exportSPKI(publicKey), privateKey);
  }

  /** Returns a token that is valid for an hour. `claims` override its claims, and `undefined` removes one. */
  async token(claims: Claims): Promise<string> {
    const nowS = Math.floor(Date.now() / 1000);
    const payload = { aud: 'ingest-gateway', exp: nowS + 3600, sub: 'producer', ...claims };
    return new SignJWT(payload as JWTPayload)
      .setProtectedHeader({ alg: 'ES256', ...(this.kid === undefined ? {} : { kid: this.kid }) })
      .sign(this.#key);
  }
}

export const jwks = (...issuers: readonly TokenIssuer[]): string =>
  JSON.stringify({ keys: issuers.map(({ jwk }) => jwk) });

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

export const unsigned = (claims: JWTPayload): string => `${part({ alg: 'none' })}.${part(claims)}.`;

/** Returns a token signed with HS256 and with the public key as the secret (RFC 8725, section 2.1). */
export async function signedWithPublicKey(issuer: TokenIssuer, secret: string, claims: JWTPayload): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: issuer.kid ?? '' }).sign(Buffer.from(secret));
}
