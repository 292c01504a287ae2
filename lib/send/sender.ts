// Sends a bounded number of events at a time, and sends an event again if its answer allows that.
//
// Invariants: an accepted event is not sent again. At most `concurrency` events are being sent or wait for another
// try; the others wait for a slot, in order.
//
// Pauses between the tries of one event double from PAUSE_FIRST_MS to PAUSE_MAX_MS with 50 % jitter, and are never
// shorter than the gateway's Retry-After. After `triesMax` tries, the event is refused with its last answer.
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { printable } from '../process/printable.ts';
import type { Accepted, NotAccepted, Try } from './outcome.ts';

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** Tries at an address to which no connection has succeeded. */
const DOUBTFUL_TRIES_MAX = 3;

interface Settled<T> {
  readonly event: T;
  readonly tries: number;
  /** The duration of the last try. */
  readonly answerMs: number;
}

/**
 * The result of one event. `retryable` is true if all tries were used, so the event may be accepted later.
 * `interrupted`: the signal aborted while the event waited for its next try.
 */
export type SendResult<T> =
  | (Accepted & Settled<T>)
  | ({ readonly kind: 'refused'; readonly retryable: boolean } & NotAccepted & Settled<T>)
  | { readonly kind: 'interrupted'; readonly event: T; readonly tries: number };

export interface Retry extends Omit<NotAccepted, 'requestId'> {
  readonly tries: number;
  readonly pauseMs: number;
}

/** Thrown if no event can be accepted, because the server is not trusted or does not accept this producer. */
export class SendingStopped extends Error {
  override readonly name = 'SendingStopped';
}

export interface SenderOptions extends ClockAndRandom {
  readonly concurrency: number;
  readonly triesMax: number;
  /** The maximum number of events started per second. `undefined` disables the limit. */
  readonly ratePerS: number | undefined;
  readonly onRetry: (retry: Retry) => void;
}

export class Sender {
  readonly #options: SenderOptions;
  /** Events that wait for a slot. */
  readonly #waiting = new Set<() => void>();
  #slots: number;
  #nextStartMs = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#slots = options.concurrency;
  }

  /** Settles an event. `once` tries to send it. Rejects with SendingStopped, or with the error of `once`. */
  async send<T>(event: T, once: () => Promise<Try>, signal: AbortSignal): Promise<SendResult<T>> {
    if (this.#slots > 0) this.#slots -= 1;
    else await new Promise<void>((resolve) => this.#waiting.add(resolve));
    try {
      await this.#turn(signal);
      return await this.#untilSettled(event, once, signal);
    } finally {
      this.#release();
    }
  }

  #release(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      return next();
    }
    this.#slots += 1;
  }

  /** Waits until the rate limit allows the next event. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { ratePerS, clock } = this.#options;
    if (ratePerS === undefined) return;
    const startMs = Math.max(clock.ms(), this.#nextStartMs);
    this.#nextStartMs = startMs + 1000 / ratePerS;
    if (startMs > clock.ms()) await clock.sleep(startMs - clock.ms(), signal);
  }

  async #untilSettled<T>(event: T, once: () => Promise<Try>, signal: AbortSignal): Promise<SendResult<T>> {
    const { triesMax, onRetry, clock, random } = this.#options;
    for (let tries = 1; ; tries += 1) {
      if (signal.aborted) return { kind: 'interrupted', event, tries: tries - 1 };
      const startMs = clock.ms();
      const result = await once();
      const answerMs = clock.ms() - startMs;
      if (result.kind === 'hopeless') throw new SendingStopped(printable(result.reason));
      if (result.kind === 'retry' && result.doubt !== undefined && tries === DOUBTFUL_TRIES_MAX)
        throw new SendingStopped(printable(result.doubt));
      if (result.kind === 'accepted') return { ...result, event, tries, answerMs };
      const { code, status, answer, requestId } = result;
      const retryable = result.kind === 'retry';
      if (!retryable || tries >= triesMax)
        return { kind: 'refused', event, code, status, answer, retryable, requestId, tries, answerMs };
      if (signal.aborted) continue;
      const waitMs = Math.max(result.afterMs, pauseMs(tries, PAUSE_FIRST_MS, PAUSE_MAX_MS, random.fraction()));
      onRetry({ code, status, answer, tries, pauseMs: waitMs });
      await clock.sleep(waitMs, signal);
    }
  }
}

export function reasonOf(answer: unknown): string {
  const { detail, error } = answer as Readonly<Record<string, unknown>>;
  const reason = detail ?? error;
  return typeof reason === 'string' ? printable(reason).slice(0, 200) : 'no reason given';
}
