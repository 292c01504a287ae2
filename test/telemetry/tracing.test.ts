import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { registerHooks } from 'node:module';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { after, describe, it } from 'node:test';
import { BUILD } from '../../lib/process/program.ts';
import { Settings } from '../../lib/process/read-settings.ts';
import { exportsSpans, startTracing, type FinishedSpan } from '../../lib/telemetry/tracing.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const PARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const SPAN: FinishedSpan = {
  name: 'POST /events',
  kind: 'server',
  parent: { traceparent: PARENT, tracestate: 'vendor=1' },
  startMs: 1_767_225_600_000.25,
  endMs: 1_767_225_600_010.5,
  attributes: { 'http.route': '/events', 'http.response.status_code': 202 },
};

async function startedFor(url: string) {
  const { log, lines } = keepingLog();
  process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = url;
  process.env['OTEL_RESOURCE_ATTRIBUTES'] = 'deployment.environment.name=test';
  const clock = new VirtualClock();
  const tracing = await startTracing('ingest-gateway', log, clock);
  assert.ok(tracing !== undefined);
  return { tracing, lines, clock };
}

after(() => {
  delete process.env['OTEL_EXPORTER_OTLP_ENDPOINT'];
  delete process.env['OTEL_RESOURCE_ATTRIBUTES'];
});

// A loaded module cannot be unloaded, so this test must run first.
it('the packages of OpenTelemetry are named in the log if one is missing, and nothing is traced', async () => {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === '@opentelemetry/resources') throw new Error(`Cannot find package '${specifier}'`);
      return next(specifier, context);
    },
  });
  const { log, lines } = keepingLog();
  assert.equal(await startTracing('ingest-gateway', log, new VirtualClock()), undefined);
  hooks.deregister();
  assert.equal(lines.length, 1);
  assert.match(lines[0]?.msg ?? '', /npm install @opentelemetry\/api @opentelemetry\/resources /);
});

const read = (environment: Readonly<Record<string, string>>) => {
  const settings = new Settings({}, 'consumer');
  const exports = exportsSpans(settings, environment);
  const { warnings, problems } = settings.read({}).report;
  const named = [...warnings, ...problems].flatMap((text) => /^OTEL_\w+/.exec(text) ?? []);
  return [exports, named.map(String)] as const;
};
const [ENDPOINT, URL] = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://collector:4318'];
const on = { [ENDPOINT]: URL };

