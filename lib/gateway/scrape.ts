// The text of /metrics, for every client: it needs no certificate, so what it costs is bounded.
import type { Clock } from '../process/clock.ts';

/** The text of the metrics is made at most this often, in milliseconds. */
const SCRAPE_INTERVAL_MS = 200;

// Fact: the text takes about a millisecond, and anybody may ask for it. Choice: a request that comes too soon waits,
// and all who wait share one text. It is made after they asked, so it holds all that had happened by then.
export class Scrape<Text> {
  readonly #expose: () => Promise<Text>;
  readonly #clock: Clock;
  #next: Promise<Text> | undefined;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(expose: () => Promise<Text>, clock: Clock) {
    this.#clock = clock;
    this.#expose = expose;
  }

  /** The text as it is after this call. */
  text(): Promise<Text> {
    this.#next ??= this.#make();
    return this.#next;
  }

  async #make(): Promise<Text> {
    await this.#clock.sleep(Math.max(0, this.#lastMs + SCRAPE_INTERVAL_MS - this.#clock.ms()));
    this.#next = undefined;
    this.#lastMs = this.#clock.ms();
    return this.#expose();
  }
}
