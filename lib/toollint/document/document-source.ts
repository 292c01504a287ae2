// The bytes of a document: from a file, from a stream such as standard input, or from memory. A document is read whole,
// so its length is bounded before it is read.
import { addAbortSignal, type Readable } from 'node:stream';
import { createReadStream, realpathSync } from 'node:fs';
import { ioFailure, ReportFailure, throwIfInterrupted } from './failure.ts';

/** The longest document that is read, in bytes: some 600,000 findings. Reading takes about five times its memory. */
export const DOCUMENT_BYTES_MAX = 256 << 20;

export interface DocumentSource {
  /** For messages: a file name as the user gave it, or 'standard input'. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A file. Throws ReportFailure when it cannot be read, is a directory or is too long. */
export async function fileSource(path: string, name: string, bytesMax?: number): Promise<DocumentSource> {
  return streamSource(createReadStream(path, { highWaterMark: 1 << 20 }), name, { bytesMax });
}

/** The real path of a folder. Throws ReportFailure if it does not exist. */
export function realFolder(path: string): string {
  try {
    return realpathSync.native(`${path}/.`);
  } catch (cause) {
    throw ioFailure('read', path, cause);
  }
}

/** The whole stream. Throws Interrupted when the signal fires. */
export async function streamSource(
  stream: Readable,
  name: string,
  { bytesMax = DOCUMENT_BYTES_MAX, signal }: { bytesMax?: number | undefined; signal?: AbortSignal | undefined } = {},
): Promise<DocumentSource> {
  if (signal !== undefined) addAbortSignal(signal, stream);
  try {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of stream) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length > bytesMax) throw new ReportFailure('io', `${name} is longer than the limit of ${bytesMax} bytes`);
    }
    return { name, bytes: Buffer.concat(chunks) };
  } catch (cause) {
    throwIfInterrupted(signal);
    throw cause instanceof ReportFailure ? cause : ioFailure('read', name, cause);
  }
}

/** For library callers. */
export function memorySource(content: string | Uint8Array, name: string): DocumentSource {
  return { name, bytes: typeof content === 'string' ? Buffer.from(content) : content };
}

/** The text without byte order mark; invalid UTF-8 is decoded as U+FFFD. */
export function textIn({ bytes }: DocumentSource): string {
  return new TextDecoder().decode(bytes);
}
