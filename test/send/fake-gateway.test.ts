import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createClient, type SendEventsOptions } from '../../lib/send/client.ts';
import { startFakeGateway, type FakeGateway, type FakeGatewayOptions } from '../../lib/send/fake-gateway.ts';
import { describeProducerContract, type ContractGateway } from '../contract/producers.ts';
import { event, TestClient, type Reply } from '../support/client.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';

describeProducerContract('of the fake gateway', async (): Promise<ContractGateway> => {
  const pki = await Pki.create();
  const producer = await pki.producer('contract');
  const ca = pki.authority.certificate;
  const tls = { cert: pki.server.certificate, key: pki.server.key, ca };
  const gateway = await fake({ tls, retryAfterS: 1 });
  const client = new TestClient(Number(new URL(gateway.url).port), ca, producer);
  return {
    options: { url: gateway.url, cert: producer.cert, key: producer.key, ca },
    client,
    takeByAnother: async (id) => gateway.giveAway(id),
    overQuota: (body) => {
      gateway.next('rateLimited');
      return client.post(body);
    },
    fail: async () => {
      gateway.next('unavailable');
      return async () => undefined;
    },
  };
});

async function fake(options: FakeGatewayOptions = {}): Promise<FakeGateway> {
  const gateway = await startFakeGateway(options);
  atEnd(() => gateway.close());
  return gateway;
}

async function sent({ url }: FakeGateway, id: string, options: Partial<SendEventsOptions> = {}) {
  const client = createClient({ url, ...options });
  const result = await client.send({ id, type: 't' });
  await client.close();
  return result;
}

it('the fake gateway accepts an event even if it sends no answer, so that the next try is a duplicate', async () => {
  const gateway = await fake();
  gateway.next('noAnswer', 'overloaded', 'internal');
  const codes: string[] = [];
  const result = await sent(gateway, 'patient', { onRetry: ({ code }) => codes.push(code) });
  assert.ok(result.kind === 'accepted' && result.duplicate && result.tries === 4);
  assert.deepEqual(codes, ['NO_ANSWER', 'QUEUE_OVERLOADED', 'INTERNAL']);
  assert.equal(gateway.requests, 4);
  const [{ acceptedAt, ...stored } = { acceptedAt: '' }, ...more] = gateway.events;
  assert.ok(Date.parse(acceptedAt) > 0);
  assert.deepEqual([stored, more], [{ id: 'patient', type: 't', body: '{"id":"patient","type":"t"}' }, []]);
});

it('the fake gateway gives every refusal on demand, makes no producer wait, and forgets everything at a reset', async () => {
  const gateway = await fake();
  for (const [next, code] of [
    [401, '401 UNAUTHORIZED_PRODUCER'],
    [403, '403 UNAUTHORIZED_PRODUCER'],
    [409, '409 EVENT_ID_CONFLICT'],
    [413, '413 INVALID_EVENT'],
    ['TYPE_NOT_ALLOWED', '403 TYPE_NOT_ALLOWED'],
    ['PRODUCER_DISABLED', '403 PRODUCER_DISABLED'],
  ] as const) {
    gateway.next(next);
    const result = await sent(gateway, 'refused');
    assert.ok(result.kind === 'refused' && !result.retryable && `${result.status} ${result.code}` === code, code);
  }
  assert.deepEqual(gateway.events, []);
  const slow = await fake({ retryAfterS: 7 });
  for (const next of ['rateLimited', 'unavailable', 'overloaded', 'internal'] as const) {
    slow.next(next);
    const { headers } = await fetch(`${slow.url}/events`, {
      ...{ method: 'POST', body: event('a'), headers: { 'Content-Type': 'application/json' } },
    });
    assert.equal(headers.get('retry-after'), next === 'internal' ? null : '7', next);
  }
  gateway.next('shed', 'unavailable', 'rateLimited');
  const startMs = performance.now();
  const later = await sent(gateway, 'later');
  assert.ok(later.kind === 'accepted' && !later.duplicate && later.tries === 4);
  assert.ok(performance.now() - startMs < 1_000, 'Retry-After is 0');
  gateway.next('unavailable');
  gateway.giveAway('later');
  gateway.reset();
  assert.equal((await sent(gateway, 'later')).kind, 'accepted');
  assert.equal(gateway.requests, 1);
});

it('the fake gateway can leave a producer to its timeout, and refuses unknown kinds of answers', async () => {
  const gateway = await fake();
  gateway.next('silence');
  const result = await sent(gateway, 'silent', { timeoutMs: 300 });
  assert.ok(result.kind === 'accepted' && result.duplicate && result.tries === 2);
  assert.throws(() => gateway.next('typo' as 'internal'), { name: 'TypeError', message: /typo: expected one of/ });
});

it('the fake gateway accepts no later event of a connection that it closed', async () => {
  const gateway = await fake();
  gateway.next('noAnswer');
  const client = createClient({ url: gateway.url, connections: 1 });
  const results = await Promise.all(Array.from({ length: 10 }, (_, at) => client.send({ id: `e-${at}`, type: 't' })));
  await client.close();
  assert.equal(results.filter((result) => result.kind === 'accepted' && result.duplicate).length, 1);
});

it('the fake gateway refuses a client without a certificate of its authority, if it has an authority', async () => {
  const pki = await Pki.create();
  const { certificate: cert, key } = pki.server;
  const ca = pki.authority.certificate;
  const [strict, lax] = [await fake({ tls: { cert, key, ca } }), await fake({ tls: { cert, key } })];
  const post = ({ url }: FakeGateway): Promise<Reply> =>
    new TestClient(Number(new URL(url).port), ca, undefined).post(event('a'));
  const reply = await post(strict);
  assert.deepEqual([reply.status, reply.json?.['code']], [401, 'UNAUTHORIZED_PRODUCER']);
  assert.match(String(reply.headers['www-authenticate']), /^TLS-Client-Certificate /);
  assert.deepEqual(strict.events, []);
  assert.equal((await post(lax)).status, 202);
});
