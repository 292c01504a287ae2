// Keys of tokens from an https server; those of a file are in identity-token.test.ts.
import assert from 'node:assert/strict';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { boundTo, jwks, TokenIssuer } from '../support/tokens.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';

const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

describe('the token keys', () => {
  it('come from an https server, asked again for a key that is new, those that it withdraws count no more, and their absence is no 401', async () => {
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
      ...PATIENT,
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
  });
});
