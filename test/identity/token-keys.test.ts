import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { SignJWT } from 'jose';
import { tokenKeys, type TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { temporaryFolder } from '../support/scope.ts';
import { jwks, signedWithPublicKey, TokenIssuer, unsigned } from '../support/tokens.ts';
import { inS, producerWith, served, verified, verifierOf } from './token-fixture.ts';

const issuer = await TokenIssuer.create('first');
const { identity, bound } = await producerWith('urn:test:one');
const OTHER_USES = [{ ...issuer.jwk, use: 'enc' }, { ...issuer.jwk, key_ops: ['sign'] }, { kty: 'none' }];
const WEAK = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' });

describe('the signature of a token', () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const elliptic = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve });

  it('may use every asymmetric algorithm', async () => {
    for (const [algorithms, { privateKey, publicKey }] of [
      ['RS256 RS384 RS512 PS256 PS384 PS512', rsa],
      ['EdDSA Ed25519', generateKeyPairSync('ed25519')],
      ['ES256', elliptic('P-256')],
      ['ES384', elliptic('P-384')],
      ['ES512', elliptic('P-521')],
    ] as const) {
      const by = await verifierOf(JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }));
      for (const alg of algorithms.split(' ')) {
        const claims = { ...bound, aud: 'ingest-gateway', exp: inS(3600) };
        const token = await new SignJWT(claims).setProtectedHeader({ alg }).sign(privateKey);
        assert.equal((await verified(by, token, identity)).kind, 'producer', alg);
      }
    }
  });

  it('is required, and may not use a symmetric algorithm', async () => {
    const claims = { ...bound, aud: 'ingest-gateway', exp: inS(3600) };
    const verifier = await verifierOf(jwks(issuer));
    for (const token of [unsigned(claims), await signedWithPublicKey(issuer, issuer.publicPem, claims), 'a.b.c'])
      assert.deepEqual(await verified(verifier, token, identity), {
        kind: 'unauthenticated',
        detail: 'the token is not valid',
        untilMs: Number.POSITIVE_INFINITY,
      });
  });

  it('is verified with every possible key if the token names none', async () => {
    const [first, second, stranger] = [
      await TokenIssuer.create(),
      await TokenIssuer.create(),
      await TokenIssuer.create(),
    ];
    const by = await verifierOf(jwks(first, second));
    const detailOf = async (of: TokenIssuer, claims: Parameters<TokenIssuer['token']>[0] = {}): Promise<string> => {
      const verdict = await verified(by, await of.token({ ...bound, ...claims }), identity);
      return 'detail' in verdict ? verdict.detail : verdict.kind;
    };
    for (const one of [first, second]) {
      assert.equal(await detailOf(one), 'producer');
      assert.equal(await detailOf(one, { exp: inS(-60) }), 'the token has expired');
    }
    assert.equal(await detailOf(stranger), 'the token is not valid');
  });
});

