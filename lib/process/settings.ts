// All settings of the project. env.ts parses them, and deploy/configure.md explains them, also for --help.
//
// To add a setting, add a row below and an item in deploy/configure.md, and read its value in the program's config.ts
// with `settings.get('INGEST_…')`. Rules between settings belong in config.ts. A key that ends in `_URI` also has a
// `_URI_FILE` form, which needs no row.
import { LOG_LEVELS } from './log.ts';
import { ADDRESS, choice, FLAG, integer, NETWORKS, setting, TEXT, textIf } from './setting-kinds.ts';
import type { Program, Setting } from './setting-kinds.ts';

const GATEWAY = ['gateway'] as const;
const CONSUMER = ['consumer'] as const;
const DAEMONS = ['gateway', 'consumer'] as const;
/** The programs that use both the queue and the warehouse. */
const BOTH_ENDS = ['gateway', 'consumer', 'admin'] as const;
const HOUR_MS = 3_600_000;
const TIME = integer(1, HOUR_MS);

/** Each scheme also has a form for TLS, such as `rediss`. */
const QUEUES = ['redis', 'redis+sentinel', 'redis+cluster', 'dispatcher'].flatMap((scheme) => [
  `${scheme}:`,
  `${scheme.replace(/^[a-z]+/, '$&s')}:`,
]);
const WAREHOUSES = ['sqlite:', 'postgres:', 'postgresql:'];

const isUrl = (text: string, scheme: RegExp): boolean => scheme.test(text) && URL.canParse(text);

