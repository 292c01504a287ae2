// `make ingest-run`: a private Redis unless INGEST_QUEUE_URI is set, a consumer that lands into a SQLite file unless
// INGEST_WAREHOUSE_URI is set, then the gateway, with lines to try it out.
//
// Ctrl-C, SIGTERM or the end of any part ends all of them, the gateway first: it still needs the queue to drain. The
// parts run in process groups of their own, so that a terminal's Ctrl-C reaches this process alone, and Redis is ended
// last.
import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from '../lib/process/free-port.ts';
import { complainer, print } from './output.ts';
import { endNow, endWritten } from './process-end.ts';

const root = resolve(import.meta.dirname, '..');
const stateDir = resolve(process.env['INGEST_STATE_DIR'] ?? '.ingest');
const READY_MS = 10_000;
const complain = complainer('ingest-run');

/** In the order in which they are ended. */
const parts: { readonly name: string; readonly child: ChildProcess }[] = [];
let stopping = false;
let exitCode = 0;

process.on('SIGINT', onSignal);
process.on('SIGTERM', onSignal);
process.on('exit', () => {
  for (const { child } of parts) child.kill('SIGKILL');
});

try {
  await main();
} catch (cause) {
  // While it stops, a part that did not start is a consequence: its end or the signal has been told.
  if (!stopping) {
    complain(cause instanceof Error ? cause.message : String(cause));
    exitCode = 1;
    await stop();
  }
}

async function main(): Promise<void> {
  mkdirSync(stateDir, { recursive: true });
  const queueUri =
    process.env['INGEST_QUEUE_URI'] ??
    (process.env['INGEST_QUEUE_URI_FILE'] === undefined ? await startRedis() : undefined);
  const elsewhere = process.env['INGEST_WAREHOUSE_URI'] ?? process.env['INGEST_WAREHOUSE_URI_FILE'];
  const database = elsewhere === undefined ? join(stateDir, 'warehouse.db') : undefined;
  const env = {
    ...process.env,
    INGEST_STATE_DIR: stateDir,
    // The programs write into a pipe here; people read it.
    INGEST_LOG_FORMAT: process.env['INGEST_LOG_FORMAT'] ?? 'text',
    ...(queueUri === undefined ? {} : { INGEST_QUEUE_URI: queueUri }),
    ...(database === undefined ? {} : { INGEST_WAREHOUSE_URI: `sqlite:${database}` }),
  };
  await listening('the consumer', startPart('ingest-consumer', join(root, 'bin/ingest-consumer'), [], env));
  const address = await listening(
    'the gateway',
    startPart('ingest-gateway', join(root, 'bin/ingest-gateway'), [], env),
  );
  printTrial(address, database);
}

function startPart(name: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(command, args, { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  parts.unshift({ name, child });
  child.once('exit', (code, signal) => {
    if (stopping) return;
    exitCode = code ?? 1;
    complain(`${name} ended (${signal ?? code}); ending the rest`);
    void stop();
  });
  return child;
}

/** Passes the log on, and resolves with the address once it says that it listens. */
function listening(name: string, child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    child.once('exit', () => failed(new Error(`${name} did not start`)));
    if (child.stdout === null) return;
    createInterface({ input: child.stdout }).on('line', (line) => {
      print(`${line}\n`);
      const address = /listening on (https?:\/\/[^\s"]+)/.exec(line)?.[1];
      if (address !== undefined) found(address);
    });
  });
}

async function startRedis(): Promise<string> {
  const server = execFileSync(join(root, 'bin/ensure-redis'), { encoding: 'utf8' }).trim();
  const data = join(stateDir, 'redis');
  mkdirSync(data, { recursive: true });
  const port = await freePort();
  const child = startPart(
    'redis',
    server,
    [
      '--bind',
      '127.0.0.1',
      '--port',
      String(port),
      '--dir',
      data,
      '--save',
      '',
      '--appendonly',
      'yes',
      '--appendfsync',
      'everysec',
      '--maxmemory-policy',
      'noeviction',
      '--stream-node-max-bytes',
      '32768',
      '--stream-node-max-entries',
      '1000',
      '--loglevel',
      'warning',
    ],
    process.env,
  );
  child.stdout?.resume();
  await answering(server.replace(/-server$/, '-cli'), port);
  print(`ingest-run: Redis on 127.0.0.1:${port}, its data in ${data}\n`);
  return `redis://127.0.0.1:${port}`;
}

/** Waits until the server has loaded its data. */
async function answering(cli: string, port: number): Promise<void> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    try {
      const answer = execFileSync(cli, ['-p', String(port), 'PING'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      if (answer.trim() === 'PONG') return;
    } catch {
      // Not there yet.
    }
    if (performance.now() > deadline || stopping) throw new Error('Redis does not answer');
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** `database` is the SQLite file, where this process chose it. */
function printTrial(address: string, database: string | undefined): void {
  const tls = join(stateDir, 'tls');
  const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const development = process.env['INGEST_TLS_CERT'] === undefined;
  const [ca, cert, key] = development
    ? ['ca.pem', 'producer.pem', 'producer-key.pem'].map((name) => quoted(join(tls, name)))
    : ['CA.pem', 'PRODUCER.pem', 'PRODUCER-KEY.pem'];
  const curl = `curl -w '\\n' --cacert ${ca} --cert ${cert} --key ${key}`;
  const event = '{"id":"first","type":"example.created","data":{"n":1}}';
  const ingestSend = relative(process.cwd(), join(root, 'bin/ingest-send'));
  print(
    `\nSend an event:\n` +
      `  ${curl} -H 'Content-Type: application/json' -d '${event}' ${address}/events\n` +
      `\nSee its state; "accepted" turns into "landed" once the consumer has written it:\n` +
      `  ${curl} ${address}/events/first\n` +
      (database === undefined
        ? ''
        : `\nLook into the warehouse, with either:\n${inspections(quoted(database)).join('\n')}\n`) +
      `\nSend a hundred sample events:\n  ${ingestSend} --url ${address} --sample 100\n` +
      `\nCtrl-C ends everything. To begin again with nothing, remove the state folder: rm -r ${quoted(stateDir)}\n\n`,
  );
}

/** `file` is quoted for a shell. */
function inspections(file: string): readonly string[] {
  const query = 'SELECT id, producer, landed_at, body FROM events';
  const database = 'new (require("node:sqlite").DatabaseSync)(process.argv[1],{readOnly:true})';
  const script = `console.table(${database}.prepare("${query}").all())`;
  const node = relative(process.cwd(), join(root, 'bin/node'));
  return [`  sqlite3 -readonly ${file} '${query}'`, `  ${node} -e '${script}' ${file}`];
}

/** A second signal ends all parts at once. */
function onSignal(): void {
  if (stopping) endNow(130);
  void stop();
}

/** Ends the parts one after the other, each with time to stop in order. */
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  for (const { child } of parts) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = new Promise((done) => child.once('exit', done));
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
    await gone;
    clearTimeout(timer);
  }
  await endWritten(exitCode);
}
