import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startFakeGateway, type FakeGateway, type FakeGatewayOptions } from '../../lib/send/fake-gateway.ts';
import { sendEvents } from '../../lib/send/send-events.ts';
import { event, PATIENT, TestClient, TestGateway, type Ask, type Reply } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { describeProducerContract, type ContractGateway } from './producers.ts';

describeProducerContract('of the gateway', async (): Promise<ContractGateway> => {
  const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  const certificate = await pki.producer('contract');
  const [gateway, limited] = await Promise.all([
    TestGateway.start(redis, pki, PATIENT),
    TestGateway.start(redis, pki, { ...PATIENT, INGEST_PRODUCER_RATE_MAX: '1' }),
  ]);
  const strict = limited.client(certificate);
  const client = gateway.client(certificate);
  const other = gateway.client(await pki.producer('another'));
  return {
    options: {
      url: `https://127.0.0.1:${gateway.port}`,
      ...certificate,
      ca: pki.authority.certificate,
    },
    ask: (ask) => client.ask(ask),
    takeByAnother: async (id) => assert.equal((await other.post(event(id))).status, 202),
    overQuota: async (body) => {
      for (;;) {
        const reply = await strict.post(body);
        if (reply.status !== 202) return reply;
      }
    },
    fail: async () => {
      await redis.signal('SIGKILL');
      return async () => {
        await redis.start();
        await eventually('the queue is back', async () => (await client.post(event('back'))).status === 202);
      };
    },
  };
});

const fake = (options: (pki: Pki) => FakeGatewayOptions) => async (): Promise<ContractGateway> => {
  const pki = await Pki.create();
  const certificate = await pki.producer('contract');
  const gateway: FakeGateway = await startFakeGateway(options(pki));
  atEnd(() => gateway.close());
  const ca = pki.authority.certificate;
  const ask = (one: Ask): Promise<Reply> => asked(gateway, one, pki, certificate);
  const post = (body: string): Promise<Reply> =>
    ask({ method: 'POST', path: '/events', body, headers: { 'content-type': 'application/json' } });
  return {
    options: { url: gateway.url, ...(gateway.url.startsWith('https:') ? { ...certificate, ca } : {}) },
    ask,
    takeByAnother: async (id) => gateway.giveAway(id),
    overQuota: (body) => {
      gateway.next('rateLimited');
      return post(body);
    },
    fail: async () => {
      gateway.next('unavailable');
      return async () => undefined;
    },
  };
};

async function asked(
  { url }: FakeGateway,
  { method = 'GET', path, headers = {}, body }: Ask,
  pki: Pki,
  certificate: Awaited<ReturnType<Pki['producer']>>,
): Promise<Reply> {
  if (url.startsWith('https:'))
    return new TestClient(Number(new URL(url).port), pki.authority.certificate, certificate, {}).ask({
      method,
      path,
      headers,
      ...(body === undefined ? {} : { body }),
    });
  // A string body would get a content type from fetch.
  const bytes = body === undefined ? null : new Uint8Array(Buffer.from(body));
  const response = await fetch(`${url}${path}`, { method, headers, body: bytes });
  const text = await response.text();
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: text,
    json: JSON.parse(text) as Record<string, unknown>,
  };
}

describeProducerContract(
  'of the fake gateway on plain HTTP',
  fake(() => ({})),
);
describeProducerContract(
  'of the fake gateway on TLS',
  fake(({ server, authority }) => ({
    tls: { cert: server.certificate, key: server.key, ca: authority.certificate },
  })),
);

it('the fake gateway accepts an event whose answer never comes, so that the next try is a duplicate', async () => {
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  gateway.next('noAnswer', 'overloaded', 'internal');
  const codes: string[] = [];
  const options = { url: gateway.url, timeoutMs: 200, onRetry: ({ code }: { code: string }) => codes.push(code) };
  for await (const result of sendEvents([{ id: 'patient', type: 't' }], options))
    assert.ok(result.kind === 'accepted' && result.duplicate && result.tries === 4);
  assert.deepEqual(codes, ['NO_ANSWER', 'QUEUE_OVERLOADED', 'INTERNAL']);
  assert.equal(gateway.requests, 4);
  assert.deepEqual(
    gateway.events.map(({ id, body }) => [id, body]),
    [['patient', '{"id":"patient","type":"t"}']],
  );
});

it('the fake gateway refuses a client without a certificate of its authority', async () => {
  const pki = await Pki.create();
  const { certificate: cert, key } = pki.server;
  const gateway = await startFakeGateway({ tls: { cert, key, ca: pki.authority.certificate } });
  atEnd(() => gateway.close());
  const stranger = new TestClient(Number(new URL(gateway.url).port), pki.authority.certificate, undefined, {});
  const reply = await stranger.post(event('stranger'));
  assert.equal(reply.status, 401);
  assert.equal(reply.json?.['code'], 'UNAUTHORIZED_PRODUCER');
  assert.deepEqual(gateway.events, []);
});
