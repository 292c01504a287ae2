// The gateway's configuration, and rules that involve several settings. lib/process/settings.ts lists the keys,
// meanings, defaults and bounds. One report contains all problems.
import type { TlsFiles } from '../identity/tls-material.ts';
import { Settings, type Environment } from '../process/read-settings.ts';
import { isDispatcher, queueUriOf } from '../process/queue-uri.ts';
import { addressText, isLoopback } from '../process/setting-kinds.ts';
import { exportsSpans } from '../telemetry/tracing.ts';

/** The source of TLS material: files, or development certificates in the state folder. */
export type TlsSource = ({ readonly kind: 'files' } & TlsFiles) | { readonly kind: 'development' };

export type GatewayConfig = NonNullable<ReturnType<typeof readGatewayConfig>['config']>;

/** Limit on the head of a request. It is not configurable. */
export const HEADER_BYTES_MAX = 16_384;
/** Long, because handshakes are slow when many clients connect at the same time. */
const HANDSHAKE_TIMEOUT_MS = 30_000;

/** Returns the report, and the configuration if the report has no problems. Times in milliseconds, sizes in bytes. */
export function readGatewayConfig(environment: Environment) {
  const settings = new Settings(environment, 'gateway');
  const connectionsMax = settings.get('INGEST_CONNECTIONS_MAX');
  const queueUri = queueUriOf(settings);
  const config = {
    queueUri,
    serverCa: settings.get('INGEST_TLS_SERVER_CA'),
    queuePartitions: settings.get('INGEST_QUEUE_PARTITIONS'),
    queueReplicas: settings.get('INGEST_QUEUE_REPLICAS'),
    queueDurability: settings.get('INGEST_QUEUE_DURABILITY'),
    warehouseUri: settings.get('INGEST_WAREHOUSE_URI'),
    address: settings.get('INGEST_GATEWAY_ADDR'),
    reusePort: settings.get('INGEST_GATEWAY_REUSE_PORT'),
    adminAddress: settings.get('INGEST_ADMIN_ADDR'),
    adminOnly: settings.get('INGEST_ADMIN_ONLY'),
    stateDir: settings.get('INGEST_STATE_DIR'),

    tls: tlsSource(settings),
    audience: settings.get('INGEST_AUDIENCE'),
    tokenJwks: settings.get('INGEST_TOKEN_JWKS'),
    tokenIssuer: settings.get('INGEST_TOKEN_ISSUER'),
    tokenRequired: settings.get('INGEST_TOKEN_REQUIRED'),

    producerRateMax: settings.get('INGEST_PRODUCER_RATE_MAX'),
    producersFile: settings.get('INGEST_PRODUCERS_FILE'),

    bodyBytesMax: settings.get('INGEST_BODY_BYTES_MAX'),
    eventId: settings.get('INGEST_EVENT_ID'),
    inFlightMax: settings.get('INGEST_IN_FLIGHT_MAX'),
    inFlightBytesMax: settings.get('INGEST_IN_FLIGHT_BYTES_MAX'),
    connectionsMax,
    connectionsPerAddressMax: settings.given('INGEST_CONNECTIONS_PER_ADDRESS_MAX')
      ? settings.get('INGEST_CONNECTIONS_PER_ADDRESS_MAX')
      : Math.ceil(connectionsMax / 4),
    httpReader: settings.get('INGEST_HTTP_READER'),
    proxyFrom: settings.get('INGEST_PROXY_FROM'),
    exportsSpans: exportsSpans(settings, environment),

    ...times(settings, queueUri),
  };
  checkCompany(settings, environment);
  return settings.read(config);
}

/** Reports combinations that cannot work, and warns of those that work but are rarely intended. */
function checkCompany(settings: Settings, environment: Environment): void {
  const admin = settings.get('INGEST_ADMIN_ADDR');
  if (settings.get('INGEST_ADMIN_ONLY') && admin === undefined)
    settings.problem(
      'INGEST_ADMIN_ONLY',
      'expected INGEST_ADMIN_ADDR with it: otherwise nothing serves health and metrics',
    );
  for (const key of ['INGEST_TOKEN_REQUIRED', 'INGEST_TOKEN_ISSUER'] as const)
    if (!settings.given('INGEST_TOKEN_JWKS') && Boolean(settings.get(key)))
      settings.problem(key, 'expected INGEST_TOKEN_JWKS with it: without keys no token can be verified');
  for (const rule of settings.get('INGEST_PROXY_FROM')?.rules ?? [])
    if (rule.endsWith('/0'))
      settings.warning(
        `INGEST_PROXY_FROM=${rule.split(' ').at(-1)}: every client may name any address, and ` +
          'INGEST_CONNECTIONS_PER_ADDRESS_MAX and the log rely on it; name only the balancers',
      );
  const bodyBytes = settings.get('INGEST_BODY_BYTES_MAX');
  const inFlightBytes = settings.get('INGEST_IN_FLIGHT_BYTES_MAX');
  if (bodyBytes > inFlightBytes)
    settings.warning(
      `INGEST_BODY_BYTES_MAX (${bodyBytes}) is more than INGEST_IN_FLIGHT_BYTES_MAX (${inFlightBytes}): ` +
        'an event longer than that is admitted only while no other event is in flight',
    );
  if (admin === undefined || admin.port === 0) return;
  const others = {
    INGEST_GATEWAY_ADDR: addressText(settings.get('INGEST_GATEWAY_ADDR')),
    INGEST_CONSUMER_ADDR: environment['INGEST_CONSUMER_ADDR'],
  };
  for (const [key, other] of Object.entries(others))
    if (other === addressText(admin))
      settings.warning(`INGEST_ADMIN_ADDR and ${key} are the same address, ${other}: only one of them can be bound`);
}

