// The figures of a run, as a table or as JSON.
import { createHistogram } from 'node:perf_hooks';
import type { Clock } from '../process/clock.ts';
import type { SendResult } from './sender.ts';

export class Summary {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #answers = createHistogram();
  readonly #refusedByCode: Record<string, number> = {};
  readonly #counts = {
    ...{ accepted: 0, duplicate: 0, differing: 0, refused: 0, refusedByCode: this.#refusedByCode },
    ...{ interrupted: 0, retries: 0 },
  };
  #size = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.ms();
  }

  get missing(): number {
    return this.#counts.interrupted + this.#counts.refused;
  }

  /** One line. `size` is that of all events, if it is known. */
  progress(size: number | undefined): string {
    const { accepted, refused } = this.#counts;
    const text = `${accepted + refused} sent, ${refused} refused, ${this.#pace().eventsPerS} events/s`;
    if (size === undefined || this.#size === 0) return text;
    const part = Math.min(1, this.#size / size);
    const restS = Math.round(((this.#clock.ms() - this.#startMs) / 1000) * (1 / part - 1));
    return `${text}, ${Math.floor(part * 100)} %, about ${Math.floor(restS / 60)} min ${restS % 60} s left`;
  }

  /** `size` is that of the event. */
  add(result: SendResult<unknown>, size: number): void {
    const counts = this.#counts;
    counts.retries += Math.max(0, result.tries - 1);
    if (!('answerMs' in result)) return void (counts.interrupted += 1);
    counts[result.kind] += 1;
    this.#size += size;
    this.#answers.record(Math.max(1, Math.round(result.answerMs * 1000)));
    if (result.kind === 'refused')
      return void (this.#refusedByCode[result.code] = (this.#refusedByCode[result.code] ?? 0) + 1);
    counts.duplicate += +result.duplicate;
    counts.differing += +result.differs;
  }

  /** `refusedFile` is the path of the file with the refused events, if there are any. */
  json(refusedFile: string | undefined): string {
    return `${JSON.stringify({ ...this.#counts, ...this.#pace(), refusedFile: refusedFile ?? null })}\n`;
  }

  table(): string {
    const { accepted, duplicate, differing, refused, interrupted, retries } = this.#counts;
    const { eventsPerS, p50Ms, p99Ms } = this.#pace();
    const rows: [name: string, value: string | number][] = [
      ['accepted', accepted],
      ['  of these duplicate', duplicate],
      ['  of these differing', differing],
      ['refused', refused],
      ...Object.entries(this.#refusedByCode)
        .sort()
        .map(([code, times]): [string, number] => [`  ${code}`, times]),
      ['interrupted', interrupted],
      ['retries', retries],
      ['events/s', eventsPerS],
      ['p50 ms', p50Ms?.toFixed(1) ?? '-'],
      ['p99 ms', p99Ms?.toFixed(1) ?? '-'],
    ];
    const width = Math.max(...rows.map(([name, value]) => name.length + String(value).length)) + 2;
    return rows.map(([name, value]) => `${name}${String(value).padStart(width - name.length)}\n`).join('');
  }

  #pace() {
    const { accepted, refused } = this.#counts;
    const percentileMs = (percent: number): number | null =>
      this.#answers.count === 0 ? null : Math.round(this.#answers.percentile(percent) / 100) / 10;
    const eventsPerS = Math.round((accepted + refused) / ((this.#clock.ms() - this.#startMs) / 1000));
    return { eventsPerS, p50Ms: percentileMs(50), p99Ms: percentileMs(99) };
  }
}
