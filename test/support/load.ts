// Producers that send events until they are stopped. Each connection sends one event after the other.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { event, type RequestFailed } from './client.ts';
import { atEnd, eventually } from './scope.ts';
import type { WarehouseStore } from './warehouse-store.ts';

/** The server that producers send their events to. `post` rejects if there is no answer. */
interface Taker {
  post(body: string): Promise<{ readonly status: number; readonly body?: unknown }>;
}

const REFUSED_MAX = 1_000;
const SLOW_MS = 100;

/** A load that never retries. */
export class Load {
  /** Requests without an answer, by the ids of their events. */
  readonly unanswered = new Map<string, RequestFailed>();
  readonly accepted = new Set<string>();
  slowestMs = 0;
  /** Times of answers that took longer than SLOW_MS, and how long. */
  readonly #slow: (readonly [atMs: number, tookMs: number])[] = [];
  protected readonly prefix: string;
  /** Set at the end of the test, when the gateway no longer answers. */
  protected abandoned = false;
  readonly #statuses = new Set<number>();
  readonly #refused: string[] = [];
  #answered = 0;
  readonly #taker: Taker;
  readonly #startMs = performance.now();
  readonly #done: Promise<unknown>;
  #stopped = false;
  #sent = 0;

  /** After an event, each connection pauses for `pauseMs`, or if `paced`, until `pauseMs` after it began the event. */
  constructor(taker: Taker, prefix: string, connections: number, pauseMs = 0, paced = false) {
    this.#taker = taker;
    this.prefix = prefix;
    this.#done = Promise.all(Array.from({ length: connections }, () => this.#work(pauseMs, paced)));
    atEnd(() => {
      this.abandoned = true;
      this.#stopped = true;
    });
  }

  get errors(): RequestFailed[] {
    return [...this.unanswered.values()];
  }

  get sent(): number {
    return this.#sent;
  }

  get perSecond(): number {
    return this.#sent / ((performance.now() - this.#startMs) / 1000);
  }

  get statuses(): number[] {
    return [...this.#statuses].sort();
  }

  /** The first answers other than 202, and requests without an answer. */
  get failures(): readonly string[] {
    return [...this.#refused, ...this.errors.map(String)];
  }

  /** Answers, of any status. */
  protected get progress(): number {
    return this.#answered;
  }

  more(count: number): Promise<boolean> {
    const wanted = this.progress + count;
    return eventually(`${count} more events`, () => this.progress >= wanted, 60_000);
  }

  /** Stops sending new events, and resolves when those sent so far are done. */
  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  /** Sends an event. Returns the status of the answer, if there is one. */
  protected async send(id: string): Promise<number | undefined> {
    const begunMs = performance.now();
    try {
      const { status, body } = await this.#taker.post(event(id));
      this.#took(performance.now() - begunMs);
      this.#answered += 1;
      this.#statuses.add(status);
      if (status === 202) this.accepted.add(id);
      else if (this.#refused.length < REFUSED_MAX) this.#refused.push(`${status} ${String(body)}`);
      return status;
    } catch (cause) {
      this.unanswered.set(id, cause as RequestFailed);
      return undefined;
    }
  }

  /** The slowest answer since a time, if it took longer than SLOW_MS; else 0. */
  slowestSince(sinceMs: number): number {
    return Math.max(0, ...this.#slow.filter(([atMs]) => atMs >= sinceMs).map(([, tookMs]) => tookMs));
  }

  #took(tookMs: number): void {
    this.slowestMs = Math.max(this.slowestMs, tookMs);
    if (tookMs > SLOW_MS) this.#slow.push([performance.now(), tookMs]);
  }

  async #work(pauseMs: number, paced: boolean): Promise<void> {
    while (!this.#stopped) {
      const begunMs = performance.now();
      await this.send(`${this.prefix}-${this.#sent++}`);
      // The load must leave processor time for other programs.
      const leftMs = paced ? pauseMs - (performance.now() - begunMs) : pauseMs;
      if (leftMs > 0) await pause(leftMs);
      else await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

const AGAIN_MS = 20;

/** Sends each event again with the same id until it is accepted. Every accepted event must reach the warehouse. */
export class ProducerLoad extends Load {
  constructor(taker: Taker, prefix: string, producers = 8, pauseMs = 10, paced = false) {
    super(taker, prefix, producers, pauseMs, paced);
  }

  /** Only 503 is retried. assertLanded reports any other status. */
  protected override async send(id: string): Promise<number | undefined> {
    for (;;) {
      const status = await super.send(id);
      if (this.abandoned || (status !== undefined && status !== 503)) return status;
      await pause(AGAIN_MS);
    }
  }

  protected override get progress(): number {
    return this.accepted.size;
  }

  /** Asserts that each accepted id has one row, that nothing else landed, and that nothing was quarantined. */
  async assertLanded(store: WarehouseStore): Promise<void> {
    const ids = await eventually(
      'all rows are there',
      async () => {
        const found = (await store.events()).map(({ id }) => id).filter((id) => id.startsWith(`${this.prefix}-`));
        const there = new Set(found);
        const missing = [...this.accepted].filter((id) => !there.has(id));
        if (missing.length > 0) throw new Error(`${missing.length} are missing: ${missing.slice(0, 5).join()}`);
        return found;
      },
      60_000,
    );
    assert.equal(new Set(ids).size, ids.length, 'an id has two rows');
    assert.deepEqual(
      ids.filter((id) => !this.accepted.has(id)),
      [],
    );
    assert.deepEqual(await store.quarantine(), []);
    assert.deepEqual(
      this.statuses.filter((status) => status !== 202 && status !== 503),
      [],
    );
  }
}
