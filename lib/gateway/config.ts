// The gateway's configuration: every key, its default and its bounds, on one screen.
//
// Read once; the result is frozen. A problem in any key leaves the process unstarted, with all problems in one report.
import { join } from 'node:path';
import { EnvReader, type BindAddress, type Environment, type EnvReport } from '../process/env.ts';
import { LOG_LEVELS, type LogLevel } from '../process/log.ts';

const DEFAULT_ADDRESS: BindAddress = { host: '127.0.0.1', port: 8443 };
const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/;
const HOUR_MS = 3_600_000;

/** Where TLS material comes from: files, or development certificates made in the state folder. */
export type TlsSource =
  | {
      readonly kind: 'files';
      readonly cert: string;
      readonly key: string;
      readonly clientCa: string;
      readonly clientCrl?: string;
    }
  | { readonly kind: 'development' };

/** Times in milliseconds, sizes in bytes. */
export interface GatewayConfig {
  readonly queueUri: string;
  readonly queueDurability: 'warn' | 'require';
  readonly warehouseUri: string | undefined;
  readonly address: BindAddress;
  readonly logLevel: LogLevel;
  readonly stateDir: string;

  readonly tls: TlsSource;
  readonly audience: string;
  readonly tokenJwks: string | undefined;
  readonly tokenIssuer: string | undefined;

  readonly bodyBytesMax: number;
  readonly inFlightMax: number;
  readonly inFlightBytesMax: number;
  readonly connectionsMax: number;

  readonly handshakeTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly enqueueTimeoutMs: number;
  readonly drainTimeoutMs: number;
}

/** Total size of a request's head; header fields over HEADERS_MAX are refused too. Not configurable. */
export const HEADER_BYTES_MAX = 16_384;
export const HEADERS_MAX = 100;

/** The configuration, or undefined when the report holds problems. */
export function readGatewayConfig(environment: Environment): { config: GatewayConfig | undefined; report: EnvReport } {
  const env = new EnvReader(environment);
  const queueUri = env.uri('INGEST_QUEUE_URI', ['redis:', 'rediss:'], true);
  const address = env.address('INGEST_GATEWAY_ADDR', DEFAULT_ADDRESS);
  env.integer('INGEST_SHED_MS', 200, 1, HOUR_MS); // Only with the dispatcher: checked, not used.
  const config = {
    queueUri: queueUri ?? '',
    queueDurability: env.oneOf('INGEST_QUEUE_DURABILITY', 'warn', ['warn', 'require']),
    unlandedMs: env.integer('INGEST_QUEUE_UNLANDED_HOURS_MAX', 168, 24, 8_760) * HOUR_MS,
    warehouseUri: env.uri('INGEST_WAREHOUSE_URI', ['sqlite:', 'postgres:', 'postgresql:'], false),
    address,
    logLevel: env.oneOf('INGEST_LOG_LEVEL', 'info', LOG_LEVELS),
    stateDir: env.text('INGEST_STATE_DIR', '.ingest'),

    tls: tlsSource(env, address),
    audience: audience(env),
    tokenJwks: jwks(env),
    tokenIssuer: env.text('INGEST_TOKEN_ISSUER'),

    bodyBytesMax: env.integer('INGEST_BODY_BYTES_MAX', 262_144, 1, 64 << 20),
    inFlightMax: env.integer('INGEST_IN_FLIGHT_MAX', 1_000, 1, 1_000_000),
    inFlightBytesMax: env.integer('INGEST_IN_FLIGHT_BYTES_MAX', 64 << 20, 1, 2 ** 40),
    connectionsMax: env.integer('INGEST_CONNECTIONS_MAX', 10_000, 1, 1_000_000),

    handshakeTimeoutMs: env.integer('INGEST_HANDSHAKE_TIMEOUT_MS', 5_000, 1, HOUR_MS),
    headersTimeoutMs: env.integer('INGEST_HEADERS_TIMEOUT_MS', 5_000, 1, HOUR_MS),
    requestTimeoutMs: env.integer('INGEST_REQUEST_TIMEOUT_MS', 10_000, 1, HOUR_MS),
    idleTimeoutMs: env.integer('INGEST_IDLE_TIMEOUT_MS', 60_000, 1, HOUR_MS),
    enqueueTimeoutMs: env.integer('INGEST_ENQUEUE_TIMEOUT_MS', 150, 1, HOUR_MS),
    drainTimeoutMs: env.integer('INGEST_DRAIN_TIMEOUT_MS', 10_000, 1, HOUR_MS),
  };
  checkDeadlines(env, config);
  const report = env.report();
  return { config: report.problems.length === 0 ? Object.freeze(config) : undefined, report };
}