describe('token keys', () => {
  const verdictBy = async (by: TokenVerifier, of = issuer): Promise<string> =>
    (await verified(by, await of.token(bound), identity)).kind;

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
    const unknown = 'tokenKeyUnknown,tokenKeyUnknown';
    assert.equal(kinds.join(), `${unknown},unauthenticated,${unknown}`);
  });

  it('of a server that were published a moment ago are fetched, and a token may be sent again until then', async (t) => {
    const [next, stranger] = await Promise.all([TokenIssuer.create('next'), TokenIssuer.create('stranger')]);
    let [keys, fetches] = [jwks(issuer), 0];
    const by = await verifierOf(await served((_request, response) => ((fetches += 1), void response.end(keys))));
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    assert.equal(await verdictBy(by), 'producer');
    keys = jwks(issuer, next);
    t.mock.timers.tick(100);
    for (const one of [next, stranger]) assert.equal(await verdictBy(by, one), 'tokenKeyUnknown');
    assert.equal(fetches, 1);
    t.mock.timers.tick(5_000);
    assert.deepEqual([await verdictBy(by, next), await verdictBy(by, stranger)], ['producer', 'unauthenticated']);
    assert.equal(fetches, 2);
    keys = jwks(stranger);
    t.mock.timers.setTime(Date.now() - 3_600_000);
    assert.equal(await verdictBy(by, stranger), 'producer', 'after the clock was set back');
  });

  it('without an id are fetched again if a signature fails', async (t) => {
    const [first, next] = await Promise.all([TokenIssuer.create(), TokenIssuer.create()]);
    let keys = jwks(first);
    const by = await verifierOf(await served((_request, response) => void response.end(keys)));
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    assert.equal(await verdictBy(by, first), 'producer');
    keys = jwks(next);
    t.mock.timers.tick(5_001);
    assert.deepEqual([await verdictBy(by, next), await verdictBy(by, first)], ['producer', 'unauthenticated']);
  });

  it('of a file that is unusable are refused with the name of the setting', async () => {
    for (const [what, text] of [
      ['that is missing', undefined],
      ['that is not JSON', 'keys'],
      ['without keys', '{}'],
      ['with an empty list of keys', '{"keys":[]}'],
      ['that contains null', 'null'],
      ['with a private key', JSON.stringify({ keys: [issuer.jwk, { ...issuer.jwk, kid: 'b', d: 'AAAA' }] })],
      ['with a symmetric key', JSON.stringify({ keys: [issuer.jwk, { kty: 'oct', k: 'AAAA' }] })],
      ['with a repeated name', `{"keys":[],${jwks(issuer).slice(1)}`],
      ['whose keys are for other uses', JSON.stringify({ keys: OTHER_USES })],
      ['with a key that is malformed', JSON.stringify({ keys: [issuer.jwk, { ...issuer.jwk, x: 'AAAA' }] })],
      ['with a weak key', JSON.stringify({ keys: [WEAK] })],
    ] as const) {
      const path = join(temporaryFolder(), 'jwks.json');
      if (text !== undefined) writeFileSync(path, text);
      const { message } = (await tokenKeys(path).catch((cause: unknown) => cause)) as Error;
      const start = `INGEST_TOKEN_JWKS="${path}": expected a JSON Web Key Set (RFC 7517) (`;
      assert.ok(message.startsWith(start) && !message.endsWith('()'), `${what}: ${message}`);
    }
  });

  it('of a server are valid for ten minutes, for every verdict', async () => {
    const by = await verifierOf(await served((_request, response) => void response.end(jwks(issuer))));
    const sinceMs = Date.now();
    const untilMs = async (of: TokenIssuer, atMs: number): Promise<number> => {
      const token = await of.token(bound);
      return (await by.verify(`Bearer ${token}`, identity, atMs)).untilMs;
    };
    const first = await untilMs(issuer, sinceMs);
    assert.ok(first >= sinceMs + 600_000 && first <= Date.now() + 600_000, String(first - sinceMs));
    assert.equal(await untilMs(issuer, sinceMs + 60_000), first, 'counted from the arrival of the keys');
    assert.equal(await untilMs(await TokenIssuer.create('first'), sinceMs), first);
  });

  it('of a server that fails later are unknown and requested again soon, and new keys are reported', async (t) => {
    let keys: string | undefined = jwks(issuer);
    const by = await verifierOf(
      await served((_request, response) => void response.writeHead(keys === undefined ? 503 : 200).end(keys)),
    );
    let changes = 0;
    by.onChange = () => (changes += 1);
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
    const { untilMs } = await verified(by, await issuer.token(bound), identity);
    assert.equal(untilMs, Date.now() + 500);
    assert.equal(changes, 0);
    keys = jwks(await TokenIssuer.create('next'));
    assert.equal(await later(), 'unauthenticated');
    assert.equal(changes, 1);
    keys = jwks(issuer);
    await by.reload();
    assert.deepEqual([changes, await verdictBy(by)], [2, 'producer'], 'a reload does not wait');
  });
});
