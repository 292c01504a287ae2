import assert from 'node:assert/strict';
import { it } from 'node:test';
import { startFakeGateway, type FakeGateway } from '../../lib/send/fake-gateway.ts';
import { sendEvents } from '../../lib/send/client.ts';
import { describeProducerContract, type ContractGateway } from '../contract/producers.ts';
import { event, TestClient, type Reply } from '../support/client.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';

describeProducerContract('of the fake gateway', async (): Promise<ContractGateway> => {
  const pki = await Pki.create();
  const producer = await pki.producer('contract');
  const ca = pki.authority.certificate;
  const tls = { cert: pki.server.certificate, key: pki.server.key, ca };
  const gateway = await startFakeGateway({ tls, retryAfterS: 1 });
  atEnd(() => gateway.close());
  const client = new TestClient(Number(new URL(gateway.url).port), ca, producer);
  return {
    options: { url: gateway.url, cert: producer.cert, key: producer.key, ca },
    ask: (ask) => client.ask(ask),
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

it('the fake gateway accepts an event even if it sends no answer, so that the next try is a duplicate', async () => {
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  gateway.next('noAnswer', 'overloaded', 'internal');
  const codes: string[] = [];
  const options = { url: gateway.url, onRetry: ({ code }: { code: string }) => codes.push(code) };
  const startMs = performance.now();
  for await (const result of sendEvents([{ id: 'patient', type: 't' }], options))
    assert.ok(result.kind === 'accepted' && result.duplicate && result.tries === 4);
  assert.ok(performance.now() - startMs < 25_000, 'without the timeout of 30 s');
  assert.deepEqual(codes, ['NO_ANSWER', 'QUEUE_OVERLOADED', 'INTERNAL']);
  assert.equal(gateway.requests, 4);
  assert.deepEqual(
    gateway.events.map(({ id, type, body }) => [id, type, body]),
    [['patient', 't', '{"id":"patient","type":"t"}']],
  );
});

it('the fake gateway gives every refusal on demand, makes no producer wait, and forgets everything at a reset', async () => {
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  const all = [401, 403, 409, 413, 'TYPE_NOT_ALLOWED', 'PRODUCER_DISABLED'] as const;
  gateway.next(...all);
  const answers: string[] = [];
  for (const _ of all)
    for await (const result of sendEvents([{ id: 'refused', type: 't' }], { url: gateway.url }))
      answers.push(result.kind === 'refused' ? `${result.status} ${result.code} ${result.retryable}` : result.kind);
  const codes = [
    '401 UNAUTHORIZED_PRODUCER',
    '403 UNAUTHORIZED_PRODUCER',
    '409 EVENT_ID_CONFLICT',
    '413 INVALID_EVENT',
  ];
  assert.deepEqual(
    answers,
    [...codes, '403 TYPE_NOT_ALLOWED', '403 PRODUCER_DISABLED'].map((code) => `${code} false`),
  );
  assert.deepEqual(gateway.events, []);
  gateway.next('shed', 'unavailable', 'rateLimited');
  const startMs = performance.now();
  for await (const result of sendEvents([{ id: 'later', type: 't' }], { url: gateway.url }))
    assert.ok(result.kind === 'accepted' && !result.duplicate && result.tries === 4);
  assert.ok(performance.now() - startMs < 1_000, 'Retry-After is 0');
  gateway.next('unavailable');
  gateway.giveAway('later');
  gateway.reset();
  for await (const { kind } of sendEvents([{ id: 'later', type: 't' }], { url: gateway.url }))
    assert.equal(kind, 'accepted');
  assert.equal(gateway.requests, 1);
});

it('the fake gateway can leave a producer to its timeout, and refuses unknown kinds of answers', async () => {
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  gateway.next('silence');
  const reasons: string[] = [];
  const onRetry = ({ answer }: { answer: unknown }): void => void reasons.push(JSON.stringify(answer));
  for await (const result of sendEvents([{ id: 'silent', type: 't' }], { url: gateway.url, timeoutMs: 300, onRetry }))
    assert.ok(result.kind === 'accepted' && result.duplicate);
  assert.match(reasons.join(), /no answer within 300 ms/);
  assert.throws(() => gateway.next('typo' as 'internal'), { name: 'TypeError', message: /typo: expected one of/ });
});

it('the fake gateway accepts no later event of a connection that it closed', async () => {
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  gateway.next('noAnswer');
  let duplicates = 0;
  const events = Array.from({ length: 10 }, (_, at) => ({ id: `e-${at}`, type: 't' }));
  for await (const result of sendEvents(events, { url: gateway.url, connections: 1 }))
    if (result.kind === 'accepted' && result.duplicate) duplicates += 1;
  assert.equal(duplicates, 1);
});

it('the fake gateway refuses a client without a certificate of its authority, if it has an authority', async () => {
  const pki = await Pki.create();
  const { certificate: cert, key } = pki.server;
  const ca = pki.authority.certificate;
  const strict = await startFakeGateway({ tls: { cert, key, ca } });
  const lax = await startFakeGateway({ tls: { cert, key } });
  atEnd(async () => void (await Promise.all([strict.close(), lax.close()])));
  const post = ({ url }: FakeGateway): Promise<Reply> =>
    new TestClient(Number(new URL(url).port), ca, undefined).post(event('a'));
  const reply = await post(strict);
  assert.deepEqual([reply.status, reply.json?.['code']], [401, 'UNAUTHORIZED_PRODUCER']);
  assert.match(String(reply.headers['www-authenticate']), /^TLS-Client-Certificate /);
  assert.deepEqual(strict.events, []);
  assert.equal((await post(lax)).status, 202);
});
