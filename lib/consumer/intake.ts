// The buffer between reading and landing: reading uses Redis and the network, landing the warehouse, so they overlap.
//
// A commit costs the same for many events as for few. In a backlog, `take` therefore waits for `wanted` entries;
// otherwise it returns whatever is there.
//
// Invariants: at most READ_AHEAD_BATCHES times `wanted` entries wait or are being read, and at most BYTES_MAX of bodies
// in all intakes of the process, divided equally. Entries leave in the order of arrival.
//
// Reads start small, double while they come back full, and are halved when the queue fails. Redis has no limit on the
// bytes of a reply, so the first large bodies after small ones may arrive in READS_AT_ONCE reads of `readEntriesMax`.
import type { Entered } from './quarantine.ts';

/** One batch to take, and one that comes in meanwhile. */
const READ_AHEAD_BATCHES = 2;
/**
 * Limit for waiting bodies. A read whose bodies are much larger than the previous ones may exceed it once.
 *
 * Fact: each step of a batch keeps a copy of its bodies until the next garbage collection. Choice: 4 MiB, which is
 * thousands of short events. Effect: with a backlog of bodies of 250 KiB the consumer stays below 300 MiB; with 16 MiB
 * it exceeded 380 (test/end-to-end/large-bodies.long.ts).
 */
const BYTES_MAX = 4 << 20;
/** Target for one read. */
const READ_BYTES = BYTES_MAX / 4;
/** Reads at the same time in a backlog. */
export const READS_AT_ONCE = 4;
/**
 * Fact: the sizes of the next bodies are unknown, but gateways publish their maximum. Choice: reads that bring at most
 * READING_BYTES even if all bodies are that long; the smallest reads if the maximum is unknown. Effect: with bodies of
 * up to 250 KiB the consumer stays below 300 MiB, with 4 MiB below 600 (test/end-to-end/large-bodies.long.ts), and
 * short events land at 1.1 to 1.35 times the rate of two reads of 32.
 */
const READING_BYTES = 40 << 20;
const READ_ENTRIES_LEAST = 12;
const READ_ENTRIES_MOST = 64;
const READ_ENTRIES_FIRST = 2;

/** Maximum number of entries in one read of bodies of up to `bodyBytesMax`. */
export function readEntriesMax(bodyBytesMax = Number.POSITIVE_INFINITY, streams = 1): number {
  const entries = Math.floor(READING_BYTES / READS_AT_ONCE / streams / bodyBytesMax);
  return Math.max(Math.ceil(READ_ENTRIES_LEAST / streams), Math.min(READ_ENTRIES_MOST, entries));
}

export interface IntakeOptions {
  /** Size of a batch in a backlog. */
  readonly wanted: number;
  /** The current maximum of entries in one read. */
  readonly readMax: () => number;
  /** Number of streams that share BYTES_MAX. */
  readonly streams: number;
}

export class Intake {
  readonly #options: IntakeOptions;
  readonly #takers: (() => void)[] = [];
  #wakeReader: () => void = () => undefined;
  #waiting: Entered[] = [];
  #waitingBytes = 0;
  /** Entries of the next read, before the size of bodies is considered. */
  #readEntries: number;
  /** Entries that the last read could return. */
  #lastEntries = 0;
  /** Entries that the current reads may return. */
  #reserved = 0;
  /** Mean size of a body in the last read that was not empty. */
  #meanBytes = 0;
  /** The queue probably holds more, so the next read returns immediately. */
  #backlog = false;
  #ended = false;

  constructor(options: IntakeOptions) {
    this.#options = options;
    this.#readEntries = Math.min(READ_ENTRIES_FIRST, options.readMax());
  }

  /** Halves the next reads: the queue failed, perhaps because of a large one. */
  slow(): void {
    this.#readEntries = Math.max(1, Math.min(this.#readEntries, this.#lastEntries) >> 1);
  }

  /** Lets `take` return the waiting entries, because the next read may take long. */
  settle(): void {
    this.#backlog = false;
    this.#wakeTakers();
  }

  /** Waits for room, then returns how many entries the next read may return. `add` must follow. */
  async reserve(): Promise<number> {
    while (this.#room() === 0) await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    const entries = this.#room();
    this.#reserved += entries;
    this.#lastEntries = entries;
    return entries;
  }

  /** Adds the result of a read of up to `reserved` entries. `full`: the queue probably holds more. */
  add(entries: readonly Entered[], reserved: number, full = entries.length === reserved): void {
    this.#reserved -= reserved;
    this.#backlog = full;
    if (entries.length > 0) {
      let bytes = 0;
      for (const entry of entries) {
        bytes += entry.body.length;
        this.#waiting.push(entry);
      }
      this.#meanBytes = bytes / entries.length;
      this.#waitingBytes += bytes;
    }
    if (this.#backlog) this.#readEntries = 2 * this.#readEntries;
    this.#readEntries = Math.min(this.#options.readMax(), this.#readEntries);
    this.#wakeTakers();
    // A read that returned less than it reserved makes room.
    this.#wakeReader();
  }

  /** Waits for entries and returns all of them; `undefined` after `end`. */
  async take(): Promise<readonly Entered[] | undefined> {
    while (this.#waiting.length === 0 || this.#filling()) {
      if (this.#ended) return undefined;
      await new Promise<void>((resolve) => this.#takers.push(resolve));
    }
    const taken = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#wakeReader();
    return taken;
  }

  end(): void {
    this.#ended = true;
    this.settle();
  }

  #filling(): boolean {
    return this.#backlog && this.#waiting.length < this.#options.wanted && (this.#reserved > 0 || this.#room() > 0);
  }

  /** Entries of the next read; 0 if it must wait. */
  #room(): number {
    const { wanted, streams } = this.#options;
    const entries = Math.max(1, Math.min(this.#readEntries, Math.floor(READ_BYTES / streams / this.#meanBytes)));
    const coming = this.#waiting.length + this.#reserved;
    const bytes = this.#waitingBytes + (this.#reserved + entries) * this.#meanBytes;
    return coming === 0 || (coming + entries <= READ_AHEAD_BATCHES * wanted && bytes <= BYTES_MAX / streams)
      ? entries
      : 0;
  }

  #wakeTakers(): void {
    for (const wake of this.#takers.splice(0)) wake();
  }
}
