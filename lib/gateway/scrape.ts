// The text of /metrics, for every client: it needs no certificate, so what it costs is bounded.
import { setTimeout as sleep } from 'node:timers/promises';

/** The text of the metrics is made at most this often, in milliseconds. */
const SCRAPE_INTERVAL_MS = 200;

// Fact: the text takes about a millisecond, and anybody may ask for it. Choice: a request that comes too soon waits, and all
// who wait share one text. It is made after they asked, so it holds all that had happened by then.
export class Scrape<Text> {
  readonly #expose: () => Promise<Text>;
  #next: Promise<Text> | undefined;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** `expose` makes the text of one format. */
  constructor(expose: () => Promise<Text>) {
    this.#expose = expose;
  }

  /** The text as it is after this call. */
  text(): Promise<Text> {
    this.#next ??= this.#make();
    return this.#next;
  }

  async #make(): Promise<Text> {
    await sleep(Math.max(0, this.#lastMs + SCRAPE_INTERVAL_MS - performance.now()));
    this.#next = undefined;
    this.#lastMs = performance.now();
    return this.#expose();
  }
}
