// Reads configuration from an environment: raw text in, parsed values out, every problem in one report.
//
// A program declares its keys as it reads them (`EnvReader.text`, `.integer`, …). Nothing throws while reading: problems
// are collected, each with key, value (secrets masked) and what is wanted, so that an operator mends them in one
// go. Keys of this prefix that nobody asked for are warnings that name the nearest known key.
import { readFileSync } from 'node:fs';

export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = 'INGEST_';

/** Every key of the project. A key that the running program does not read is still known: programs share one environment. */
export const KNOWN_KEYS: readonly string[] = [
  'INGEST_QUEUE_URI',
  'INGEST_QUEUE_URI_FILE',
  'INGEST_QUEUE_DURABILITY',
  'INGEST_QUEUE_UNLANDED_HOURS_MAX',
  'INGEST_GATEWAY_ADDR',
  'INGEST_SHED_MS',
  'INGEST_LOG_LEVEL',
  'INGEST_TLS_CERT',
  'INGEST_TLS_KEY',
  'INGEST_TLS_CLIENT_CA',
  'INGEST_TLS_CLIENT_CRL',
  'INGEST_AUDIENCE',
  'INGEST_TOKEN_JWKS',
  'INGEST_TOKEN_ISSUER',
  'INGEST_WAREHOUSE_URI',
  'INGEST_WAREHOUSE_URI_FILE',
  'INGEST_STATE_DIR',
  'INGEST_BODY_BYTES_MAX',
  'INGEST_IN_FLIGHT_MAX',
  'INGEST_IN_FLIGHT_BYTES_MAX',
  'INGEST_CONNECTIONS_MAX',
  'INGEST_HANDSHAKE_TIMEOUT_MS',
  'INGEST_HEADERS_TIMEOUT_MS',
  'INGEST_REQUEST_TIMEOUT_MS',
  'INGEST_IDLE_TIMEOUT_MS',
  'INGEST_ENQUEUE_TIMEOUT_MS',
  'INGEST_DRAIN_TIMEOUT_MS',
  'INGEST_CONSUMER_ADDR',
  'INGEST_CONSUMER_BATCH_MAX',
  'INGEST_CONSUMER_REPLICAS_MAX',
  'INGEST_TEST_POSTGRES_URI',
];

/** host:port as a bind address. `port` 0 asks the system for a free one. */
export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

export interface EnvReport {
  /** One line each: `KEY=value: what is wanted`. Not empty: the process must not start. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** The environment of this process, taken once. */
export function processEnvironment(): Environment {
  return { ...process.env };
}

export class EnvReader {
  readonly #environment: Environment;
  readonly #problems: string[] = [];

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Adds a problem that only the caller can see, e.g. two values that do not go together. */
  problem(key: string, wanted: string, value = this.#environment[key]): void {
    this.#problems.push(
      value === undefined || value === '' ? `${key}: ${wanted}` : `${key}=${shown(key, value)}: ${wanted}`,
    );
  }

  /** The value as it stands; an empty one counts as unset. */
  text(key: string): string | undefined;
  text(key: string, fallback: string): string;
  text(key: string, fallback?: string): string | undefined {
    const value = this.#environment[key];
    return value === undefined || value === '' ? fallback : value;
  }

  integer(key: string, fallback: number, min: number, max: number): number {
    const value = this.text(key);
    if (value === undefined) return fallback;
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    this.problem(key, `a whole number from ${min} to ${max} is wanted`);
    return fallback;
  }

  oneOf<const T extends string>(key: string, fallback: T, allowed: readonly T[]): T {
    const value = this.text(key);
    if (value === undefined) return fallback;
    const found = allowed.find((name) => name === value);
    if (found !== undefined) return found;
    this.problem(key, `one of ${allowed.join(', ')} is wanted`);
    return fallback;
  }

