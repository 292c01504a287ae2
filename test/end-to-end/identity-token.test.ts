import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { JWTPayload } from 'jose';
import { event, TestGateway, type Reply } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { boundTo, jwks, signedWithPublicKey, TokenIssuer, unsigned } from '../support/tokens.ts';
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
    'an expired one': () => issuer.token({ ...boundTo(producer), exp: inS(-5) }),
    'one bound to another certificate': () => issuer.token(boundTo(other)),
    'an unsigned one': () => unsigned(bound()),
    'HS256 with the public key (PEM) as the secret': () => signedWithPublicKey(issuer, issuer.publicPem, bound()),
    'one that another key signed under the same key id': async () =>
      (await TokenIssuer.create('first')).token(boundTo(producer)),
    'one whose claims were changed': async () => {
      const [head, , signature] = (await issuer.token(boundTo(other))).split('.');
      return `${head}.${Buffer.from(JSON.stringify(bound())).toString('base64url')}.${signature}`;
    },
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

  it(
    'must have the audience of INGEST_AUDIENCE and the issuer of INGEST_TOKEN_ISSUER',
    { tags: ['long'] },
    async () => {
      const strict = await TestGateway.start(redis, pki, {
        INGEST_AUDIENCE: 'billing',
        INGEST_TOKEN_JWKS: pki.path('jwks.json'),
        INGEST_TOKEN_ISSUER: 'https://issuer.test',
      });
      const ask = async (id: string, claims: Readonly<Record<string, string>>): Promise<Reply> => {
        const token = await issuer.token({ ...boundTo(producer), aud: 'billing', ...claims });
        return strict.client(producer).post(event(id), { authorization: `Bearer ${token}` });
      };
      assert.equal((await ask('issued', { iss: 'https://issuer.test' })).status, 202);
      assertProblem(await ask('issued-elsewhere', { iss: 'https://issuer.example' }), 401, 'UNAUTHORIZED_PRODUCER');
      assertProblem(await ask('issued-by-nobody', {}), 401, 'UNAUTHORIZED_PRODUCER');
      const elsewhere = { iss: 'https://issuer.test', aud: 'ingest-gateway' };
      assertProblem(await ask('for-another-audience', elsewhere), 403, 'UNAUTHORIZED_PRODUCER');
    },
  );

  it('is valid only for its own request', { tags: ['long'] }, async () => {
    const client = gateway.client(producer, {});
    const good = bearer(await issuer.token(boundTo(producer)));
    assert.equal((await client.post(event('own-request'), good)).status, 202);
    await addsNothing(redis, async () => {
      const without = await client.post(event('own-request-2'));
      assertProblem(without, 401, 'UNAUTHORIZED_PRODUCER');
      assert.equal(without.headers['www-authenticate'], `Bearer realm="${AUDIENCE}"`);
      const wrong = await client.post(event('own-request-2'), bearer('x.y.z'));
      assertProblem(wrong, 401, 'UNAUTHORIZED_PRODUCER');
      assert.equal(wrong.headers['www-authenticate'], `Bearer realm="${AUDIENCE}", error="invalid_token"`);
    });
    assert.equal((await client.post(event('own-request-2'), good)).status, 202);
  });

  it('is no longer valid on an open connection once it has expired', { tags: ['long'] }, async () => {
    const client = gateway.client(producer);
    // The client connects before the token is made, because a handshake may be slow on a busy machine.
    assert.equal((await client.ask({ path: '/health/live' })).status, 200);
    const expiresS = inS(6);
    const token = bearer(await issuer.token({ ...boundTo(producer), exp: expiresS }));
    assert.equal((await client.post(event('expiring'), token)).status, 202);
    await eventually('the token has expired', () => Date.now() > expiresS * 1000);
    assertProblem(await client.post(event('expiring'), token), 401, 'UNAUTHORIZED_PRODUCER');
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

  it(
    'of an HTTPS server are reloaded for an unknown key id, withdrawn keys become invalid, and an outage is not answered with 401',
    { tags: ['long'] },
    async () => {
      const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
      const producer = await pki.producer('one', { uris: ['spiffe://test/producer'] });
      const [first, second] = [await TokenIssuer.create('a'), await TokenIssuer.create('b')];
      let published: string | undefined;
      const server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (_request, response) => {
        if (published === undefined) response.writeHead(500).end();
        else response.writeHead(200, { 'content-type': 'application/json' }).end(published);
      });
      atEnd(() => void server.close());
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const remote = await TestGateway.start(redis, pki, {
        INGEST_TOKEN_JWKS: `https://localhost:${(server.address() as AddressInfo).port}/keys`,
        NODE_EXTRA_CA_CERTS: pki.path('ca.pem'),
      });
      const client = remote.client(producer);
      const token = await first.token(boundTo(producer));
      await addsNothing(redis, async () =>
        assertProblem(await client.post(event('remote'), bearer(token)), 500, 'INTERNAL'),
      );

      published = jwks(first);
      await eventually(
        'the key is known',
        async () => (await client.post(event('remote'), bearer(token))).status === 202,
      );
      published = jwks(second);
      const later = await second.token(boundTo(producer));
      assert.equal((await client.post(event('remote'), bearer(token))).status, 202);
      const another = remote.client(producer);
      await eventually(
        'the new key is known',
        async () => (await another.post(event('remote'), bearer(later))).status === 202,
      );
      assertProblem(await client.post(event('remote'), bearer(token)), 401, 'UNAUTHORIZED_PRODUCER');
      await assertAlive(remote);
    },
  );
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

  it('has no effect if every producer needs a token', { tags: ['long'] }, async () => {
    const strict = await TestGateway.start(redis, pki, {
      INGEST_TOKEN_JWKS: pki.path('jwks.json'),
      INGEST_TOKEN_REQUIRED: '1',
      INGEST_PRODUCERS_FILE: pki.write('all.json', JSON.stringify({ producers: { '*': { audience: [AUDIENCE] } } })),
    });
    assertProblem(await post(undefined, 'strict', strict), 401, 'UNAUTHORIZED_PRODUCER');
    assert.equal((await post(await issuer.token(boundTo(producer)), 'strict', strict)).status, 202);
  });
});
