// What one producer uses of a limit, and what is left to it and to others.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { connect } from 'node:tls';
import { gzipSync } from 'node:zlib';
import type { Submission } from '../../lib/ingest/queue.ts';
import { event, RawConnection, TestClient, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { askRaw, postText, requestText } from '../support/wire.ts';

const pki = await Pki.create();
const [shop, other] = [await pki.producer('shop'), await pki.producer('other')];
const authority = pki.authority.certificate;

it('expansion is charged for the bytes that decoding adds, not for those that were sent', async () => {
  const { port } = await gatewayInProcess(pki, { INGEST_PRODUCER_RATE_MAX: '10' });
  const client = new TestClient(port, authority, shop);
  const body = event('coded', { noise: randomBytes(1_000).toString('base64'), pad: 'x'.repeat(15_300) });
  const coded = gzipSync(body);
  assert.ok(body.length > 16_384 && body.length - coded.length < 16_384, `${body.length} ${coded.length}`);
  const { status, headers } = await client.post(coded, { 'content-encoding': 'gzip' });
  assert.deepEqual([status, headers['ratelimit']], [202, '"producer";r=9;t=1']);
});

/** Settles no event of the producer `other` and no first one, which stay in flight with the requests behind them. */
class HoldingQueue extends MemoryQueue {
  override submit(submission: Submission): void {
    const { producer, id } = submission;
    if (producer !== 'urn:test:producer:other' && !id.startsWith('first-')) super.submit(submission);
  }
}

const OVER: readonly (readonly [
  limit: string,
  setting: readonly [string, string],
  large: number,
  refusal: readonly [number, string],
])[] = [
  ['its rate', ['INGEST_PRODUCER_RATE_MAX', '5'], 0, [429, 'PRODUCER_RATE_LIMITED']],
  ['its part of the events in flight', ['INGEST_IN_FLIGHT_MAX', '8'], 0, [503, 'QUEUE_OVERLOADED']],
  ['its part of the bytes in flight', ['INGEST_IN_FLIGHT_BYTES_MAX', '200000'], 20_000, [503, 'QUEUE_OVERLOADED']],
];
for (const [limit, setting, large, refusal] of OVER)
  it(`a producer above ${limit} is refused, and another one is not`, async () => {
    const queue = new HoldingQueue(new MemoryQueueStore());
    const { port } = await gatewayInProcess(pki, Object.fromEntries([setting]), { queue });
    const [busy, bystander] = [new TestClient(port, authority, other), new TestClient(port, authority, shop)];
    const held = Array.from({ length: 12 }, (_, at) => busy.post(event(`held-${at}`, { pad: 'x'.repeat(large) })));
    const { status, json } = await Promise.race(held);
    assert.deepEqual([status, json?.['code']], refusal);
    const body = event('bystander', { pad: 'x'.repeat(large) });
    assert.equal((await bystander.post(body)).status, 202);
    assert.equal((await bystander.ask({ path: '/events/bystander' })).status, 200);
    busy.close();
    await Promise.allSettled(held);
  });

it('bytes in flight leave less to what connections hold, and the one that holds the most is closed', async () => {
  const queue = new HoldingQueue(new MemoryQueueStore());
  const { gateway, port } = await gatewayInProcess(pki, { INGEST_IN_FLIGHT_BYTES_MAX: '200000' }, { queue });
  const open = (certificate: typeof shop): RawConnection =>
    new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(authority, certificate, {}) }));
  const [large, small, busy] = [open(shop), open(shop), open(other)];
  assert.equal((await askRaw(busy, requestText('GET /health/live'))).status, 200);
  busy.write(postText(event('in-flight', { pad: 'x'.repeat(170_000) })));
  await eventually('it is in flight', () => gateway.openRequests === 1);
  for (const [client, requests] of [
    [large, 450],
    [small, 250],
  ] as const)
    client.write(postText(event(`first-${requests}`)) + requestText('GET /health/live', ['X: y']).repeat(requests));
  await large.untilClosed();
  assert.deepEqual([small.closed, busy.closed], [false, false]);
});
