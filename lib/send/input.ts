// Reads events from a file or standard input, or refused events from the file that an earlier run wrote. Also makes
// sample events.
import { constants, createReadStream, fstatSync, openSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { pipeline, type Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import type { ClockAndRandom } from '../process/clock.ts';
import { lines, ROW_BYTES_MAX, type Line } from './lines.ts';
import type { Position } from './position.ts';
import { bytesOf, objectIn } from './journal-format.ts';

const OBJECT_WITHIN_LINES = 10;

/** An event, with its line number in this input and in the original file, and its share of the input's size. */
export interface InputEvent extends Line {
  readonly originalNumber: number;
  readonly size: number;
}

export interface Input {
  readonly events: AsyncGenerator<InputEvent>;
  /** The size of the events to send, in bytes or in events. `undefined` for a pipe and a compressed file. */
  size(): number | undefined;
  close(): void;
}

/**
 * Opens a file, or standard input if `path` is undefined. Files named `.gz` or `.zst` are decompressed. If `refused`
 * is true, the input is a refused file. Events up to `position` are skipped. Errors name the file.
 */
export function openInput(path: string | undefined, refused: boolean, position?: Position): Input {
  const raw = path === undefined ? process.stdin : openFile(path);
  const [source, name] = [decompressed(raw, path), path ?? 'standard input'];
  let size = path === undefined || source !== raw ? 0 : statSync(path).size;
  async function* events(): AsyncGenerator<InputEvent> {
    let last = 0;
    const all = linesOf(source, name, refused ? ROW_BYTES_MAX : undefined);
    for await (const line of refused || position?.line ? all : objects(all, name)) {
      last = line.number;
      const one = { ...line, originalNumber: line.number, size: line.bytes.length + 1 };
      const event = refused ? { ...one, ...refusedEvent(line, name) } : one;
      const passed = position?.passed(event) ?? false;
      if (passed === 'changed') throw changed(name, position);
      if (passed) size -= event.size;
      else yield event;
    }
    if (last < (position?.line ?? 0)) throw changed(name, position);
  }
  return { events: events(), size: () => (size > 0 ? size : undefined), close: () => void source.destroy() };
}

/** Never waits for a pipe in a thread, because the process could not exit until the pipe is written or closed. */
function openFile(path: string): Readable {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw new Error(`${path}: cannot be read (${codeOf(cause)})`, { cause });
  }
  const status = fstatSync(fd);
  if (status.isDirectory()) throw new Error(`${path}: expected a file, found a directory`);
  return status.isFIFO() ? new Socket({ fd }) : createReadStream(path, { fd });
}

function decompressed(raw: Readable, path: string | undefined): Readable {
  if (path === undefined || !/\.(gz|zst)$/.test(path)) return raw;
  // Bun and Deno do not detect a truncated zstd file, and Node 20 does not support zstd.
  const zstd = process.versions['bun'] ?? process.versions['deno'] ?? zlib.createZstdDecompress;
  if (path.endsWith('.zst') && typeof zstd !== 'function')
    throw new Error(`${path}: decompressing zstd needs Node 22.15 or newer`);
  // The last stream of the pipeline emits all errors, so this callback ignores them.
  return pipeline(raw, path.endsWith('.gz') ? zlib.createGunzip() : zlib.createZstdDecompress(), () => undefined);
}

async function* linesOf(source: Readable, name: string, bytesMax: number | undefined): AsyncGenerator<Line> {
  let last = 0;
  try {
    for await (const line of lines(source as AsyncIterable<Buffer>, bytesMax)) {
      last = line.number;
      yield line;
    }
  } catch (cause) {
    throw new Error(`${name}: ${whyUnreadable(cause, last)}`, { cause });
  }
}

/**
 * Yields the same lines. Throws before the first one if none of the first ten is a JSON object, because every event
 * would be refused. Lines are held back only until the first object: the next line of a pipe may arrive much later.
 */
async function* objects(all: AsyncIterable<Line>, name: string): AsyncGenerator<Line> {
  let held: Line[] | undefined = [];
  for await (const line of all) {
    held?.push(line);
    if (held === undefined) yield line;
    else if (objectIn(line.bytes) !== undefined) {
      yield* held;
      held = undefined;
    } else if (held.length === OBJECT_WITHIN_LINES) break;
  }
  if (held === undefined || held.length === 0) return;
  throw new Error(
    `${name}: expected one JSON object on each line, found none in the first ${held.length}; ` +
      `jq -c '.[]' writes the elements of an array, jq -c . an object, as one line each`,
  );
}

const changed = (name: string, position: Position | undefined): Error =>
  new Error(`${name} changed since the interrupted run; remove ${position?.path} to send the whole file`);

function whyUnreadable(cause: unknown, lastLine: number): string {
  const code = codeOf(cause);
  const until = `the last whole line is ${lastLine}`;
  if (code === 'Z_BUF_ERROR') return `the file was cut off: its compressed data ends too early; ${until}`;
  const isDamaged = /^(Z_DATA_ERROR|ZSTD_)/.test(code);
  return isDamaged ? `its compressed data is damaged (${code}); ${until}` : `cannot be read to its end (${code})`;
}

function refusedEvent({ number, bytes: text }: Line, name: string): Pick<InputEvent, 'originalNumber' | 'bytes'> {
  const row = objectIn(text) ?? {};
  const bytes = bytesOf(row);
  if (bytes === undefined)
    throw new Error(`${name}: line ${number} is not a line of a refused file (expected a JSON object with "body")`);
  return { originalNumber: typeof row['line'] === 'number' ? row['line'] : number, bytes };
}

/** Returns the code of a system error, such as `ENOENT`, or its message if it has no code. */
export function codeOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  return code ?? message;
}

const SAMPLE_TYPES = ['order.created', 'order.paid', 'order.shipped', 'customer.registered', 'stock.changed'];

/** Returns sample events of about 250 bytes, with new ids. */
export function sampleInput(count: number, { clock, random }: ClockAndRandom): Input {
  async function* samples(): AsyncGenerator<InputEvent> {
    for (let number = 1; number <= count; number += 1) {
      const type = SAMPLE_TYPES[number % SAMPLE_TYPES.length];
      const items = [{ sku: `A-${number % 7}`, quantity: 1 + (number % 3), price: '19.90' }];
      const data = { number, customer: `c-${1_000 + (number % 50)}`, items, total: '19.90', currency: 'EUR' };
      const time = new Date(clock.epochMs()).toISOString();
      const event = JSON.stringify({ id: random.uuid(), type, time, source: 'ingest-send', data });
      yield await Promise.resolve({ number, originalNumber: number, size: 1, bytes: Buffer.from(event) });
    }
  }
  return { events: samples(), size: () => count, close: () => undefined };
}
