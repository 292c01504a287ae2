// test/telemetry/tracing.test.ts, test/gateway/answers.test.ts and test/consumer/landing-spans.test.ts have the
// attributes of each span.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { before, describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { Program } from '../support/program.ts';
import type { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';
import { askRaw, postText } from '../support/wire.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE}-${PARENT}-01`;
const UNSAMPLED = `00-${'a'.repeat(32)}-${PARENT}-00`;

interface Way {
  readonly redis: TestRedis;
  readonly socket: () => ReturnType<TestGateway['socket']>;
  readonly gateway: TestGateway;
  readonly consumer: Program;
  readonly store: SqliteStore;
  readonly client: TestClient;
}

async function start(env: Readonly<Record<string, string>> = {}): Promise<Way> {
  const { redis, pki, producer } = await queueAndProducer('shop');
  const store = sqliteStore();
  const consumer = new Program('ingest-consumer', {
    env: {
      ...{ INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
      ...env,
    },
  });
  // Until the warehouse is ready, a lookup returns 503, which would add a span.
  await consumer.line(/the warehouse is ready/);
  const gateway = await TestGateway.start(redis, pki, { INGEST_WAREHOUSE_URI: store.uri, ...env });
  return { redis, store, consumer, gateway, client: gateway.client(producer), socket: () => gateway.socket(producer) };
}

const landed = (client: TestClient, id: string): Promise<Reply> =>
  eventually(`${id} is in the warehouse`, async () => {
    const reply = await client.find(id);
    return reply.json?.['status'] !== 'accepted' && reply.status === 200 && reply;
  });

describe('the trace context of a POST', () => {
  let way: Way;
  before(async () => {
    way = await start({ INGEST_LOG_LEVEL: 'debug' });
  });

  it('is kept in the stream, the warehouse and lookups, with both HTTP readers', async () => {
    const { client, redis, store, socket } = way;
    const headers = { traceparent: UNSAMPLED, tracestate: 'vendor=a b,other=1' };
    await client.post(event('plain'), headers);
    // node:http reads a request that closes its connection.
    const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const text = postText(event('read-by-node'), [...fields, 'Connection: close']);
    assert.equal((await askRaw(await socket(), text)).status, 202);
    await client.post(event('bare'));
    for (const [id, traceparent] of Object.entries({ plain: UNSAMPLED, 'read-by-node': UNSAMPLED, bare: undefined })) {
      const { json } = await landed(client, id);
      assert.deepEqual([json?.['status'], json?.['traceparent']], ['landed', traceparent]);
    }
    const entries = (await redis.entries()).map(({ fields: { body: _, producer: __, ...notes } }) => notes);
    assert.deepEqual(entries, [headers, headers, {}]);
    const database = new DatabaseSync(store.uri.slice('sqlite:'.length), { readOnly: true });
    const rows = database.prepare('SELECT traceparent FROM events ORDER BY id').all();
    database.close();
    assert.deepEqual(
      rows.map((row) => row['traceparent']),
      [null, UNSAMPLED, UNSAMPLED],
    );
  });

  it('is shown for a quarantined event, and in the log lines of its consumer and of a refused request', async () => {
    const { client, redis, consumer, gateway } = way;
    const fields = ['producer', 'urn:test:producer:shop', 'body', '{"id":"bad"}', 'traceparent', SAMPLED];
    await redis.command('XADD', 'ingest', '*', ...fields);
    const { json } = await landed(client, 'bad');
    assert.deepEqual([json?.['status'], json?.['traceparent']], ['rejected', SAMPLED]);
    await consumer.line(new RegExp(`"traceparent":"${SAMPLED}".*put in quarantine`));
    await client.post('{', { traceparent: SAMPLED, 'x-request-id': 'refused-1' });
    assert.ok((await gateway.line(/"requestId":"refused-1"/)).includes(`"traceparent":"${SAMPLED}"`));
  });
});

describe('spans, with OTEL_EXPORTER_OTLP_ENDPOINT', { tags: ['long'] }, () => {
  let receiver: OtlpReceiver;
  let way: Way;
  before(async () => {
    receiver = await OtlpReceiver.start();
    way = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
  });

  const spanOf = (kind: number): Promise<ReceivedSpan> =>
    eventually(`a span of kind ${kind}`, () =>
      receiver.spans.find((span) => span.kind === kind && span.traceId === TRACE),
    );

  it("show accepting, queueing and landing of a sampled event in its caller's trace, and no unsampled event", async () => {
    const { client } = way;
    await client.post(event('unsampled'), { traceparent: UNSAMPLED });
    await client.post(event('bare'));
    await client.post(event('sampled'), { traceparent: SAMPLED, tracestate: 'vendor=1' });
    for (const id of ['unsampled', 'bare', 'sampled']) await landed(client, id);
    const [server, send, process] = [await spanOf(2), await spanOf(4), await spanOf(5)];
    assert.deepEqual(
      [server, send, process].map(({ service, name, parentSpanId }) => [service, name, parentSpanId]),
      [
        ['ingest-gateway', 'POST /events', PARENT],
        ['ingest-gateway', 'send ingest', server.spanId],
        ['ingest-consumer', 'process ingest', send.spanId],
      ],
    );
    const { json } = await client.find('sampled');
    assert.equal(json?.['traceparent'], `00-${TRACE}-${send.spanId}-01`, 'the event goes on with it');
    for (const { traceState, statusCode, startNs, endNs } of [server, send, process]) {
      assert.deepEqual([traceState, statusCode], ['vendor=1', 0]);
      assert.ok(startNs <= endNs && endNs - startNs < 60_000_000_000n);
    }
    assert.ok(receiver.spans.every(({ traceId }) => traceId === TRACE));
  });
});
