// `make ingest-run` starts a private Redis (unless INGEST_QUEUE_URI is set), a consumer with a SQLite warehouse
// (unless INGEST_WAREHOUSE_URI is set), and the gateway. Then it prints commands to try.
//
// All parts are stopped on Ctrl-C or SIGTERM, if the terminal is closed, or if one exits: the gateway first, because it
// needs the queue to drain, and Redis last. Each part has its own process group, so Ctrl-C in a terminal, or its end,
// reaches only this process.
import './early-signals.ts';
import { spawn, execFileSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { SYSTEM } from '../lib/process/clock.ts';
import { makeFolder } from '../lib/process/make-folder.ts';
import { messageOf } from '../lib/process/message-of.ts';
import { sqliteUri } from '../lib/process/uri.ts';
import { textLine } from '../lib/process/log.ts';
import { askOnce } from '../lib/redis/server/ask-once.ts';
import { complainer, endNow, endWritten, onOutputFailure, onSignals, print } from './terminal.ts';
import { readRunFile, type RunFile } from './state-folder.ts';

const root = resolve(import.meta.dirname, '..');
const stateDir = resolve(process.env['INGEST_STATE_DIR'] ?? '.ingest');
const LISTENING = /listening on (https?:\/\/[^\s"]+)/;
const STATUS_PAGE = /process endpoints on (http:\/\/[^\s"]+)/;
const REDIS_OPTIONS = [
  ...['--save', '', '--appendonly', 'yes', '--appendfsync', 'everysec', '--maxmemory-policy', 'noeviction'],
  ...['--stream-node-max-bytes', '32768', '--stream-node-max-entries', '1000', '--loglevel', 'notice'],
];
const complain = complainer('ingest-run');

const parts: ChildProcess[] = [];
let stopping = false;
let exitCode = 0;
/** Log lines are held back until the address of the status page has been printed. Then this is `undefined`. */
let heldLines: string[] | undefined = [];
let releaseFolder = (): void => undefined;

const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

onSignals(onSignal);
// A terminal that closes may send this signal several times.
process.on('SIGHUP', () => void stop());
onOutputFailure(
  'ingest-run',
  () => void stop(),
  () => {
    exitCode = 1;
    void stop();
  },
);
process.on('exit', () => parts.forEach((part) => part.kill('SIGKILL')));

try {
  await main();
} catch (cause) {
  // While the parts are being stopped, it is expected that some of them never started.
  if (!stopping) {
    complain(messageOf(cause));
    exitCode = 1;
    await stop();
  }
}

async function main(): Promise<void> {
  makeFolder(stateDir);
  const folder = await holdFolder(stateDir);
  releaseFolder = folder.release;
  const isSet = (key: string): boolean => [key, `${key}_FILE`].some((name) => process.env[name] !== undefined);
  const made = {
    ...(!isSet('INGEST_QUEUE_URI') && { INGEST_QUEUE_URI: await startRedis() }),
    ...(!isSet('INGEST_WAREHOUSE_URI') && { INGEST_WAREHOUSE_URI: sqliteUri(join(stateDir, 'warehouse.db')) }),
  };
  folder.publish(made);
  const env = { INGEST_ADMIN_ADDR: '127.0.0.1:9465', ...process.env, INGEST_STATE_DIR: stateDir, ...made };
  const [consumer, gateway] = ['ingest-consumer', 'ingest-gateway'].map((name) =>
    startPart(name, join(root, 'bin', name), [], env),
  ) as [ChildProcess, ChildProcess];
  const [address] = await Promise.all([listening('the gateway', gateway), listening('the consumer', consumer)]);
  folder.publish({ ...made, gatewayUrl: address });
  showHeld();
  print(trialText(address));
}

/**
 * Locks the folder until this process exits, because two Redis servers would corrupt a shared append-only file. Rejects
 * if another run, or an earlier run's Redis, still uses it.
 */
async function holdFolder(folder: string) {
  const path = join(folder, 'run.json');
  // The operating system releases the lock on a SQLite file when the process exits, even after SIGKILL.
  const lock = new DatabaseSync(join(folder, 'run.lock'));
  try {
    lock.exec('BEGIN EXCLUSIVE');
  } catch {
    throw new Error(`another run uses ${folder}: end it, or set INGEST_STATE_DIR to another folder`);
  }
  const { INGEST_QUEUE_URI: uri } = readRunFile({ INGEST_STATE_DIR: folder }, () => undefined);
  if (typeof uri === 'string' && (await isServing(uri, join(realpathSync(folder), 'redis'))))
    throw new Error(`the Redis of an earlier run still uses ${folder}: end it with redis-cli -u ${uri} shutdown`);
  return {
    /** Writes run.json, which may be world-readable, because its URIs contain no password. */
    publish: (made: RunFile): void => {
      rmSync(path, { force: true });
      writeFileSync(path, `${JSON.stringify(made)}\n`, { mode: 0o644, flag: 'wx' });
    },
    release: (): void => {
      rmSync(path, { force: true });
      lock.close();
    },
  };
}

/** True if a Redis server at `uri` stores its data in `folder`. Another program may have the port by now. */
async function isServing(uri: string, folder: string): Promise<boolean> {
  const answer = askOnce(SYSTEM, uri, (server) => server.send(['CONFIG', 'GET', 'dir']));
  const reply = await answer.catch(() => undefined);
  return Array.isArray(reply) && reply[1] === folder;
}

function startPart(name: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(command, args, { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  parts.unshift(child);
  child.once('exit', (code, signal) => {
    if (stopping) return;
    exitCode = code ?? 1;
    complain(`${name} ended (${signal ?? code}); ending the rest`);
    void stop();
  });
  return child;
}

function listening(name: string, child: ChildProcess, says = LISTENING, show = showLine): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error(`${name} did not start`)));
    if (child.stdout === null) return;
    createInterface({ input: child.stdout }).on('line', (json) => {
      // The programs log JSON, because they write to a pipe.
      const line = textLine(json).trimEnd();
      show(line);
      const address = says.exec(line)?.[1];
      if (address !== undefined) resolve(address);
    });
  });
}

async function startRedis(): Promise<string> {
  const server = execFileSync(join(root, 'bin/ensure-redis'), { encoding: 'utf8' }).trim();
  const data = join(stateDir, 'redis');
  // The append-only file contains event bodies, so only its owner may read the folder.
  makeFolder(data, 0o700);
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await once(probe.close(), 'close');
  const network = ['--bind', '127.0.0.1', '--port', `${port}`, '--dir', data];
  const child = startPart('redis', server, [...network, ...REDIS_OPTIONS], process.env);
  await listening('Redis', child, /Ready to (accept connections)/, () => undefined);
  showLine(`ingest-run: Redis on 127.0.0.1:${port}, its data in ${data}`);
  return `redis://127.0.0.1:${port}`;
}

function showLine(line: string): void {
  const page = STATUS_PAGE.exec(line)?.[1];
  if (page !== undefined && heldLines !== undefined) {
    print(`Open ${page}/ to watch it.\n`);
    showHeld();
  }
  if (heldLines === undefined) print(`${line}\n`);
  else heldLines.push(line);
}

function showHeld(): void {
  for (const line of heldLines ?? []) print(`${line}\n`);
  heldLines = undefined;
}

function onSignal(): void {
  if (stopping) endNow(130);
  void stop();
}

async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  showHeld();
  for (const child of parts) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exit = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
    await exit;
    clearTimeout(timer);
  }
  releaseFolder();
  await endWritten(exitCode);
}

