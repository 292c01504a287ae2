// ingest-send: sends events from a file or standard input to the gateway, as a producer should.
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { isUtf8 } from 'node:buffer';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { parseArgs } from 'node:util';
import { SingleBar } from 'cli-progress';
import { errno, processEnvironment } from '../lib/process/env.ts';
import { version } from '../lib/process/program.ts';
import { GatewayClient, type ClientIdentity } from '../lib/send/gateway-client.ts';
import { lines } from '../lib/send/lines.ts';
import { sendAll, type Refusal, type Summary } from '../lib/send/sender.ts';

const EXIT = { allAccepted: 0, notAll: 1, usage: 2, interrupted: 130 } as const;

const PROGRESS_INTERVAL_MS = 200;

const HELP = `ingest-send: sends events, one JSON object on each line, to the gateway.

Usage: ingest-send [options] [FILE]      FILE or "-" for standard input (default)
  --url URL          the gateway (default https://127.0.0.1:8443)
  --cert FILE        client certificate, PEM   } default: the development certificates
  --key FILE         its key, PEM              } in INGEST_STATE_DIR (.ingest), where
  --ca FILE          the gateway's CA, PEM     } a gateway made them
  --token FILE       a bearer token, where the gateway wants one
  --concurrency N    events on their way at a time (default 16)
  --tries N          tries for one event (default 10)
  --timeout MS       time for one answer (default 30000)
  --refused FILE     where refused events go (default: FILE.refused, or ingest-send.refused for
                     standard input; written only when there are any)
  --quiet            no progress bar (there is none either when standard error is no terminal)
  --help, --version

An event is sent again only when the answer's body says "retryable": true, or when no answer came (its id makes that
safe); with pauses that double from 0.1 s to 10 s, half of each chance, and are never shorter than Retry-After.
Each line of the refused file is {"line","code","status","answer","body"} ("bodyBase64" where the bytes are no UTF-8).
A run that was interrupted is simply run again: what the gateway has already counts as a duplicate.

Exit codes: 0 all were accepted, 1 not all were, 2 wrong usage, 130 interrupted.
`;

interface Settings {
  readonly url: URL;
  readonly identity: ClientIdentity;
  readonly file: string | undefined;
  readonly concurrency: number;
  readonly triesMax: number;
  readonly timeoutMs: number;
  readonly refusedFile: string;
  readonly quiet: boolean;
}

async function main(): Promise<void> {
  const settings = readSettings(process.argv.slice(2));
  const client = new GatewayClient({ ...settings, connectionsMax: settings.concurrency });
  const progress = showProgress(settings);
  const refused = new RefusedFile(settings.refusedFile);
  const interrupted = stopSignal();
  const input = settings.file === undefined ? process.stdin : createReadStream(settings.file);
  const summary = await sendAll(lines(input as AsyncIterable<Buffer>), {
    send: (body) => client.send(body),
    concurrency: settings.concurrency,
    triesMax: settings.triesMax,
    signal: interrupted,
    onRefused: (refusal) => refused.add(refusal),
    onDone: ({ endByte }) => progress?.update(endByte),
  });
  progress?.stop();
  input.destroy();
  client.close();
  await refused.close();
  print(told(summary, refused.path));
  const refusals = [...summary.refused.values()].reduce((sum, count) => sum + count, 0);
  if (interrupted.aborted) process.exit(EXIT.interrupted);
  process.exit(refusals === 0 ? EXIT.allAccepted : EXIT.notAll);
}

function readSettings(args: string[]): Settings {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        url: { type: 'string', default: 'https://127.0.0.1:8443' },
        cert: { type: 'string' },
        key: { type: 'string' },
        ca: { type: 'string' },
        token: { type: 'string' },
        concurrency: { type: 'string', default: '16' },
        tries: { type: 'string', default: '10' },
        timeout: { type: 'string', default: '30000' },
        refused: { type: 'string' },
        quiet: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        version: { type: 'boolean', default: false },
      },
    });
    if (values.help || values.version) {
      print(values.help ? HELP : `ingest-send ${version()}\n`);
      process.exit(0);
    }
    if (positionals.length > 1) throw new Error('one file at a time is wanted');
    const file = positionals[0] === '-' ? undefined : positionals[0];
    if (file !== undefined && !existsSync(file)) throw new Error(`${file}: no such file`);
    if (!URL.canParse(values.url) || new URL(values.url).protocol !== 'https:')
      throw new Error(`--url ${values.url}: an https URL is wanted`);
    return {
      url: new URL(values.url),
      identity: identity(values),
      file,
      concurrency: integer('concurrency', values.concurrency, 1_000),
      triesMax: integer('tries', values.tries, 1_000_000),
      timeoutMs: integer('timeout', values.timeout, 3_600_000),
      refusedFile: values.refused ?? `${file ?? 'ingest-send'}.refused`,
      quiet: values.quiet,
    };
  } catch (cause) {
    process.stderr.write(`ingest-send: ${cause instanceof Error ? cause.message : String(cause)}; see --help\n`);
    process.exit(EXIT.usage);
  }
}

