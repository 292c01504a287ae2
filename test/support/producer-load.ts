// Producers that send each event again with the same id until it is accepted. Every accepted event must reach the
// warehouse.
import { event } from './gateway.ts';
import { atEnd, eventually } from './scope.ts';
import type { WarehouseStore } from './warehouse-store.ts';
import assert from 'node:assert/strict';

const PAUSE_MS = 20;

/** The server that producers send their events to. `post` rejects if there is no answer. */
interface Taker {
  post(body: string): Promise<{ readonly status: number }>;
}

export class ProducerLoad {
  readonly statuses = new Map<number, number>();
  /** The accepted ids, each with the time of its acceptance (`performance.now()`). */
  readonly accepted = new Map<string, number>();
  readonly #taker: Taker;
  readonly #prefix: string;
  readonly #done: Promise<unknown>;
  #stopped = false;
  /** Set at the end of the test, when the gateway no longer answers. */
  #abandoned = false;
  #count = 0;

  /** After an event, each producer pauses for `pauseMs`, or if `paced`, until `pauseMs` after it began the event. */
  constructor(taker: Taker, prefix: string, producers = 8, pauseMs = 10, paced = false) {
    this.#taker = taker;
    this.#prefix = prefix;
    atEnd(() => void (this.#abandoned = true));
    this.#done = Promise.all(Array.from({ length: producers }, () => this.#work(pauseMs, paced)));
  }

  async more(count: number): Promise<void> {
    const wanted = this.accepted.size + count;
    await eventually(`${count} more events are accepted`, () => this.accepted.size >= wanted, 60_000);
  }

  /** Stops sending new events, and resolves when all events sent so far are accepted. */
  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  /**
   * Asserts that each accepted id has one row, that nothing else landed, and that nothing was quarantined. `promised`
   * selects by time of acceptance the ids that must have a row.
   */
  async assertLanded(store: WarehouseStore, promised = (_acceptedMs: number): boolean => true): Promise<void> {
    const ids = await this.landed(store, promised);
    assert.equal(new Set(ids).size, ids.length, 'an id has two rows');
    assert.deepEqual(
      ids.filter((id) => !this.accepted.has(id)),
      [],
    );
    assert.deepEqual(await store.quarantine(), []);
    assert.deepEqual(
      [...this.statuses.keys()].filter((status) => status !== 202 && status !== 503),
      [],
    );
  }

  landed(store: WarehouseStore, promised = (_acceptedMs: number): boolean => true): Promise<readonly string[]> {
    return eventually(
      'all rows are there',
      async () => {
        const ids = (await store.events()).map(({ id }) => id).filter((id) => id.startsWith(`${this.#prefix}-`));
        const there = new Set(ids);
        const missing = [...this.accepted].flatMap(([id, ms]) => (there.has(id) || !promised(ms) ? [] : [id]));
        if (missing.length > 0) throw new Error(`${missing.length} are missing: ${missing.slice(0, 5).join()}`);
        return ids;
      },
      60_000,
    );
  }

  async #work(pauseMs: number, paced: boolean): Promise<void> {
    while (!this.#stopped && !this.#abandoned) {
      const begunMs = performance.now();
      const id = `${this.#prefix}-${this.#count++}`;
      while (!this.#abandoned && !(await this.#accepted(id))) await pause(PAUSE_MS);
      await pause(paced ? Math.max(0, begunMs + pauseMs - performance.now()) : pauseMs);
    }
  }

  async #accepted(id: string): Promise<boolean> {
    const answer = await this.#taker.post(event(id)).catch(() => undefined);
    if (answer === undefined) return false;
    this.statuses.set(answer.status, (this.statuses.get(answer.status) ?? 0) + 1);
    if (answer.status === 202) {
      this.accepted.set(id, performance.now());
    }
    // Only 503 is retried. assertLanded reports any other status.
    return answer.status !== 503;
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