it("OpenTelemetry's keys switch the export on and off as it defines them, and a warning names each key without its effect", () => {
  for (const [environment, exports, ...named] of [
    [{}, false],
    [on, true],
    [{ [ENDPOINT]: '' }, false],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${URL}/v1/traces` }, true],
    [{ ...on, OTEL_SDK_DISABLED: 'True' }, false],
    [{ ...on, OTEL_SDK_DISABLED: 'false' }, true],
    [{ ...on, OTEL_SDK_DISABLED: '1' }, true, 'OTEL_SDK_DISABLED'],
    [{ ...on, OTEL_TRACES_EXPORTER: 'none' }, false],
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
    [{ ...on, OTEL_TRACES_EXPORTER: 'console' }, false, 'OTEL_TRACES_EXPORTER'],
    [{ ...on, OTEL_TRACES_EXPORTER: 'otlp,console' }, true, 'OTEL_TRACES_EXPORTER'],
    [{ ...on, OTEL_TRACES_SAMPLER: 'always_off' }, false],
    [{ ...on, OTEL_TRACES_SAMPLER: 'parentbased_always_on' }, true],
    [{ ...on, OTEL_TRACES_SAMPLER: 'traceidratio' }, true, 'OTEL_TRACES_SAMPLER'],
    [{ ...on, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, true],
    [{ ...on, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, true, 'OTEL_EXPORTER_OTLP_PROTOCOL'],
    [{ ...on, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json' }, true, 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'],
    [{ ...on, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf' }, true],
    [{ ...on, OTEL_METRICS_EXPORTER: 'otlp' }, true, 'OTEL_METRICS_EXPORTER'],
    [{ ...on, OTEL_PROPAGATORS: 'b3' }, true, 'OTEL_PROPAGATORS'],
    [{ [ENDPOINT]: 'collector:4317' }, true, ENDPOINT],
    [{ ...on, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'grpc://a' }, true, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'],
  ] as const)
    assert.deepEqual(read(environment), [exports, named], JSON.stringify(environment));
});

describe('a span', () => {
  it('reaches the receiver with its name, kind, trace, times, attributes and program', async () => {
    const receiver = await OtlpReceiver.start();
    const { tracing, lines } = await startedFor(receiver.url);
    const { traceparent, tracestate } = tracing.record(SPAN);
    await tracing.close();
    const [span] = receiver.spans;
    assert.equal(receiver.spans.length, 1);
    const { resource, spanId, ...rest } = span ?? assert.fail();
    assert.deepEqual(rest, {
      ...{ service: 'ingest-gateway', name: 'POST /events', kind: 2 },
      ...{ traceId: PARENT.slice(3, 35), parentSpanId: PARENT.slice(36, 52), traceState: 'vendor=1' },
      ...{ startNs: 1_767_225_600_000_250_000n, endNs: 1_767_225_600_010_500_000n },
      attributes: { 'http.route': '/events', 'http.response.status_code': 202 },
      statusCode: 0,
    });
    assert.equal(traceparent, `00-${PARENT.slice(3, 35)}-${spanId}-01`);
    assert.equal(tracestate, 'vendor=1');
    assert.equal(resource['service.version'], BUILD.version);
    assert.equal(resource['service.instance.id'], `${hostname()}-${process.pid}`);
    assert.equal(resource['deployment.environment.name'], 'test');
    assert.equal(lines.length, 1);
  });

  it('without a parent begins a trace that its children belong to, and one with a reserved context has that', async () => {
    const receiver = await OtlpReceiver.start();
    const { tracing } = await startedFor(receiver.url);
    const top = tracing.record({ ...SPAN, parent: undefined });
    assert.equal(top.tracestate, undefined);
    tracing.record({ ...SPAN, kind: 'producer', parent: top });
    const context = tracing.reserve({ traceparent: PARENT, tracestate: 'vendor=1' });
    assert.match(context.traceparent, new RegExp(`^${PARENT.slice(0, 36)}(?!0{16})[0-9a-f]{16}-01$`));
    assert.equal(context.tracestate, 'vendor=1');
    assert.deepEqual(tracing.record({ ...SPAN, context }), context);
    tracing.record({ ...SPAN, kind: 'consumer', parent: { traceparent: PARENT }, error: 'no row' });
    await tracing.close();
    const [first, second, third, fourth] = receiver.spans;
    assert.ok(first !== undefined && second !== undefined && third !== undefined && fourth !== undefined);
    assert.match(first.traceId, /^(?!0{32})[0-9a-f]{32}$/);
    assert.deepEqual([first.parentSpanId, second.traceId, second.parentSpanId], ['', first.traceId, first.spanId]);
    assert.deepEqual(
      [first.kind, second.kind, third.spanId, fourth.kind],
      [2, 4, context.traceparent.slice(36, 52), 5],
    );
    assert.deepEqual([second.statusCode, fourth.statusCode, second.traceState, fourth.traceState], [0, 2, '', '']);
    assert.equal(new Set([PARENT.slice(36, 52), ...receiver.spans.map(({ spanId }) => spanId)]).size, 5);
  });
});

describe('a receiver of spans', () => {
  it('that refuses spans is logged, before the program ends', async () => {
    const receiver = await OtlpReceiver.start();
    receiver.status = 400;
    const { tracing, lines, clock } = await startedFor(receiver.url);
    // A full batch of spans is sent immediately.
    for (let span = 0; span < 512; span += 1) tracing.record(SPAN);
    const warning = () => lines.find(({ level }) => level === 'warn');
    const { msg, heldBack, reason } = await eventually('it is logged', warning);
    assert.deepEqual([msg, heldBack, reason], ['spans could not be exported', 0, 'Bad Request (400)']);
    await clock.advance(59_999);
    for (let span = 0; span < 512; span += 1) tracing.record(SPAN);
    await tracing.close();
    assert.equal(lines.filter(({ level }) => level === 'warn').length, 1, 'once a minute');
  });

  it('that does not answer delays the end of the program by at most two seconds', async (t) => {
    const held: ServerResponse[] = [];
    const server = createServer((request, response) => {
      request.resume();
      held.push(response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const { tracing, clock } = await startedFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    tracing.record(SPAN);
    let closed = false;
    const closing = tracing.close().then(() => (closed = true));
    await clock.advance(1_999);
    assert.equal(closed, false);
    await clock.advance(1);
    await closing;
    while (held.length === 0) await new Promise((resolve) => server.once('request', resolve));
    for (const response of held) response.writeHead(200).end();
  });
});
