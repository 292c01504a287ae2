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
import { createReadStream } from 'node:fs';
import { open, realpath, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { ClockAndRandom } from '../process/clock.ts';
import { isAt, Lease } from './lease.ts';
import { lines, ROW_BYTES_MAX, type Line } from './lines.ts';
import { bodyMembers, bytesOf, objectIn, OWNER_ONLY, type BodyMembers } from './journal-format.ts';

const REWRITE_BYTES = 16 * 1024 * 1024;
/** The length of the text that is written at a time. All lines may be longer than V8's strings. */
const WRITE_LENGTH = 1024 * 1024;

interface Row extends BodyMembers {
  readonly put?: number;
  readonly settled?: number;
}

/** Open journals. Node ends a process in which an open file handle is garbage-collected. */
const OPEN = new Set<Journal>();

export class Journal {
  readonly #path: string;
  readonly #lease: Lease;
  readonly #unsettled: Set<number>;
  /** The number of the first event of this process. */
  readonly #first: number;
  #file: FileHandle;
  #next: number;
  #pending: string[] = [];
  /** True if #pending contains an event. */
  #puts = false;
  #writing: Promise<void> | undefined;
  /** True after a failed write, until the file is rewritten, because nothing may follow an incomplete line. */
  #isDamaged = false;
  #grownBytes = 0;

  private constructor(path: string, lease: Lease, file: FileHandle, unsettled: Set<number>) {
    this.#path = path;
    this.#lease = lease;
    this.#file = file;
    this.#unsettled = unsettled;
    this.#first = ([...unsettled].at(-1) ?? 0) + 1;
    this.#next = this.#first;
    OPEN.add(this);
  }

  /** Opens or creates a journal. Rejects if another process has the journal open, or if a line is damaged. */
  static async open(path: string, system: ClockAndRandom): Promise<Journal> {
    // Opening a pipe could wait forever, and the rewrite would replace a device.
    if ((await stat(path).catch(() => undefined))?.isFile() === false)
      throw new Error(`${path}: the journal must be a regular file`);
    await (await open(path, 'a', OWNER_ONLY)).close();
    // A link to the journal must lead to the same lock.
    const name = await realpath(path);
    const lease = await Lease.take(`${name}.lock`, system);
    try {
      const unsettled = new Set<number>();
      for await (const { put, settled } of rows(name)) {
        if (put !== undefined) unsettled.add(put);
        if (settled !== undefined) unsettled.delete(settled);
      }
      return new Journal(name, lease, await rewritten(name, lease, unsettled), unsettled);
    } catch (cause) {
      await lease.release();
      throw cause;
    }
  }

  /** Yields the unsettled events of earlier processes, in their order. */
  async *resumed(): AsyncGenerator<{ readonly number: number; readonly body: Buffer }> {
    for await (const row of rows(this.#path)) {
      if (row.put === undefined) continue;
      if (row.put >= this.#first) return;
      const body = bytesOf(row);
      if (body !== undefined) yield { number: row.put, body };
    }
  }

  /** Resolves with the event's number when the event is on disk. If it rejects, the next rewrite removes the event. */
  async put(body: Buffer): Promise<number> {
    const number = this.#next++;
    this.#unsettled.add(number);
    this.#pending.push(lineOf({ put: number, ...bodyMembers(body) }));
    this.#puts = true;
    await this.#written().catch((cause: unknown) => {
      this.#unsettled.delete(number);
      throw cause;
    });
    return number;
  }

  /** Records that the event need not be sent again. */
  settle(number: number): void {
    this.#unsettled.delete(number);
    this.#pending.push(lineOf({ settled: number }));
    // The next call of `put` or `close` reports a failure.
    void this.#written().catch(() => undefined);
  }

  async close(): Promise<void> {
    OPEN.delete(this);
    try {
      await this.#written();
    } finally {
      await this.#file.close();
      await this.#lease.release();
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
    const [pending, puts] = [this.#pending, this.#puts];
    [this.#pending, this.#puts] = [[], false];
    if (this.#isDamaged) await this.#rewrite();
    if (pending.length === 0) return;
    this.#isDamaged = true;
    for (let at = 0; at < pending.length;) {
      let text = '';
      while (text.length < WRITE_LENGTH && at < pending.length) text += pending[at++] ?? '';
      await this.#file.appendFile(text);
      this.#grownBytes += Buffer.byteLength(text);
    }
    if (puts) {
      await this.#assertInPlace();
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
    await this.#assertInPlace();
    const file = await rewritten(this.#path, this.#lease, this.#unsettled);
    await this.#file.close();
    this.#file = file;
    this.#isDamaged = false;
  }

  async #assertInPlace(): Promise<void> {
    if (!(await isAt(this.#file, this.#path))) throw new Error(`${this.#path}: the journal was removed or replaced`);
  }
}

const takenOver = (path: string): Error => new Error(`${path}: another process has taken over this journal`);

/** Replaces the journal with one that contains only the unsettled events. */
async function rewritten(path: string, lease: Lease, unsettled: ReadonlySet<number>): Promise<FileHandle> {
  await rm(`${path}.new`, { force: true });
  const file = await open(`${path}.new`, 'wx', OWNER_ONLY);
  try {
    let text = '';
    for await (const row of rows(path)) {
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
 * for any other line, because the rewrite would destroy a damaged event, or a file that is not a journal.
 */
async function* rows(path: string): AsyncGenerator<Row> {
  const refusal = (number: number): Error =>
    new Error(
      `${path}: line ${number} is not a line of a journal, or is damaged; move it elsewhere to send the others`,
    );
  let truncated = 0;
  for await (const line of lines(createReadStream(path) as AsyncIterable<Buffer>, ROW_BYTES_MAX)) {
    if (truncated > 0) throw refusal(truncated);
    const row = rowOf(line.bytes);
    if (row !== undefined) yield row;
    else if (isTruncated(line)) truncated = line.number;
    else throw refusal(line.number);
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
  const isWhole = Number.isInteger(row.settled) || typeof (row.body ?? row.bodyBase64) === 'string';
  return isWhole && (digest === undefined || digest === digestOf(JSON.stringify(row))) ? row : undefined;
}

function lineOf(row: Row): string {
  const text = JSON.stringify(row);
  return `${text.slice(0, -1)},"digest":"${digestOf(text)}"}\n`;
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 8);
