import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import type { TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { jwks, signedWithPublicKey, TokenIssuer } from '../support/tokens.ts';
import { authority, inS, producerWith, served, verified, verifierOf } from './token-fixture.ts';

const host = { commonName: 'localhost', dnsNames: ['localhost'], server: true };
const stranger = new CertificateAuthority('stranger');
const [issuer, namesake, untrusted, expired, elsewhere, { identity, bound }] = await Promise.all([
  TokenIssuer.create('first'),
  TokenIssuer.create('first'),
  stranger.issue(host),
  authority.issue({ ...host, notAfter: new Date(Date.now() - 1_000) }),
  authority.issue({ ...host, dnsNames: ['elsewhere.test'] }),
  producerWith('urn:one'),
]);
const json = (response: ServerResponse, body: unknown, status = 200): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

const keyServer = async (
  answer: (response: ServerResponse) => void,
  ...certificate: readonly (typeof untrusted)[]
): Promise<TokenVerifier> => verifierOf(await served((_request, response) => answer(response), ...certificate));

const kindBy = async (verifier: TokenVerifier): Promise<string> =>
  (await verified(verifier, await issuer.token(bound), identity)).kind;

describe('a key server', () => {
  const plain = Buffer.from(issuer.publicPem).toString('base64url');
  const keys = (response: ServerResponse, key: object): void => json(response, { keys: [key] });
  const cases: Readonly<Record<string, (response: ServerResponse) => void>> = {
    'that fails': (response) => json(response, {}, 500),
    'that returns good keys with a failure': (response) => response.writeHead(404).end(jwks(issuer)),
    'that redirects': (response) => response.writeHead(302, { location: 'https://localhost:1/keys' }).end(),
    'that returns HTML': (response) => response.end('<html>keys</html>'),
    'that returns incomplete JSON': (response) => response.end(jwks(issuer).slice(0, -4)),
    'that returns no list': (response) => json(response, { keys: 'keys' }),
    'that returns null': (response) => json(response, null),
    'that returns no key': (response) => json(response, { keys: [] }),
    'that returns unusable keys': (response) => json(response, { keys: [null, 1, {}, { kty: 'EC', kid: 'first' }] }),
    'that returns another key with the id': (response) => json(response, { keys: [namesake.jwk] }),
    'that returns a secret with the id': (response) => keys(response, { kty: 'oct', kid: 'first', k: plain }),
    'that returns a key for another use': (response) => keys(response, { ...issuer.jwk, use: 'enc' }),
    'that returns a key for another algorithm': (response) => keys(response, { ...issuer.jwk, alg: 'ES384' }),
    'that returns more than 1 MiB': (response) => response.end(jwks(issuer).padEnd(2 ** 20 + 1)),
    'that closes the connection': (response) => void response.destroy(),
    'that stops in the middle of its answer': (response) =>
      void response.writeHead(200, { 'content-length': 1_000 }).write('{"keys":'),
    'that does not answer': () => undefined,
  };
  const UNUSABLE = new Set(['no list', 'null', 'no key', 'a secret with the id'].map((set) => `that returns ${set}`));
  for (const [what, answer] of Object.entries(cases))
    it(`${what} causes a refusal within its timeout`, { timeout: 20_000 }, async () => {
      const verifier = await keyServer(answer);
      const kind = await kindBy(verifier);
      assert.ok(UNUSABLE.has(what) ? kind === 'unknown' : kind !== 'producer', kind);
      const claims = { ...bound, aud: 'ingest-gateway', exp: inS(3600) };
      const forged = await signedWithPublicKey(issuer, issuer.publicPem, claims);
      assert.notEqual((await verified(verifier, forged, identity)).kind, 'producer');
    });

  it('with a certificate of an unknown authority, that has expired, or for another host is not trusted', async () => {
    for (const certificate of [untrusted, expired, elsewhere])
      assert.equal(await kindBy(await keyServer((response) => response.end(jwks(issuer)), certificate)), 'unknown');
  });

  it('is used again when it has recovered', async () => {
    let [status, keys] = [503, '{"keys":[]}'];
    const verifier = await keyServer((response) => response.writeHead(status).end(keys));
    const told: (string | undefined)[] = [];
    verifier.onFetched = (failure) => void told.push(failure);
    assert.equal(await kindBy(verifier), 'unknown');
    status = 200;
    assert.equal(await kindBy(verifier), 'unknown');
    keys = jwks(issuer);
    assert.equal(await kindBy(verifier), 'producer');
    assert.deepEqual(told, ['the status of its answer is 503', 'it has no keys', undefined]);
  });

  it('may return unusable keys next to a good one', async () => {
    const verifier = await keyServer((response) => json(response, { keys: [{ kty: 'none' }, {}, issuer.jwk] }));
    assert.equal(await kindBy(verifier), 'producer');
  });
});
