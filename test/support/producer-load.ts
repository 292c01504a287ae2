// Producers that send each event again, with the same id, until it is accepted. Every accepted event must be in the
// warehouse.
import { event } from './gateway.ts';
import { atEnd, eventually } from './scope.ts';
import type { WarehouseStore } from './warehouse-store.ts';
import assert from 'node:assert/strict';

const PAUSE_MS = 20;

/** Rejects if there is no answer. */
interface Taker {
  post(body: string): Promise<{ readonly status: number }>;
}

export class ProducerLoad {
  /** How often each status arrived. */
  readonly statuses = new Map<number, number>();
  /** Accepted ids with their time (`performance.now()`). */
  readonly accepted = new Map<string, number>();
  readonly #taker: Taker;
  readonly #prefix: string;
  readonly #done: Promise<unknown>;
  #stopped = false;
  /** Set at the end of the test, when nobody answers any more. */
  #abandoned = false;
  #count = 0;

  /** Each producer pauses for `pauseMs` after an event. `paced`: measured from the start of the event. */
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

  /** Resolves once every event that was sent is accepted. */
  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  /**
   * Asserts that each accepted id has one row, that nothing else landed, and that nothing was quarantined. `promised`
   * selects the ids by the time of acceptance.
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

  /** Waits until all accepted ids have landed. Returns the ids of this load in the warehouse. */
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
    // assertLanded reports any other status.
    return answer.status !== 503;
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
