// Formats the table of settings as text for --help, deploy/configure.md, the files in /etc/ingest, and the log.
import type { Environment } from './env.ts';
import { maskedValue } from './uri.ts';
import type { Program, Setting } from './setting.ts';
import { FIRST_KEYS, KEYS, SETTINGS, settingsOf, type Key } from './settings.ts';

const WIDTH = 110;
const INDENT = '      ';

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
    'If too few do so in time, the answer is `503 QUEUE_UNAVAILABLE`. `ingest-admin status` shows it if it is set',
  INGEST_QUEUE_DURABILITY:
    'with `require`, the gateway refuses to start (exit 4) if Redis evicts keys, keeps nothing on disk, has fewer ' +
    'replicas than `INGEST_QUEUE_REPLICAS`, or has replicas while that is 0. If it starts while Redis rewrites its ' +
    'append-only file, it is not ready until the rewrite has finished',
  INGEST_WAREHOUSE_URI:
    'the warehouse: `sqlite:<path>`, percent-encoded, or `postgres://user:password@host/database`, with ' +
    '`?sslmode=verify-full` over TLS (`require` and `verify-ca` verify the name of the server too; `sslrootcert`: ' +
    "the path of the server's authority, `sslcert` and `sslkey`: a client certificate); " +
    'without it, the gateway looks up events only in the queue, which keeps them for 24 hours',
  INGEST_STATE_DIR:
    'folder for development certificates and embedded data; `run.json` there names the queue and the warehouse of a ' +
    'running `make ingest-run`, which `ingest-admin` uses if no URI is set and the file is yours',
  INGEST_LOG_LEVEL:
    'the least severe level that is logged, as text if standard output is a terminal, and otherwise as JSON',
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
    'maximum number of bytes of events in progress. Unread answers and unhandled requests may use what is left of ' +
    'them, and those of one producer a quarter; above that, the gateway closes the connection that holds the most',
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
    '`node` switches off the fast path for whole plain events, which saves about 20 µs of CPU time per event. ' +
    'Use it if the fast path has a bug',
  INGEST_REQUEST_TIMEOUT_MS: 'time limit for a whole request; its head must arrive within half of it',
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

export function settingsHelp(program: Program): string {
  const lines = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const facts = [fallback === 'required' ? fallback : `default: ${fallback}`, valuesText(key, setting)];
    const known = facts.filter((fact) => fact !== '').join('; ');
    return `  ${key} (${known})\n${wrapped(MEANINGS[key].replaceAll('`', ''))}`;
  });
  const source = 'from the environment (a key ending in _URI also as _URI_FILE, the path of a file that holds it)';
  return `Settings, ${source}:\n${lines.join('\n')}\n`;
}

/** Returns the text for --help. `exits` describes the exit codes that only this daemon uses. */
export function daemonHelp(
  program: Program,
  { summary, connected, exits }: Readonly<Record<'summary' | 'connected' | 'exits', string>>,
): string {
  const name = `ingest-${program}`;
  return `${name}: ${summary}

  ${name}                  start, with the configuration in the environment
  ${name} --check          check the configuration and its files; exit 0 or 2
  ${name} --check=connect  also connect to ${connected}, and report what it finds
  ${name} --version        print the version
  ${name} --help           print this

${settingsHelp(program)}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, ${exits}.
`;
}

/** Returns the environment file of a service. Every setting in it is commented out: `#KEY=default`. */
export function environmentFile(program: Program): string {
  const settings = settingsOf(program).map(([key, setting]) => {
    const fallback = defaultText(setting, program);
    const value = ['none', 'required'].includes(fallback) ? '' : fallback;
    return `${wrapped(MEANINGS[key].replaceAll('`', ''), '# ')}\n#${key}=${value}\n`;
  });
  return `# Settings of ingest-${program}: KEY=value. The comments show the defaults.\n\n${settings.join('\n')}`;
}

/** Returns the settings of this program that are set in the environment, with secrets masked. */
export function shownSettings(environment: Environment, program: Program): Readonly<Record<string, string>> {
  const names = settingsOf(program).flatMap(([key, setting]) => ('schemes' in setting ? [key, `${key}_FILE`] : [key]));
  const given = names.map((name) => [name, environment[name] ?? ''] as const).filter(([, value]) => value !== '');
  return Object.fromEntries(given.map(([key, value]) => [key, maskedValue(key, value)]));
}

/** Returns all settings as Markdown lists for deploy/configure.md. */
export function settingsLists(): string {
  const advanced = KEYS.filter((key) => !FIRST_KEYS.includes(key));
  return `${FIRST_KEYS.map(definition).join('\n')}

### Advanced settings

The defaults fit most installations.

${advanced.map(definition).join('\n')}`;
}

/** Returns a list item: the key, its default, its values, the programs that read it, and its meaning. */
function definition(key: Key): string {
  const setting: Setting = SETTINGS[key];
  const fallback = defaultText(setting);
  const isWord = fallback === 'none' || fallback.startsWith('required');
  const initially = isWord ? fallback.replace('none', 'no default') : `default \`${fallback}\``;
  const facts = [initially, valuesText(key, setting)].filter((fact) => fact !== '').join('; ');
  const sentence = `${MEANINGS[key].replace(/^[a-z]/, (letter) => letter.toUpperCase())}.`;
  const term = wrapped(`**\`${key}\`** (${facts}; read by ${setting.programs.join(', ')})\\`, '  ');
  return `* ${term.trimStart()}\n${wrapped(sentence, '  ')}`;
}

/** Returns the default, or a text that is true for all programs if `program` is undefined. */
function defaultText(setting: Setting, program?: Program): string {
  if (!('schemes' in setting)) return setting.initially;
  const { required, programs } = setting;
  if (program !== undefined) return required.includes(program) ? 'required' : 'none';
  if (required.length === programs.length) return 'required';
  return required.length === 0 ? 'none' : `required by ${required.join(', ')}`;
}

function valuesText(key: Key, setting: Setting): string {
  if ('schemes' in setting) return '';
  const unit = /_(MS|BYTES)(?:_MAX)?$/.exec(key)?.[1] ?? '';
  return `${setting.values} ${unit.toLowerCase()}`.trim();
}

const wrapped = (text: string, indent = INDENT): string =>
  text.replaceAll(new RegExp(`(.{1,${WIDTH - indent.length}})(?: |$)`, 'g'), `${indent}$1\n`).trimEnd();
