// Where a report's bytes come from: a file, or standard input. Some verbs read a report twice (once to judge it, once
// to use it), so a source can be opened again; standard input is kept in a temporary file for that.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ioFailure, Interrupted, ReportFailure } from './failure.ts';

const CHUNK_BYTES = 1 << 20;

/** Bytes that can be read more than once. */
export interface ByteSource {
  /** For messages: a file name as the user gave it, or 'standard input'. */
  readonly name: string;
  open(): AsyncIterable<Uint8Array>;
  /** Removes what was kept for reading again. */
  close(): Promise<void>;
}

/** A file; a pipe is kept on disk. Throws ReportFailure when it cannot be read, is a directory or is too long. */
export async function fileSource(path: string, name: string, bytesMax?: number): Promise<ByteSource> {
  const status = await stat(path).catch((cause: unknown) => {
    throw ioFailure('read', name, cause);
  });
  if (status.isDirectory()) throw new ReportFailure('io', `cannot read ${name}: it is a directory`);
  if (bytesMax !== undefined && status.size > bytesMax) throw tooLong(name, bytesMax);
  if (!status.isFile()) return streamSource(createReadStream(path), name, { bytesMax });
  return { name, open: () => chunksOf(path, name), close: () => Promise.resolve() };
}

function tooLong(name: string, bytesMax: number): ReportFailure {
  return new ReportFailure('io', `${name} has more than the limit of ${bytesMax} bytes`);
}

/** One buffer for all chunks: a chunk is valid until the next is asked for, and memory does not follow the file. */
async function* chunksOf(path: string, name: string): AsyncGenerator<Uint8Array> {
  const handle = await open(path, 'r').catch((cause: unknown) => {
    throw ioFailure('read', name, cause);
  });
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES).catch((cause: unknown) => {
        throw ioFailure('read', name, cause);
      });
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

/** A stream that can be read once, such as standard input, made readable again by a copy on disk. */
export async function streamSource(
  stream: Readable,
  name: string,
  {
    bytesMax = Infinity,
    signal,
  }: { readonly bytesMax?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<ByteSource> {
  const folder = await mkdtemp(join(tmpdir(), 'toollint-')).catch((cause: unknown) => {
    throw ioFailure('keep', name, cause);
  });
  const path = join(folder, 'input');
  const close = () => rm(folder, { recursive: true, force: true });
  try {
    let bytes = 0;
    const counted = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        if (bytes > bytesMax) throw tooLong(name, bytesMax);
        yield chunk;
      }
    };
    await pipeline(stream, counted, createWriteStream(path), signal === undefined ? {} : { signal });
  } catch (cause) {
    await close();
    if (signal?.aborted === true) throw new Interrupted();
    if (cause instanceof ReportFailure) throw cause;
    throw ioFailure('read', name, cause);
  }
  return { name, open: () => chunksOf(path, name), close };
}

/** Bytes or text at hand, for library callers. */
export function memorySource(content: string | Uint8Array, name: string): ByteSource {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return {
    name,
    async *open() {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
        yield await Promise.resolve(bytes.subarray(at, at + CHUNK_BYTES));
    },
    close: () => Promise.resolve(),
  };
}
