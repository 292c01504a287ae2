import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { TestGateway, type Reply, type TestClient, event } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { assertAlive } from '../support/verdicts.ts';
import { askRaw, postText } from '../support/wire.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE}-${PARENT}-01`;
const UNSAMPLED = `00-${'a'.repeat(32)}-${PARENT}-00`;

let pki: Pki;
let producer: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('shop');
});

interface Way {
  readonly redis: TestRedis;
  readonly gateway: TestGateway;
  readonly consumer: Program;
  readonly store: SqliteStore;
  readonly client: TestClient;
}

async function start(env: Readonly<Record<string, string>> = {}): Promise<Way> {
  const redis = await TestRedis.start();
  const store = sqliteStore();
  const consumer = new Program('ingest-consumer', {
    env: {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_WAREHOUSE_URI: store.uri,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      ...env,
    },
  });
  await consumer.listening();
  // Until the warehouse is ready, a lookup returns 503, which would add a span.
  await consumer.line(/the warehouse is ready/);
  const gateway = await TestGateway.start(redis, pki, { INGEST_WAREHOUSE_URI: store.uri, ...env });
  return { redis, gateway, consumer, store, client: gateway.client(producer) };
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
    const { client, redis, store, gateway } = way;
    const headers = { traceparent: UNSAMPLED, tracestate: 'vendor=a b,other=1' };
    await client.post(event('plain'), headers);
    // node:http reads a request that closes its connection.
    const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const text = postText(event('read-by-node'), [...fields, 'Connection: close']);
    assert.equal((await askRaw(await gateway.socket(producer), text)).status, 202);
    await client.post(event('bare'));
    for (const id of ['plain', 'read-by-node']) {
      const reply = await landed(client, id);
      assert.deepEqual([reply.json?.['status'], reply.json?.['traceparent']], ['landed', UNSAMPLED]);
    }
    assert.equal('traceparent' in ((await landed(client, 'bare')).json ?? {}), false);
    const entries = (await redis.entries()).map(({ fields: { body: _, producer: __, ...notes } }) => notes);
    assert.deepEqual(entries, [headers, headers, {}]);
    const database = new DatabaseSync(store.uri.slice('sqlite:'.length), { readOnly: true });
    const rows = database.prepare('SELECT traceparent FROM events ORDER BY id').all();
    database.close();
    assert.deepEqual(
      rows.map((row) => row['traceparent']),
      [null, UNSAMPLED, UNSAMPLED],
    );
    await assertAlive(gateway);
  });

  it('is shown for a queued and for a quarantined event', { tags: ['long'] }, async () => {
    const redis = await TestRedis.start();
    const queued = (await TestGateway.start(redis, pki)).client(producer);
    await queued.post(event('queued'), { traceparent: SAMPLED });
    assert.equal((await queued.find('queued')).json?.['traceparent'], SAMPLED);

    const { client, redis: other, consumer } = way;
    const name = 'urn:test:producer:shop';
    await other.command('XADD', 'ingest', '*', 'producer', name, 'body', '{"id":"bad"}', 'traceparent', SAMPLED);
    const reply = await landed(client, 'bad');
    assert.deepEqual([reply.json?.['status'], reply.json?.['traceparent']], ['rejected', SAMPLED]);
    await consumer.line(new RegExp(`"traceparent":"${SAMPLED}".*put in quarantine`));
  });

  it('is in the log line of a refused request', async () => {
    await way.client.post('{', { traceparent: SAMPLED, 'x-request-id': 'refused-1' });
    const line = await way.gateway.line(/"requestId":"refused-1"/);
    assert.ok(line.includes(`"traceparent":"${SAMPLED}"`), line);
  });
});

describe('spans, with OTEL_EXPORTER_OTLP_ENDPOINT', { tags: ['long'] }, () => {
  let receiver: OtlpReceiver;
  let way: Way;
  before(async () => {
    receiver = await OtlpReceiver.start();
    way = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    });
  });

  const bySpan = (kind: number, wanted: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> =>
    eventually(`a span of kind ${kind}`, () => receiver.spans.find((span) => span.kind === kind && wanted(span)));
  const inTrace = (span: ReceivedSpan): boolean => span.traceId === TRACE;

  it("show accepting, queueing and landing of a sampled event in its caller's trace, and no unsampled event", async () => {
    const { client } = way;
    await client.post(event('unsampled'), { traceparent: UNSAMPLED });
    await client.post(event('bare'));
    await client.post(event('sampled'), { traceparent: SAMPLED, tracestate: 'vendor=1', 'x-request-id': 'r-1' });
    for (const id of ['unsampled', 'bare', 'sampled']) await landed(client, id);

    const [server, send, process] = [await bySpan(2, inTrace), await bySpan(4, inTrace), await bySpan(5, inTrace)];
    assert.deepEqual([server.service, server.name, server.parentSpanId], ['ingest-gateway', 'POST /events', PARENT]);
    assert.deepEqual(server.attributes, {
      'http.request.method': 'POST',
      'http.route': '/events',
      'url.scheme': 'https',
      'url.path': '/events',
      'client.address': '127.0.0.1',
      'network.protocol.version': '1.1',
      'http.response.status_code': 202,
      'ingest.request_id': 'r-1',
      'ingest.producer': 'urn:test:producer:shop',
    });
    assert.deepEqual([send.service, send.name, send.parentSpanId], ['ingest-gateway', 'send ingest', server.spanId]);
    assert.deepEqual(send.attributes, {
      'messaging.system': 'redis',
      'messaging.destination.name': 'ingest',
      'messaging.operation.name': 'send',
      'messaging.operation.type': 'send',
      'messaging.message.id': 'sampled',
      'messaging.message.body.size': event('sampled').length,
    });
    assert.deepEqual(
      [process.service, process.name, process.parentSpanId],
      ['ingest-consumer', 'process ingest', send.spanId],
    );
    const sent = `00-${TRACE}-${send.spanId}-01`;
    assert.equal((await client.find('sampled')).json?.['traceparent'], sent, 'the event goes on with it');
    assert.equal(process.attributes['messaging.consumer.group.name'], 'warehouse');
    assert.equal(process.attributes['messaging.message.id'], 'sampled');
    for (const span of [server, send, process]) {
      assert.equal(span.traceState, 'vendor=1');
      assert.equal(span.statusCode, 0);
      assert.ok(span.startNs <= span.endNs && span.endNs - span.startNs < 60_000_000_000n);
    }
    assert.ok(server.startNs <= send.startNs && send.endNs <= server.endNs);
    assert.ok(process.endNs >= send.startNs);
    assert.deepEqual(
      receiver.spans.filter((span) => !inTrace(span)),
      [],
    );
  });

  it('are sent before the programs stop, and a failing receiver costs no event', async () => {
    const { client, gateway, consumer } = way;
    receiver.status = 500;
    for (let at = 0; at < 20; at += 1)
      assert.equal((await client.post(event(`refused-${at}`), { traceparent: SAMPLED })).status, 202);
    receiver.status = 200;
    const last = SAMPLED.replace(TRACE, 'c'.repeat(32));
    await client.post(event('last'), { traceparent: last });
    await landed(client, 'last');
    for (const program of [gateway, consumer]) program.signal('SIGTERM');
    assert.deepEqual(await gateway.exited(), { code: 0, signal: null });
    assert.equal(await consumer.ended, 0);
    const names = receiver.spans.filter(({ traceId }) => traceId === 'c'.repeat(32)).map(({ name }) => name);
    assert.deepEqual(names.sort(), ['POST /events', 'process ingest', 'send ingest']);
  });
});
