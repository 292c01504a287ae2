// Producers, keys and key servers for the tests of tokens.
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { ClientIdentity, Verdict } from '../../lib/identity/producer-identity.ts';
import { tokenKeys, TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { atEnd, temporaryFolder } from '../support/scope.ts';
import { boundTo } from '../support/tokens.ts';

export const authority = new CertificateAuthority('root');

export const inS = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

/** Returns the identity of a producer, and the claims that bind a token to its certificate. */
export async function producerWith(...uris: readonly string[]) {
  const { certificate, key, serial } = await authority.issue({ commonName: 'one', uris });
  const untilMs = Date.now() + 7_200_000;
  const identity: ClientIdentity = {
    certificate: new X509Certificate(certificate),
    producer: uris[0] ?? 'one',
    uris,
    untilMs,
  };
  return { identity, bound: boundTo({ cert: certificate, key, serial }) };
}

/** Returns a verifier with the keys in a JWKS, or at the https URL of one. */
export async function verifierOf(keys: string, issuer?: string): Promise<TokenVerifier> {
  const about = { issuer, audience: 'ingest-gateway' };
  if (keys.startsWith('https:')) return new TokenVerifier({ keys: new URL(keys), ...about });
  const path = join(temporaryFolder(), 'jwks.json');
  writeFileSync(path, keys);
  return new TokenVerifier({ keys: await tokenKeys(path), ...about });
}

export const verified = (verifier: TokenVerifier, token: string, identity: ClientIdentity): Promise<Verdict> =>
  verifier.verify(`Bearer ${token}`, identity, Date.now());

const localhost = await authority.issue({ commonName: 'localhost', dnsNames: ['localhost'], server: true });

/** Starts a key server, and returns the URL of its keys. */
export async function served(listener: RequestListener, { certificate, key } = localhost): Promise<string> {
  setDefaultCACertificates([...getCACertificates('default'), authority.certificate]);
  const server = createServer({ cert: certificate, key }, listener).on('tlsClientError', () => undefined);
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `https://localhost:${(server.address() as AddressInfo).port}/jwks.json`;
}
