// Checks events in a thread of their own (schema-worker.ts), so that no schema can hold the event loop.
//
// Types take turns of about a second. If the check of an event takes longer than EVENT_MS or needs too much memory, the
// thread ends, and the event goes to quarantine. A type to which that happens STRIKES_MAX times within STRIKES_MS has
// no usable schema until its file changes.
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../process/clock.ts';

/** The limit of one check. */
export const EVENT_MS = 100;
const NO_USABLE_SCHEMA: Problems = ['no usable schema'];
const TOO_SLOW: Problems = [`the check of this event takes longer than ${EVENT_MS} ms, or needs too much memory`];

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

export class SchemaChecker {
  readonly faults = new Map<string, string>();
  /** Called with the file of a type that loses its schema. */
  onStruck: (name: string) => void = () => undefined;
  readonly #clock: Clock;
  /** The files that have compiled, including last good ones. */
  readonly #good: Map<string, Buffer>;
  /** The content of files whose types have lost their schemas. */
  readonly #struck: Map<string, Buffer>;
  /** Times at which an event of a type took too long. */
  readonly #strikes = new Map<string, readonly number[]>();
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
    this.#struck = last === undefined ? new Map<string, Buffer>() : last.#struck;
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
  async check(name: string, bodies: readonly Buffer[]): Promise<readonly Problems[]> {
    this.#checks += 1;
    const problems: Problems[] = [];
    while (problems.length < bodies.length) {
      const texts = bodies.slice(problems.length).map(String);
      const turn = this.#turns.then(() => this.#takeTurn({ name, texts }));
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
    const content = this.#good.get(name);
    return content !== undefined && this.#struck.get(name)?.equals(content) !== true;
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
  async #takeTurn({ name, texts }: CheckRequest): Promise<readonly Problems[]> {
    if (!this.#isUsable(name)) return texts.map(() => NO_USABLE_SCHEMA);
    while (this.#thread?.hasEnded !== false)
      if ((await this.#start().catch(() => undefined))?.length !== 0) await this.#clock.sleep(RESTART_PAUSE_MS);
    const thread = this.#thread;
    const problems = await thread.reply<readonly Problems[]>({ name, texts });
    if (problems !== undefined) return problems;
    const slow = thread.step[0] ?? 0;
    // The problems of the events before are lost.
    if (slow > 0) return this.#takeTurn({ name, texts: texts.slice(0, slow) });
    this.#strike(name);
    return [TOO_SLOW];
  }

  #strike(name: string): void {
    const now = this.#clock.ms();
    const strikes = [...(this.#strikes.get(name) ?? []).filter((atMs) => now - atMs < STRIKES_MS), now];
    this.#strikes.set(name, strikes);
    const content = this.#good.get(name);
    if (strikes.length < STRIKES_MAX || content === undefined) return;
    this.#struck.set(name, content);
    this.onStruck(name);
  }
}

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
