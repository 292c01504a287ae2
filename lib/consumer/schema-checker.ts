// Checks events in a thread of their own, so that no schema can hold the event loop.
//
//   batches of all types ─▶ thread ─▶ problems        a batch that takes too long makes its types suspect
//   events of a suspect type, one by one ─▶ thread    an event that takes too long goes to quarantine
//
// A type whose events took too long STRIKES_MAX times within STRIKES_MS has no usable schema until its file changes.
// Batches and suspect types take turns, so a slow type does not delay the others for longer than a turn.
import type { Clock } from '../process/clock.ts';
import { NO_USABLE_SCHEMA, SchemaThread, type CheckedBody, type SchemaFiles } from './schema-thread.ts';

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

/** The schema of a type. */
interface Schema {
  readonly name: string;
  /** The files that it was compiled from; `undefined` if there is no good one. */
  readonly source: SchemaFiles | undefined;
  /** Times at which an event took too long. */
  strikes: readonly number[];
  struck: boolean;
  /** Events to check one by one; `undefined` while the type is not suspect. */
  suspects: Item[] | undefined;
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
  /** In the order of turns. */
  readonly #schemas: Map<string, Schema>;
  #thread: SchemaThread | undefined;
  #waiting: Item[] = [];
  #running = false;
  #closed = false;

  /** Loads schemas. If a file is unusable, the last good schema of its type stays. Without files, no thread starts. */
  static async load({ clock, files, unreadable, last }: Loading): Promise<SchemaChecker> {
    const names = [...files.keys()];
    const first = names.length === 0 ? undefined : await SchemaThread.load([{ files, names }], clock);
    const faults = new Map([...unreadable, ...(first?.faults ?? [])]);
    const schemas = [...names, ...unreadable.keys()].map((name): Schema => {
      const before = last === undefined ? undefined : last.#schemas.get(name);
      const isSame = Buffer.compare(before?.source?.get(name) ?? NOTHING, files.get(name) ?? NOTHING) === 0;
      const kept = before?.struck === true ? undefined : before?.source;
      const source = faults.has(name) ? kept : files;
      return { name, source, strikes: [], struck: before?.struck === true && isSame, suspects: undefined };
    });
    const keepsOld = schemas.some(({ source }) => source !== undefined && source !== files);
    if (keepsOld) first?.thread.end();
    return new SchemaChecker(clock, faults, schemas, keepsOld ? undefined : first?.thread);
  }

  private constructor(
    clock: Clock,
    faults: ReadonlyMap<string, string>,
    schemas: readonly Schema[],
    thread: SchemaThread | undefined,
  ) {
    this.#clock = clock;
    this.faults = faults;
    this.#schemas = new Map(schemas.map((schema) => [schema.name, schema]));
    this.#thread = thread;
  }

  /** The names of all files, in alphabetical order. */
  get names(): readonly string[] {
    return [...this.#schemas.keys()].sort();
  }

  /** The number of types without a usable schema. */
  get unusable(): number {
    return [...this.#schemas.values()].filter((schema) => !isUsable(schema)).length;
  }

  has(name: string): boolean {
    return this.#schemas.has(name);
  }

  /** Resolves with the problems of each event, none if it matches. */
  check(events: readonly CheckedBody[]): Promise<readonly Problems[]> {
    return new Promise((resolve) => {
      const problems = new Array<Problems>(events.length);
      let left = events.length;
      if (left === 0) resolve(problems);
      for (const [at, event] of events.entries()) {
        const settle = (found: Problems): void => {
          problems[at] = found;
          left -= 1;
          if (left === 0) resolve(problems);
        };
        const schema = this.#schemas.get(event.name);
        if (schema === undefined || !isUsable(schema)) settle([NO_USABLE_SCHEMA]);
        else (schema.suspects ?? this.#waiting).push({ ...event, settle });
      }
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
      const suspect = [...this.#schemas.values()].find(({ suspects = [] }) => suspects.length > 0);
      if (suspect !== undefined) await this.#checkSuspect(suspect);
      else if (this.#waiting.length === 0) break;
    }
    this.#running = false;
    if (this.#closed) this.#thread?.end();
  }

  async #checkBatch(batch: readonly Item[]): Promise<void> {
    if (await this.#checked(batch, BATCH_MS)) return;
    for (const item of batch) {
      const schema = this.#schemas.get(item.name);
      if (schema !== undefined) (schema.suspects ??= []).push(item);
    }
  }

  /** Checks events of one type, one by one, for up to a turn. */
  async #checkSuspect(schema: Schema): Promise<void> {
    // The next turn is another type's.
    this.#schemas.delete(schema.name);
    this.#schemas.set(schema.name, schema);
    const items = schema.suspects ?? [];
    const startMs = this.#clock.ms();
    const elapsedMs = (): number => this.#clock.ms() - startMs;
    let count = 0;
    for (; !schema.struck && elapsedMs() < TURN_MS; count += 1) {
      const item = items[count];
      if (item === undefined) break;
      if (await this.#checked([item], EVENT_MS)) continue;
      item.settle([`the check of this event takes longer than ${EVENT_MS} ms, or needs too much memory`]);
      this.#strike(schema);
    }
    items.splice(0, count);
    // The type stays suspect while a batch of its events could take too long.
    if (items.length === 0 && elapsedMs() * BATCH_EVENTS_MAX <= count * BATCH_MS) schema.suspects = undefined;
    if (schema.struck) for (const { settle } of items.splice(0)) settle([NO_USABLE_SCHEMA]);
  }

  #strike(schema: Schema): void {
    const now = this.#clock.ms();
    schema.strikes = [...schema.strikes.filter((atMs) => now - atMs < STRIKES_MS), now];
    if (schema.strikes.length < STRIKES_MAX) return;
    schema.struck = true;
    this.onStruck(schema.name);
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
    const names = new Map<SchemaFiles, string[]>();
    for (const { name, source, struck } of this.#schemas.values())
      if (source !== undefined && !struck) names.set(source, [...(names.get(source) ?? []), name]);
    const sets = Array.from(names, ([files, some]) => ({ files, names: some }));
    for (;;) {
      try {
        return (await SchemaThread.load(sets, this.#clock)).thread;
      } catch {
        await this.#clock.sleep(RESTART_PAUSE_MS);
      }
    }
  }
}

const NOTHING = Buffer.alloc(0);

const isUsable = ({ source, struck }: Schema): boolean => source !== undefined && !struck;