const VISIBLE = textIf('1 to 200 visible ASCII characters', (text) => /^[\x21-\x7e]{1,200}$/.test(text));
const JWKS = textIf(
  'the path of a JWKS file, or an https URL without a user and a password',
  (text) => !/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || isUrl(text, /^https:(?![^?#]*@)/),
);

export const SETTINGS = Object.freeze({
  INGEST_QUEUE_URI: { programs: BOTH_ENDS, schemes: QUEUES, required: DAEMONS },
  INGEST_QUEUE_DURABILITY: setting(GATEWAY, choice('warn', 'require'), 'warn'),
  INGEST_WAREHOUSE_URI: { programs: BOTH_ENDS, schemes: WAREHOUSES, required: CONSUMER },
  INGEST_GATEWAY_ADDR: setting(GATEWAY, ADDRESS, { host: '127.0.0.1', port: 8443 }),
  INGEST_ADMIN_ADDR: setting(GATEWAY, ADDRESS),
  INGEST_TLS_CERT: setting(GATEWAY, TEXT),
  INGEST_TLS_KEY: setting(GATEWAY, TEXT),
  INGEST_TLS_CLIENT_CA: setting(GATEWAY, TEXT),
  INGEST_PRODUCERS_FILE: setting(GATEWAY, TEXT),
  INGEST_CONSUMER_ADDR: setting(CONSUMER, ADDRESS, { host: '127.0.0.1', port: 9464 }),

  INGEST_QUEUE_PARTITIONS: setting(BOTH_ENDS, integer(1, 256), 8),
  INGEST_QUEUE_REPLICAS: setting(['gateway', 'admin'], integer(0, 100), 0),
  INGEST_TLS_SERVER_CA: setting(BOTH_ENDS, TEXT),
  INGEST_STATE_DIR: setting(['gateway', 'send', 'admin'], TEXT, '.ingest'),
  INGEST_LOG_LEVEL: setting(DAEMONS, choice(...LOG_LEVELS), 'info'),

  INGEST_GATEWAY_REUSE_PORT: setting(GATEWAY, FLAG, false),
  INGEST_ADMIN_ONLY: setting(GATEWAY, FLAG, false),
  INGEST_TLS_CLIENT_CRL: setting(GATEWAY, TEXT),
  INGEST_AUDIENCE: setting(GATEWAY, VISIBLE, 'ingest-gateway'),
  INGEST_TOKEN_JWKS: setting(GATEWAY, JWKS),
  INGEST_TOKEN_ISSUER: setting(GATEWAY, TEXT),
  INGEST_TOKEN_REQUIRED: setting(GATEWAY, FLAG, false),

  INGEST_PRODUCER_RATE_MAX: setting(GATEWAY, integer(1, 1_000_000)),

  INGEST_BODY_BYTES_MAX: setting(GATEWAY, integer(1, 64 << 20), 262_144),
  INGEST_EVENT_ID: setting(GATEWAY, choice('id', 'source+id'), 'id'),
  INGEST_IN_FLIGHT_MAX: setting(GATEWAY, integer(1, 1_000_000), 1_000),
  INGEST_IN_FLIGHT_BYTES_MAX: setting(GATEWAY, integer(1, 2 ** 40), 64 << 20),
  INGEST_CONNECTIONS_MAX: setting(GATEWAY, integer(1, 1_000_000), 10_000),
  INGEST_CONNECTIONS_PER_ADDRESS_MAX: setting(GATEWAY, integer(0, 1_000_000), 2_500),
  INGEST_PROXY_FROM: setting(GATEWAY, NETWORKS),
  INGEST_HTTP_READER: setting(GATEWAY, choice('own', 'node'), 'own'),
  INGEST_REQUEST_TIMEOUT_MS: setting(GATEWAY, TIME, 10_000),
  INGEST_IDLE_TIMEOUT_MS: setting(GATEWAY, TIME, 60_000),
  INGEST_ENQUEUE_TIMEOUT_MS: setting(GATEWAY, TIME, 150),
  INGEST_DRAIN_TIMEOUT_MS: setting(DAEMONS, TIME, 10_000),
  INGEST_DRAIN_DELAY_MS: setting(GATEWAY, integer(0, HOUR_MS), 200),
  INGEST_SHED_MS: setting(GATEWAY, TIME, 200),

  INGEST_SCHEMAS_DIR: setting(CONSUMER, TEXT),
  INGEST_CONSUMER_BATCH_MAX: setting(CONSUMER, integer(1, 10_000), 500),
  INGEST_CONSUMER_REPLICAS_MAX: setting(CONSUMER, integer(1, 1_000), 6),
});

export type Key = keyof typeof SETTINGS;

export const KEYS = Object.keys(SETTINGS) as readonly Key[];

/** Settings of earlier versions, and what to do. A page of an earlier version or an old file may still name them. */
export const RETIRED: Readonly<Record<string, string>> = {
  INGEST_LOG_FORMAT: 'the log is text on a terminal and JSON otherwise',
  INGEST_HANDSHAKE_TIMEOUT_MS: 'a handshake may take 30 seconds',
  INGEST_HEADERS_TIMEOUT_MS: 'the head of a request may take half of INGEST_REQUEST_TIMEOUT_MS',
  INGEST_PROXY_PROTOCOL: 'INGEST_PROXY_FROM names the balancers that send the PROXY protocol',
  INGEST_PRODUCER_METRICS: 'metrics have no label for the producer',
  INGEST_QUEUE_PREVIOUS_URI: 'the runbook moves a queue with consumers for both ("Moving a queue")',
  INGEST_QUEUE_COMPRESSION: 'bodies are stored as they were sent',
  INGEST_QUEUE_UNLANDED_HOURS_MAX: 'an event that has not landed stays in the queue until it lands',
  INGEST_WAREHOUSE_RETENTION_DAYS: 'ingest-admin prune removes old rows',
  INGEST_QUARANTINE_RETENTION_DAYS: 'ingest-admin prune --quarantine removes old rows',
  INGEST_WAREHOUSE_PARTITIONS: 'the warehouse has one table of events',
  INGEST_DISPATCH_QUEUE_A_URI: 'INGEST_QUEUE_URI=dispatcher://host-a,host-b names both queues',
  INGEST_DISPATCH_QUEUE_B_URI: 'INGEST_QUEUE_URI=dispatcher://host-a,host-b names both queues',
  INGEST_DISPATCH_ADDR: 'gateways send to both queues themselves',
  INGEST_DISPATCH_CLIENTS: 'gateways send to both queues themselves',
  INGEST_DISPATCH_PLAINTEXT: 'gateways send to both queues themselves',
};

export const formsOf = (key: Key): readonly string[] => ('schemes' in SETTINGS[key] ? [key, `${key}_FILE`] : [key]);

export const KNOWN_KEYS = KEYS.flatMap(formsOf);

export function settingsOf(program: Program): readonly (readonly [Key, Setting])[] {
  const all: readonly (readonly [Key, Setting])[] = KEYS.map((key) => [key, SETTINGS[key]]);
  return all.filter(([, { programs }]) => programs.includes(program));
}
