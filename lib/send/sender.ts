// Sends a bounded number of events at a time, and sends an event again if its answer allows that.
//
// Invariants: an accepted event is not sent again. At most `concurrency` events are being sent or wait for another
// try; the others wait for a slot, in order.
//
// Pauses between the tries of one event double from PAUSE_FIRST_MS to PAUSE_MAX_MS with 50 % jitter, and are never
// shorter than the gateway's Retry-After. After `triesMax` tries, the event is refused with its last answer.
import { setMaxListeners } from 'node:events';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { printable } from '../process/printable.ts';
import { debug } from './connections.ts';
import type { Accepted, NotAccepted, Try } from './outcome.ts';

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

interface Settled<T> {
  readonly event: T;
  readonly tries: number;
  /** The time from the call to this result, which includes waiting for a slot, pauses and all tries. */
  readonly durationMs: number;
}

interface Answered<T> extends Settled<T> {
  /** The duration of the last try. */
  readonly answerMs: number;
}

/**
 * The result of one event. `retryable` is true if all tries were used, so the event may be accepted later.
 * `interrupted`: a signal aborted or the time limit of `close` passed before an answer. `disabled`: nothing was sent,
 * because the client has `enabled: false`.
 */
export type SendResult<T> =
  | (Accepted & Answered<T>)
  | ({ readonly kind: 'refused'; readonly retryable: boolean } & NotAccepted & Answered<T>)
  | ({ readonly kind: 'interrupted' | 'disabled' } & Settled<T>);

export interface Retry extends Omit<NotAccepted, 'requestId'> {
  readonly tries: number;
  readonly pauseMs: number;
}

/** Thrown if no event can be accepted, because the gateway does not accept this producer or cannot be reached. */
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

interface Delivery {
  /** The start of `durationMs`. */
  readonly startMs: number;
  readonly signal: AbortSignal;
  /** The caller's own signal, if it has one. It also ends the wait for a slot and for an answer. */
  readonly own?: AbortSignal | undefined;
  readonly triesMax?: number | undefined;
}

export class Sender {
  readonly #options: SenderOptions;
  readonly #waiting = new Set<() => void>();
  #slots: number;
  #nextStartMs = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#slots = options.concurrency;
  }

  /** Settles an event. `once` tries to send it. Rejects only with an error of `onRetry`. */
  send<T>(event: T, once: () => Promise<Try>, how: Delivery): Promise<SendResult<T>> {
    const { own, startMs } = how;
    if (own === undefined) return this.#untilSettled(event, once, how);
    let tries = 0;
    const sent = this.#untilSettled(event, () => ((tries += 1), once()), how);
    return new Promise((resolve, reject) => {
      // Later answers depend on the request, so it stays on its connection and keeps its slot.
      const abort = (): void => resolve(this.#interrupted(event, tries, startMs));
      own.addEventListener('abort', abort);
      if (own.aborted) abort();
      // The signal may live as long as the process.
      void sent.then(resolve, reject).finally(() => own.removeEventListener('abort', abort));
    });
  }

  #interrupted<T>(event: T, tries: number, startMs: number): SendResult<T> {
    return { kind: 'interrupted', event, tries, durationMs: this.#options.clock.ms() - startMs };
  }

  #release(): void {
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      return next();
    }
    this.#slots += 1;
  }

  /** Waits until the rate limit allows the next event. */
  async #turn(signal: AbortSignal, ratePerS: number): Promise<void> {
    const { clock } = this.#options;
    const startMs = Math.max(clock.ms(), this.#nextStartMs);
    this.#nextStartMs = startMs + 1000 / ratePerS;
    if (startMs > clock.ms()) await clock.sleep(startMs - clock.ms(), signal);
  }

  async #untilSettled<T>(event: T, once: () => Promise<Try>, how: Delivery): Promise<SendResult<T>> {
    const { onRetry, clock, random, ratePerS } = this.#options;
    const { signal, startMs, triesMax = this.#options.triesMax } = how;
    if (this.#slots > 0) this.#slots -= 1;
    else await new Promise<void>((resolve) => this.#waiting.add(resolve));
    try {
      if (ratePerS !== undefined) await this.#turn(signal, ratePerS);
      for (let tries = 1; ; tries += 1) {
        if (signal.aborted) return this.#interrupted(event, tries - 1, startMs);
        const tryMs = clock.ms();
        const result = await once();
        const nowMs = clock.ms();
        const [answerMs, durationMs] = [nowMs - tryMs, nowMs - startMs];
        if (result.kind === 'accepted') return { ...result, event, tries, answerMs, durationMs };
        const { code, status, answer, requestId } = result;
        const retryable = result.kind === 'retry';
        if (retryable && signal.aborted) return this.#interrupted(event, tries, startMs);
        if (!retryable || tries >= triesMax)
          return { kind: 'refused', code, status, answer, retryable, requestId, event, tries, answerMs, durationMs };
        const waitMs = Math.max(result.afterMs, pauseMs(tries, PAUSE_FIRST_MS, PAUSE_MAX_MS, random.fraction()));
        debug('%s after try %d: %s', code, tries, reasonOf(answer));
        onRetry({ code, status, answer, tries, pauseMs: waitMs });
        await clock.sleep(waitMs, signal);
      }
    } finally {
      this.#release();
    }
  }
}

export function reasonOf(answer: unknown): string {
  const { detail, error } = answer as Readonly<Record<string, unknown>>;
  const reason = detail ?? error;
  return typeof reason === 'string' ? printable(reason).slice(0, 200) : 'no reason given';
}

/** Codes of refusals that concern the producer, and not the type of an event. */
const UNAUTHORIZED = ['UNAUTHORIZED_PRODUCER', 'PRODUCER_DISABLED'];

/** If the first UNAUTHORIZED_MAX answers refuse the producer, sendEvents stops, because it would refuse all events. */
const UNAUTHORIZED_MAX = 10;

/** Returns a function that throws SendingStopped at the last of the first answers if all refuse the producer. */
export function unauthorized(): (result: SendResult<unknown>) => void {
  let count = 0;
  return (result) => {
    if (!('answerMs' in result) || (result.kind === 'refused' && result.status === 0)) return;
    if (result.kind !== 'refused' || !UNAUTHORIZED.includes(result.code)) count = Number.NaN;
    else if ((count += 1) === UNAUTHORIZED_MAX)
      throw new SendingStopped(
        `the gateway does not accept this producer: the first ${UNAUTHORIZED_MAX} answers were ${result.status} ` +
          `${result.code} (${reasonOf(result.answer)})`,
      );
  };
}

/** Codes of refusals that concern the producer, the URL or the token. The gateway may accept the event later. */
const EVENT_UNREAD = new Set([...UNAUTHORIZED, 'ROUTE_NOT_FOUND', 'HEADERS_TOO_LARGE']);

/** True if the event is settled: it was accepted, or refused for a reason that another time does not change. */
export function isForGood(result: SendResult<unknown>): boolean {
  if (result.kind === 'accepted') return true;
  return result.kind === 'refused' && !result.retryable && !EVENT_UNREAD.has(result.code);
}

/** Every pause listens to the returned signal, and Node warns about more than ten listeners. */
export function anyOf(...signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  const signal = AbortSignal.any(signals.filter((one) => one !== undefined));
  setMaxListeners(0, signal);
  return signal;
}
