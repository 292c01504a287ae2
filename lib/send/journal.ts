// Stores a sender's unsettled events on disk, so that none are lost in a crash.
//
// Each line is a JSON object: {"put":1,"body":"…"} ("bodyBase64" if the bytes are not UTF-8), later {"settled":1}. Its
// last member, "digest", shows damage to the others. Lines of older versions have none.
//
// Invariants: `put` resolves after fsync, so an unsettled event is in the file if the process or the machine crashes.
// A `settled` line is written without fsync. If the line is lost, the event is sent once more and is a duplicate.
//
// Simultaneous puts share one fsync. When the file has doubled and grown by REWRITE_BYTES, it is rewritten without
// settled events. Only one process at a time uses the file (lease.ts). If another process acquires the lease of a
// frozen process, `put` rejects in the frozen one.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, existsSync } from 'node:fs';
import { link, open, realpath, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import type { ClockAndRandom } from '../process/clock.ts';
import { isAt, Lease } from './lease.ts';
import { lines, ROW_BYTES_MAX, type Line } from './lines.ts';
import { bodyMembers, bytesOf, objectIn, OWNER_ONLY, type BodyMembers } from './journal-format.ts';
import { freeName } from './refused-file.ts';

const REWRITE_BYTES = 16 * 1024 * 1024;
/** The length of the text that is written at a time. All lines may be longer than V8's strings. */
const WRITE_LENGTH = 1024 * 1024;

interface Row extends BodyMembers {
  readonly put?: number;
  readonly settled?: number;
}

/** `closing` aborts when the client of a journal begins to close, and `end` when it waits for nothing any more. */
interface ClientSignals {
  readonly closing: AbortSignal;
  readonly end: AbortSignal;
}

/**
 * Journals of this process by their paths, also those of another copy of this module, as after `import` and `require`.
 * Node ends a process in which an open file handle is garbage-collected.
 */
const OPEN = ((globalThis as { [name: symbol]: unknown })[Symbol.for('ingest-client.journals')] ??= new Map()) as Map<
  string,
  Readonly<Record<'closing' | 'closed', AbortSignal>>
>;

export class Journal {
  readonly #path: string;
  readonly #lease: Lease;
  readonly #unsettled: Set<number>;
  /** Unsettled events that are being sent. */
  readonly #active = new Set<number>();
  readonly #forget: () => void;
  #file: FileHandle;
  #next: number;
  #pending: string[] = [];
  /** True if the next write must leave a whole file at the path, and sync it. */
  #syncs = false;
  #writing: Promise<void> | undefined;
  /** True after a failed write, until the file is rewritten, because nothing may follow an incomplete line. */
  #isDamaged = false;
  #grownBytes = 0;

  private constructor(path: string, lease: Lease, { file, unsettled, next }: Contents, forget: () => void) {
    this.#path = path;
    this.#lease = lease;
    this.#file = file;
    this.#unsettled = unsettled;
    this.#next = next;
    this.#forget = forget;
  }

  /**
   * Opens or creates a journal. Waits for a client of this process that is closing. Rejects if another client or
   * process has the journal open, if a line is damaged, or if `end` aborts while it waits.
   */
  static async open(path: string, system: ClockAndRandom, { closing, end }: ClientSignals): Promise<Journal> {
    // Opening a pipe could wait forever, and the rewrite would replace a device.
    if ((await stat(path).catch(() => undefined))?.isFile() === false)
      throw new Error(`${path}: the journal must be a regular file`);
    await (await open(path, 'a', OWNER_ONLY)).close();
    // A link to the journal must lead to the same lock.
    const name = await realpath(path);
    for (let other = OPEN.get(name); other !== undefined; other = OPEN.get(name)) {
      if (!other.closing.aborted)
        throw new Error(`another client of this process has this journal open (${name}); close it, or share it`);
      end.throwIfAborted();
      await Promise.race([other.closed, end].map((signal) => once(signal, 'abort')));
    }
    const closed = new AbortController();
    OPEN.set(name, { closing, closed: closed.signal });
    const forget = (): void => {
      OPEN.delete(name);
      closed.abort();
    };
    let lease: Lease | undefined;
    try {
      lease = await Lease.take(`${name}.lock`, system, end);
      return new Journal(name, lease, await contentsOf(name, lease), forget);
    } catch (cause) {
      await lease?.release();
      forget();
      throw cause;
    }
  }

  get unsettled(): number {
    return this.#unsettled.size;
  }

  /** The number of events that are neither settled nor being sent. */
  get unsent(): number {
    return this.#unsettled.size - this.#active.size;
  }

  /** Yields the events that are neither settled nor being sent now, in order. The caller settles or releases each. */
  async *pending(): AsyncGenerator<{ readonly number: number; readonly body: Buffer }> {
    this.#syncs = true;
    await this.#written();
    const due = new Set([...this.#unsettled].filter((number) => !this.#active.has(number)));
    if (due.size === 0) return;
    for await (const row of rows(createReadStream(this.#path), this.#path)) {
      const { put: number = 0 } = row;
      const isDue = due.delete(number) && this.#unsettled.has(number) && !this.#active.has(number);
      const body = isDue ? bytesOf(row) : undefined;
      if (body === undefined) continue;
      this.#active.add(number);
      yield { number, body };
    }
  }

  /** Resolves with the event's number when the event is on disk. If it rejects, the next rewrite removes the event. */
  async put(body: Buffer): Promise<number> {
    const number = this.#next++;
    this.#unsettled.add(number);
    this.#active.add(number);
    this.#pending.push(lineOf({ put: number, ...bodyMembers(body) }));
    this.#syncs = true;
    await this.#written().catch((cause: unknown) => {
      this.#unsettled.delete(number);
      this.#active.delete(number);
      throw cause;
    });
    return number;
  }

  /** Records that the event need not be sent again. */
  settle(number: number): void {
    this.#unsettled.delete(number);
    this.#active.delete(number);
    this.#pending.push(lineOf({ settled: number }));
    // The next call of `put` or `close` reports a failure.
    void this.#written().catch(() => undefined);
  }

  release(number: number): void {
    this.#active.delete(number);
  }

  async close(): Promise<void> {
    try {
      if (this.#unsettled.size > 0 && !existsSync(this.#path)) this.#syncs = true;
      await this.#written();
    } finally {
      await Promise.allSettled([this.#file.close(), this.#lease.release()]);
      this.#forget();
    }
  }

  /** Resolves when all pending lines are written. */
  async #written(): Promise<void> {
    // The current write may not contain the latest lines, but the next one does.
    if (this.#writing !== undefined) await this.#writing;
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
    await this.#writing;
  }

  async #write(): Promise<void> {
    const syncs = this.#syncs;
    let pending = this.#pending;
    [this.#pending, this.#syncs] = [[], false];
    if (this.#isDamaged || (syncs && (await this.#isRemoved()))) {
      await this.#rewrite();
      pending = withoutMarks(pending);
    }
    if (pending.length === 0) return;
    this.#isDamaged = true;
    for (let at = 0; at < pending.length;) {
      let text = '';
      while (text.length < WRITE_LENGTH && at < pending.length) text += pending[at++] ?? '';
      await this.#file.appendFile(text);
      this.#grownBytes += Buffer.byteLength(text);
    }
    if (syncs) {
      if (await this.#isRemoved()) throw new Error(`${this.#path}: the journal was removed or replaced`);
      await this.#file.datasync();
      // Another process may have read the file before the sync.
      if (!(await this.#lease.isHeld())) throw takenOver(this.#path);
    }
    this.#isDamaged = false;
    // A rewrite copies all unsettled events, so it waits until the file has doubled.
    if (this.#grownBytes < REWRITE_BYTES || this.#grownBytes < (await this.#file.stat()).size / 2) return;
    this.#grownBytes = 0;
    // The lines are on the disk, so a rewrite that fails loses nothing, for example on a full disk.
    await this.#rewrite().catch(() => undefined);
  }

  async #rewrite(): Promise<void> {
    await this.#isRemoved();
    const source = this.#file.createReadStream({ start: 0, autoClose: false });
    const file = await rewritten(source, this.#path, this.#lease, this.#unsettled);
    await this.#file.close();
    this.#file = file;
    this.#isDamaged = false;
    this.#pending = withoutMarks(this.#pending);
  }

  /** True if the file was removed or renamed, as by log rotation. Throws if another file is in its place. */
  async #isRemoved(): Promise<boolean> {
    if (await isAt(this.#file, this.#path)) return false;
    if (existsSync(this.#path)) throw new Error(`${this.#path}: the journal was removed or replaced`);
    return true;
  }
}

/** A mark in a file without its event would settle another event, if this journal were appended to another one. */
const withoutMarks = (lines: readonly string[]): string[] => lines.filter((line) => !line.startsWith('{"settled":'));

const takenOver = (path: string): Error =>
  new Error(`${path}: its lock file was removed or replaced, as by a process that has taken over this journal`);

type Contents = Awaited<ReturnType<typeof contentsOf>>;

/** Reads a journal, and rewrites it without settled events. */
async function contentsOf(path: string, lease: Lease) {
  const unsettled = new Set<number>();
  let [next, isZeroed] = [1, false];
  for await (const { put, settled } of rows(createReadStream(path), path, () => (isZeroed = true))) {
    if (put !== undefined) unsettled.add(put);
    if (put !== undefined) next = put + 1;
    if (settled !== undefined) unsettled.delete(settled);
  }
  if (isZeroed) {
    const copy = freeName(`${path}.damaged`);
    await link(path, copy);
    process.emitWarning(`${path} ends with zeros, as after a crash of the machine; ${copy} has all that is in it`);
  }
  return { file: await rewritten(createReadStream(path), path, lease, unsettled), unsettled, next };
}

/** Replaces the journal with one that contains only the unsettled events of `source`. */
async function rewritten(
  source: Readable,
  path: string,
  lease: Lease,
  unsettled: ReadonlySet<number>,
): Promise<FileHandle> {
  await rm(`${path}.new`, { force: true });
  const file = await open(`${path}.new`, 'ax+', OWNER_ONLY);
  try {
    let text = '';
    for await (const row of rows(source, path)) {
      if (row.put === undefined || !unsettled.has(row.put)) continue;
      text += lineOf(row);
      if (text.length < WRITE_LENGTH) continue;
      await file.appendFile(text);
      text = '';
    }
    await file.appendFile(text);
    await file.sync();
    if (!(await lease.isHeld()) || !(await isAt(file, `${path}.new`))) throw takenOver(path);
    await rename(`${path}.new`, path);
    // A rename is durable only after its folder has been synced.
    const folder = await open(dirname(path), 'r');
    await folder.sync().finally(() => folder.close());
    return file;
  } catch (cause) {
    if (await isAt(file, `${path}.new`)) await rm(`${path}.new`);
    await file.close();
    throw cause;
  }
}

/**
 * Yields the rows of a journal. Ignores a last line that a crash truncated, because its event was not sent yet. Throws
 * for any other line, because the rewrite would destroy a damaged event, or a file that is not a journal. Numbers
 * increase, because an event with the number of another one would be settled with it.
 */
async function* rows(source: Readable, path: string, onZeros?: () => void): AsyncGenerator<Row> {
  const refusal = (number: number, why = 'is not a line of a journal, or is damaged'): Error =>
    new Error(`${path}: line ${number} ${why}; move it elsewhere to send the others`);
  let [truncated, last, number] = [0, 0, 0];
  for await (const line of lines(source as AsyncIterable<Buffer>, ROW_BYTES_MAX)) {
    if (truncated > 0) throw refusal(truncated);
    if (line.number !== (number += 1)) throw refusal(number);
    const row = rowOf(line.bytes);
    if (row === undefined && !isTruncated(line)) throw refusal(number);
    if (row === undefined) {
      truncated = number;
      if (line.bytes.includes(0)) onZeros?.();
    } else {
      if ((row.put ?? Infinity) <= last)
        throw refusal(number, 'does not have a higher number than those before, as if lines or journals were joined');
      last = row.put ?? last;
      yield row;
    }
  }
}

const BEGINNINGS = ['{"put":', '{"settled":', '\0'];

/** After a crash of the machine, zeros may be in place of bytes. A whole line without a line feed is damaged. */
function isTruncated({ bytes, isOpen = false }: Line): boolean {
  const isBegun = BEGINNINGS.some((text) => text.startsWith(bytes.toString('latin1', 0, text.length)));
  return isBegun && (isOpen ? rowOf(bytes.subarray(0, -1)) === undefined : bytes.includes('\0\0'));
}

function rowOf(line: Buffer): Row | undefined {
  const { digest, ...row }: Row & { readonly digest?: unknown } = objectIn(line) ?? {};
  const isPut = Number.isInteger(row.put) && typeof (row.body ?? row.bodyBase64) === 'string';
  const isWhole = isPut || Number.isInteger(row.settled);
  return isWhole && (digest === undefined || digest === digestOf(JSON.stringify(row))) ? row : undefined;
}

function lineOf(row: Row): string {
  const text = JSON.stringify(row);
  return `${text.slice(0, -1)},"digest":"${digestOf(text)}"}\n`;
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 8);