function tlsSource(settings: Settings): TlsSource {
  const cert = settings.get('INGEST_TLS_CERT');
  const key = settings.get('INGEST_TLS_KEY');
  const clientCa = settings.get('INGEST_TLS_CLIENT_CA');
  const clientCrl = settings.get('INGEST_TLS_CLIENT_CRL');
  if (cert !== undefined && key !== undefined && clientCa !== undefined) {
    return { kind: 'files', cert, key, clientCa, ...(clientCrl === undefined ? {} : { clientCrl }) };
  }
  const anySet = cert !== undefined || key !== undefined || clientCa !== undefined || clientCrl !== undefined;
  const address = settings.get('INGEST_GATEWAY_ADDR');
  if (anySet || !isLoopback(address)) {
    const why = anySet
      ? 'expected a PEM file: certificate, key and client CA are set together or not at all'
      : `expected a PEM file: ${address.host} is not a loopback address, so no development certificates are made`;
    for (const one of ['INGEST_TLS_CERT', 'INGEST_TLS_KEY', 'INGEST_TLS_CLIENT_CA'] as const)
      if (!settings.given(one)) settings.problem(one, why);
  }
  return { kind: 'development' };
}

/**
 * The request timeout and the drain timeout must be longer than the queue's timeout, or answers would be lost. A short
 * drain timeout shortens the default delay of the drain. An explicit delay must fit into it.
 */
function times(settings: Settings, queueUri: string) {
  const queueKey = isDispatcher(queueUri) ? 'INGEST_SHED_MS' : 'INGEST_ENQUEUE_TIMEOUT_MS';
  const enqueueTimeoutMs = settings.get(queueKey);
  const requestTimeoutMs = settings.get('INGEST_REQUEST_TIMEOUT_MS');
  const drainTimeoutMs = settings.get('INGEST_DRAIN_TIMEOUT_MS');
  const delayMs = settings.get('INGEST_DRAIN_DELAY_MS');
  const isDelaySet = settings.given('INGEST_DRAIN_DELAY_MS');
  if (isDispatcher(queueUri) && settings.given('INGEST_ENQUEUE_TIMEOUT_MS'))
    settings.warning(
      'INGEST_ENQUEUE_TIMEOUT_MS has no effect with a dispatcher: ' +
        `INGEST_SHED_MS (${enqueueTimeoutMs} ms) is the timeout of its queues`,
    );
  if (isDelaySet && delayMs + enqueueTimeoutMs >= drainTimeoutMs)
    settings.problem(
      'INGEST_DRAIN_DELAY_MS',
      `expected less than INGEST_DRAIN_TIMEOUT_MS (${drainTimeoutMs}) minus ${queueKey} (${enqueueTimeoutMs}): ` +
        'the delay is part of the drain',
    );
  if (enqueueTimeoutMs >= requestTimeoutMs)
    settings.problem(
      queueKey,
      `expected less than INGEST_REQUEST_TIMEOUT_MS (${requestTimeoutMs}): ` +
        `an answer's deadline must be longer than the queue's`,
    );
  if (enqueueTimeoutMs >= drainTimeoutMs)
    settings.problem(
      'INGEST_DRAIN_TIMEOUT_MS',
      `expected more than ${queueKey} (${enqueueTimeoutMs}): a stop waits for the queue's answers`,
    );
  return {
    handshakeTimeoutMs: HANDSHAKE_TIMEOUT_MS,
    headersTimeoutMs: Math.ceil(requestTimeoutMs / 2),
    requestTimeoutMs,
    idleTimeoutMs: settings.get('INGEST_IDLE_TIMEOUT_MS'),
    enqueueTimeoutMs,
    drainDelayMs: isDelaySet ? delayMs : Math.min(delayMs, drainTimeoutMs / 4),
    drainTimeoutMs,
  };
}
