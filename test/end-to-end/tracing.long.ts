// Spans of what is refused, of a dispatcher, without the optional packages, and with an endpoint that is none.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { TestDispatcher } from '../support/dispatcher.ts';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { PARENT, pki, producer, SAMPLED, start, TRACE, UNSAMPLED, type Way } from './tracing.ts';

describe('spans, with OTEL_EXPORTER_OTLP_ENDPOINT', () => {
  let receiver: OtlpReceiver;
  let way: Way;
  before(async () => {
    receiver = await OtlpReceiver.start();
    way = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
  });

  const bySpan = (kind: number, wanted: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> =>
    eventually(`a span of kind ${kind}`, () => receiver.spans.find((span) => span.kind === kind && wanted(span)));

  it('are made of refused requests, sampled or not, and of events that cannot land', async () => {
    const { client, redis } = way;
    await client.post('{', { 'x-request-id': 'refused' });
    await client.post('{', { traceparent: UNSAMPLED, 'x-request-id': 'refused-in-trace' });
    const of = (id: string) => bySpan(2, ({ attributes }) => attributes['ingest.request_id'] === id);
    const [alone, inside] = [await of('refused'), await of('refused-in-trace')];
    assert.deepEqual([alone.parentSpanId, inside.parentSpanId], ['', PARENT]);
    assert.equal(inside.traceId, UNSAMPLED.slice(3, 35));
    for (const { attributes } of [alone, inside])
      assert.deepEqual([attributes['http.response.status_code'], attributes['error.type']], [400, 'INVALID_EVENT']);
    const other = SAMPLED.replace(TRACE, 'b'.repeat(32));
    await redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', '{', 'traceparent', other);
    const put = await bySpan(5, ({ traceId }) => traceId === 'b'.repeat(32));
    assert.deepEqual([put.statusCode, put.attributes['error.type']], [2, 'invalid_event']);
  });

  it('show the way through a dispatcher', async () => {
    const slow = { INGEST_SHED_MS: '4000' };
    const dispatcher = await TestDispatcher.start({ env: { ...slow, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url } });
    const client = (await TestGateway.start(dispatcher, pki, { ...PATIENT, ...slow })).client(producer);
    const trace = 'd'.repeat(32);
    const traceparent = SAMPLED.replace(TRACE, trace);
    assert.equal((await client.post(event('dispatched'), { traceparent })).status, 202);
    const sent = await bySpan(4, ({ traceId }) => traceId === trace);
    const queue = partitionOf('dispatched', 2) === 0 ? 'ingest-a' : 'ingest-b';
    assert.deepEqual([sent.service, sent.name, sent.parentSpanId], ['ingest-dispatcher', `send ${queue}`, PARENT]);
    assert.equal(sent.attributes['messaging.message.id'], 'dispatched');
    const kept = traceparent.replace(PARENT, sent.spanId);
    assert.equal((await client.find('dispatched')).json?.['traceparent'], kept, 'the event goes on with it');
  });

  it('are left out with one clear line where the packages are missing', async () => {
    // As in an installation without the optional packages: nothing of them can be resolved.
    const hooks = `import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (!/^@opentelemetry.(resources|sdk-trace|exporter-trace-otlp-proto)$/.test(name)) return next(name, context);
        throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
      } });`;
    const redis = await TestRedis.start();
    const gateway = await TestGateway.start(redis, pki, {
      ...PATIENT,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(hooks)}"`,
    });
    const lines = gateway.lines.filter((line) => line.includes('OTEL_EXPORTER_OTLP_ENDPOINT is set'));
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] ?? '',
      /missing: npm install @opentelemetry\/api .*@opentelemetry\/exporter-trace-otlp-proto/,
    );
    assert.equal((await gateway.client(producer).post(event('without'), { traceparent: SAMPLED })).status, 202);
  });

  it('have an endpoint that is checked', async () => {
    for (const name of ['ingest-gateway', 'ingest-consumer'] as const) {
      const program = new Program(name, {
        args: ['--check'],
        env: {
          INGEST_QUEUE_URI: 'redis://localhost',
          INGEST_WAREHOUSE_URI: `sqlite:${join('/tmp', 'unused.db')}`,
          OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
        },
      });
      assert.equal(await program.ended, 2);
      assert.match(program.output, /OTEL_EXPORTER_OTLP_ENDPOINT="collector:4318": expected an http or https URL/);
    }
  });
});