function identity(paths: { cert?: string; key?: string; ca?: string; token?: string }): ClientIdentity {
  const folder = join(processEnvironment()['INGEST_STATE_DIR'] ?? '.ingest', 'tls');
  const given = paths.cert !== undefined || paths.key !== undefined;
  if (given && (paths.cert === undefined || paths.key === undefined))
    throw new Error('--cert and --key are wanted together');
  const ca = paths.ca ?? (given ? undefined : join(folder, 'ca.pem'));
  const pem = {
    cert: readText('--cert', paths.cert ?? join(folder, 'producer.pem')),
    key: readText('--key', paths.key ?? join(folder, 'producer-key.pem')),
    ca: ca === undefined ? undefined : readText('--ca', ca),
  };
  try {
    createSecureContext({ cert: pem.cert, key: pem.key, ...(pem.ca === undefined ? {} : { ca: pem.ca }) });
  } catch (cause) {
    throw new Error(`--cert, --key, --ca: PEM files that belong together are wanted (${errno(cause)})`, { cause });
  }
  return { ...pem, token: paths.token === undefined ? undefined : readText('--token', paths.token).trim() };
}

function readText(option: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new Error(`${option} ${path}: a readable file is wanted (${errno(cause)})`, { cause });
  }
}

function integer(option: string, value: string, max: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > max) throw new Error(`--${option} ${value}: a whole number from 1 to ${max} is wanted`);
  return number;
}

/** Aborts at the first signal: what is on its way is waited for. The second one ends at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => (stop.signal.aborted ? process.exit(EXIT.interrupted) : stop.abort()));
  }
  return stop.signal;
}

interface Progress {
  update(bytes: number): void;
  stop(): void;
}

function showProgress(settings: Settings): Progress | undefined {
  if (settings.quiet || !process.stderr.isTTY || settings.file === undefined) return undefined;
  const bar = new SingleBar({
    stream: process.stderr,
    format: '{bar} {percentage}% | {value}/{total} bytes | {eta_formatted} left',
    hideCursor: true,
  });
  bar.start(statSync(settings.file).size, 0);
  // Lanes finish out of order; the bar never goes back. It moves at an even pace, from which it tells the time left.
  let furthest = 0;
  const timer = setInterval(() => bar.update(furthest), PROGRESS_INTERVAL_MS);
  return {
    update: (bytes) => (furthest = Math.max(furthest, bytes)),
    stop: () => {
      clearInterval(timer);
      bar.update(furthest);
      bar.stop();
    },
  };
}

/** The refused events of this run. The file is made, empty, at the first of them. */
class RefusedFile {
  readonly path: string;
  #file: Promise<FileHandle> | undefined;

  constructor(path: string) {
    this.path = path;
  }

  async add({ line, code, status, answer }: Refusal): Promise<void> {
    const body = isUtf8(line.bytes)
      ? { body: line.bytes.toString('utf8') }
      : { bodyBase64: line.bytes.toString('base64') };
    const file = await (this.#file ??= open(this.path, 'w'));
    await file.appendFile(`${JSON.stringify({ line: line.number, code, status, answer, ...body })}\n`);
  }

  async close(): Promise<void> {
    await (await this.#file)?.close();
  }
}

function told(summary: Summary, refusedFile: string): string {
  const told = [
    `accepted ${summary.accepted}, of these duplicate ${summary.duplicates}; tried again ${summary.retries} times`,
  ];
  for (const [code, count] of [...summary.refused].sort()) told.push(`refused ${count} ${code}`);
  if (summary.refused.size > 0) told.push(`the refused events and their answers are in ${refusedFile}`);
  if (summary.interrupted > 0)
    told.push(`interrupted before an answer: ${summary.interrupted}; run again to send the rest`);
  return `${told.join('\n')}\n`;
}

const print = (text: string): void => void process.stdout.write(text);

await main();
