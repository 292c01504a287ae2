// All settings of the project. env.ts parses them, and --help and deploy/configure.md list them.
//
// To add a setting, add a row and a meaning below, read its value in the program's config.ts with
// `settings.get('INGEST_…')`, and run `make settings`, which rewrites the lists in deploy/configure.md. Rules between
// settings belong in config.ts. A key that ends in `_URI` also has a `_URI_FILE` form, which needs no row.
import { LOG_FORMATS, LOG_LEVELS } from './log.ts';
import { address, choice, flag, integer, text, uri, type Program, type Setting } from './setting.ts';

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

export const SETTINGS = Object.freeze({
  INGEST_QUEUE_URI: uri(BOTH_ENDS, QUEUES, BOTH_ENDS),
  INGEST_QUEUE_PARTITIONS: integer(BOTH_ENDS, 8, [1, 256]),
  INGEST_QUEUE_REPLICAS: integer(GATEWAY, 0, [0, 100]),
  INGEST_QUEUE_DURABILITY: choice(GATEWAY, ['warn', 'require'], 'warn'),
  INGEST_WAREHOUSE_URI: uri(BOTH_ENDS, ['sqlite:', 'postgres:', 'postgresql:'], ['consumer', 'admin']),
  INGEST_STATE_DIR: text(['gateway', 'send', 'admin'], '.ingest'),
  INGEST_LOG_LEVEL: choice(DAEMONS, LOG_LEVELS, 'info'),
  INGEST_LOG_FORMAT: choice(DAEMONS, LOG_FORMATS, 'auto'),
  OTEL_EXPORTER_OTLP_ENDPOINT: text(DAEMONS, undefined),

  INGEST_GATEWAY_ADDR: address(GATEWAY, '127.0.0.1:8443'),
  INGEST_GATEWAY_REUSE_PORT: flag(GATEWAY),
  INGEST_ADMIN_ADDR: address(GATEWAY, undefined),
  INGEST_ADMIN_ONLY: flag(GATEWAY),
  INGEST_TLS_CERT: text(GATEWAY, undefined),
  INGEST_TLS_KEY: text(GATEWAY, undefined),
  INGEST_TLS_CLIENT_CA: text(GATEWAY, undefined),
  INGEST_TLS_CLIENT_CRL: text(GATEWAY, undefined),
  INGEST_AUDIENCE: text(GATEWAY, 'ingest-gateway'),
  INGEST_TOKEN_JWKS: text(GATEWAY, undefined),
  INGEST_TOKEN_ISSUER: text(GATEWAY, undefined),
  INGEST_TOKEN_REQUIRED: flag(GATEWAY),

  INGEST_PRODUCER_RATE_MAX: integer(GATEWAY, undefined, [1, 1_000_000]),
  INGEST_PRODUCERS_FILE: text(GATEWAY, undefined),

  INGEST_BODY_BYTES_MAX: integer(GATEWAY, 262_144, [1, 64 << 20]),
  INGEST_EVENT_ID: choice(GATEWAY, ['id', 'source+id'], 'id'),
  INGEST_IN_FLIGHT_MAX: integer(GATEWAY, 1_000, [1, 1_000_000]),
  INGEST_IN_FLIGHT_BYTES_MAX: integer(GATEWAY, 64 << 20, [1, 2 ** 40]),
  INGEST_CONNECTIONS_MAX: integer(GATEWAY, 10_000, [1, 1_000_000]),
  INGEST_CONNECTIONS_PER_ADDRESS_MAX: integer(GATEWAY, 2_500, [0, 1_000_000]),
  INGEST_PROXY_FROM: text(GATEWAY, undefined),
  INGEST_HTTP_READER: choice(GATEWAY, ['own', 'node'], 'own'),
  INGEST_HANDSHAKE_TIMEOUT_MS: integer(GATEWAY, 30_000, TIME),
  INGEST_HEADERS_TIMEOUT_MS: integer(GATEWAY, 5_000, TIME),
  INGEST_REQUEST_TIMEOUT_MS: integer(GATEWAY, 10_000, TIME),
  INGEST_IDLE_TIMEOUT_MS: integer(GATEWAY, 60_000, TIME),
  INGEST_ENQUEUE_TIMEOUT_MS: integer(GATEWAY, 150, TIME),
  INGEST_DRAIN_TIMEOUT_MS: integer(DAEMONS, 10_000, TIME),
  INGEST_DRAIN_DELAY_MS: integer(GATEWAY, 200, [0, HOUR_MS]),
  INGEST_SHED_MS: integer(GATEWAY, 200, TIME),

  INGEST_CONSUMER_ADDR: address(CONSUMER, '127.0.0.1:9464'),
  INGEST_SCHEMAS_DIR: text(CONSUMER, undefined),
  INGEST_CONSUMER_BATCH_MAX: integer(CONSUMER, 500, [1, 10_000]),
  INGEST_CONSUMER_REPLICAS_MAX: integer(CONSUMER, 6, [1, 1_000]),
});

