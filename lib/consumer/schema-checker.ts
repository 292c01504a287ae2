// Checks events in a thread of their own (schema-worker.ts), so that no schema can hold the event loop.
//
// Types take turns of about a second. If the check of an event uses more CPU time than EVENT_MS or too much memory, the
// event goes to quarantine, and its producer has a strike. A producer with STRIKES_MAX strikes of a type within
// STRIKES_MS has its events of that type refused unchecked until the strikes expire. Other producers are not affected.
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../process/clock.ts';

/** The CPU time of one check. */
export const EVENT_MS = 100;
const NO_USABLE_SCHEMA: Problems = ['no usable schema'];
const TOO_SLOW: Problems = [`the check of this event takes longer than ${EVENT_MS} ms, or needs too much memory`];
const STRUCK: Problems = ['not checked, because checks of events of this type and producer took too long'];

const STRIKES_MAX = 3;
const STRIKES_MS = 60_000;
const RESTART_PAUSE_MS = 1_000;
/** Bounds the memory of the thread in MiB. An event of 4 MiB that consists of small objects needs about half of it. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };

export type Problems = readonly string[];

export type Faults = readonly (readonly [name: string, fault: string])[];

type SchemaFiles = ReadonlyMap<string, Buffer>;

export interface ThreadData {
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** The index of the current file or event. */
  readonly step: Int32Array;
}

export interface CheckRequest {
  readonly name: string;
  readonly texts: readonly string[];
}

export interface CheckReply {
  /** The problems of the first events. */
  readonly problems: readonly Problems[];
  /** True if the check of the next event took too long. */
  readonly isSlow: boolean;
}

export interface CheckedEvent {
  readonly producer: string;
  readonly body: Buffer;
}

export class SchemaChecker {
  readonly faults = new Map<string, string>();
  /** Called if a producer's events of a type are no longer checked. */
  onStruck: (name: string, producer: string) => void = () => undefined;
  readonly #clock: Clock;
  /** The files that have compiled, including last good ones. */
  readonly #good: Map<string, Buffer>;
  /** The last strikes, oldest first, by the content of a file and the producer. */
  readonly #strikes: { readonly content: Buffer; readonly producer: string; readonly atMs: number }[];
  #thread: Thread | undefined;
  /** Ends after the last turn. */
  #turns: Promise<unknown> = Promise.resolve();
  #checks = 0;
  #closed = false;

