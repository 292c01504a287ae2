import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { JWTPayload } from 'jose';
import { event, TestGateway, type Reply } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { boundTo, jwks, TokenIssuer, unsigned } from '../support/tokens.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';

const SPIFFE_ID = 'spiffe://test/producer';
const AUDIENCE = 'ingest-gateway';
let redis: TestRedis;
let pki: Pki;
let gateway: TestGateway;
let issuer: TokenIssuer;
let producer: ClientCertificate;
let other: ClientCertificate;

before(async () => {
  [redis, pki, issuer] = await Promise.all([TestRedis.start(), Pki.create(), TokenIssuer.create('first')]);
  [producer, other] = await Promise.all([
    pki.producer('one', { uris: [SPIFFE_ID] }),
    pki.producer('two', { uris: ['spiffe://test/other'] }),
  ]);
  gateway = await TestGateway.start(redis, pki, { INGEST_TOKEN_JWKS: pki.write('jwks.json', jwks(issuer)) });
  atEnd(() => assertAlive(gateway));
});

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
const inS = (seconds: number): number => Math.floor(Date.now() / 1000) + seconds;

function post(
  token: string | undefined,
  id = 'token',
  to: TestGateway = gateway,
  certificate = producer,
): Promise<Reply> {
  return to.client(certificate).post(event(id), token === undefined ? {} : bearer(token));
}

describe('a token that does not authenticate gets 401 and adds nothing', () => {
  const bound = (): JWTPayload => ({ ...boundTo(producer), aud: AUDIENCE, exp: inS(3600) });
  const cases: Readonly<Record<string, () => Promise<string | undefined> | string>> = {
    'no token': () => Promise.resolve(undefined),
    'one bound to another certificate': () => issuer.token(boundTo(other)),
    'an unsigned one': () => unsigned(bound()),
  };
  for (const [name, make] of Object.entries(cases)) {
    it(name, async () => {
      const token = await make();
      await addsNothing(redis, async () => {
        assertProblem(await post(token), 401, 'UNAUTHORIZED_PRODUCER');
        assertProblem(await post(token), 401, 'UNAUTHORIZED_PRODUCER');
      });
    });
  }

  it('a good token without a certificate, or with one of an unknown authority', async () => {
    const token = await issuer.token(boundTo(producer));
    await addsNothing(redis, async () => {
      assertProblem(await gateway.client().post(event('token'), bearer(token)), 401, 'UNAUTHORIZED_PRODUCER');
      const stranger = await (await Pki.create()).producer('one', { uris: [SPIFFE_ID] });
      const theirs = await issuer.token({ sub: SPIFFE_ID });
      assertProblem(await post(theirs, 'token', gateway, stranger), 401, 'UNAUTHORIZED_PRODUCER');
    });
  });
});

describe('a token', () => {
  it('for another audience gets 403 and adds nothing', async () => {
    await addsNothing(redis, async () => {
      assertProblem(
        await post(await issuer.token({ ...boundTo(producer), aud: 'another' })),
        403,
        'UNAUTHORIZED_PRODUCER',
      );
    });
  });

  it('is accepted with the certificate that its thumbprint or SPIFFE id names, also with several audiences', async () => {
    assert.equal((await post(await issuer.token(boundTo(producer)), 'by-thumbprint')).status, 202);
    assert.equal(
      (await post(await issuer.token({ sub: SPIFFE_ID, aud: ['another', AUDIENCE] }), 'by-spiffe-id')).status,
      202,
    );
    assert.equal((await redis.entries()).at(-1)?.fields['producer'], SPIFFE_ID);
  });
});

describe('the token keys', () => {
  it('in a file are replaced without a restart, and a broken file changes nothing', async () => {
    const keys = pki.path('rotating.json');
    const [old, next] = [await TokenIssuer.create(), await TokenIssuer.create()];
    pki.write('rotating.json', jwks(old));
    const rotating = await TestGateway.start(redis, pki, { INGEST_TOKEN_JWKS: keys });
    const [oldToken, newToken] = [await old.token(boundTo(producer)), await next.token(boundTo(producer))];
    const client = rotating.client(producer);
    const status = async (token: string): Promise<number> =>
      (await client.post(event('rotation'), bearer(token))).status;
    assert.deepEqual([await status(oldToken), await status(newToken)], [202, 401]);

    // Neither key has an id, so the gateway tries both.
    pki.write('rotating.json', jwks(next, old));
    await eventually('both keys count', async () => (await status(newToken)) === 202);
    assert.equal(await status(oldToken), 202);

    pki.write('rotating.json', '{"keys":');
    await rotating.line(/changed files refused/);
    assert.deepEqual([await status(oldToken), await status(newToken)], [202, 202]);

    pki.write('rotating.json', jwks(next));
    await eventually('the old key counts no more', async () => (await status(oldToken)) === 401);
    assert.equal(await status(newToken), 202);
    await assertAlive(rotating);
  });
});

describe("an operator's grant", () => {
  it(
    'in the producers file replaces a token, and its removal applies to open connections',
    { tags: ['long'] },
    async () => {
      const rows = (producers: object): string => pki.write('granted.json', JSON.stringify({ producers }));
      const granting = await TestGateway.start(redis, pki, {
        INGEST_PRODUCERS_FILE: rows({ 'spiffe://test/prod*': { audience: [AUDIENCE] } }),
      });
      const client = granting.client(producer);
      assert.equal((await client.post(event('granted'))).status, 202);
      const refused = await granting.client(other).post(event('not-granted'));
      assertProblem(refused, 403, 'UNAUTHORIZED_PRODUCER');
      assert.match(String(refused.json?.['detail']), /client certificate.*bearer token.*producers file/);
      rows({ 'spiffe://test/prod*': { rate: 100 } });
      await eventually('the grant has ended', async () => (await client.post(event('granted'))).status === 403);
      await assertAlive(granting);
    },
  );
});
