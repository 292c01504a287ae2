import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readOperatorFileOnce } from '../process/operator-file.ts';
import { PIPELINING_MAX } from './connections.ts';
import { gatewayUrl } from './identity.ts';
import { codeOf } from './input.ts';
import { positionOf } from './position.ts';
import { freeName, whyUnwritable } from './refused-file.ts';

export const HELP = `ingest-send: sends events, one JSON object on each line, to the gateway.

Usage: ingest-send [options] [FILE]    FILE may be .gz or .zst; "-" is standard input (default)
  --url URL          default: that of "make ingest-run", or https://127.0.0.1:8443
  --cert FILE, --key FILE, --ca FILE    PEM (default: development certificates)
  --token FILE       a bearer token
  --concurrency N    events in flight (default 64)
  --connections N    default 4
  --pipelining N     unanswered requests on a connection (default 16)
  --rate N           events started in a second
  --tries N          tries of an event (default 10)
  --timeout MS       limit of one try (default 30000)
  --resend FILE      send the events of a refused file again
  --sample N         send N sample events instead of a file
  --refused FILE     a new file for refused events (default: FILE.refused)
  --json             print the summary as one JSON object
  --quiet            print only the summary and errors
  --help, --version

An event is sent again after "retryable": true, or no answer. Its id makes that safe.
A line of the refused file is {"line","code","status","answer","body"} ("bodyBase64" if it is not UTF-8).
FILE.position has the line after which the next run continues: all events up to it were accepted, or refused for good.
The next run sends events again after 401, 403 (but not TYPE_NOT_ALLOWED), ROUTE_NOT_FOUND or the last try.

Exit codes: 0 all events accepted, 1 some not, 2 wrong usage or a file that cannot be read or written, 130 interrupted.
`;

const IDENTITY = ['cert', 'key', 'ca', 'token'] as const;
const NUMBERS = ['concurrency', 'connections', 'pipelining', 'rate', 'tries', 'timeout', 'sample'] as const;

const optionsOf = <Name extends string, const Option>(option: Option, ...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, option])) as Record<Name, Option>;

export type SendSettings = Exclude<ReturnType<typeof readSettings>, string>;

/**
 * `stateFolder` contains the development certificates. `runningUrl` is the URL of a running `make ingest-run`. Throws
 * an Error whose message names the mistake.
 */
export function readSettings(args: readonly string[], stateFolder: string, runningUrl: () => string | undefined) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...optionsOf({ type: 'string' }, ...IDENTITY, ...NUMBERS, 'url', 'resend', 'refused'),
      ...optionsOf({ type: 'boolean', default: false }, 'quiet', 'json', 'help', 'version'),
    },
  });
  if (values.help) return 'help';
  if (values.version) return 'version';
  const modes = [values.resend, values.sample].filter((value) => value !== undefined);
  if (positionals.length + modes.length > 1) throw new Error('expected one file at a time');
  const file = values.resend ?? (positionals[0] === '-' ? undefined : positionals[0]);
  const url = urlOf(values.url ?? runningUrl() ?? 'https://127.0.0.1:8443');
  const numbers = {
    concurrency: integer('concurrency', values.concurrency, 1_000),
    connections: integer('connections', values.connections, 1_000),
    pipelining: integer('pipelining', values.pipelining, PIPELINING_MAX),
    ratePerS: integer('rate', values.rate, 1_000_000),
    tries: integer('tries', values.tries, 1_000_000),
    timeoutMs: integer('timeout', values.timeout, 3_600_000),
  };
  return {
    url,
    options: { url, ...identity(values, join(stateFolder, 'tls')), ...numbers },
    /** `undefined` means standard input. */
    file,
    resend: values.resend !== undefined,
    sample: integer('sample', values.sample, 1_000_000),
    refusedFile: refusedFile(values.refused, file),
    quiet: values.quiet,
    json: values.json,
  };
}

function urlOf(text: string): URL {
  try {
    const url = gatewayUrl(text);
    if (url.protocol === 'https:') return url;
  } catch (cause) {
    throw new Error(`--url ${(cause as Error).message}`, { cause });
  }
  throw new Error(`--url ${text}: expected an https URL`);
}

function refusedFile(name: string | undefined, file: string | undefined): string {
  const stem = (file ?? 'ingest-send').replace(/\.refused(\.\d+)?$/, '');
  const path = name ?? freeName(`${stem}.refused`);
  const isPosition = file !== undefined && resolve(path) === resolve(positionOf(file));
  const why = isPosition ? 'the position of the run is kept there' : whyUnwritable(path);
  if (why !== undefined) throw new Error(`--refused ${path}: ${why}; name another file with --refused`);
  return path;
}

function identity(paths: Partial<Record<(typeof IDENTITY)[number], string>>, folder: string) {
  const hasFiles = paths.cert !== undefined || paths.key !== undefined;
  if (hasFiles && (paths.cert === undefined || paths.key === undefined))
    throw new Error('expected --cert and --key together');
  const ca = paths.ca ?? (hasFiles ? undefined : join(folder, 'ca.pem'));
  return {
    cert: readText('--cert', paths.cert ?? join(folder, 'producer.pem')),
    key: readText('--key', paths.key ?? join(folder, 'producer-key.pem')),
    ca: ca === undefined ? undefined : readText('--ca', ca),
    token: paths.token === undefined ? undefined : readText('--token', paths.token).trim(),
  };
}

function readText(option: string, path: string): string {
  try {
    return readOperatorFileOnce(path).toString();
  } catch (cause) {
    throw new Error(`${option} ${path}: expected a readable file (${codeOf(cause)})`, { cause });
  }
}

function integer(option: string, value: string | undefined, max: number): number | undefined {
  if (value === undefined) return undefined;
  const number = /^\d{1,9}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > max) throw new Error(`--${option} ${value}: expected a whole number from 1 to ${max}`);
  return number;
}

/** Replaces the names of the library's options with those of the program. */
export const inOptions = (text: string): string =>
  text
    .replaceAll(/"(url|cert|key|ca|token|tries)"/g, '--$1')
    .replace(/^(cert|key|ca|token)(?=: )/, '--$1')
    .replace(/^cert, key(?=: )/, '--cert, --key');
