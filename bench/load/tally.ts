// Counts answers by status and records latencies in a histogram with three significant digits.
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import type { LoadOptions, LoadResult } from './options.ts';

export class Tally {
  readonly #statuses: Record<string, number> = {};
  // Records latencies in microseconds, up to one minute.
  readonly #histogram = createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 });
  #from = 0;
  #elapsedMs = 0;
  #offered = 0;
  #measuring = false;

  /**
   * Waits for the warm-up and the measured part to pass. Prints `warm` and `done` at the start and the end of the
   * measured part.
   */
  async run(options: LoadOptions): Promise<void> {
    await wait(options.warmupMs);
    process.stderr.write('warm\n');
    this.#measuring = true;
    this.#from = performance.now();
    await wait(options.durationMs);
    this.#measuring = false;
    this.#elapsedMs = performance.now() - this.#from;
    process.stderr.write('done\n');
  }

  offered(count = 1): void {
    if (this.#measuring) this.#offered += count;
  }

  /** Does not record the latency of 5xx answers. */
  answered(status: string, latencyUs: number): void {
    if (!this.#measuring) return;
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    if (status.startsWith('5')) return;
    this.#histogram.record(Math.max(1, Math.round(latencyUs)));
  }

  /** Counts broken connections at any time, because a run with a broken connection is void. */
  broken(): void {
    this.#statuses['0'] = (this.#statuses['0'] ?? 0) + 1;
  }

  tell(): void {
    const ms = (percentile: number): number => this.#histogram.percentile(percentile) / 1000;
    const result: LoadResult = {
      statuses: this.#statuses,
      offered: this.#offered,
      elapsedMs: this.#elapsedMs,
      latency: { p50: ms(50), p99: ms(99) },
    };
    process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
  }
}
