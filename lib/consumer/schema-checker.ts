// Checks events in a thread of their own (schema-worker.ts), so that no schema can hold the event loop.
//
// The thread checks a batch until a check takes longer than EVENT_MS or needs too much memory, or until its turn is
// over. The event of such a check goes to quarantine. A type to which that happens STRIKES_MAX times within STRIKES_MS
// has no usable schema until its file changes. The rest of a batch is checked later, the type that ended it last.
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../process/clock.ts';

export const NO_USABLE_SCHEMA = 'no usable schema';
/** The limit of one check. */
export const EVENT_MS = 100;
const TOO_SLOW = `the check of this event takes longer than ${EVENT_MS} ms, or needs too much memory`;

const BATCH_EVENTS_MAX = 256;
const STRIKES_MAX = 3;
const STRIKES_MS = 60_000;
const RESTART_PAUSE_MS = 1_000;
/** The thread is given up if its step does not change for this long. */
const STEP_MS = 30_000;
/** Bounds the memory of the thread in MiB. An event of 4 MiB that consists of small objects needs about half of it. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };

export type Problems = readonly string[];

/** The content of the files in a folder, by name. */
export type SchemaFiles = ReadonlyMap<string, Uint8Array>;

export interface ThreadData {
  readonly files: SchemaFiles;
  readonly skipped: ReadonlySet<string>;
  /** While schemas are loaded, the number of the current file, from 1. Later, the index of the event. */
  readonly step: Int32Array;
}

/** `bodies` is one block; body n ends before `ends[n]`. */
export interface CheckRequest {
  readonly names: readonly string[];
  readonly ends: Float64Array;
  readonly bodies: Uint8Array<ArrayBuffer>;
}

/** The first `done` events were checked. The check of event `slow` was given up. */
export interface Checked {
  readonly done: number;
  readonly slow: number | undefined;
  readonly problems: ReadonlyMap<number, Problems>;
}

interface CheckedBody {
  readonly name: string;
  readonly body: Buffer;
}

interface Item extends CheckedBody {
  readonly settle: (problems: Problems) => void;
}

/** The files of a folder of schemas. */
export interface Loading {
  readonly clock: Clock;
  readonly files: SchemaFiles;
  /** The faults of files that could not be read. */
  readonly unreadable: ReadonlyMap<string, string>;
  /** The checker in use, whose schemas replace unusable ones. */
  readonly last?: SchemaChecker | undefined;
}

export class SchemaChecker {
  /** The faults of unusable files, by name. */
  readonly faults: ReadonlyMap<string, string>;
  /** Called with the file of a type that has lost its schema. */
  onStruck: (name: string) => void = () => undefined;
  readonly #clock: Clock;
  /** The files that have compiled, including last good ones. */
  readonly #good: SchemaFiles;
  /** Times at which an event of a type took too long. */
  readonly #strikes = new Map<string, readonly number[]>();
  readonly #struck = new Set<string>();
  #thread: Thread | undefined;
  #waiting: Item[] = [];
  #running = false;
  #closed = false;

  /** Loads schemas. An unusable file is replaced by its last good content. Without files, no thread starts. */
  static async load({ clock, files, unreadable, last }: Loading): Promise<SchemaChecker> {
    const old = last === undefined ? new Map<string, Uint8Array>() : last.#good;
    const struck = last === undefined ? [] : last.#struck;
    let loaded = await startThread(files, clock);
    const faults = new Map([...unreadable, ...loaded.faults]);
    const kept = [...old].filter(([name]) => faults.has(name));
    const all = new Map([...files, ...kept]);
    if (kept.length > 0) {
      loaded.thread?.end();
      loaded = await startThread(all, clock);
    }
    const good = new Map([...all].filter(([name]) => !loaded.faults.has(name)));
    const checker = new SchemaChecker(clock, faults, good, loaded.thread);
    for (const name of struck)
      if (Buffer.compare(old.get(name) ?? NOTHING, good.get(name) ?? NOTHING) === 0) checker.#struck.add(name);
    return checker;
  }

  private constructor(
    clock: Clock,
    faults: ReadonlyMap<string, string>,
    good: SchemaFiles,
    thread: Thread | undefined,
  ) {
    this.#clock = clock;
    this.faults = faults;
    this.#good = good;
    this.#thread = thread;
  }