function trialText(address: string): string {
  const bin = relative(process.cwd(), join(root, 'bin'));
  // If the operator configured certificates, the paths of a producer's files are unknown.
  const ownCertificates = process.env['INGEST_TLS_CERT'] !== undefined;
  const [ca, cert, key] = ownCertificates
    ? ['CA.pem', 'PRODUCER.pem', 'PRODUCER-KEY.pem']
    : ['ca.pem', 'producer.pem', 'producer-key.pem'].map((name) => quoted(join(stateDir, 'tls', name)));
  const folder = process.env['INGEST_STATE_DIR'] === undefined ? '' : `INGEST_STATE_DIR=${quoted(stateDir)} `;
  const curl = `curl -w '\\n' --cacert ${ca} --cert ${cert} --key ${key}`;
  const event = '{"id":"first","type":"example.created","data":{"n":1}}';
  return `
Send an event:
  ${curl} -H 'Content-Type: application/json' -d '${event}' ${address}/events

Look it up; "accepted" becomes "landed" when the consumer has landed it:
  ${curl} ${address}/events/first

Show it in the queue and the warehouse:
  ${folder}${quoted(join(bin, 'ingest-admin'))} event first

Send a hundred sample events:
  ${folder}${quoted(join(bin, 'ingest-send'))}${ownCertificates ? ` --ca ${ca} --cert ${cert} --key ${key}` : ''} --sample 100

Ctrl-C ends everything. To start over, remove the state folder: rm -r ${quoted(stateDir)}

`;
}
