// Shows progress on standard error. On a terminal, one line is updated: the percentage of the input, the number of
// events, their rate, and the reason for the latest retry. If standard error is not a terminal, only reasons for
// waiting are written, at most one every ten seconds.
import type { Clock, Timer } from '../process/clock.ts';
import type { Input } from './input.ts';
import { reasonOf, type Retry } from './sender.ts';

const DRAW_INTERVAL_MS = 200;
const LINE_INTERVAL_MS = 10_000;
const REASON_SHOWN_MS = 5_000;

export class ProgressLine {
  readonly #input: Input;
  readonly #stderr: NodeJS.WriteStream;
  readonly #timer: Timer | undefined;
  readonly #clock: Clock;
  readonly #startMs: number;
  #settled = 0;
  #waiting = '';
  #waitingMs = Number.NEGATIVE_INFINITY;
  #lineMs = Number.NEGATIVE_INFINITY;

  constructor(input: Input, stderr: NodeJS.WriteStream, clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.ms();
    this.#input = input;
    this.#stderr = stderr;
    this.#timer = stderr.isTTY ? clock.every(DRAW_INTERVAL_MS, () => this.#draw()) : undefined;
  }

  settle(): void {
    this.#settled += 1;
  }

  retry({ code, answer, pauseMs }: Retry): void {
    const reason = `${code}: ${reasonOf(answer)}`;
    this.#waiting = ` | waiting, ${reason}`;
    this.#waitingMs = this.#clock.ms();
    if (this.#timer !== undefined || this.#waitingMs < this.#lineMs + LINE_INTERVAL_MS) return;
    this.#lineMs = this.#waitingMs;
    this.#stderr.write(`ingest-send: waiting ${(pauseMs / 1000).toFixed(1)} s to try again, ${reason}\n`);
  }

  stop(): void {
    if (this.#timer === undefined) return;
    this.#timer.close();
    this.#draw();
    this.#stderr.write('\n');
  }

  /** Writes `45 % | 12345 events | 2310 events/s | 12 s left`, or only the middle if the input has no size. */
  #draw(): void {
    const nowMs = this.#clock.ms();
    const seconds = (nowMs - this.#startMs) / 1000;
    const parts = [`${this.#settled} events`, `${(this.#settled / seconds).toFixed(0)} events/s`];
    const read = this.#input.partRead?.() ?? 0;
    if (read > 0) parts.unshift(`${(100 * read).toFixed(0)} %`);
    if (read > 0) parts.push(`${((seconds * (1 - read)) / read).toFixed(0)} s left`);
    const text = `${parts.join(' | ')}${nowMs - this.#waitingMs < REASON_SHOWN_MS ? this.#waiting : ''}`;
    this.#stderr.write(`\r${text.slice(0, (this.#stderr.columns || 80) - 1)}\u001b[K`);
  }
}
