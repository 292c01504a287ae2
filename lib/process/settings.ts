// All settings of the project. env.ts parses them, and deploy/configure.md explains them, also for --help.
//
// To add a setting, add a row below and an item in deploy/configure.md, and read its value in the program's config.ts
// with `settings.get('INGEST_…')`. Rules between settings belong in config.ts. A key that ends in `_URI` also has a
// `_URI_FILE` form, which needs no row.
import { LOG_LEVELS } from './log.ts';
import { address, choice, flag, integer, networks, text, uri, type Program, type Setting } from './setting.ts';

const GATEWAY = ['gateway'] as const;
const CONSUMER = ['consumer'] as const;
const DAEMONS = ['gateway', 'consumer'] as const;
/** The programs that use both the queue and the warehouse. */
const BOTH_ENDS = ['gateway', 'consumer', 'admin'] as const;
const HOUR_MS = 3_600_000;
const TIME = [1, HOUR_MS] as const;

const QUEUES = [
  'redis:',
  'rediss:',
  'redis+sentinel:',
  'rediss+sentinel:',
  'redis+cluster:',
  'rediss+cluster:',
  'dispatcher:',
  'dispatchers:',
] as const;

const isUrl = (text: string, scheme: RegExp): boolean => scheme.test(text) && URL.canParse(text);

export const SETTINGS = Object.freeze({
  INGEST_QUEUE_URI: uri(BOTH_ENDS, QUEUES, DAEMONS),
  INGEST_QUEUE_DURABILITY: choice(GATEWAY, ['warn', 'require'], 'warn'),
  INGEST_WAREHOUSE_URI: uri(BOTH_ENDS, ['sqlite:', 'postgres:', 'postgresql:'], CONSUMER),
  INGEST_GATEWAY_ADDR: address(GATEWAY, { host: '127.0.0.1', port: 8443 }),
  INGEST_ADMIN_ADDR: address(GATEWAY, undefined),
  INGEST_TLS_CERT: text(GATEWAY, undefined),
  INGEST_TLS_KEY: text(GATEWAY, undefined),
  INGEST_TLS_CLIENT_CA: text(GATEWAY, undefined),
  INGEST_PRODUCERS_FILE: text(GATEWAY, undefined),
  INGEST_CONSUMER_ADDR: address(CONSUMER, { host: '127.0.0.1', port: 9464 }),

  INGEST_QUEUE_PARTITIONS: integer(BOTH_ENDS, 8, [1, 256]),
  INGEST_QUEUE_REPLICAS: integer(['gateway', 'admin'], 0, [0, 100]),
  INGEST_STATE_DIR: text(['gateway', 'send', 'admin'], '.ingest'),
  INGEST_LOG_LEVEL: choice(DAEMONS, LOG_LEVELS, 'info'),
  OTEL_EXPORTER_OTLP_ENDPOINT: text(DAEMONS, undefined, 'an http or https URL', (url) => isUrl(url, /^https?:/)),

  INGEST_GATEWAY_REUSE_PORT: flag(GATEWAY),
  INGEST_ADMIN_ONLY: flag(GATEWAY),
  INGEST_TLS_CLIENT_CRL: text(GATEWAY, undefined),
  INGEST_AUDIENCE: text(GATEWAY, 'ingest-gateway', '1 to 200 visible ASCII characters', (audience) =>
    /^[\x21-\x7e]{1,200}$/.test(audience),
  ),
  INGEST_TOKEN_JWKS: text(GATEWAY, undefined, 'the path of a JWKS file, or an https URL', (jwks) =>
    /^[a-z][a-z0-9+.-]*:\/\//i.test(jwks) ? isUrl(jwks, /^https:/) : true,
  ),
  INGEST_TOKEN_ISSUER: text(GATEWAY, undefined),
  INGEST_TOKEN_REQUIRED: flag(GATEWAY),

  INGEST_PRODUCER_RATE_MAX: integer(GATEWAY, undefined, [1, 1_000_000]),

  INGEST_BODY_BYTES_MAX: integer(GATEWAY, 262_144, [1, 64 << 20]),
  INGEST_EVENT_ID: choice(GATEWAY, ['id', 'source+id'], 'id'),
  INGEST_IN_FLIGHT_MAX: integer(GATEWAY, 1_000, [1, 1_000_000]),
  INGEST_IN_FLIGHT_BYTES_MAX: integer(GATEWAY, 64 << 20, [1, 2 ** 40]),
  INGEST_CONNECTIONS_MAX: integer(GATEWAY, 10_000, [1, 1_000_000]),
  INGEST_CONNECTIONS_PER_ADDRESS_MAX: integer(GATEWAY, 2_500, [0, 1_000_000]),
  INGEST_PROXY_FROM: networks(GATEWAY),
  INGEST_HTTP_READER: choice(GATEWAY, ['own', 'node'], 'own'),
  INGEST_REQUEST_TIMEOUT_MS: integer(GATEWAY, 10_000, TIME),
  INGEST_IDLE_TIMEOUT_MS: integer(GATEWAY, 60_000, TIME),
  INGEST_ENQUEUE_TIMEOUT_MS: integer(GATEWAY, 150, TIME),
  INGEST_DRAIN_TIMEOUT_MS: integer(DAEMONS, 10_000, TIME),
  INGEST_DRAIN_DELAY_MS: integer(GATEWAY, 200, [0, HOUR_MS]),
  INGEST_SHED_MS: integer(GATEWAY, 200, TIME),

  INGEST_SCHEMAS_DIR: text(CONSUMER, undefined),
  INGEST_CONSUMER_BATCH_MAX: integer(CONSUMER, 500, [1, 10_000]),
  INGEST_CONSUMER_REPLICAS_MAX: integer(CONSUMER, 6, [1, 1_000]),
});

export type Key = keyof typeof SETTINGS;

export const KEYS = Object.keys(SETTINGS) as readonly Key[];

/** All keys, including the `_URI_FILE` forms. */
export const KNOWN_KEYS: readonly string[] = KEYS.flatMap((key) =>
  'schemes' in SETTINGS[key] ? [key, `${key}_FILE`] : [key],
);

export function settingsOf(program: Program): readonly (readonly [Key, Setting])[] {
  return KEYS.map((key) => [key, SETTINGS[key]] as const).filter(([, { programs }]) => programs.includes(program));
}
