import { constants, createReadStream, openSync, realpathSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { addAbortSignal, type Readable } from 'node:stream';
import { ioFailure, ReportFailure, throwIfInterrupted } from './failure.ts';

/** About 600,000 findings. */
export const DOCUMENT_BYTES_MAX = 256 << 20;

export type DocumentSource = { readonly name: string; readonly bytes: Uint8Array };

/** Throws ReportFailure if the file cannot be read, is a directory or is too long. */
export const fileSource = async (path: string, name: string, options?: Interruptible): Promise<DocumentSource> =>
  streamSource(openFile(path, name), name, options);

/** Never waits for a named pipe in a thread, because the process could not exit until somebody opens the pipe. */
function openFile(path: string, name: string): Readable {
  try {
    if (statSync(path).isFIFO()) return new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) });
    return createReadStream(path, { highWaterMark: 1 << 20 });
  } catch (cause) {
    throw ioFailure('read', name, cause);
  }
}

export function realFolder(path: string): string {
  try {
    return realpathSync.native(`${path}/.`);
  } catch (cause) {
    throw ioFailure('read', path, cause);
  }
}

type Interruptible = { readonly signal?: AbortSignal | undefined };

export async function streamSource(stream: Readable, name: string, { signal }: Interruptible = {}) {
  if (signal !== undefined) addAbortSignal(signal, stream);
  try {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of stream) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length > DOCUMENT_BYTES_MAX)
        throw new ReportFailure('io', `${name} is longer than the limit of ${DOCUMENT_BYTES_MAX} bytes`);
    }
    return memorySource(Buffer.concat(chunks), name);
  } catch (cause) {
    throwIfInterrupted(signal);
    throw cause instanceof ReportFailure ? cause : ioFailure('read', name, cause);
  }
}

export function memorySource(content: string | Uint8Array, name: string): DocumentSource {
  return { name, bytes: typeof content === 'string' ? Buffer.from(content) : content };
}

export const textIn = ({ bytes }: DocumentSource): string => decoded(bytes);

/** Removes a byte order mark, which may name UTF-16. Decodes invalid UTF-8 as U+FFFD. */
export function decoded(bytes: Uint8Array): string {
  const [first = 0, second = 0] = bytes;
  return new TextDecoder({ 0xfffe: 'utf-16le', 0xfeff: 'utf-16be' }[(first << 8) | second]).decode(bytes);
}
