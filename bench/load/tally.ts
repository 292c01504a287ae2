// Counts answers by status and records latencies in a histogram with three significant digits.
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import type { LoadOptions, LoadResult } from './options.ts';

/** Called at the start and the end of the measured part. */
export interface Marks {
  readonly warm: () => void;
  readonly done: () => void;
}

/** The marks of a load generator that is a process of its own. */
export const PRINTED_MARKS: Marks = {
  warm: () => void process.stderr.write('warm\n'),
  done: () => void process.stderr.write('done\n'),
};

export const printResult = (result: LoadResult): void =>
  void process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));

export class Tally {
  readonly #statuses: Record<string, number> = {};
  // Records latencies in microseconds, up to one minute.
  readonly #histogram = createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 });
  #elapsedMs = 0;
  #offered = 0;
  #measuring = false;

  /** Waits for the warm-up and the measured part to pass. */
  async run({ warmupMs, durationMs }: Pick<LoadOptions, 'warmupMs' | 'durationMs'>, marks: Marks): Promise<void> {
    await wait(warmupMs);
    marks.warm();
    this.#measuring = true;
    const fromMs = performance.now();
    await wait(durationMs);
    this.#measuring = false;
    this.#elapsedMs = performance.now() - fromMs;
    marks.done();
  }

  offered(count = 1): void {
    if (this.#measuring) this.#offered += count;
  }

  /** Does not record the latency of 5xx answers. */
  answered(status: string, latencyMs: number): void {
    if (!this.#measuring) return;
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
    if (!status.startsWith('5')) this.#record(latencyMs);
  }

  /** Records a request that has no answer at the end of the measured part. It has waited for `ageMs`. */
  unanswered(ageMs: number): void {
    this.#record(ageMs);
  }

  /** Counts broken connections at any time, because a run with a broken connection is void. */
  broken(): void {
    this.#statuses['0'] = (this.#statuses['0'] ?? 0) + 1;
  }

  result(): LoadResult {
    const ms = (percentile: number): number => this.#histogram.percentile(percentile) / 1000;
    return {
      statuses: this.#statuses,
      offered: this.#offered,
      elapsedMs: this.#elapsedMs,
      latency: { p50: ms(50), p99: ms(99), max: this.#histogram.max / 1000 },
    };
  }

  #record(latencyMs: number): void {
    this.#histogram.record(Math.min(60_000_000, Math.max(1, Math.round(latencyMs * 1000))));
  }
}
