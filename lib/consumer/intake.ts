// Where entries wait between reading and landing: the next ones are read, judged and wait here while the ones before
// are landing.
//
// Why: reading keeps Redis and the network busy, landing the warehouse; one after the other each waits for the other.
// And a commit costs the same for many events as for few, so what came while the last one ran is taken as one batch.
// Where the queue has a backlog, the taker waits for a batch of `wanted`: the next read does not wait for events.
//
// Invariants: at most READ_AHEAD_BATCHES times `wanted` entries wait here or are being read, and BYTES_MAX of bodies
// in all intakes of the process, in equal parts; a
// read that would go past either waits until there is room, so a warehouse that is unavailable fills no memory. Entries
// leave in the order in which they came. What waits here when the process dies is pending in the queue, and another
// replica claims it.
//
// Reads start small, grow with each one that comes back full, and are halved when the queue fails; and a read is as
// small as the last bodies were large. The queue has no limit in bytes for an answer, so the first large bodies behind
// small ones may arrive in READS_AT_ONCE reads of as many as `readEntriesMax` gives.
import type { Entered } from './quarantine.ts';

/** One batch to take, and one that comes in meanwhile. */
const READ_AHEAD_BATCHES = 2;
/**
 * Bytes of bodies that may wait; a read whose bodies are much larger than those before goes past it once.
 *
 * Fact: each step of a batch keeps a copy of its bodies until the next collection. Choice: 4 MiB, which are thousands
 * of short events. Effect: with a backlog of bodies of 250 KiB the consumer stays below 300 MiB; with 16 MiB it passed
 * 380 (test/end-to-end/large-bodies.long.ts).
 */
const BYTES_MAX = 4 << 20;
/** The part of BYTES_MAX that one read should bring. */
const READ_BYTES = BYTES_MAX / 4;
/** In a backlog: while one is judged the queue makes up the next, and others are in flight. */
export const READS_AT_ONCE = 4;
/**
 * Fact: the sizes of the next bodies are unknown, but gateways publish their maximum. Choice: reads of
 * as many as take READING_BYTES if all are that long, between these bounds, and of the least where gateways have not
 * said it. Effect: with bodies of up to 250 KiB the consumer stays below 300 MiB, with 4 MiB below 600
 * (test/end-to-end/large-bodies.long.ts), and short events land at 1.1 to 1.35 times the rate of two reads of 32.
 */
const READING_BYTES = 40 << 20;
const READ_ENTRIES_LEAST = 12;
const READ_ENTRIES_MOST = 64;
/** Entries of the first read. */
const READ_ENTRIES_FIRST = 2;

/** Entries of one read at most, if bodies have up to `bodyBytesMax` and the process reads so many streams. */
export function readEntriesMax(bodyBytesMax = Number.POSITIVE_INFINITY, streams = 1): number {
  const entries = Math.floor(READING_BYTES / READS_AT_ONCE / streams / bodyBytesMax);
  return Math.max(Math.ceil(READ_ENTRIES_LEAST / streams), Math.min(READ_ENTRIES_MOST, entries));
}

export interface IntakeOptions {
  /** Entries that make a batch where there is a backlog. */
  readonly wanted: number;
  /** Entries of one read at most, at present. */
  readonly readMax: () => number;
  /** Streams that share the bounds on bytes. */
  readonly streams: number;
}

export class Intake {
  readonly #options: IntakeOptions;
  readonly #takers: (() => void)[] = [];
  #wakeReader: () => void = () => undefined;
  #waiting: Entered[] = [];
  #waitingBytes = 0;
  /** Entries of a read at present, whatever the size of bodies. */
  #readEntries: number;
  /** Of the last read that was asked for. */
  #lastEntries = 0;
  /** Entries that the reads under way may bring. */
  #reserved = 0;
  /** Bytes of a body, in the last read that brought any. */
  #meanBytes = 0;
  /** Whether the queue holds more, as far as is known: the next read brings it in no time. */
  #backlog = false;
  #ended = false;

  constructor(options: IntakeOptions) {
    this.#options = options;
    this.#readEntries = Math.min(READ_ENTRIES_FIRST, options.readMax());
  }

  /** The queue failed, perhaps under the weight of a read: the next ones are half as large. */
  slow(): void {
    this.#readEntries = Math.max(1, Math.min(this.#readEntries, this.#lastEntries) >> 1);
  }

  /** The next read may take long: what is here may be taken. */
  settle(): void {
    this.#backlog = false;
    this.#wakeTakers();
  }

  /** How many entries the next read may bring, which `add` then tells of; waits until there is room for them. */
  async reserve(): Promise<number> {
    while (this.#room() === 0) await new Promise<void>((resolve) => (this.#wakeReader = resolve));
    const entries = this.#room();
    this.#reserved += entries;
    this.#lastEntries = entries;
    return entries;
  }

  /** What a read of `reserved` entries brought; `full` where the queue holds more, as far as that tells. */
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
    // It may have brought less than it might have.
    this.#wakeReader();
  }

  /** Everything that waits; waits for the first. Undefined once the intake has ended and is empty. */
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

  /** Nothing more comes. */
  end(): void {
    this.#ended = true;
    this.settle();
  }

  #filling(): boolean {
    return this.#backlog && this.#waiting.length < this.#options.wanted && (this.#reserved > 0 || this.#room() > 0);
  }

  /** Entries of the next read; 0 where it must wait. */
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
