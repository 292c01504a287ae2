import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { generateKeyPair, exportJWK, CompactSign, type JWTPayload } from 'jose';
import { inS, producerWith, verified, verifierOf } from './token-fixture.ts';

const SPIFFE_ID = 'spiffe://test/one';
const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), alg: 'ES256', kid: 'first' }] });
const verifier = await verifierOf(keys, 'https://issuer.test');
const { identity, bound } = await producerWith(SPIFFE_ID);
const nowS = inS(0);
const common = { aud: 'ingest-gateway', iss: 'https://issuer.test', exp: nowS + 3600 };
const byThumbprint = { ...bound, ...common };
const bySubject = { sub: SPIFFE_ID, ...common };

async function kindOf(payload: string): Promise<string> {
  const token = await new CompactSign(Buffer.from(payload))
    .setProtectedHeader({ alg: 'ES256', kid: 'first' })
    .sign(privateKey);
  return (await verified(verifier, token, identity)).kind;
}

const REFUSED = ['unauthenticated', 'audienceMissing'];
const anyValue = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(null, true, 0, -1, 1e308, '', [], {}, [[]], { length: 1 }, ['spiffe://test/one'], '9'.repeat(400)),
);
const RUNS = { numRuns: 300 };

describe('any JSON value', () => {
  it('is compared with two valid tokens, which are accepted', async () => {
    for (const claims of [byThumbprint, bySubject]) assert.equal(await kindOf(JSON.stringify(claims)), 'producer');
  });

  const own: Readonly<Record<string, { readonly of: JWTPayload; readonly isGood: (value: unknown) => boolean }>> = {
    sub: { of: bySubject, isGood: (value) => value === SPIFFE_ID },
    cnf: { of: bySubject, isGood: () => false },
    'x5t#S256': { of: byThumbprint, isGood: () => false },
    aud: { of: bySubject, isGood: (value) => [value].flat().includes('ingest-gateway') },
    iss: { of: bySubject, isGood: (value) => value === 'https://issuer.test' },
    exp: { of: bySubject, isGood: (value) => typeof value === 'number' && value > nowS - 5 },
    nbf: { of: bySubject, isGood: (value) => typeof value === 'number' && value <= nowS + 5 },
    // `iat` is optional, but its value must be a number (RFC 7519, section 4.1.6).
    iat: { of: bySubject, isGood: () => true },
  };
  for (const [claim, { of, isGood }] of Object.entries(own))
    it(`as the claim ${claim} is accepted only if it is the right one`, () =>
      fc.assert(
        fc.asyncProperty(anyValue, async (value) => {
          const claims = claim === 'x5t#S256' ? { ...of, cnf: { [claim]: value } } : { ...of, [claim]: value };
          const kind = await kindOf(JSON.stringify(claims));
          if (!(kind === 'producer' && isGood(value))) assert.ok(REFUSED.includes(kind), kind);
        }),
        RUNS,
      ));

  it('in every claim together is never accepted', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record(Object.fromEntries(Object.keys(own).map((claim) => [claim, anyValue]))),
        async (claims) => {
          const kind = await kindOf(JSON.stringify(claims));
          assert.ok(REFUSED.includes(kind), kind);
        },
      ),
      RUNS,
    ));
});
