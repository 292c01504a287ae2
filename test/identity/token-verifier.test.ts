import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { audienceMissing, type Verdict } from '../../lib/identity/producer-identity.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { inS, producerWith, verified, verifierOf } from './token-fixture.ts';

const SPIFFE_ID = 'spiffe://test/one';
const PLAIN_URI = 'urn:test:one';
const issuer = await TokenIssuer.create('first');
const { identity, bound } = await producerWith(PLAIN_URI, SPIFFE_ID);
const verifier = await verifierOf(jwks(issuer));

type Claims = Parameters<TokenIssuer['token']>[0];
const verdictOn = async (claims: Claims, by = verifier): Promise<Verdict> =>
  verified(by, await issuer.token(claims), identity);
const kindOf = async (claims: Claims, by = verifier): Promise<string> => (await verdictOn(claims, by)).kind;

it('a token is bound to the certificate', async () => {
  const named = { sub: SPIFFE_ID };
  for (const [what, claims, kind] of [
    ['by its thumbprint', bound, 'producer'],
    ['by its SPIFFE id', named, 'producer'],
    ['but not by another name in it', { sub: PLAIN_URI }, 'unauthenticated'],
    ['but not by a SPIFFE id in another case', { sub: SPIFFE_ID.replace('one', 'One') }, 'unauthenticated'],
    ['but not by its SPIFFE id beside another thumbprint', { ...named, cnf: { 'x5t#S256': 'x' } }, 'unauthenticated'],
    ['but not by its SPIFFE id beside no confirmation', { ...named, cnf: null }, 'unauthenticated'],
    ['but not by its SPIFFE id beside another confirmation', { ...named, cnf: { jkt: 'x' } }, 'unauthenticated'],
  ] as const)
    assert.equal(await kindOf(claims), kind, what);
});

const odd = [null, true, -1, 1e308, '', [], {}, [[]], { length: 1 }, [SPIFFE_ID], '9'.repeat(400)];
it('a claim of a wrong type or value makes the token invalid', async () => {
  const strict = await verifierOf(jwks(issuer), 'https://issuer');
  const good = { sub: SPIFFE_ID, iss: 'https://issuer' };
  assert.equal(await kindOf(good, strict), 'producer');
  for (const value of odd) {
    for (const claim of ['sub', 'cnf', 'aud', 'iss', 'exp', 'nbf', 'iat']) {
      const kind = await kindOf({ ...good, [claim]: value }, strict);
      const isNumber = typeof value === 'number' && (claim === 'iat' || (claim === 'exp') === value > 0);
      const isGood = isNumber && ['exp', 'nbf', 'iat'].includes(claim);
      assert.equal(kind === 'producer', isGood, `${claim} ${JSON.stringify(value)}`);
    }
    assert.equal(await kindOf({ cnf: { 'x5t#S256': value } }), 'unauthenticated');
  }
});

describe('the verdict on a token', () => {
  it('ends when the token, with five seconds of leeway, or the certificate expires', async () => {
    const exp = inS(60);
    const short = await verdictOn({ ...bound, exp });
    assert.deepEqual(short, { kind: 'producer', producer: PLAIN_URI, untilMs: (exp + 5) * 1000 });
    assert.equal((await verdictOn({ ...bound, exp: inS(86_400) })).untilMs, identity.untilMs);
    for (const claims of [{ exp: inS(-3) }, { nbf: inS(3) }])
      assert.equal(await kindOf({ ...bound, ...claims }), 'producer');
  });

  it('requires the audience, alone or among others', async () => {
    assert.equal(await kindOf({ ...bound, aud: ['a', 'ingest-gateway'] }), 'producer');
    for (const aud of ['a', ['a', 'b'], [], 'INGEST-GATEWAY', 'ingest-gateway '])
      assert.equal(await kindOf({ ...bound, aud }), 'audienceMissing', JSON.stringify(aud));
  });

  it('is short for a token that is not valid yet, and for an unknown key', async () => {
    const nowMs = Date.now();
    const early = await verifier.verify(`Bearer ${await issuer.token({ ...bound, nbf: inS(60) })}`, identity, nowMs);
    assert.deepEqual([early.kind, early.untilMs], ['unauthenticated', nowMs]);
    const stranger = await TokenIssuer.create('stranger');
    const unknown = await verifier.verify(`Bearer ${await stranger.token(bound)}`, identity, nowMs);
    assert.deepEqual([unknown.kind, unknown.untilMs], ['tokenKeyUnknown', nowMs + 500]);
  });

  it('is that a token is required if the field has no bearer token', async () => {
    for (const authorization of [
      undefined,
      '',
      'Bearer ',
      'Basic a.b.c',
      'Bearer a.b',
      'xBearer a.b.c',
      'Bearer a.b.c d',
    ])
      assert.equal((await verifier.verify(authorization, identity, Date.now())).kind, 'unauthenticated');
  });

  it('accepts the scheme in any case and spaces around the token', async () => {
    const token = await issuer.token(bound);
    for (const authorization of [`bearer ${token}`, `BEARER   ${token}  `])
      assert.equal((await verifier.verify(authorization, identity, Date.now())).kind, 'producer');
  });
});

it('a token is refused with a public reason, for another audience until it expires', async () => {
  for (const [what, claims, reason] of [
    ['if it has expired', { exp: inS(-60) }, /expired/],
    ['if it never expires', { exp: undefined }, /exp is not accepted/],
    ['if it has no audience', { aud: undefined }, /aud is not accepted/],
    ['if it is bound to nothing', { cnf: undefined, sub: undefined }, /not bound/],
  ] as const) {
    const verdict = await verdictOn({ ...bound, ...claims });
    assert.deepEqual([verdict.kind, verdict.untilMs], ['unauthenticated', Number.POSITIVE_INFINITY], what);
    assert.match('detail' in verdict ? verdict.detail : '', reason);
  }
  const exp = inS(60);
  const verdict = await verdictOn({ ...bound, aud: 'other', exp });
  assert.deepEqual(verdict, audienceMissing(PLAIN_URI, 'ingest-gateway', (exp + 5) * 1000));
});
