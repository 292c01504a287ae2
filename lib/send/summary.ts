// The figures of a run, as a table or as JSON.
import { createHistogram } from 'node:perf_hooks';
import type { Clock } from '../process/clock.ts';
import type { SendResult } from './sender.ts';

export class Summary {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #answers = createHistogram();
  readonly #refusedByCode = new Map<string, number>();
  #accepted = 0;
  #refused = 0;
  #duplicates = 0;
  #differing = 0;
  #interrupted = 0;
  #retries = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.ms();
  }

  /** The number of events that were not accepted. */
  get missing(): number {
    return this.#interrupted + this.#refused;
  }

  add(result: SendResult<unknown>): void {
    this.#retries += Math.max(0, result.tries - 1);
    if (result.kind === 'interrupted') {
      this.#interrupted += 1;
      return;
    }
    this.#answers.record(Math.max(1, Math.round(result.answerMs * 1000)));
    if (result.kind === 'refused') {
      this.#refused += 1;
      this.#refusedByCode.set(result.code, (this.#refusedByCode.get(result.code) ?? 0) + 1);
      return;
    }
    this.#accepted += 1;
    if (result.duplicate) this.#duplicates += 1;
    if (result.differs) this.#differing += 1;
  }

  /** `refusedFile` is the path of the file with the refused events, if there are any. */
  json(refusedFile: string | undefined): string {
    return `${JSON.stringify({ ...this.#figures(), refusedFile: refusedFile ?? null })}\n`;
  }

  table(): string {
    const { accepted, duplicate, differing, refused, refusedByCode, interrupted, retries, ...pace } = this.#figures();
    const rows: [name: string, value: string][] = [
      ['accepted', String(accepted)],
      ['  of these duplicate', String(duplicate)],
      ['  of these differing', String(differing)],
      ['refused', String(refused)],
      ...Object.entries(refusedByCode)
        .sort()
        .map(([code, times]): [string, string] => [`  ${code}`, String(times)]),
      ['interrupted', String(interrupted)],
      ['retries', String(retries)],
      ['events/s', String(pace.eventsPerS)],
      ['p50 ms', pace.p50Ms?.toFixed(1) ?? '-'],
      ['p99 ms', pace.p99Ms?.toFixed(1) ?? '-'],
    ];
    const nameWidth = Math.max(...rows.map(([name]) => name.length));
    const valueWidth = Math.max(...rows.map(([, value]) => value.length));
    return rows.map(([name, value]) => `${name.padEnd(nameWidth)}  ${value.padStart(valueWidth)}\n`).join('');
  }

  #figures() {
    const seconds = (this.#clock.ms() - this.#startMs) / 1000;
    return {
      accepted: this.#accepted,
      duplicate: this.#duplicates,
      differing: this.#differing,
      refused: this.#refused,
      refusedByCode: Object.fromEntries(this.#refusedByCode),
      interrupted: this.#interrupted,
      retries: this.#retries,
      eventsPerS: Math.round((this.#accepted + this.#refused) / seconds),
      p50Ms: this.#percentileMs(50),
      p99Ms: this.#percentileMs(99),
    };
  }

  #percentileMs(percent: number): number | null {
    return this.#answers.count === 0 ? null : Math.round(this.#answers.percentile(percent) / 100) / 10;
  }
}
