// Sends OpenTelemetry spans with the official SDK, over OTLP/HTTP.
//
// The packages are optional peer dependencies and are loaded only if OpenTelemetry's keys switch the export on. If they
// are missing, the program logs one line and runs without spans. The SDK itself reads OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME and the other OTEL_EXPORTER_OTLP_* keys.
//
// Invariant: no event fails or waits because of a span. At most 2,048 spans wait in memory. Further spans are
// dropped, and so are spans that the receiver refuses.
import { hostname } from 'node:os';
import type { Clock } from '../process/clock.ts';
import { throttled, type Log } from '../process/log.ts';
import { BUILD } from '../process/program.ts';
import type { Environment, Settings } from '../process/read-settings.ts';

/** The parent of a span: the context of a request, of an event, or of another span. */
export interface SpanParent {
  readonly traceparent: string;
  readonly tracestate?: string | undefined;
}

/** A finished span. Times are Unix milliseconds with fractions. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: 'server' | 'producer' | 'consumer';
  /** If undefined, the span starts a new trace. */
  readonly parent: SpanParent | undefined;
  /** The span's own context, if `reserve` created it. */
  readonly context?: SpanParent | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly error?: string | undefined;
}

export interface Tracing {
  /** Creates the context of a span that is recorded later, so that other spans can already use it as their parent. */
  reserve(parent: SpanParent): SpanParent;
  /** Records a span. Returns the context for its children. */
  record(span: FinishedSpan): SpanParent;
  /** Sends the waiting spans, and gives up after two seconds. */
  close(): Promise<void>;
}

const PACKAGES = ['api', 'resources', 'sdk-trace', 'exporter-trace-otlp-proto'].map((name) => `@opentelemetry/${name}`);

const CLOSE_TIMEOUT_MS = 2_000;
const FAILURE_LOG_INTERVAL_MS = 60_000;
const REASON_LENGTH_MAX = 300;

/** Values that have the effect that OpenTelemetry defines. Others get a warning. */
const SUPPORTED: Readonly<Record<string, RegExp>> = {
  OTEL_SDK_DISABLED: /^(?:true|false)$/i,
  OTEL_TRACES_EXPORTER: /^(?:otlp|none)$/,
  OTEL_TRACES_SAMPLER: /^(?:parentbased_always_on|always_off)$/,
  OTEL_EXPORTER_OTLP_PROTOCOL: /^http\/protobuf$/,
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: /^http\/protobuf$/,
  OTEL_PROPAGATORS: /^(?:tracecontext(?:,baggage)?|baggage,tracecontext)$/,
  OTEL_METRICS_EXPORTER: /^(?:none|prometheus)$/,
  OTEL_LOGS_EXPORTER: /^none$/,
};
const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const;

/**
 * True if OpenTelemetry's keys switch the export of spans on. Unlike there, an endpoint or an exporter must be set.
 * Adds a warning for each key without its effect, and a problem for an endpoint that is not a URL.
 */
export function exportsSpans(settings: Settings, environment: Environment): boolean {
  const value = (key: string): string => environment[key]?.trim() ?? '';
  const exporters = value('OTEL_TRACES_EXPORTER').split(',').filter(Boolean);
  const endpoints = ENDPOINTS.filter((key) => value(key) !== '');
  const isAsked = exporters.length === 0 ? endpoints.length > 0 : exporters.includes('otlp');
  const isOff = /^true$/i.test(value('OTEL_SDK_DISABLED')) || value('OTEL_TRACES_SAMPLER') === 'always_off';
  for (const key of endpoints)
    if (!/^https?:/.test(value(key)) || !URL.canParse(value(key)))
      settings.problem(key, 'expected an http or https URL');
  const names = Object.keys(SUPPORTED).filter((key) => value(key) !== '' && SUPPORTED[key]?.test(value(key)) === false);
  const isHidden = value('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') !== '';
  for (const key of isOff ? [] : names)
    if (key !== 'OTEL_EXPORTER_OTLP_PROTOCOL' || !isHidden)
      settings.warning(`${key}=${value(key)} has no effect here: see "Tracing" in deploy/operate.md`);
  return isAsked && !isOff;
}

