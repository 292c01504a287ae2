// The dispatcher's configuration, made of its settings (lib/process/settings.ts has every key, default and bound), and
// the rules between keys.
//
// Read once; the result is frozen. It holds no credentials: a queue's URI with a user or a password is a problem.
import { addressText, isLoopback, Settings, type BindAddress, type Environment } from '../process/env.ts';
import { checkQueueUris } from '../process/queue-uri.ts';

/** Where the process endpoints are, when INGEST_ADMIN_ADDR does not say. */
const ADMIN_ADDRESS: BindAddress = Object.freeze({ host: '127.0.0.1', port: 9465 });

export type DispatcherConfig = NonNullable<ReturnType<typeof readDispatcherConfig>['config']>;

/** The configuration, or undefined when the report holds problems. Times are in milliseconds. */
export function readDispatcherConfig(environment: Environment) {
  const settings = new Settings(environment, 'dispatcher');
  const config = {
    address: settings.get('INGEST_DISPATCH_ADDR'),
    adminAddress: settings.get('INGEST_ADMIN_ADDR') ?? ADMIN_ADDRESS,
    queueUris: [
      queueUri(settings, 'INGEST_DISPATCH_QUEUE_A_URI'),
      queueUri(settings, 'INGEST_DISPATCH_QUEUE_B_URI'),
    ] as const,
    /** Of each queue on a Redis Cluster. */
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    /** How many replicas must have an event before it counts as accepted. */
    queueReplicas: settings.get('INGEST_QUEUE_REPLICAS'),
    queueDurability: settings.get('INGEST_QUEUE_DURABILITY'),
    /** Undefined: plain connections. */
    tls: tls(settings),
    /** How long a queue may take. */
    shedMs: settings.get('INGEST_SHED_MS'),
    /** How long a stop may take. */
    drainTimeoutMs: settings.get('INGEST_DRAIN_TIMEOUT_MS'),
    exportsSpans: settings.exportsSpans,
  };
  const [even, odd] = config.queueUris;
  checkQueueUris(settings, { INGEST_DISPATCH_QUEUE_A_URI: [even], INGEST_DISPATCH_QUEUE_B_URI: [odd] });
  const enqueueTimeoutMs = settings.get('INGEST_ENQUEUE_TIMEOUT_MS');
  if (settings.given('INGEST_ENQUEUE_TIMEOUT_MS') && config.shedMs >= enqueueTimeoutMs) {
    settings.problem(
      'INGEST_SHED_MS',
      `expected less than INGEST_ENQUEUE_TIMEOUT_MS (${enqueueTimeoutMs}): gateways wait that long for this program`,
      String(config.shedMs),
    );
  }
  if (config.tls === undefined && !isLoopback(config.address) && !settings.get('INGEST_DISPATCH_PLAINTEXT')) {
    settings.problem(
      'INGEST_DISPATCH_ADDR',
      'expected a loopback address, TLS files, or INGEST_DISPATCH_PLAINTEXT=1: ' +
        'without TLS anyone who reaches it can put events on the queues',
      addressText(config.address),
    );
  }
  return settings.read(config);
}

function queueUri(settings: Settings, key: 'INGEST_DISPATCH_QUEUE_A_URI' | 'INGEST_DISPATCH_QUEUE_B_URI'): string {
  const uri = settings.get(key) ?? '';
  if (uri !== '' && /^[^/]*\/\/[^/]*@/.test(uri)) {
    settings.problem(
      key,
      "expected no user and no password: what a gateway's INGEST_QUEUE_URI has of them is handed on to the queues",
      uri,
    );
  }
  return uri;
}

/** Paths of PEM files, and the names of the gateways that are admitted. */
function tls(settings: Settings) {
  const files = {
    cert: settings.get('INGEST_TLS_CERT'),
    key: settings.get('INGEST_TLS_KEY'),
    clientCa: settings.get('INGEST_TLS_CLIENT_CA'),
  };
  const clientCrl = settings.get('INGEST_TLS_CLIENT_CRL');
  const clients = (settings.get('INGEST_DISPATCH_CLIENTS') ?? '').split(/[\s,]+/).filter((name) => name !== '');
  const { cert, key, clientCa } = files;
  if (cert !== undefined && key !== undefined && clientCa !== undefined) {
    if (clients.length === 0) {
      settings.problem(
        'INGEST_DISPATCH_CLIENTS',
        'expected the names in the certificates of the gateways that are admitted: over TLS none is by default',
      );
    }
    return { cert, key, clientCa, ...(clientCrl === undefined ? {} : { clientCrl }), clients };
  }
  const anySet = Object.values(files).some((path) => path !== undefined) || clientCrl !== undefined;
  if (!anySet && clients.length === 0) return undefined;
  const why =
    'expected a PEM file: certificate, key and client CA are set together, or not at all for plain connections';
  if (cert === undefined) settings.problem('INGEST_TLS_CERT', why);
  if (key === undefined) settings.problem('INGEST_TLS_KEY', why);
  if (clientCa === undefined) settings.problem('INGEST_TLS_CLIENT_CA', why);
  return undefined;
}
