import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readOperatorFileOnce } from '../process/operator-file.ts';
import { PIPELINING_MAX } from './connections.ts';
import { gatewayUrl } from './identity.ts';
import { codeOf } from './input.ts';
import { positionOf } from './position.ts';
import { freeName, whyUnwritable } from './refused-file.ts';

export const HELP = `ingest-send: sends events, one JSON object on each line, to the gateway.

Usage: ingest-send [options] [FILE]      FILE or "-" for standard input (default); FILE.gz and FILE.zst are decompressed
  --url URL          the gateway (default https://127.0.0.1:8443)
  --cert FILE        client certificate, PEM   } default: the development certificates
  --key FILE         its key, PEM              } that a gateway made in INGEST_STATE_DIR
  --ca FILE          the gateway's CA, PEM     } (.ingest); with --cert, --ca defaults to Node's authorities
  --token FILE       a bearer token, if the gateway requires one
  --concurrency N    maximum of events in flight, limited by connections x pipelining (default 64)
  --connections N    connections to the gateway (default 4; with --pipelining 1 as many as --concurrency)
  --pipelining N     maximum of unanswered requests on a connection, 1 to 32 (default 16)
  --rate N           maximum of events started in a second (default: no limit)
  --tries N          tries for one event (default 10, or 3 at an address that was never reached)
  --timeout MS       time limit of one try, up to the last byte of its answer (default 30000)
  --resend FILE      send the events of a refused file again
  --sample N         send N sample events with new ids, instead of a file
  --refused FILE     a new file for refused events, created if there are any (default: FILE.refused, or
                     ingest-send.refused for standard input; with a number if that exists)
  --json             print the summary as one JSON object
  --quiet            print only the summary and errors
  --help, --version

An event is sent again only if the answer's body says "retryable": true, or if no gateway answered. Its id makes that
safe. Pauses double from 0.1 s to 10 s with 50 % jitter and are never shorter than Retry-After, up to five minutes. A
run stops if the server's certificate is not trusted, and if the first 10 answers are all 401 or 403.
Each line of the refused file is {"line","code","status","answer","body"} ("bodyBase64" if the bytes are not UTF-8).
The next run of an interrupted file continues after the line in FILE.position. To send all events again, remove that
file. This is safe: they are "duplicate", and also "differing" if the gateway has another body for the id.
Do not use "." or ".." as an event's id: many HTTP clients cannot look it up.

Exit codes: 0 all events were accepted, 1 some were not, 2 wrong usage, or a file that cannot be read or written,
130 interrupted.
`;

export type SendSettings = Exclude<ReturnType<typeof readSettings>, string>;

/** `stateFolder` contains the development certificates. Throws an Error whose message names the mistake. */
export function readSettings(args: readonly string[], stateFolder: string) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      url: { type: 'string', default: 'https://127.0.0.1:8443' },
      cert: { type: 'string' },
      key: { type: 'string' },
      ca: { type: 'string' },
      token: { type: 'string' },
      concurrency: { type: 'string' },
      connections: { type: 'string' },
      pipelining: { type: 'string' },
      rate: { type: 'string' },
      tries: { type: 'string' },
      timeout: { type: 'string' },
      resend: { type: 'string' },
      sample: { type: 'string' },
      refused: { type: 'string' },
      quiet: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      version: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  if (values.version) return 'version';
  const given = [values.resend, values.sample].filter((value) => value !== undefined);
  if (positionals.length + given.length > 1) throw new Error('expected one file at a time');
  const file = values.resend ?? (positionals[0] === '-' ? undefined : positionals[0]);
  const url = urlOf(values.url);
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
    /** True if the file contains refused events. */
    resend: values.resend !== undefined,
    /** The number of sample events to send instead of a file. */
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

function refusedFile(given: string | undefined, file: string | undefined): string {
  const stem = (file ?? 'ingest-send').replace(/\.refused(\.\d+)?$/, '');
  const path = given ?? freeName(`${stem}.refused`);
  const isPosition = file !== undefined && resolve(path) === resolve(positionOf(file));
  const why = isPosition ? 'the position of the run is kept there' : whyUnwritable(path);
  if (why !== undefined) throw new Error(`--refused ${path}: ${why}; name another file with --refused`);
  return path;
}

function identity(paths: Partial<Record<'cert' | 'key' | 'ca' | 'token', string>>, folder: string) {
  const given = paths.cert !== undefined || paths.key !== undefined;
  if (given && (paths.cert === undefined || paths.key === undefined))
    throw new Error('expected --cert and --key together');
  const ca = paths.ca ?? (given ? undefined : join(folder, 'ca.pem'));
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
