// Writes a file completely or not at all: writes a temporary file in the same folder, flushes it to disk, and renames
// it. Writes devices and pipes directly.
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { errnoOf, ioFailure, ReportFailure, throwIfInterrupted } from './failure.ts';
import type { Report } from './report-schema.ts';

/** Throws ReportFailure if the file cannot be written. Call this before long work. */
export async function checkWritable(path: string, name: string): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status?.isDirectory() === true) throw new ReportFailure('io', `cannot write ${name}: it is a directory`);
  await stat(`${dirname(path)}/.`).catch((cause: unknown) => {
    throw ioFailure('write', name, cause);
  });
}

const READER_POLL_MS = 50;

export async function writeWhole(
  path: string,
  name: string,
  write: (sink: TextSink) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const place = await realpath(path).catch(() => path);
  const status = await stat(place).catch(() => undefined);
  const isDirect = status?.isFile() === false;
  const draft = isDirect ? place : join(dirname(place), `.${basename(place)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    const probe = status?.isFIFO() === true ? await openedPipe(place, signal) : undefined;
    const handle = await open(draft, isDirect ? 'w' : 'wx', 0o666);
    await probe?.close();
    try {
      if (status !== undefined && !isDirect) await handle.chmod(status.mode & 0o777);
      await write((text) => {
        throwIfInterrupted(signal);
        return handle.writeFile(text);
      });
      if (!isDirect) await handle.sync();
    } finally {
      await handle.close();
    }
    if (!isDirect) await rename(draft, place);
  } catch (cause) {
    if (!isDirect) await rm(draft, { force: true });
    throw errnoOf(cause) === undefined ? cause : ioFailure('write', name, cause);
  }
}

/**
 * Resolves when somebody reads a named pipe. To wait for that in open() would block a thread, and the process could not
 * exit until then.
 */
async function openedPipe(path: string, signal: AbortSignal | undefined): Promise<FileHandle> {
  for (;;) {
    throwIfInterrupted(signal);
    try {
      return await open(path, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (cause) {
      if (errnoOf(cause) !== 'ENXIO') throw cause;
    }
    await setTimeout(READER_POLL_MS);
  }
}

/** Writes a text. Resolves when the caller may write more. */
export type TextSink = (text: string) => Promise<void>;

const PIECE_UNITS = 1 << 16;

/** Escapes '##[' and '##vso[', which CI runners take for commands anywhere in a job's output. */
export const jsonText = (value: unknown, indent = 0): string =>
  JSON.stringify(value, null, indent).replaceAll(/##(?=\[|vso\[)/giu, '#\\u0023');

/** One finding per line, in pieces, because a document may be longer than the longest string. */
export function* reportText({ findings, ...header }: Report): Generator<string> {
  const members = Object.entries(header).map(([name, value]) => `${jsonText(name)}: ${jsonText(value)},\n`);
  yield `{\n${members.join('')}"findings": `;
  yield* listText(findings);
  yield '\n}\n';
}

export function* listText(elements: Iterable<unknown>): Generator<string> {
  let separator = '[\n';
  for (const element of elements) {
    yield separator + jsonText(element);
    separator = ',\n';
  }
  yield separator === '[\n' ? '[]' : '\n]';
}

export async function writePieces(pieces: Iterable<string>, sink: TextSink): Promise<void> {
  let joined = '';
  for (const piece of pieces) {
    joined += piece;
    if (joined.length < PIECE_UNITS) continue;
    await sink(joined);
    joined = '';
  }
  if (joined !== '') await sink(joined);
}
