// What one producer uses of a limit, and what is left to it and to others.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { connect } from 'node:tls';
import { gzipSync } from 'node:zlib';
import type { Submission } from '../../lib/ingest/queue.ts';
import type { WarehouseLookup } from '../../lib/ingest/warehouse.ts';
import { event, RawConnection, TestClient, tlsOptions } from '../support/client.ts';
import { gatewayInProcess } from '../support/gateway-in-process.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
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

it('a compressed body counts as long as it may become, beside other events, also if its length is unknown', async () => {
  const queue = new HoldingQueue(new MemoryQueueStore());
  for (const [inFlightBytesMax, isChunked] of [
    ['60000', false],
    ['200000', true],
  ] as const) {
    const { gateway, port } = await gatewayInProcess(pki, { INGEST_IN_FLIGHT_BYTES_MAX: inFlightBytesMax }, { queue });
    const [busy, client] = [new TestClient(port, authority, other), new TestClient(port, authority, shop)];
    const raw = new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(authority, shop, {}) }));
    const post = async (id: string): Promise<string> => {
      const coded = gzipSync(event(`${id}-${inFlightBytesMax}`)).toString('latin1');
      const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${coded.length}`;
      const body = isChunked ? `${coded.length.toString(16)}\r\n${coded}\r\n0\r\n\r\n` : coded;
      const fields = ['Content-Type: application/json', 'Content-Encoding: gzip', framing];
      const { status, body: answer } = await askRaw(raw, requestText('POST /events', fields, body));
      return `${status} ${/QUEUE_\w+/.exec(answer)?.[0]}`;
    };
    assert.equal(await post('alone'), '202 undefined');
    const held = busy.post(event('held'));
    await eventually('it is in flight', () => gateway.openRequests === 1);
    assert.equal(await post('beside'), '503 QUEUE_OVERLOADED');
    assert.equal((await client.post(event('plain'))).status, 202);
    busy.close();
    await Promise.allSettled([held]);
  }
});

it('compressed bodies that arrive together are all decoded', async () => {
  let nowMs = 0;
  const clock = { ...SYSTEM.clock, ms: () => (nowMs += 11) };
  const { port } = await gatewayInProcess(pki, {}, { clock });
  const client = new TestClient(port, authority, shop);
  const bodies = Array.from({ length: 8 }, (_, at) => event(`${at}`, { noise: randomBytes(100_000).toString('hex') }));
  for (const [code, headers] of [
    [(body: string): string => body, {}],
    [gzipSync, { 'content-encoding': 'gzip' }],
  ] as const) {
    const replies = await Promise.all(bodies.map((body) => client.post(code(body), headers)));
    assert.deepEqual(
      replies.map(({ status }) => status),
      bodies.map(() => 202),
    );
  }
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
    // On a busy machine, the events arrive over seconds, in which a quota would be restored.
    const clock = { ...SYSTEM.clock, ms: () => 0 };
    const { port, metrics } = await gatewayInProcess(pki, Object.fromEntries([setting]), { queue, clock });
    const [busy, bystander] = [new TestClient(port, authority, other), new TestClient(port, authority, shop)];
    const held = Array.from({ length: 12 }, (_, at) => busy.post(event(`held-${at}`, { pad: 'x'.repeat(large) })));
    const { status, json, headers } = await Promise.race(held);
    assert.deepEqual([status, json?.['code'], headers['retry-after']], [...refusal, '1']);
    const body = event('bystander', { pad: 'x'.repeat(large) });
    assert.equal((await bystander.post(body)).status, 202);
    assert.equal((await bystander.ask({ path: '/events/bystander' })).status, 200);
    const overloads = /^ingest_refused_overload_total (\d+)$/m.exec(await metrics.registry.metrics())?.[1];
    assert.equal(Number(overloads) > 0, refusal[0] === 503);
    busy.close();
    await Promise.allSettled(held);
  });

it('look-ups of one producer leave another one its turn', async () => {
  const calls: { readonly producer: string; readonly end: () => void }[] = [];
  const find = (_id: string, producer: string): Promise<WarehouseLookup> =>
    new Promise((resolve) => calls.push({ producer, end: () => resolve({ kind: 'unavailable' }) }));
  const { gateway, port } = await gatewayInProcess(pki, {}, { warehouse: { find } });
  const [busy, bystander] = [new TestClient(port, authority, other), new TestClient(port, authority, shop)];
  const asked = Array.from({ length: 8 }, (_, at) => busy.find(`${at}`));
  await eventually('they wait', () => gateway.openRequests === 8);
  asked.push(bystander.find('one'));
  await eventually('it waits', () => gateway.openRequests === 9);
  for (let ended = 0; ended < 9; ended += 1) {
    const { producer, end } = await eventually('the next one has its turn', () => calls[ended]);
    assert.equal(producer.endsWith('shop'), ended === 3, `${ended}: ${producer}`);
    end();
  }
  assert.deepEqual(new Set((await Promise.all(asked)).map(({ status }) => status)), new Set([503]));
});

const HELD = [
  ['all producers may hold what events in flight leave', 200_000, 170_000, 450, 250],
  ['one producer may hold a quarter', 400_000, 0, 4_000, 2_000],
] as const;
for (const [title, bytesMax, inFlight, most, fewer] of HELD)
  it(`of the bytes of connections, ${title}: the one that holds the most is closed`, async () => {
    const queue = new HoldingQueue(new MemoryQueueStore());
    const { gateway, port } = await gatewayInProcess(pki, { INGEST_IN_FLIGHT_BYTES_MAX: `${bytesMax}` }, { queue });
    const open = (certificate: typeof shop): RawConnection =>
      new RawConnection(connect({ port, host: '127.0.0.1', ...tlsOptions(authority, certificate, {}) }));
    const [large, small, busy] = [open(shop), open(shop), open(other)];
    assert.equal((await askRaw(busy, requestText('GET /health/live'))).status, 200);
    busy.write(postText(event('in-flight', { pad: 'x'.repeat(inFlight) })));
    await eventually('it is in flight', () => gateway.openRequests === 1);
    for (const [client, requests] of [
      [large, most],
      [small, fewer],
    ] as const)
      client.write(postText(event(`first-${requests}`)) + requestText('GET /health/live', ['X: y']).repeat(requests));
    await large.untilClosed();
    assert.deepEqual([small.closed, busy.closed], [false, false]);
  });