export type Key = keyof typeof SETTINGS;

/** Clauses for --help and deploy/configure.md, without a period. They may contain Markdown code spans. */
export const MEANINGS: Readonly<Record<Key, string>> = {
  INGEST_QUEUE_URI:
    'the queue: `redis://[user:password@]host:port[/db]`, ' +
    '`redis+sentinel://[user:password@]s1:26379,s2:26379/<master name>[?db=N]` or ' +
    '`redis+cluster://[user:password@]h1:p1,h2:p2`; with `rediss` instead of `redis`, over TLS. ' +
    '`dispatcher://[user:password@]host-a:6379,host-b:6379` names two queues (RFC 014); with `dispatchers`, over TLS',
  INGEST_QUEUE_PARTITIONS:
    "partitions of a queue on a Redis Cluster, fixed for the queue's life: " +
    "a number that differs from the queue's is refused (exit 2)",
  INGEST_QUEUE_REPLICAS:
    'number of replicas that must acknowledge an event before the gateway answers `202`. ' +
    'If too few do so in time, the answer is `503 QUEUE_UNAVAILABLE`',
  INGEST_QUEUE_DURABILITY:
    'with `require`, the gateway refuses to start (exit 4) if Redis evicts keys, keeps nothing on disk, has fewer ' +
    'replicas than `INGEST_QUEUE_REPLICAS`, or has any while that is 0. If it starts while Redis rewrites its ' +
    'append-only file, it is not ready until the rewrite has finished',
  INGEST_WAREHOUSE_URI:
    'the warehouse: `sqlite:<path>`, percent-encoded, or `postgres://user:password@host/database`; ' +
    'without it, the gateway looks up events only in the queue, which keeps them for 24 hours',
  INGEST_STATE_DIR:
    'folder for development certificates, embedded data, and the ids that `ingest-admin` erased (`erased-ids`)',
  INGEST_LOG_LEVEL: 'the least severe level that is logged',
  INGEST_LOG_FORMAT:
    '`json`: one object per line; `text`: human-readable lines; `auto`: text if standard output is a terminal',
  OTEL_EXPORTER_OTLP_ENDPOINT:
    'URL of an OpenTelemetry receiver (OTLP over HTTP) for spans of sampled and refused requests. ' +
    'It requires packages that the log names if they are missing',

  INGEST_GATEWAY_ADDR: 'the address for producers, over TLS',
  INGEST_GATEWAY_REUSE_PORT:
    'lets several gateways share one address; the kernel distributes connections among them (`SO_REUSEPORT`)',
  INGEST_ADMIN_ADDR:
    'a second address, over plain HTTP, for the status page (`/`), `/health/live`, `/health/ready` and `/metrics`; ' +
    'keep it private',
  INGEST_ADMIN_ONLY:
    'serves `/health/live`, `/health/ready` and `/metrics` only on `INGEST_ADMIN_ADDR`, and not to producers',
  INGEST_TLS_CERT:
    'PEM file: the server certificate. If the certificate, the key and the client CA are unset and the address is ' +
    'loopback, the gateway makes development certificates in `INGEST_STATE_DIR/tls`',
  INGEST_TLS_KEY: "PEM file: the server certificate's key",
  INGEST_TLS_CLIENT_CA: 'PEM file: the authorities that sign client certificates',
  INGEST_TLS_CLIENT_CRL: 'PEM file: a revocation list for each client authority',
  INGEST_AUDIENCE: "the audience that a producer's certificate or token must contain",
  INGEST_TOKEN_JWKS: 'path or https URL of the keys that verify tokens. If it is set, a token may contain the audience',
  INGEST_TOKEN_ISSUER: 'the `iss` that tokens must have',
  INGEST_TOKEN_REQUIRED: 'requires every producer to send a token, even if its certificate has the audience',

  INGEST_PRODUCER_RATE_MAX:
    "events per second that one producer may send to one gateway process, with bursts of one second's worth; " +
    'above it, the answer is `429 PRODUCER_RATE_LIMITED`',
  INGEST_PRODUCERS_FILE: 'JSON file with limits and grants for producers (`rate`, `types`, `disabled`, `audience`)',

  INGEST_BODY_BYTES_MAX: 'maximum length of a body after `Content-Encoding` is decoded',
  INGEST_EVENT_ID: 'the id of a CloudEvent: its `id`, or `<source> <id>` if ids are unique only within a `source`',
  INGEST_IN_FLIGHT_MAX: 'maximum number of events in progress; above it, the answer is `503 QUEUE_OVERLOADED`',
  INGEST_IN_FLIGHT_BYTES_MAX:
    'maximum number of bytes of events in progress. Unread answers may use the same number of bytes, of which ' +
    'one producer may use a quarter; above that, the gateway closes the connection of the slowest reader',
  INGEST_CONNECTIONS_MAX:
    'maximum number of open connections. One more replaces a connection that has not yet carried the request of a ' +
    'producer; a twentieth of the limit is reserved for such connections. If producers use all others, the ' +
    'producer with the most connections loses its oldest idle connection, or its oldest one if none is idle',
  INGEST_CONNECTIONS_PER_ADDRESS_MAX:
    'maximum number of connections from one address that have not yet carried the request of a producer, counted ' +
    'after the handshake or after one second. The default is a quarter of `INGEST_CONNECTIONS_MAX`. 0 means no ' +
    'limit, for a gateway behind a balancer that hides the addresses of clients (see `INGEST_PROXY_FROM`)',
  INGEST_PROXY_FROM:
    'addresses and networks of the balancers (`10.0.0.0/8,fd00::1`). They must send a PROXY protocol ' +
    'header, version 2, before each handshake; the gateway closes all other connections. ' +
    "Limits, log lines and spans then use the client's address",
  INGEST_HTTP_READER:
    'with `node`, the gateway reads every request with node:http, which takes about 1.5 times the CPU time per ' +
    'event. Use it if the built-in reader for plain requests has a bug',
  INGEST_HANDSHAKE_TIMEOUT_MS:
    'time limit for a TLS handshake, and for the wait for its first byte. It is long because handshakes are slow ' +
    'when many clients connect at the same time',
  INGEST_HEADERS_TIMEOUT_MS: "time limit for a request's head",
  INGEST_REQUEST_TIMEOUT_MS: 'time limit for a whole request',
  INGEST_IDLE_TIMEOUT_MS: 'time limit for a connection between requests',
  INGEST_ENQUEUE_TIMEOUT_MS:
    'time limit for the queue. It must be shorter than the request timeout and the drain timeout',
  INGEST_DRAIN_TIMEOUT_MS: 'time limit for an orderly stop; after it, the process closes its remaining connections',
  INGEST_DRAIN_DELAY_MS:
    'time that a stopping gateway keeps listening after it reports that it is not ready. ' +
    'This delay plus the enqueue timeout must be shorter than the drain timeout',
  INGEST_SHED_MS:
    'time limit for a queue with `dispatcher://`, instead of `INGEST_ENQUEUE_TIMEOUT_MS`; after it, the event is ' +
    'shed',

  INGEST_CONSUMER_ADDR:
    'the address, over plain HTTP, for the status page (`/`), `/health/live`, `/health/ready` and `/metrics`; ' +
    'keep it private',
  INGEST_SCHEMAS_DIR:
    'folder with a JSON Schema (2020-12), `<type>.json`, for each event type; events that do not match are quarantined',
  INGEST_CONSUMER_BATCH_MAX:
    'maximum number of events in one transaction, and up to eight times as many while the consumer catches up. ' +
    'At most 4 MiB of bodies wait in memory, and a transaction writes at most 16 MiB',
  INGEST_CONSUMER_REPLICAS_MAX: 'maximum number of consumers of one queue; one more refuses to start (exit 5)',
};

export const KEYS = Object.keys(SETTINGS) as readonly Key[];

/** The settings that every operator needs. deploy/configure.md lists the others as advanced. */
export const FIRST_KEYS: readonly Key[] = [
  'INGEST_QUEUE_URI',
  'INGEST_QUEUE_DURABILITY',
  'INGEST_WAREHOUSE_URI',
  'INGEST_GATEWAY_ADDR',
  'INGEST_ADMIN_ADDR',
  'INGEST_TLS_CERT',
  'INGEST_TLS_KEY',
  'INGEST_TLS_CLIENT_CA',
  'INGEST_PRODUCERS_FILE',
  'INGEST_CONSUMER_ADDR',
];

/** All keys, including the `_URI_FILE` forms. */
export const KNOWN_KEYS: readonly string[] = KEYS.flatMap((key) =>
  SETTINGS[key].kind === 'uri' ? [key, `${key}_FILE`] : [key],
);

export function settingsOf(program: Program): readonly (readonly [Key, Setting])[] {
  return KEYS.map((key) => [key, SETTINGS[key]] as const).filter(([, { programs }]) => programs.includes(program));
}