  /** `host:port`, `[v6]:port`, `:port` is refused; port 0 = any free one. */
  address(key: string, fallback: BindAddress): BindAddress {
    const value = this.text(key);
    if (value === undefined) return fallback;
    const match = /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^:[\]\s/]+)):(\d{1,5})$/.exec(value);
    const port = Number(match?.[3] ?? Number.NaN);
    const host = match?.[1] ?? match?.[2];
    if (host !== undefined && port <= 65535) return { host, port };
    this.problem(key, 'host:port or [v6-address]:port is wanted, with a port from 0 to 65535');
    return fallback;
  }

  /**
   * A URI, from `key` or from the file that `key_FILE` names (a mounted secret; its last line break is dropped).
   * `schemes` are with their colon, e.g. `redis:`. Undefined when unset or wrong (then a problem is noted).
   */
  uri(key: string, schemes: readonly string[], required: boolean): string | undefined {
    const value = this.#uriText(key);
    if (value === null) return undefined;
    const wanted = `a URI that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')} is wanted`;
    if (value === undefined) {
      if (required) this.problem(key, `is required: ${wanted} (or ${key}_FILE, the path of a file that holds it)`, '');
      return undefined;
    }
    // sqlite:<path> has no authority, so it is no URL that the URL class would always read.
    const scheme = schemes.find((name) => value.startsWith(name));
    if (scheme !== undefined && (scheme === 'sqlite:' ? value.length > scheme.length : isUrl(value, scheme)))
      return value;
    this.problem(key, wanted.replace('sqlite://', 'sqlite:<path>'), value);
    return undefined;
  }

  /** The text of a URI; undefined when unset, null when its file gave a problem. */
  #uriText(key: string): string | undefined | null {
    const direct = this.text(key);
    const path = this.text(`${key}_FILE`);
    if (path === undefined) return direct;
    if (direct !== undefined) {
      this.problem(`${key}_FILE`, `only one of ${key} and ${key}_FILE may be set`);
      return null;
    }
    try {
      const text = readFileSync(path, 'utf8').trim();
      if (text !== '') return text;
      this.problem(`${key}_FILE`, 'the file is empty; it must hold the URI');
    } catch (cause) {
      this.problem(`${key}_FILE`, `a readable file is wanted (${errno(cause)})`);
    }
    return null;
  }

  report(): EnvReport {
    return { problems: [...this.#problems], warnings: unknownKeys(this.#environment) };
  }
}

function isUrl(value: string, scheme: string): boolean {
  return value.startsWith(`${scheme}//`) && URL.canParse(value) && new URL(value).hostname !== '';
}

/** The name of a system error (`ENOENT`), for messages. */
export function errno(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
}

/** The value as a person may see it: passwords and tokens in URIs are masked, and so is a URI that cannot be read. */
export function shown(key: string, value: string): string {
  return JSON.stringify(key.endsWith('_URI') ? maskedUri(value) : value);
}

/** A URI without its password, query and fragment; `redis://user:***@host:6379/0`. `sqlite:<path>` holds no secret. */
export function maskedUri(value: string): string {
  if (value.startsWith('sqlite:')) return value;
  // Without an authority (`redis:user:password@host`, its slashes forgotten) nobody can tell what is the password.
  if (!URL.canParse(value) || new URL(value).host === '') return '***';
  const url = new URL(value);
  if (url.password !== '') url.password = '***';
  if (url.search !== '') url.search = '?***';
  // A `#` in a password that was not percent-encoded makes a fragment of its rest.
  if (url.hash !== '') url.hash = '#***';
  return url.href;
}

function unknownKeys(environment: Environment): string[] {
  const warnings: string[] = [];
  for (const key of Object.keys(environment)) {
    if (!key.startsWith(PREFIX) || KNOWN_KEYS.includes(key)) continue;
    const distances = KNOWN_KEYS.map((known) => editDistance(key, known));
    const least = Math.min(...distances);
    const nearest = KNOWN_KEYS.filter((_, at) => distances[at] === least);
    warnings.push(`${key} is not a known key; the nearest one is ${nearest.join(' or ')}`);
  }
  return warnings;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