  /** The names of all files, in alphabetical order. */
  get names(): readonly string[] {
    return [...new Set([...this.#good.keys(), ...this.faults.keys()])].sort();
  }

  /** The number of types without a usable schema. */
  get unusable(): number {
    return this.names.filter((name) => !this.#isUsable(name)).length;
  }

  has(name: string): boolean {
    return this.#good.has(name) || this.faults.has(name);
  }

  /** Resolves with the problems of each event, none if it matches. */
  check(events: readonly CheckedBody[]): Promise<readonly Problems[]> {
    const checked = events.map((event) => new Promise<Problems>((settle) => this.#waiting.push({ ...event, settle })));
    void this.#run();
    return Promise.all(checked);
  }

  /** Ends the thread once all events are checked. */
  close(): void {
    this.#closed = true;
    if (!this.#running) this.#thread?.end();
  }

  #isUsable(name: string): boolean {
    return this.#good.has(name) && !this.#struck.has(name);
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    while (this.#waiting.length > 0) await this.#checkBatch();
    this.#running = false;
    if (this.#closed) this.#thread?.end();
  }

  async #checkBatch(): Promise<void> {
    const [batch = [], others = []] = Array.from({ length: 2 }, () => [] as Item[]);
    for (const item of this.#waiting.splice(0, BATCH_EVENTS_MAX))
      (this.#isUsable(item.name) ? batch : others).push(item);
    for (const { settle } of others) settle([NO_USABLE_SCHEMA]);
    if (batch.length === 0) return;
    this.#thread ??= await this.#restarted();
    const { done, slow, problems } = await this.#thread.check(batch);
    for (const [at, { settle }] of batch.slice(0, done).entries()) settle(problems.get(at) ?? []);
    if (done === batch.length) return;
    const last = batch[slow ?? done];
    if (slow !== undefined && last !== undefined) {
      last.settle([TOO_SLOW]);
      this.#strike(last.name);
    }
    if (this.#thread.hasEnded) this.#thread = undefined;
    const rest = [...batch.slice(done).filter((_, at) => done + at !== slow), ...this.#waiting];
    this.#waiting = [
      ...rest.filter(({ name }) => name !== last?.name),
      ...rest.filter(({ name }) => name === last?.name),
    ];
  }

  #strike(name: string): void {
    const now = this.#clock.ms();
    const strikes = [...(this.#strikes.get(name) ?? []).filter((atMs) => now - atMs < STRIKES_MS), now];
    this.#strikes.set(name, strikes);
    if (strikes.length < STRIKES_MAX) return;
    this.#struck.add(name);
    this.onStruck(name);
  }

  async #restarted(): Promise<Thread> {
    for (;;) {
      const { thread } = await startThread(this.#good, this.#clock).catch(() => ({ thread: undefined }));
      if (thread !== undefined) return thread;
      await this.#clock.sleep(RESTART_PAUSE_MS);
    }
  }
}

const NOTHING = Buffer.alloc(0);

/** Compiles schemas. A file that takes too long has a fault. Rejects if the thread does not start. */
async function startThread(
  files: SchemaFiles,
  clock: Clock,
): Promise<{ readonly thread: Thread | undefined; readonly faults: ReadonlyMap<string, string> }> {
  const slow = new Map<string, string>();
  while (files.size > 0) {
    const thread = new Thread({ files, skipped: new Set(slow.keys()) }, clock);
    const faults = await thread.next<readonly (readonly [name: string, fault: string])[]>();
    if (faults !== undefined) return { thread, faults: new Map([...slow, ...faults]) };
    thread.end();
    const name = [...files.keys()][thread.step - 1];
    if (name === undefined) throw new Error('the thread that checks schemas does not start');
    slow.set(name, 'takes too long or too much memory to compile');
  }
  return { thread: undefined, faults: slow };
}

/** One life of the thread. */
class Thread {
  readonly #worker: Worker;
  readonly #clock: Clock;
  readonly #step = new Int32Array(new SharedArrayBuffer(4));
  #settle: (reply?: unknown) => void = () => undefined;
  hasEnded = false;

  constructor(data: Omit<ThreadData, 'step'>, clock: Clock) {
    this.#clock = clock;
    const file = new URL(`./schema-worker${extname(import.meta.filename)}`, import.meta.url);
    this.#worker = new Worker(file, { workerData: { ...data, step: this.#step }, resourceLimits: LIMITS });
    this.#worker.unref();
    this.#worker.on('message', (reply) => this.#settle(reply));
    this.#worker.on('error', () => this.end());
    this.#worker.on('exit', () => this.end());
  }

  get step(): number {
    return this.#step[0] ?? 0;
  }

  /** If the thread ends, nothing but the event at fault is known. */
  async check(events: readonly CheckedBody[]): Promise<Checked> {
    const bodies = new Uint8Array(events.reduce((bytes, { body }) => bytes + body.length, 0));
    const ends = new Float64Array(events.length);
    let end = 0;
    for (const [at, { body }] of events.entries()) {
      bodies.set(body, end);
      end += body.length;
      ends[at] = end;
    }
    const request: CheckRequest = { names: events.map(({ name }) => name), ends, bodies };
    this.#step[0] = 0;
    this.#worker.postMessage(request, [bodies.buffer]);
    return (await this.next<Checked>()) ?? { done: 0, slow: this.step, problems: new Map() };
  }

  /** Resolves with the next reply, or with `undefined` if the thread ends. A pending call keeps the process alive. */
  async next<Reply>(): Promise<Reply | undefined> {
    if (this.hasEnded) return undefined;
    this.#worker.ref();
    const { promise, resolve } = Promise.withResolvers<unknown>();
    this.#settle = resolve;
    let step = this.step;
    const watch = this.#clock.every(STEP_MS, () => {
      if (step === this.step) this.end();
      step = this.step;
    });
    const reply = await promise;
    watch.close();
    this.#worker.unref();
    return reply as Reply | undefined;
  }

  end(): void {
    this.hasEnded = true;
    this.#settle();
    void this.#worker.terminate();
  }
}
