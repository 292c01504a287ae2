import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { before, describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import type { ClientIdentity } from '../../lib/identity/producer-identity.ts';
import { TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { atEnd } from '../support/scope.ts';
import { boundTo, jwks, signedWithPublicKey, TokenIssuer } from '../support/tokens.ts';
import { SYSTEM } from '../support/system.ts';

const [authority, stranger, issuer, namesake] = await Promise.all([
  CertificateAuthority.create(SYSTEM, 'root'),
  CertificateAuthority.create(SYSTEM, 'stranger'),
  TokenIssuer.create('first'),
  TokenIssuer.create('first'),
]);
const host = { commonName: 'localhost', dnsNames: ['localhost'], server: true };
const [good, untrusted, expired, elsewhere, client] = await Promise.all([
  authority.issue(host),
  stranger.issue(host),
  authority.issue({ ...host, notAfter: new Date(Date.now() - 1_000) }),
  authority.issue({ ...host, dnsNames: ['elsewhere.test'] }),
  authority.issue({ commonName: 'one', uris: ['urn:one'] }),
]);
const identity: ClientIdentity = {
  certificate: new X509Certificate(client.certificate),
  producer: 'urn:one',
  uris: ['urn:one'],
  untilMs: Date.now() + 7_200_000,
};
const bound = boundTo({ cert: client.certificate, key: client.key, serial: client.serial });
const json = (response: ServerResponse, body: unknown, status = 200): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

before(() => setDefaultCACertificates([...getCACertificates('default'), authority.certificate]));

async function keyServer(
  answer: (response: ServerResponse) => void,
  { certificate, key } = good,
): Promise<TokenVerifier> {
  const server = createServer({ cert: certificate, key }, (_request, response) => answer(response));
  server.on('tlsClientError', () => undefined);
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://localhost:${(server.address() as AddressInfo).port}/keys`;
  return new TokenVerifier({ keys: new URL(url), issuer: undefined, audience: 'ingest-gateway' });
}

async function kindBy(verifier: TokenVerifier, atMs = Date.now()): Promise<string> {
  return (await verifier.verify(`Bearer ${await issuer.token(bound)}`, identity, atMs)).kind;
}

describe('a key server', () => {
  const plain = Buffer.from(issuer.publicPem).toString('base64url');
  const cases: Readonly<Record<string, (response: ServerResponse) => void>> = {
    'that fails': (response) => json(response, {}, 500),
    'that returns good keys with a failure': (response) => response.writeHead(500).end(jwks(issuer)),
    'that redirects': (response) => response.writeHead(302, { location: 'https://localhost:1/keys' }).end(),
    'that returns HTML': (response) => response.end('<html>keys</html>'),
    'that returns incomplete JSON': (response) => response.end(jwks(issuer).slice(0, -4)),
    'that returns no list': (response) => json(response, { keys: 'keys' }),
    'that returns null': (response) => json(response, null),
    'that returns no key': (response) => json(response, { keys: [] }),
    'that returns unusable keys': (response) => json(response, { keys: [null, 1, {}, { kty: 'EC', kid: 'first' }] }),
    'that returns another key with the id': (response) => json(response, { keys: [namesake.jwk] }),
    'that returns a secret with the id': (response) =>
      json(response, { keys: [{ kty: 'oct', kid: 'first', k: plain }] }),
    'that returns a key for another use': (response) => json(response, { keys: [{ ...issuer.jwk, use: 'enc' }] }),
    'that returns a key for another algorithm': (response) =>
      json(response, { keys: [{ ...issuer.jwk, alg: 'ES384' }] }),
    'that closes the connection': (response) => void response.destroy(),
    'that stops in the middle of its answer': (response) =>
      void response.writeHead(200, { 'content-length': 1_000 }).write('{"keys":'),
    'that does not answer': () => undefined,
  };
  for (const [what, answer] of Object.entries(cases))
    it(`${what} causes a refusal within its timeout`, { timeout: 20_000 }, async () => {
      const verifier = await keyServer(answer);
      assert.notEqual(await kindBy(verifier), 'producer');
      const claims = { ...bound, aud: 'ingest-gateway', exp: Math.floor(Date.now() / 1000) + 3600 };
      const forged = await signedWithPublicKey(issuer, issuer.publicPem, claims);
      assert.notEqual((await verifier.verify(`Bearer ${forged}`, identity, Date.now())).kind, 'producer');
    });

  for (const [what, certificate] of [
    ['of an unknown authority', untrusted],
    ['that has expired', expired],
    ['for another host', elsewhere],
  ] as const)
    it(`with a certificate ${what} is not trusted`, async () => {
      const verifier = await keyServer((response) => response.end(jwks(issuer)), certificate);
      assert.equal(await kindBy(verifier), 'unknown');
    });

  it('is used again when it has recovered', async () => {
    let isWell = false;
    const verifier = await keyServer((response) => (isWell ? response.end(jwks(issuer)) : json(response, {}, 503)));
    assert.equal(await kindBy(verifier), 'unknown');
    isWell = true;
    assert.equal(await kindBy(verifier), 'producer');
  });

  it('may return unusable keys next to a good one', async () => {
    const verifier = await keyServer((response) => json(response, { keys: [{ kty: 'none' }, {}, issuer.jwk] }));
    assert.equal(await kindBy(verifier), 'producer');
  });
});