function tlsSource(env: EnvReader, address: BindAddress): TlsSource {
  const cert = env.text('INGEST_TLS_CERT');
  const key = env.text('INGEST_TLS_KEY');
  const clientCa = env.text('INGEST_TLS_CLIENT_CA');
  const clientCrl = env.text('INGEST_TLS_CLIENT_CRL');
  if (cert !== undefined && key !== undefined && clientCa !== undefined) {
    return { kind: 'files', cert, key, clientCa, ...(clientCrl === undefined ? {} : { clientCrl }) };
  }
  const anySet = cert !== undefined || key !== undefined || clientCa !== undefined || clientCrl !== undefined;
  const loopback = LOOPBACK.test(address.host);
  if (anySet || !loopback) {
    const why = anySet
      ? 'a PEM file is wanted: certificate, key and client CA are set together or not at all'
      : `a PEM file is wanted: ${address.host} is not a loopback address, so no development certificates are made`;
    if (cert === undefined) env.problem('INGEST_TLS_CERT', why);
    if (key === undefined) env.problem('INGEST_TLS_KEY', why);
    if (clientCa === undefined) env.problem('INGEST_TLS_CLIENT_CA', why);
  }
  return { kind: 'development' };
}

function audience(env: EnvReader): string {
  const value = env.text('INGEST_AUDIENCE', 'ingest-gateway');
  if (!/^[\x21-\x7e]{1,200}$/.test(value))
    env.problem('INGEST_AUDIENCE', '1 to 200 visible ASCII characters are wanted');
  return value;
}

function jwks(env: EnvReader): string | undefined {
  const value = env.text('INGEST_TOKEN_JWKS');
  if (
    value !== undefined &&
    /^[a-z][a-z0-9+.-]*:\/\//i.test(value) &&
    !(value.startsWith('https://') && URL.canParse(value))
  ) {
    env.problem('INGEST_TOKEN_JWKS', 'the path of a JWKS file, or an https URL, is wanted');
  }
  if (value === undefined && env.text('INGEST_TOKEN_ISSUER') !== undefined) {
    env.problem('INGEST_TOKEN_ISSUER', 'INGEST_TOKEN_JWKS is wanted with it: without keys no token can be verified');
  }
  return value;
}

/** A request must outlive the queue's time-out, and the drain a request: else answers would be cut off. */
function checkDeadlines(
  env: EnvReader,
  config: Pick<GatewayConfig, 'enqueueTimeoutMs' | 'requestTimeoutMs' | 'headersTimeoutMs' | 'drainTimeoutMs'>,
): void {
  const { enqueueTimeoutMs, requestTimeoutMs, headersTimeoutMs, drainTimeoutMs } = config;
  if (enqueueTimeoutMs >= requestTimeoutMs) {
    env.problem(
      'INGEST_ENQUEUE_TIMEOUT_MS',
      `less than INGEST_REQUEST_TIMEOUT_MS (${requestTimeoutMs}) is wanted: an answer's deadline must be longer than the queue's`,
    );
  }
  if (enqueueTimeoutMs >= drainTimeoutMs) {
    env.problem(
      'INGEST_DRAIN_TIMEOUT_MS',
      `more than INGEST_ENQUEUE_TIMEOUT_MS (${enqueueTimeoutMs}) is wanted: a stop waits for the queue's answers`,
    );
  }
  if (headersTimeoutMs > requestTimeoutMs) {
    env.problem(
      'INGEST_HEADERS_TIMEOUT_MS',
      `at most INGEST_REQUEST_TIMEOUT_MS (${requestTimeoutMs}) is wanted: headers are part of the request`,
    );
  }
}

/** Where the development certificates of this configuration are. */
export function developmentFolder(config: GatewayConfig): string {
  return join(config.stateDir, 'tls');
}