export async function startTracing(service: string, log: Log, clock: Clock): Promise<Tracing | undefined> {
  const sdk = await loadSdk(log);
  if (sdk === undefined) return undefined;
  const [api, resources, trace, exporter] = sdk;
  const failures = throttled(clock, FAILURE_LOG_INTERVAL_MS);
  const failed = (...about: readonly unknown[]): void =>
    failures((heldBack) => log.warn({ reason: reasonIn(about), heldBack }, 'spans could not be exported'));
  const ignored = (): void => undefined;
  api.diag.setLogger(
    { error: failed, warn: failed, info: ignored, debug: ignored, verbose: ignored },
    { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const ids = new trace.RandomIdGenerator();
  let reservedId: string | undefined;
  const instance = `${hostname()}-${process.pid}`;
  const own = { 'service.name': service, 'service.version': BUILD.version, 'service.instance.id': instance };
  const fromEnvironment = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new trace.TracerProvider({
    resource: resources.defaultResource().merge(resources.resourceFromAttributes(own)).merge(fromEnvironment),
    idGenerator: {
      generateTraceId: () => ids.generateTraceId(),
      generateSpanId: () => reservedId ?? ids.generateSpanId(),
    },
    sampler: new trace.AlwaysOnSampler(),
    spanProcessors: [new trace.BatchSpanProcessor({ exporter: new exporter.OTLPTraceExporter() })],
  });
  const tracer = provider.getTracer(service, BUILD.version);
  const kinds = { server: api.SpanKind.SERVER, producer: api.SpanKind.PRODUCER, consumer: api.SpanKind.CONSUMER };
  log.info('spans of sampled and of refused requests are exported');
  return {
    reserve: ({ traceparent, tracestate }) => ({
      traceparent: `00-${traceparent.slice(3, 35)}-${ids.generateSpanId()}-01`,
      tracestate,
    }),
    record({ name, kind, parent, context: reserved, startMs, endMs, attributes, error }) {
      const context =
        parent === undefined
          ? api.ROOT_CONTEXT
          : api.trace.setSpanContext(api.ROOT_CONTEXT, {
              traceId: parent.traceparent.slice(3, 35),
              spanId: parent.traceparent.slice(36, 52),
              traceFlags: api.TraceFlags.SAMPLED,
              isRemote: true,
              ...(parent.tracestate === undefined ? {} : { traceState: api.createTraceState(parent.tracestate) }),
            });
      reservedId = reserved?.traceparent.slice(36, 52);
      const span = tracer.startSpan(name, { kind: kinds[kind], startTime: startMs, attributes }, context);
      reservedId = undefined;
      if (error !== undefined) span.setStatus({ code: api.SpanStatusCode.ERROR, message: error });
      span.end(endMs);
      const { traceId, spanId } = span.spanContext();
      return { traceparent: `00-${traceId}-${spanId}-01`, tracestate: parent?.tracestate };
    },
    async close() {
      await Promise.race([provider.shutdown(), clock.sleep(CLOSE_TIMEOUT_MS)]).catch((cause: unknown) =>
        failed((cause as Error).message),
      );
    },
  };
}

/** Returns undefined if a package is missing. */
function loadSdk(log: Log) {
  return Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
  ]).catch((cause: unknown) => {
    const missing = `missing: npm install ${PACKAGES.join(' ')}`;
    log.warn({ reason: (cause as Error).message }, `spans are not exported, because packages are ${missing}`);
    return undefined;
  });
}

/** The SDK passes texts, or an error as JSON with its stack and the receiver's whole answer. */
function reasonIn(about: readonly unknown[]): string {
  const text = about.filter((one) => typeof one === 'string').join(': ');
  try {
    const { name = '', message = name, code = '' } = JSON.parse(text) as Readonly<Record<string, string>>;
    return (message.includes(code) ? message : `${message} (${code})`).slice(0, REASON_LENGTH_MAX);
  } catch {
    return text.slice(0, REASON_LENGTH_MAX);
  }
}
