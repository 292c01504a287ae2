// Reads files that people name and write: their bytes, all bytes of several files, text that may begin with a byte
// order mark, and JSON without repeated names.
//
// Opening a named pipe waits for a writer, and a device may never end. The process could not even be stopped meanwhile,
// because such a read blocks a thread. Only regular files are read, and pipes for a limited time.
import { hash, X509Certificate } from 'node:crypto';
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  type Stats,
} from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as tls from 'node:tls';
import { SYSTEM } from './clock.ts';
import { messageOf } from './message-of.ts';
import { EXIT, StartFailure } from './program.ts';

/** Revocation lists of large authorities have tens of MiB. */
const BYTES_MAX = 64 << 20;
/** Parsing this much JSON stops the event loop for 1.5 s. It is enough for 300,000 producers. */
export const JSON_BYTES_MAX = 8 << 20;
const PIPE_BYTES_MAX = 1 << 20;
const PIPE_POLLS_MAX = 60;
const PIPE_POLL_MS = 50;
/** The second flag has no effect on regular files. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** Reads a regular file. Rejects with an Error whose `code` says why the file is unreadable, such as `ENOENT`. */
export async function readOperatorFile(path: string, bytesMax = BYTES_MAX): Promise<Buffer> {
  const file = await open(path, FLAGS);
  try {
    checkKind(await file.stat(), bytesMax);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

export type ReadFile = typeof readOperatorFile;

/** The files of some paths at one time. `read` returns the bytes of that time. */
export interface Snapshot {
  readonly metadata: string;
  readonly digest: string;
  readonly read: ReadFile;
}

/** Two changes can have the same time only if they are closer together than this. */
const TIME_STEP_MS = 2_000;

/** Reads files, and the names and contents of the files in folders, unless they are those of `previous`. */
export async function snapshotOf(paths: readonly string[], previous?: Snapshot): Promise<Snapshot> {
  const files = (await Promise.all(paths.map(filesAt))).flat();
  const sinceMs = SYSTEM.clock.epochMs() - TIME_STEP_MS;
  // The metadata of a file that changed just now does not prove its content, so it differs each time.
  const isNew = files.some(({ changedMs }) => changedMs >= sinceMs);
  const metadata = JSON.stringify([files.map(({ file, facts }) => [file, facts]), isNew && SYSTEM.clock.ms()]);
  if (previous?.metadata === metadata) return previous;
  const contents = new Map(
    await Promise.all(
      files.map(async ({ file }) => [file, await readOperatorFile(file).catch((cause: Error) => cause)] as const),
    ),
  );
  const digests = Array.from(contents, ([file, bytes]) => [file, Buffer.isBuffer(bytes) && hash('sha256', bytes)]);
  const read: ReadFile = (path, bytesMax = BYTES_MAX) => {
    const bytes = contents.get(path);
    if (Buffer.isBuffer(bytes) && bytes.length <= bytesMax) return Promise.resolve(bytes);
    return bytes instanceof Error ? Promise.reject(bytes) : readOperatorFile(path, bytesMax);
  };
  return { metadata, digest: hash('sha256', JSON.stringify(digests)), read };
}

async function filesAt(path: string) {
  const status = await statusOf(path);
  const names = status.isFolder ? await readdir(path).catch(() => undefined) : undefined;
  return names === undefined ? [status] : Promise.all(names.sort().map((name) => statusOf(join(path, name))));
}

async function statusOf(file: string) {
  const one = await stat(file, { bigint: true }).catch(() => undefined);
  const facts = one && [one.dev, one.ino, one.size, one.mtimeNs, one.ctimeNs].join(' ');
  return { file, facts, isFolder: one?.isDirectory() === true, changedMs: Number(one?.ctimeMs ?? 0) };
}

/** Returns why a driver could not read a file, or why its read might never end or take too much memory. */
export function fileFault(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    checkKind(statSync(path), BYTES_MAX);
    return undefined;
  } catch (cause) {
    return errno(cause);
  }
}

/** Returns the code of a system error, such as `ENOENT`, for messages. */
export const errorCode = (cause: unknown): string =>
  cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';

/** Returns the code of an error that ended a read of a file. */
export function errno(cause: unknown): string {
  const code = errorCode(cause);
  return code === 'EACCES' ? `EACCES: the user ${process.geteuid?.()} may not read it or one of its folders` : code;
}

/**
 * Trusts the authorities in a PEM file, besides those of Node, in all later connections of this process to servers.
 * Throws a StartFailure.
 */
export function trustServers(path: string | undefined): void {
  if (path === undefined) return;
  try {
    const blocks = textOf(readOperatorFileOnce(path)).match(CERTIFICATE) ?? [];
    if (blocks.length === 0) throw new Error('no certificate in PEM format');
    for (const block of blocks) void new X509Certificate(block);
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), ...blocks]);
  } catch (cause) {
    const why = 'code' in (cause as Error) ? errno(cause) : messageOf(cause);
    throw new StartFailure(
      EXIT.configuration,
      `INGEST_TLS_SERVER_CA=${JSON.stringify(path)}: expected a readable PEM file with authorities (${why})`,
    );
  }
}
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Reads a file that is read only once, so it may be a pipe, such as /dev/stdin. Throws as `readOperatorFile` does. */
export function readOperatorFileOnce(path: string): Buffer {
  const file = openSync(path, FLAGS);
  try {
    const status = fstatSync(file);
    if (status.isFIFO()) return readPipe(file);
    checkKind(status, BYTES_MAX);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

function checkKind(status: Stats, bytesMax: number): void {
  // Reading a folder fails with EISDIR.
  if (!status.isFile() && !status.isDirectory()) throw unreadable('not a regular file');
  if (status.size > bytesMax) throw unreadable(`${status.size} bytes, more than the limit of ${bytesMax}`);
}

/** Reads the pipe until its writers have closed it, for a limited time. */
function readPipe(file: number): Buffer {
  const bytes = Buffer.alloc(PIPE_BYTES_MAX);
  let length = 0;
  for (let polls = 0; polls < PIPE_POLLS_MAX; polls += 1) {
    try {
      for (let read = 1; read > 0; length += read) read = readSync(file, bytes, { offset: length });
      if (length === bytes.length) throw unreadable(`a pipe with more than ${PIPE_BYTES_MAX} bytes`);
      if (length > 0) return bytes.subarray(0, length);
    } catch (cause) {
      // A writer has the pipe open, and it is empty.
      if ((cause as NodeJS.ErrnoException).code !== 'EAGAIN') throw cause;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PIPE_POLL_MS);
  }
  throw unreadable('a pipe that no process wrote and closed in time');
}

const unreadable = (code: string): Error => Object.assign(new Error(code), { code });

const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** Decodes UTF-8 without its byte order mark. Throws a TypeError with a code for anything else. */
export const textOf = (bytes: Uint8Array): string => UTF_8.decode(bytes);

/**
 * Parses JSON. Throws a SyntaxError if it is malformed or an object has two members of one name: JSON.parse would keep
 * the last one, and a line that somebody reads in the file would have no effect.
 */
export function strictJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const pointer = repeatedName(text);
  if (pointer !== undefined) throw new SyntaxError(`the name at ${pointer} is repeated`);
  return value;
}

function repeatedName(text: string): string | undefined {
  /** The objects and arrays around the token, each with the latest name or index in it. */
  const open: { readonly names: Set<string>; at: string | number }[] = [];
  for (const [token, name, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\],]/g)) {
    const top = open.at(-1);
    if (token === '{' || token === '[') open.push({ names: new Set(), at: 0 });
    else if (token === '}' || token === ']') open.pop();
    else if (token === ',' && typeof top?.at === 'number') top.at += 1;
    else if (top !== undefined && colon !== undefined) {
      top.at = String(JSON.parse(name ?? ''));
      if (top.names.has(top.at))
        return open.map(({ at }) => `/${String(at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
      top.names.add(top.at);
    }
  }
  return undefined;
}
