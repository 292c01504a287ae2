// One life of the thread that compiles and checks schemas (schema-worker.ts). A call that takes too long, or a thread
// that ran out of memory, returns `undefined`; the caller then ends the thread and loads another one.
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../process/clock.ts';

export const NO_USABLE_SCHEMA = 'no usable schema';

/** Bounds the memory of the thread in MiB. An event of 4 MiB that consists of small objects needs about half of it. */
const LIMITS = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 16 };
const START_MS = 30_000;
/** Limit for each step of loading one file. */
const LOADING_MS = 2_000;
/** On a busy machine, a call may take this many times its limit, which is a limit on CPU time. */
const STARVED_FACTOR = 10;
const CPU_ANSWER_MS = 1_000;

/** The content of the files in a folder, by name. */
export type SchemaFiles = ReadonlyMap<string, Uint8Array>;
export type SchemaSets = readonly { readonly files: SchemaFiles; readonly names: readonly string[] }[];

/** `bodies` is one block; body n ends before `ends[n]`. */
export interface CheckRequest {
  readonly names: readonly string[];
  readonly ends: Float64Array;
  readonly bodies: Uint8Array<ArrayBuffer>;
}

export type SchemaReply =
  | { readonly loading: string }
  | { readonly faults: readonly (readonly [name: string, fault: string])[] }
  | { readonly problems: readonly (readonly [at: number, problems: readonly string[]])[] };

export interface CheckedBody {
  readonly name: string;
  readonly body: Buffer;
}

type Received = SchemaReply & { readonly cpuUs: number };

export class SchemaThread {
  readonly #worker: Worker;
  readonly #clock: Clock;
  readonly #received: Received[] = [];
  #wake: () => void = () => undefined;
  #cpuUs = 0;
  #ended = false;

  /** Compiles schemas. A file that takes too long has a fault. Rejects if the thread does not start. */
  static async load(
    sets: SchemaSets,
    clock: Clock,
  ): Promise<{ readonly thread: SchemaThread; readonly faults: ReadonlyMap<string, string> }> {
    const slow = new Map<string, string>();
    for (;;) {
      const thread = new SchemaThread(sets, [...slow.keys()], clock);
      let [loading, reply] = [undefined as string | undefined, await thread.#next(START_MS)];
      for (; reply !== undefined && 'loading' in reply; reply = await thread.#next(LOADING_MS)) loading = reply.loading;
      if (reply !== undefined && 'faults' in reply) return { thread, faults: new Map([...slow, ...reply.faults]) };
      thread.end();
      if (loading === undefined) throw new Error('the thread that checks schemas does not start');
      slow.set(loading, 'takes too long or too much memory to compile');
    }
  }

  private constructor(sets: SchemaSets, skipped: readonly string[], clock: Clock) {
    this.#clock = clock;
    const file = new URL(`./schema-worker${extname(import.meta.filename)}`, import.meta.url);
    this.#worker = new Worker(file, { workerData: { sets, skipped }, resourceLimits: LIMITS });
    this.#worker.unref();
    this.#worker.on('message', (reply: Received) => {
      this.#received.push(reply);
      this.#wake();
    });
    this.#worker.on('error', () => this.end());
    this.#worker.on('exit', () => this.end());
  }

  /** Returns the problems of each event, none if it matches. */
  async check(events: readonly CheckedBody[], limitMs: number): Promise<readonly (readonly string[])[] | undefined> {
    const bodies = new Uint8Array(events.reduce((bytes, { body }) => bytes + body.length, 0));
    const ends = new Float64Array(events.length);
    let end = 0;
    for (const [at, { body }] of events.entries()) {
      bodies.set(body, end);
      end += body.length;
      ends[at] = end;
    }
    const request: CheckRequest = { names: events.map(({ name }) => name), ends, bodies };
    this.#worker.postMessage(request, [bodies.buffer]);
    const reply = await this.#next(limitMs);
    if (reply === undefined || !('problems' in reply)) return undefined;
    const problems = new Map(reply.problems);
    return events.map((_, at) => problems.get(at) ?? []);
  }

  end(): void {
    this.#ended = true;
    this.#wake();
    void this.#worker.terminate();
  }

  async #next(limitMs: number): Promise<Received | undefined> {
    const startMs = this.#clock.ms();
    for (let waitMs = limitMs; !this.#ended;) {
      await this.#wait(waitMs);
      const reply = this.#received.shift();
      if (reply !== undefined) {
        this.#cpuUs = reply.cpuUs;
        return reply;
      }
      const cpuUs = await this.#cpuTime();
      if (this.#received.length > 0) continue;
      const usedMs = (cpuUs - this.#cpuUs) / 1_000;
      if (usedMs >= limitMs || this.#clock.ms() - startMs > STARVED_FACTOR * limitMs) return undefined;
      waitMs = Math.max(1, limitMs - usedMs);
    }
    return undefined;
  }

  /** Waits for a reply or the end of the thread. A pending call keeps the process alive. */
  async #wait(ms: number): Promise<void> {
    if (this.#received.length > 0 || this.#ended) return;
    this.#worker.ref();
    await new Promise<void>((resolve) => {
      const timer = this.#clock.after(ms, resolve);
      this.#wake = () => {
        timer.close();
        resolve();
      };
    });
    this.#wake = () => undefined;
    if (!this.#ended) this.#worker.unref();
  }

  /** Code that node cannot interrupt does not answer, and uses the CPU. */
  async #cpuTime(): Promise<number> {
    const used = this.#worker.cpuUsage().then(
      ({ user, system }) => user + system,
      () => Number.POSITIVE_INFINITY,
    );
    return Promise.race([used, this.#clock.sleep(CPU_ANSWER_MS).then(() => Number.POSITIVE_INFINITY)]);
  }
}