  /** Loads files. An unusable one is replaced by the last good content. Without usable files, no thread starts. */
  static async load(clock: Clock, files: SchemaFiles, unreadable: Faults, last?: SchemaChecker) {
    const loaded = new SchemaChecker(clock, files, last);
    for (let faults = unreadable; ; faults = await loaded.#start()) {
      for (const [name, fault] of faults) loaded.#replace(name, fault, last);
      if (loaded.#thread !== undefined || loaded.#good.size === 0) return loaded;
    }
  }

  private constructor(clock: Clock, files: SchemaFiles, last: SchemaChecker | undefined) {
    this.#clock = clock;
    this.#good = new Map(files);
    this.#strikes = last === undefined ? [] : last.#strikes;
  }

  get names(): readonly string[] {
    return [...new Set([...this.#good.keys(), ...this.faults.keys()])].sort();
  }

  get unusable(): number {
    return this.names.filter((name) => !this.#isUsable(name)).length;
  }

  has(name: string): boolean {
    return this.#good.has(name) || this.faults.has(name);
  }

  /** Resolves with the problems of each event, none if it matches. Never rejects. */
  async check(name: string, events: readonly CheckedEvent[]): Promise<readonly Problems[]> {
    this.#checks += 1;
    const problems: Problems[] = [];
    while (problems.length < events.length) {
      const turn = this.#turns.then(() => this.#takeTurn(name, events.slice(problems.length)));
      this.#turns = turn;
      problems.push(...(await turn));
    }
    this.#checks -= 1;
    if (this.#closed) this.close();
    return problems;
  }

  /** Ends the thread once all events are checked. */
  close(): void {
    this.#closed = true;
    if (this.#checks === 0) this.#thread?.end();
  }

  #isUsable(name: string): boolean {
    return this.#good.has(name);
  }

  #replace(name: string, fault: string, last: SchemaChecker | undefined): void {
    const content = this.faults.has(name) || last === undefined ? undefined : last.#good.get(name);
    if (content === undefined) this.#good.delete(name);
    else this.#good.set(name, content);
    if (!this.faults.has(name)) this.faults.set(name, fault);
  }

  /** Starts a thread, unless files have faults. */
  async #start(): Promise<Faults> {
    const thread = new Thread(this.#good);
    const faults = await thread.reply<Faults>();
    if (faults?.length === 0) this.#thread = thread;
    else thread.end();
    if (faults !== undefined) return faults;
    const name = [...this.#good.keys()][thread.step[0] ?? 0];
    if (name === undefined) throw new Error('the thread that checks schemas does not start');
    return [[name, 'takes too long or too much memory to compile']];
  }

  /** Returns the problems of some of the first events. */
  async #takeTurn(name: string, events: readonly CheckedEvent[]): Promise<readonly Problems[]> {
    const content = this.#good.get(name);
    if (content === undefined) return events.map(() => NO_USABLE_SCHEMA);
    const struck = events.map(({ producer }) => this.#strikesOf(content, producer) >= STRIKES_MAX);
    if (struck[0] === true) return events.slice(0, lengthUntil(struck, false)).map(() => STRUCK);
    while (this.#thread?.hasEnded !== false)
      if ((await this.#start().catch(() => undefined))?.length !== 0) await this.#clock.sleep(RESTART_PAUSE_MS);
    const thread = this.#thread;
    const texts = events.slice(0, lengthUntil(struck, true)).map(({ body }) => String(body));
    const reply = await thread.reply<CheckReply>({ name, texts });
    if (reply?.isSlow === false) return reply.problems;
    const checked = reply === undefined ? (thread.step[0] ?? 0) : reply.problems.length;
    // If the thread has ended, the problems of the events before are lost.
    if (reply === undefined && checked > 0) return this.#takeTurn(name, events.slice(0, checked));
    this.#strike(name, content, events[checked]?.producer ?? '');
    return [...(reply?.problems ?? []), TOO_SLOW];
  }

  /** The strikes of a producer that have not expired. They belong to the content of the file, so a new one has none. */
  #strikesOf(content: Buffer, producer: string): number {
    const sinceMs = this.#clock.ms() - STRIKES_MS;
    return this.#strikes.filter(
      (strike) => strike.atMs > sinceMs && strike.producer === producer && strike.content.equals(content),
    ).length;
  }

  #strike(name: string, content: Buffer, producer: string): void {
    const atMs = this.#clock.ms();
    while ((this.#strikes[0]?.atMs ?? atMs) <= atMs - STRIKES_MS) this.#strikes.shift();
    this.#strikes.push({ content, producer, atMs });
    if (this.#strikesOf(content, producer) === STRIKES_MAX) this.onStruck(name, producer);
  }
}

/** The number of first elements before `value`. */
const lengthUntil = (flags: readonly boolean[], value: boolean): number =>
  flags.includes(value) ? flags.indexOf(value) : flags.length;

/** One life of the thread. */
class Thread {
  /** The index of the file or event that has ended the thread. */
  readonly step = new Int32Array(new SharedArrayBuffer(4)).fill(-1);
  hasEnded = false;
  readonly #worker: Worker;

  constructor(files: SchemaFiles) {
    const file = new URL(`./schema-worker${extname(import.meta.filename)}`, import.meta.url);
    const workerData: ThreadData = { files, step: this.step };
    this.#worker = new Worker(file, { workerData, resourceLimits: LIMITS });
    this.#worker.on('error', () => (this.hasEnded = true));
  }

  /** Resolves with `undefined` if the thread ends. The first reply, without a request, is the faults of the files. */
  async reply<Reply>(request?: CheckRequest): Promise<Reply | undefined> {
    if (request !== undefined) {
      this.step[0] = 0;
      this.#worker.postMessage(request);
    }
    // A pending call keeps the process alive.
    this.#worker.ref();
    const replies = await once(this.#worker, 'message').catch(() => []);
    this.#worker.unref();
    return replies[0] as Reply | undefined;
  }

  end(): void {
    void this.#worker.terminate();
  }
}
