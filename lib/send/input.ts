// Where events come from: a file or standard input, as it is or compressed, of events or of an earlier run's refused
// events.
import { createReadStream, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { lines, type Line } from './lines.ts';

/** The input cannot be used, or not to its end. The message names the file. */
export class InputError extends Error {
  override readonly name = 'InputError';
}

/** One event. `number`: its line in the file that it first came from. */
export interface InputEvent {
  readonly number: number;
  readonly bytes: Buffer;
}

export interface Input {
  readonly events: AsyncGenerator<InputEvent>;
  /** The size of the file, and how much of it has been read; undefined for what has no size. */
  readonly bytes: { readonly total: number; readonly read: () => number } | undefined;
  close(): void;
}

/**
 * Opens a file, or standard input where `path` is undefined. `.gz` and `.zst` at the end of the name are decompressed.
 * With `refused` the lines are those of a refused file, and the events are the bodies in them. Rejects with InputError.
 */
export async function openInput(path: string | undefined, refused: boolean): Promise<Input> {
  const name = path ?? 'standard input';
  const raw = path === undefined ? process.stdin : await openFile(path);
  const source = decompressed(raw, path);
  const size = path === undefined ? 0 : statSync(path).size;
  return {
    events: events(source, name, refused),
    bytes: size === 0 ? undefined : { total: size, read: () => ('bytesRead' in raw ? Number(raw.bytesRead) : 0) },
    close: () => {
      raw.destroy();
      source.destroy();
    },
  };
}

async function openFile(path: string): Promise<Readable> {
  try {
    const file = await open(path);
    if ((await file.stat()).isDirectory()) {
      await file.close();
      throw new InputError(`${path}: expected a file, found a directory`);
    }
    return createReadStream(path, { fd: file });
  } catch (cause) {
    if (cause instanceof InputError) throw cause;
    throw new InputError(`${path}: cannot be read (${codeOf(cause)})`, { cause });
  }
}

function decompressed(raw: Readable, path: string | undefined): Readable {
  const decoder = path?.endsWith('.gz') ? createGunzip() : path?.endsWith('.zst') ? createZstdDecompress() : undefined;
  if (decoder === undefined) return raw;
  // The error reaches whoever reads the last stream of the pipeline.
  return pipeline(raw, decoder, () => undefined);
}

async function* events(source: Readable, name: string, refused: boolean): AsyncGenerator<InputEvent> {
  try {
    for await (const line of lines(source as AsyncIterable<Buffer>)) yield refused ? refusedEvent(line, name) : line;
  } catch (cause) {
    if (cause instanceof InputError) throw cause;
    throw new InputError(`${name}: cannot be read to its end (${codeOf(cause)})`, { cause });
  }
}

function refusedEvent({ number, bytes }: Line, name: string): InputEvent {
  try {
    const row = JSON.parse(bytes.toString('utf8')) as Readonly<Record<string, unknown>>;
    const line = typeof row['line'] === 'number' ? row['line'] : number;
    if (typeof row['body'] === 'string') return { number: line, bytes: Buffer.from(row['body']) };
    if (typeof row['bodyBase64'] === 'string') return { number: line, bytes: Buffer.from(row['bodyBase64'], 'base64') };
  } catch {
    // Told below.
  }
  throw new InputError(`${name}: line ${number} is no line of a refused file (expected a JSON object with "body")`);
}

function codeOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  return code ?? message;
}
