// Producers that behave as they should under load: each event is sent again, with the same id, while it is answered 503
// or not at all. What they were told is the measure of what must be in the warehouse.
import { event } from './gateway.ts';
import { atEnd, eventually } from './scope.ts';
import type { WarehouseStore } from './warehouse-store.ts';
import assert from 'node:assert/strict';

const PAUSE_MS = 20;

/** A pipeline, or whatever else takes events. Rejects where none answers. */
interface Taker {
  post(body: string): Promise<{ readonly status: number }>;
}

export class ProducerLoad {
  /** Each status that came, with how often. */
  readonly statuses = new Map<number, number>();
  /** Ids that were answered 202, with when, by `performance.now()`. */
  readonly accepted = new Map<string, number>();
  readonly #taker: Taker;
  readonly #prefix: string;
  readonly #done: Promise<unknown>;
  #stopped = false;
  /** The test is over, perhaps because it failed: nobody answers any more. */
  #abandoned = false;
  #count = 0;

  /** Each producer pauses for `pauseMs` after an event; `paced`: from the beginning of one to that of the next. */
  constructor(taker: Taker, prefix: string, producers = 8, pauseMs = 10, paced = false) {
    this.#taker = taker;
    this.#prefix = prefix;
    atEnd(() => void (this.#abandoned = true));
    this.#done = Promise.all(Array.from({ length: producers }, () => this.#work(pauseMs, paced)));
  }

  /** Waits until `count` more events are accepted. */
  async more(count: number): Promise<void> {
    const wanted = this.accepted.size + count;
    await eventually(`${count} more events are accepted`, () => this.accepted.size >= wanted, 60_000);
  }

  /** Ends the load; every event that was begun is accepted by then. */
  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  /**
   * Asserts that each accepted id, of a time that `promised` holds for, has one row, that no id has two, that nothing
   * was quarantined, and that no other row is there; and what was answered.
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

  /** The ids of this load that have landed; waits until all that were accepted have. */
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
    // Any other answer than 503 is told by assertLanded.
    return answer.status !== 503;
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
