// Checks events in a thread of their own (schema-worker.ts), so that no schema can hold the event loop.
//
// The thread checks a batch until a check takes longer than EVENT_MS or needs too much memory, or until its turn is
// over. The event of such a check goes to quarantine. A type to which that happens STRIKES_MAX times within STRIKES_MS
// has no usable schema until its file changes. The rest of a batch is checked later, the type that ended it last.
import { once } from 'node:events';
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

export interface CheckRequest {
  readonly names: readonly string[];
  readonly texts: readonly string[];
}

export interface Checked {
  /** Of the first events, in order. */
  readonly problems: readonly Problems[];
  /** The event whose check was given up. */
  readonly slow: number | undefined;
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
  /** The files that have compiled, including last good ones. */
  readonly good: SchemaFiles;
  /** Files of types that have lost their schemas. */
  readonly struck: Set<string>;
  /** Called with the file of a type that loses its schema. */
  onStruck: (name: string) => void = () => undefined;
  readonly #clock: Clock;
  /** Times at which an event of a type took too long. */
  readonly #strikes = new Map<string, readonly number[]>();
  #thread: Thread | undefined;
  #waiting: Item[] = [];
  #running = false;
  #closed = false;

  /** Loads schemas. An unusable file is replaced by its last good content. Without files, no thread starts. */
  static async load({ clock, files, unreadable, last }: Loading): Promise<SchemaChecker> {
    let loaded = await startThread(files);
    const faults = new Map([...unreadable, ...loaded.faults]);
    const kept = [...(last?.good ?? [])].filter(([name]) => faults.has(name));
    const all = new Map([...files, ...kept]);
    if (kept.length > 0) {
      loaded.thread?.end();
      loaded = await startThread(all);
    }
    const good = new Map([...all].filter(([name]) => !loaded.faults.has(name)));
    const isSame = (name: string): boolean =>
      Buffer.compare(last?.good.get(name) ?? NOTHING, good.get(name) ?? NOTHING) === 0;
    const struck = new Set([...(last?.struck ?? [])].filter(isSame));
    return new SchemaChecker(clock, faults, good, struck, loaded.thread);
  }

  private constructor(
    clock: Clock,
    faults: ReadonlyMap<string, string>,
    good: SchemaFiles,
    struck: Set<string>,
    thread: Thread | undefined,
  ) {
    this.#clock = clock;
    this.faults = faults;
    this.good = good;
    this.struck = struck;
    this.#thread = thread;
  }

  /** The names of all files, in alphabetical order. */
  get names(): readonly string[] {
    return [...new Set([...this.good.keys(), ...this.faults.keys()])].sort();
  }

  /** The number of types without a usable schema. */
  get unusable(): number {
    return this.names.filter((name) => !this.#isUsable(name)).length;
  }

  has(name: string): boolean {
    return this.good.has(name) || this.faults.has(name);
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
    return this.good.has(name) && !this.struck.has(name);
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    while (this.#waiting.length > 0) {
      if (this.#thread?.hasEnded === true) await this.#restart();
      else await this.#checkBatch();
    }
    this.#running = false;
    if (this.#closed) this.#thread?.end();
  }

  async #restart(): Promise<void> {
    const { thread } = await startThread(this.good).catch(() => ({ thread: undefined }));
    if (thread === undefined) await this.#clock.sleep(RESTART_PAUSE_MS);
    else this.#thread = thread;
  }

  async #checkBatch(): Promise<void> {
    const some = this.#waiting.splice(0, BATCH_EVENTS_MAX);
    const batch = some.filter(({ name }) => this.#isUsable(name));
    for (const { name, settle } of some) if (!this.#isUsable(name)) settle([NO_USABLE_SCHEMA]);
    if (batch.length === 0 || this.#thread === undefined) return;
    const { problems, slow } = await this.#thread.check(batch);
    for (const [at, found] of problems.entries()) batch[at]?.settle(found);
    const last = batch[slow ?? problems.length];
    if (last === undefined) return;
    if (slow !== undefined) {
      last.settle([TOO_SLOW]);
      this.#strike(last.name);
    }
    const left = batch.slice(problems.length).filter((_, at) => problems.length + at !== slow);
    const rest = [...left, ...this.#waiting];
    this.#waiting = [
      ...rest.filter(({ name }) => name !== last.name),
      ...rest.filter(({ name }) => name === last.name),
    ];
  }

  #strike(name: string): void {
    const now = this.#clock.ms();
    const strikes = [...(this.#strikes.get(name) ?? []).filter((atMs) => now - atMs < STRIKES_MS), now];
    this.#strikes.set(name, strikes);
    if (strikes.length < STRIKES_MAX) return;
    this.struck.add(name);
    this.onStruck(name);
  }
}

const NOTHING = Buffer.alloc(0);

interface Started {
  readonly thread: Thread | undefined;
  readonly faults: ReadonlyMap<string, string>;
}

/** Compiles schemas. A file that takes too long has a fault. Without a usable file, no thread stays. */
async function startThread(files: SchemaFiles): Promise<Started> {
  const slow = new Map<string, string>();
  while (files.size > slow.size) {
    const thread = new Thread({ files, skipped: new Set(slow.keys()) });
    const faults = await thread.next<readonly (readonly [name: string, fault: string])[]>();
    if (faults !== undefined) return { thread, faults: new Map([...slow, ...faults]) };
    const name = [...files.keys()][thread.step - 1];
    if (name === undefined) throw new Error('the thread that checks schemas does not start');
    slow.set(name, 'takes too long or too much memory to compile');
  }
  return { thread: undefined, faults: slow };
}

/** One life of the thread. It ends if it needs too much memory. */
class Thread {
  readonly #worker: Worker;
  readonly #step = new Int32Array(new SharedArrayBuffer(4));
  hasEnded = false;

  constructor(data: Omit<ThreadData, 'step'>) {
    const file = new URL(`./schema-worker${extname(import.meta.filename)}`, import.meta.url);
    this.#worker = new Worker(file, { workerData: { ...data, step: this.#step }, resourceLimits: LIMITS });
    this.#worker.on('error', () => (this.hasEnded = true));
  }

  get step(): number {
    return this.#step[0] ?? 0;
  }

  /** If the thread ends, nothing but the event at fault is known. */
  async check(events: readonly CheckedBody[]): Promise<Checked> {
    this.#step[0] = 0;
    const names = events.map(({ name }) => name);
    this.#worker.postMessage({ names, texts: events.map(({ body }) => body.toString()) } satisfies CheckRequest);
    return (await this.next<Checked>()) ?? { problems: [], slow: this.step };
  }

  /** Resolves with the next reply, or with `undefined` if the thread ends. A pending call keeps the process alive. */
  async next<Reply>(): Promise<Reply | undefined> {
    this.#worker.ref();
    const replies = await once(this.#worker, 'message').catch(() => []);
    this.#worker.unref();
    return replies[0] as Reply | undefined;
  }

  end(): void {
    void this.#worker.terminate();
  }
}
