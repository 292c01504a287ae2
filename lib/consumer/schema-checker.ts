// Checks events in a thread of their own, so that no schema can hold the event loop.
//
//   batches of all types ─▶ thread ─▶ problems        a batch that takes too long makes its types suspect
//   events of a suspect type, one by one ─▶ thread    an event that takes too long goes to quarantine
//
// A type whose events took too long STRIKES_MAX times within STRIKES_MS has no usable schema until its file changes.
// Batches and suspect types take turns, so a slow type does not delay the others for longer than a turn.
import type { Clock } from '../process/clock.ts';
import {
  NO_USABLE_SCHEMA,
  SchemaThread,
  type CheckedBody,
  type SchemaFiles,
  type SchemaSets,
} from './schema-thread.ts';

const BATCH_MS = 1_000;
const BATCH_EVENTS_MAX = 256;
const EVENT_MS = 100;
const TURN_MS = 1_000;
const STRIKES_MAX = 3;
const STRIKES_MS = 60_000;
const RESTART_PAUSE_MS = 1_000;

export type Problems = readonly string[];

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
  /** The files that each usable schema was compiled from, by its name. */
  readonly #sources: ReadonlyMap<string, SchemaFiles>;
  readonly #names: ReadonlySet<string>;
  readonly #struck: Set<string>;
  readonly #strikes = new Map<string, readonly number[]>();
  readonly #suspects = new Map<string, Item[]>();
  #thread: SchemaThread | undefined;
  #waiting: Item[] = [];
  #running = false;
  #closed = false;

  /** Loads schemas. If a file is unusable, the last good schema of its type stays. Without files, no thread starts. */
  static async load({ clock, files, unreadable, last }: Loading): Promise<SchemaChecker> {
    const first = await loaded([{ files, names: [...files.keys()] }], clock);
    const faults = new Map([...unreadable, ...first.faults]);
    const sources = new Map<string, SchemaFiles>();
    for (const name of files.keys()) if (!faults.has(name)) sources.set(name, files);
    const kept = [...faults.keys()].filter((name) => last?.isUsable(name) === true);
    for (const name of kept) sources.set(name, last?.sourceOf(name) ?? files);
    if (kept.length > 0) first.thread?.end();
    const thread = kept.length > 0 ? undefined : first.thread;
    const struck = [...files].filter(([name, text]) => last?.hasStruck(name, text) === true).map(([name]) => name);
    return new SchemaChecker(clock, faults, sources, new Set(struck), thread);
  }

  private constructor(
    clock: Clock,
    faults: ReadonlyMap<string, string>,
    sources: ReadonlyMap<string, SchemaFiles>,
    struck: Set<string>,
    thread: SchemaThread | undefined,
  ) {
    this.#clock = clock;
    this.faults = faults;
    this.#sources = sources;
    this.#names = new Set([...faults.keys(), ...sources.keys()].sort());
    this.#struck = struck;
    this.#thread = thread;
  }

  /** The names of all files, in alphabetical order. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  get unusable(): readonly string[] {
    return this.names.filter((name) => !this.isUsable(name));
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  isUsable(name: string): boolean {
    return this.#sources.has(name) && !this.#struck.has(name);
  }

  sourceOf(name: string): SchemaFiles | undefined {
    return this.#sources.get(name);
  }

  hasStruck(name: string, text: Uint8Array): boolean {
    return this.#struck.has(name) && Buffer.compare(this.#sources.get(name)?.get(name) ?? NOTHING, text) === 0;
  }

  /** Resolves with the problems of each event, none if it matches. */
  check(events: readonly CheckedBody[]): Promise<readonly Problems[]> {
    return new Promise((resolve) => {
      const problems = new Array<Problems>(events.length);
      let left = events.length;
      for (const [at, event] of events.entries()) {
        const settle = (found: Problems): void => {
          problems[at] = found;
          left -= 1;
          if (left === 0) resolve(problems);
        };
        if (!this.isUsable(event.name)) settle([NO_USABLE_SCHEMA]);
        else (this.#suspects.get(event.name) ?? this.#waiting).push({ ...event, settle });
      }
      if (events.length === 0) resolve(problems);
      void this.#run();
    });
  }

  /** Ends the thread once all events are checked. */
  close(): void {
    this.#closed = true;
    if (!this.#running) this.#thread?.end();
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (;;) {
      const batch = this.#waiting.splice(0, BATCH_EVENTS_MAX);
      if (batch.length > 0) await this.#checkBatch(batch);
      const suspect = [...this.#suspects].find(([, items]) => items.length > 0);
      if (suspect !== undefined) await this.#checkSuspect(...suspect);
      else if (this.#waiting.length === 0) break;
    }
    this.#running = false;
    if (this.#closed) this.#thread?.end();
  }

  async #checkBatch(batch: readonly Item[]): Promise<void> {
    if (await this.#checked(batch, BATCH_MS)) return;
    for (const item of batch) {
      const suspect = this.#suspects.get(item.name) ?? [];
      suspect.push(item);
      this.#suspects.set(item.name, suspect);
    }
  }

  /** Checks events of one type, one by one, for up to a turn. */
  async #checkSuspect(name: string, items: Item[]): Promise<void> {
    const startMs = this.#clock.ms();
    const elapsedMs = (): number => this.#clock.ms() - startMs;
    let count = 0;
    for (; count < items.length && elapsedMs() < TURN_MS; count += 1) {
      const item = items[count];
      if (item === undefined || this.#struck.has(name)) break;
      if (await this.#checked([item], EVENT_MS)) continue;
      item.settle([`the check of this event takes longer than ${EVENT_MS} ms, or needs too much memory`]);
      this.#strike(name);
    }
    items.splice(0, count);
    this.#suspects.delete(name);
    if (this.#struck.has(name)) for (const { settle } of items) settle([NO_USABLE_SCHEMA]);
    // The type stays suspect while a batch of its events could take too long. It moves to the end of the line.
    else if (items.length > 0 || elapsedMs() * BATCH_EVENTS_MAX > count * BATCH_MS) this.#suspects.set(name, items);
  }

  #strike(name: string): void {
    const now = this.#clock.ms();
    const strikes = [...(this.#strikes.get(name) ?? []).filter((atMs) => now - atMs < STRIKES_MS), now];
    this.#strikes.set(name, strikes);
    if (strikes.length < STRIKES_MAX) return;
    this.#struck.add(name);
    this.onStruck(name);
  }

  /** Returns false, with a new thread for the next call, if the check took too long. */
  async #checked(items: readonly Item[], limitMs: number): Promise<boolean> {
    this.#thread ??= await this.#restarted();
    const problems = await this.#thread.check(items, limitMs);
    if (problems === undefined) {
      this.#thread.end();
      this.#thread = undefined;
      return false;
    }
    for (const [at, { settle }] of items.entries()) settle(problems[at] ?? []);
    return true;
  }

  async #restarted(): Promise<SchemaThread> {
    const sets = new Map<SchemaFiles, string[]>();
    for (const [name, files] of this.#sources)
      if (!this.#struck.has(name)) sets.set(files, [...(sets.get(files) ?? []), name]);
    for (;;) {
      const { thread } = await loaded(
        [...sets].map(([files, names]) => ({ files, names })),
        this.#clock,
      );
      if (thread !== undefined) return thread;
      await this.#clock.sleep(RESTART_PAUSE_MS);
    }
  }
}

const NOTHING = Buffer.alloc(0);

/** `thread` is undefined if there is nothing to compile, or if the thread does not start. */
async function loaded(
  sets: SchemaSets,
  clock: Clock,
): Promise<{ readonly thread?: SchemaThread; readonly faults: ReadonlyMap<string, string> }> {
  if (sets.every(({ names }) => names.length === 0)) return { faults: new Map() };
  return SchemaThread.load(sets, clock);
}
