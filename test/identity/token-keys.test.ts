import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, it } from 'node:test';
import { SignJWT } from 'jose';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import type { ClientIdentity } from '../../lib/identity/producer-identity.ts';
import { tokenKeys, TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { atEnd, temporaryFolder } from '../support/scope.ts';
import { boundTo, jwks, signedWithPublicKey, TokenIssuer, unsigned } from '../support/tokens.ts';
import { SYSTEM } from '../support/system.ts';

const issuer = await TokenIssuer.create('first');
const authority = await CertificateAuthority.create(SYSTEM, 'root');
const issued = await authority.issue({ commonName: 'one', uris: ['urn:test:one'] });
const keyServer = await authority.issue({ commonName: 'localhost', dnsNames: ['localhost'], server: true });
const certificate = { cert: issued.certificate, key: issued.key, serial: issued.serial };
const identity: ClientIdentity = {
  certificate: new X509Certificate(issued.certificate),
  producer: 'urn:test:one',
  uris: ['urn:test:one'],
  untilMs: Date.now() + 7_200_000,
};
const inS = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;
const ABOUT = { issuer: undefined, audience: 'ingest-gateway' };
const create = async (path: string): Promise<TokenVerifier> =>
  new TokenVerifier({ keys: path.startsWith('https:') ? new URL(path) : await tokenKeys(path), ...ABOUT });
const verifierOf = (keys: string): Promise<TokenVerifier> => {
  const path = join(temporaryFolder(), 'jwks.json');
  writeFileSync(path, keys);
  return create(path);
};
const WEAK = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' });
const verifier = await verifierOf(jwks(issuer));

/** Starts a key server, and returns the URL of its keys. */
async function served(listener: RequestListener): Promise<string> {
  const server = createServer({ cert: keyServer.certificate, key: keyServer.key }, listener);
  atEnd(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  setDefaultCACertificates([...getCACertificates('default'), authority.certificate]);
  return `https://localhost:${(server.address() as AddressInfo).port}/jwks.json`;
}

interface KeyPair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

describe('the signature of a token', () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const elliptic = (namedCurve: string): KeyPair => generateKeyPairSync('ec', { namedCurve });
  const keys: readonly (readonly [algorithms: readonly string[], KeyPair])[] = [
    [['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], rsa],
    [['EdDSA', 'Ed25519'], generateKeyPairSync('ed25519')],
    [['ES256'], elliptic('P-256')],
    [['ES384'], elliptic('P-384')],
    [['ES512'], elliptic('P-521')],
  ];
  for (const [algorithms, { privateKey, publicKey }] of keys)
    for (const alg of algorithms)
      it(`may use ${alg}`, async () => {
        const by = await verifierOf(JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }));
        const token = await new SignJWT({ ...boundTo(certificate), aud: 'ingest-gateway', exp: inS(3600) })
          .setProtectedHeader({ alg })
          .sign(privateKey);
        assert.equal((await by.verify(`Bearer ${token}`, identity, Date.now())).kind, 'producer');
      });

  it('is required, and may not use a symmetric algorithm', async () => {
    const claims = { ...boundTo(certificate), aud: 'ingest-gateway', exp: inS(3600) };
    for (const token of [unsigned(claims), await signedWithPublicKey(issuer, issuer.publicPem, claims), 'a.b.c'])
      assert.deepEqual(await verifier.verify(`Bearer ${token}`, identity, Date.now()), {
        kind: 'unauthenticated',
        detail: 'the token is not valid',
        untilMs: Number.POSITIVE_INFINITY,
      });
  });

  it('is verified with every possible key if the token names none', async () => {
    const [first, second, stranger] = await Promise.all([
      TokenIssuer.create(),
      TokenIssuer.create(),
      TokenIssuer.create(),
    ]);
    const by = await verifierOf(jwks(first, second));
    const detailOf = async (of: TokenIssuer, claims: Parameters<TokenIssuer['token']>[0] = {}): Promise<string> => {
      const token = await of.token({ ...boundTo(certificate), ...claims });
      const verdict = await by.verify(`Bearer ${token}`, identity, Date.now());
      return 'detail' in verdict ? verdict.detail : verdict.kind;
    };
    assert.equal(await detailOf(first), 'producer');
    assert.equal(await detailOf(second), 'producer');
    assert.equal(await detailOf(stranger), 'the token is not valid');
    assert.equal(await detailOf(first, { exp: inS(-60) }), 'the token has expired');
    assert.equal(await detailOf(second, { exp: inS(-60) }), 'the token has expired');
  });
});

describe('token keys', () => {
  const verdictBy = async (by: TokenVerifier, of = issuer): Promise<string> =>
    (await by.verify(`Bearer ${await of.token(boundTo(certificate))}`, identity, Date.now())).kind;

  it('of a file can be replaced', async () => {
    const next = await TokenIssuer.create('next');
    const path = join(temporaryFolder(), 'jwks.json');
    writeFileSync(path, jwks(issuer));
    const by = await create(path);
    writeFileSync(path, jwks(next));
    assert.deepEqual([await verdictBy(by), await verdictBy(by, next)], ['producer', 'tokenKeyUnknown']);
    by.replaceKeys(await tokenKeys(path));
    assert.deepEqual([await verdictBy(by), await verdictBy(by, next)], ['tokenKeyUnknown', 'producer']);
  });

  it('that are unknown are decided once the file has been read again, and anew after a minute', async (t) => {
    const by = await verifierOf(jwks(issuer));
    const [other, third] = await Promise.all([TokenIssuer.create('other'), TokenIssuer.create('third')]);
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const kinds: string[] = [];
    for (const [ms, one] of [
      [0, other],
      [999, other],
      [1, other],
      [0, third],
      [60_000, other],
    ] as const) {
      t.mock.timers.tick(ms);
      kinds.push(await verdictBy(by, one));
    }
    assert.deepEqual(kinds, [
      ...Array<string>(2).fill('tokenKeyUnknown'),
      'unauthenticated',
      ...Array<string>(2).fill('tokenKeyUnknown'),
    ]);
  });

  it('of a server that were published a moment ago are fetched, and a token may be sent again until then', async (t) => {
    const [next, stranger] = await Promise.all([TokenIssuer.create('next'), TokenIssuer.create('stranger')]);
    let [keys, fetches] = [jwks(issuer), 0];
    const by = await create(await served((_request, response) => ((fetches += 1), void response.end(keys))));
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    assert.equal(await verdictBy(by), 'producer');
    keys = jwks(issuer, next);
    t.mock.timers.tick(100);
    for (const one of [next, stranger]) assert.equal(await verdictBy(by, one), 'tokenKeyUnknown');
    assert.equal(fetches, 1);
    t.mock.timers.tick(5_000);
    assert.deepEqual([await verdictBy(by, next), await verdictBy(by, stranger)], ['producer', 'unauthenticated']);
    assert.equal(fetches, 2);
  });

  it('without an id are fetched again if a signature fails', async (t) => {
    const [first, next] = await Promise.all([TokenIssuer.create(), TokenIssuer.create()]);
    let keys = jwks(first);
    const by = await create(await served((_request, response) => void response.end(keys)));
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    assert.equal(await verdictBy(by, first), 'producer');
    keys = jwks(next);
    t.mock.timers.tick(5_001);
    assert.deepEqual([await verdictBy(by, next), await verdictBy(by, first)], ['producer', 'unauthenticated']);
  });

  for (const [what, text] of [
    ['that is missing', undefined],
    ['that is not JSON', 'keys'],
    ['without keys', '{}'],
    ['with an empty list of keys', '{"keys":[]}'],
    ['that contains null', 'null'],
    ['with a private key', JSON.stringify({ keys: [issuer.jwk, { ...issuer.jwk, kid: 'b', d: 'AAAA' }] })],
    ['with a symmetric key', JSON.stringify({ keys: [issuer.jwk, { kty: 'oct', k: 'AAAA' }] })],
    ['with a repeated name', `{"keys":[],${jwks(issuer).slice(1)}`],
    ['whose keys are for other uses', JSON.stringify({ keys: [{ ...issuer.jwk, use: 'enc' }, { kty: 'none' }] })],
    ['with a key that is malformed', JSON.stringify({ keys: [issuer.jwk, { ...issuer.jwk, x: 'AAAA' }] })],
    ['with a weak key', JSON.stringify({ keys: [WEAK] })],
  ] as const)
    it(`of a file ${what} are refused with the name of the setting`, async () => {
      const path = join(temporaryFolder(), 'jwks.json');
      if (text !== undefined) writeFileSync(path, text);
      await assert.rejects(
        create(path),
        ({ message }: Error) =>
          message.startsWith(`INGEST_TOKEN_JWKS="${path}": expected a JSON Web Key Set (RFC 7517) (`) &&
          !message.endsWith('()'),
      );
    });

  it('of a server are valid for ten minutes, for every verdict', async () => {
    const by = await create(await served((_request, response) => void response.end(jwks(issuer))));
    const sinceMs = Date.now();
    const untilMs = async (of: TokenIssuer, atMs: number): Promise<number> => {
      const token = await of.token(boundTo(certificate));
      return (await by.verify(`Bearer ${token}`, identity, atMs)).untilMs;
    };
    const first = await untilMs(issuer, sinceMs);
    assert.ok(first >= sinceMs + 600_000 && first <= Date.now() + 600_000, String(first - sinceMs));
    assert.equal(await untilMs(issuer, sinceMs + 60_000), first, 'counted from the arrival of the keys');
    assert.equal(await untilMs(await TokenIssuer.create('first'), sinceMs), first);
  });

  it('of a server that fails later are unknown and requested again soon, and new keys are reported', async (t) => {
    let keys: string | undefined = jwks(issuer);
    const by = await create(
      await served((_request, response) => void response.writeHead(keys === undefined ? 503 : 200).end(keys)),
    );
    let changes = 0;
    by.onChange(() => (changes += 1));
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    assert.equal(await verdictBy(by), 'producer');
    const later = async (): Promise<string> => {
      t.mock.timers.tick(600_001);
      return await verdictBy(by);
    };
    assert.equal(await later(), 'producer');
    assert.equal(changes, 0, 'the keys were the same');
    keys = undefined;
    assert.equal(await later(), 'unknown');
    const { untilMs } = await by.verify(`Bearer ${await issuer.token(boundTo(certificate))}`, identity, Date.now());
    assert.equal(untilMs, Date.now() + 500);
    assert.equal(changes, 0);
    keys = jwks(await TokenIssuer.create('next'));
    assert.equal(await later(), 'unauthenticated');
    assert.equal(changes, 1);
  });

  it('of a server that does not answer are requested again soon, and the verdict is unknown', async () => {
    const by = await create('https://127.0.0.1:1/jwks.json');
    const nowMs = Date.now();
    assert.deepEqual(await by.verify(`Bearer ${await issuer.token(boundTo(certificate))}`, identity, nowMs), {
      kind: 'unknown',
      detail: 'the token keys are unavailable',
      untilMs: nowMs + 500,
    });
  });
});
