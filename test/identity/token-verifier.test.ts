import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { audienceMissing, type ClientIdentity } from '../../lib/identity/producer-identity.ts';
import { tokenKeys, TokenVerifier } from '../../lib/identity/token-verifier.ts';
import { temporaryFolder } from '../support/scope.ts';
import { boundTo, jwks, TokenIssuer } from '../support/tokens.ts';
import { SYSTEM } from '../support/system.ts';

const SPIFFE_ID = 'spiffe://test/one';
const PLAIN_URI = 'urn:test:one';
const LATER_MS = Date.now() + 7_200_000;
const issuer = await TokenIssuer.create('first');
const authority = await CertificateAuthority.create(SYSTEM, 'root');
const issued = await authority.issue({ commonName: 'one', uris: [PLAIN_URI, SPIFFE_ID] });
const certificate = { cert: issued.certificate, key: issued.key, serial: issued.serial };
const identity: ClientIdentity = {
  certificate: new X509Certificate(issued.certificate),
  producer: PLAIN_URI,
  uris: [PLAIN_URI, SPIFFE_ID],
  untilMs: LATER_MS,
};
const file = join(temporaryFolder(), 'jwks.json');
writeFileSync(file, jwks(issuer));
const create = async (more: { issuer?: string } = {}): Promise<TokenVerifier> =>
  new TokenVerifier({ keys: await tokenKeys(file), issuer: undefined, audience: 'ingest-gateway', ...more });
const verifier = await create();
const inS = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

async function kindOf(claims: Parameters<TokenIssuer['token']>[0], by = verifier): Promise<string> {
  return (await by.verify(`Bearer ${await issuer.token(claims)}`, identity, Date.now())).kind;
}

describe('a token is bound to the certificate', () => {
  it('by its thumbprint', async () => assert.equal(await kindOf(boundTo(certificate)), 'producer'));
  it('by its SPIFFE id', async () => assert.equal(await kindOf({ sub: SPIFFE_ID }), 'producer'));
  it('but not by another name in it', async () => assert.equal(await kindOf({ sub: PLAIN_URI }), 'unauthenticated'));
  it('but not by a SPIFFE id in another case', async () =>
    assert.equal(await kindOf({ sub: SPIFFE_ID.replace('one', 'One') }), 'unauthenticated'));
  it('but not by a SPIFFE id next to the thumbprint of another certificate', async () =>
    assert.equal(await kindOf({ sub: SPIFFE_ID, cnf: { 'x5t#S256': 'x' } }), 'unauthenticated'));
  it('but not by a SPIFFE id next to any other confirmation', async () => {
    for (const cnf of [null, { jkt: 'x' }]) assert.equal(await kindOf({ sub: SPIFFE_ID, cnf }), 'unauthenticated');
  });
});

describe('the verdict on a token', () => {
  it('ends when the token, with five seconds of leeway, or the certificate expires', async () => {
    const exp = inS(60);
    const short = await verifier.verify(
      `Bearer ${await issuer.token({ ...boundTo(certificate), exp })}`,
      identity,
      Date.now(),
    );
    assert.deepEqual(short, { kind: 'producer', producer: PLAIN_URI, untilMs: (exp + 5) * 1000 });
    const long = await verifier.verify(
      `Bearer ${await issuer.token({ ...boundTo(certificate), exp: inS(86_400) })}`,
      identity,
      Date.now(),
    );
    assert.equal(long.untilMs, LATER_MS);
    for (const claims of [{ exp: inS(-3) }, { nbf: inS(3) }])
      assert.equal(await kindOf({ ...boundTo(certificate), ...claims }), 'producer');
  });

  it('requires the audience, alone or among others', async () => {
    const bound = boundTo(certificate);
    assert.equal(await kindOf({ ...bound, aud: ['a', 'ingest-gateway'] }), 'producer');
    for (const aud of ['a', ['a', 'b'], [], 'INGEST-GATEWAY', 'ingest-gateway '])
      assert.equal(await kindOf({ ...bound, aud }), 'audienceMissing', JSON.stringify(aud));
  });

  it('requires the issuer if one is configured', async () => {
    const strict = await create({ issuer: 'https://issuer' });
    assert.equal(await kindOf({ ...boundTo(certificate), iss: 'https://issuer' }, strict), 'producer');
    assert.equal(await kindOf({ ...boundTo(certificate), iss: 'https://other' }, strict), 'unauthenticated');
    assert.equal(await kindOf(boundTo(certificate), strict), 'unauthenticated');
  });

  it('is short for a token that is not valid yet, and for an unknown key', async () => {
    const nowMs = Date.now();
    const early = await verifier.verify(
      `Bearer ${await issuer.token({ ...boundTo(certificate), nbf: inS(60) })}`,
      identity,
      nowMs,
    );
    assert.deepEqual([early.kind, early.untilMs], ['unauthenticated', nowMs]);
    const stranger = await TokenIssuer.create('stranger');
    const unknown = await verifier.verify(`Bearer ${await stranger.token(boundTo(certificate))}`, identity, nowMs);
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
    ]) {
      const verdict = await verifier.verify(authorization, identity, Date.now());
      assert.equal(verdict.kind === 'unauthenticated' && verdict.detail, 'a bearer token is required');
    }
  });

  it('accepts the scheme in any case and spaces around the token', async () => {
    const token = await issuer.token(boundTo(certificate));
    for (const authorization of [`bearer ${token}`, `BEARER   ${token}  `])
      assert.equal((await verifier.verify(authorization, identity, Date.now())).kind, 'producer');
  });
});

describe('a token is refused with a public reason', () => {
  for (const [what, claims, detail] of [
    ['if it has expired', { exp: inS(-60) }, 'the token has expired'],
    ['if it never expires', { exp: undefined }, "the token's claim exp is not accepted"],
    ['if it has no audience', { aud: undefined }, "the token's claim aud is not accepted"],
    [
      'if it is bound to nothing',
      { cnf: undefined, sub: undefined },
      'the token is not bound to the client certificate',
    ],
  ] as const)
    it(what, async () => {
      const token = await issuer.token({ ...boundTo(certificate), ...claims });
      assert.deepEqual(await verifier.verify(`Bearer ${token}`, identity, Date.now()), {
        kind: 'unauthenticated',
        detail,
        untilMs: Number.POSITIVE_INFINITY,
      });
    });

  it('if it is for another audience, until it expires', async () => {
    const exp = inS(60);
    const token = await issuer.token({ ...boundTo(certificate), aud: 'other', exp });
    const verdict = await verifier.verify(`Bearer ${token}`, identity, Date.now());
    assert.deepEqual(verdict, audienceMissing(PLAIN_URI, 'ingest-gateway', (exp + 5) * 1000));
  });
});
