// Sends a bounded number of events at a time, and sends an event again if its answer allows that.
//
// Invariants: a run does not send an accepted event again. At most `concurrency` events are being sent or have unread
// results, so sending stops if the caller stops reading. The order of events is not kept.
//
// Pauses between the tries of one event double from PAUSE_FIRST_MS to PAUSE_MAX_MS with 50 % jitter, and are never
// shorter than the gateway's Retry-After. After `triesMax` tries, the event is refused with its last answer.
import { setMaxListeners } from 'node:events';
import { pauseMs } from '../process/backoff.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { printable } from '../process/printable.ts';
import type { Try } from './try.ts';

const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 10_000;

/** If the first UNAUTHORIZED_MAX answers are all 401 or 403, the run stops, because every event would be refused. */
const UNAUTHORIZED_MAX = 10;

/** The result of one event. `answerMs` is the duration of the last try. */
export type SendResult<T> =
  | {
      readonly kind: 'accepted';
      readonly event: T;
      /** True if the gateway already had this id, with another body if `differs`. The gateway keeps the first body. */
      readonly duplicate: boolean;
      readonly differs: boolean;
      /** The answer's X-Request-Id, which is also in the gateway's log. */
      readonly requestId: string | undefined;
      readonly tries: number;
      readonly answerMs: number;
    }
  | {
      readonly kind: 'refused';
      readonly event: T;
      /** The answer's `code`, or NO_ANSWER if no gateway answered. */
      readonly code: string;
      /** 0 if there was no answer. */
      readonly status: number;
      readonly answer: unknown;
      /** True if all tries were used. The event may be accepted later. */
      readonly retryable: boolean;
      readonly requestId: string | undefined;
      readonly tries: number;
      readonly answerMs: number;
    }
  /** The run was aborted while the event waited for its next try. */
  | { readonly kind: 'interrupted'; readonly event: T; readonly tries: number };

export interface Retry {
  readonly code: string;
  readonly status: number;
  readonly answer: unknown;
  readonly tries: number;
  readonly pauseMs: number;
}

/** Thrown if no event can be accepted, because the server is not trusted or does not accept this producer. */
export class SendingStopped extends Error {
  override readonly name = 'SendingStopped';
}

export interface SenderOptions<T> extends ClockAndRandom {
  /** Tries to send the event once. A rejection ends the run. */
  readonly send: (event: T) => Promise<Try>;
  readonly concurrency: number;
  readonly triesMax: number;
  /** The maximum number of events started per second. `undefined` disables the limit. */
  readonly ratePerS: number | undefined;
  readonly signal: AbortSignal;
  readonly onRetry: (retry: Retry) => void;
}

/** Throws SendingStopped and the errors of `events`, but only after the results of all answered events. */
export async function* sendAll<T>(
  events: AsyncIterable<T> | Iterable<T>,
  options: SenderOptions<T>,
): AsyncGenerator<SendResult<T>, void, undefined> {
  const run = new Run(options);
  const source = Symbol.asyncIterator in events ? events[Symbol.asyncIterator]() : events[Symbol.iterator]();
  try {
    yield* run.results(source);
  } finally {
    run.stop();
    // The promise is not awaited, because the source may be waiting for its next event.
    void Promise.resolve(source.return?.()).catch(() => undefined);
  }
}

class Run<T> {
  readonly #options: SenderOptions<T>;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #done: SendResult<T>[] = [];
  #sending = 0;
  #ended = false;
  #failure: { readonly cause: unknown } | undefined;
  #wake = (): void => undefined;
  #nextStartMs = 0;
  #unauthorized = 0;
  #otherAnswers = 0;

  constructor(options: SenderOptions<T>) {
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, this.#stopped.signal]);
    // Every pause listens to the signal, and Node warns about more than ten listeners.
    setMaxListeners(0, this.#signal);
    this.#signal.addEventListener('abort', () => this.#wake(), { once: true });
  }

  stop(): void {
    this.#stopped.abort();
  }

  async *results(source: AsyncIterator<T> | Iterator<T>): AsyncGenerator<SendResult<T>, void, undefined> {
    let reading = false;
    for (;;) {
      for (let next = this.#done.shift(); next !== undefined; next = this.#done.shift()) yield next;
      const over = this.#ended || this.#signal.aborted || this.#failure !== undefined;
      if (over && this.#sending === 0) break;
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      if (!over && !reading && this.#sending < this.#options.concurrency) {
        reading = true;
        void this.#readOne(source).finally(() => {
          reading = false;
          this.#wake();
        });
      }
      await woken;
    }
    if (this.#failure !== undefined) throw this.#failure.cause;
  }

  async #readOne(source: AsyncIterator<T> | Iterator<T>): Promise<void> {
    try {
      await this.#turn();
      const next = await source.next();
      if (next.done === true) {
        this.#ended = true;
      } else if (!this.#signal.aborted && this.#failure === undefined) {
        this.#sending += 1;
        void this.#send(next.value);
      }
    } catch (cause) {
      this.#failure ??= { cause };
    }
  }

  /** Waits until the rate limit allows the next event. */
  async #turn(): Promise<void> {
    const { ratePerS, clock } = this.#options;
    if (ratePerS === undefined) return;
    const now = clock.ms();
    const start = Math.max(now, this.#nextStartMs);
    this.#nextStartMs = start + 1000 / ratePerS;
    if (start > now) await clock.sleep(start - now, this.#signal);
  }

  async #send(event: T): Promise<void> {
    try {
      this.#done.push(await this.#untilSettled(event));
    } catch (cause) {
      this.#failure ??= { cause };
      this.stop();
    } finally {
      this.#sending -= 1;
      this.#wake();
    }
  }

  async #untilSettled(event: T): Promise<SendResult<T>> {
    const { send, triesMax, onRetry, clock, random } = this.#options;
    for (let tries = 1; ; tries += 1) {
      const startMs = clock.ms();
      const result = await send(event);
      const answerMs = clock.ms() - startMs;
      if (result.kind === 'untrusted')
        throw new SendingStopped(`the server is not trusted: ${printable(result.reason)}`);
      if (result.kind === 'accepted') {
        this.#otherAnswers += 1;
        const { duplicate, differs, requestId } = result;
        return { kind: 'accepted', event, duplicate, differs, requestId, tries, answerMs };
      }
      const { code, status, answer, requestId } = result;
      this.#countUnauthorized(status, code, answer);
      const retryable = result.kind === 'retry';
      if (!retryable || tries >= triesMax)
        return { kind: 'refused', event, code, status, answer, retryable, requestId, tries, answerMs };
      const waitMs = Math.max(result.afterMs, pauseMs(tries, PAUSE_FIRST_MS, PAUSE_MAX_MS, random.fraction()));
      if (!this.#signal.aborted) {
        onRetry({ code, status, answer, tries, pauseMs: waitMs });
        await clock.sleep(waitMs, this.#signal);
      }
      if (this.#signal.aborted) return { kind: 'interrupted', event, tries };
    }
  }

  #countUnauthorized(status: number, code: string, answer: unknown): void {
    if (status !== 401 && status !== 403) {
      if (status !== 0) this.#otherAnswers += 1;
      return;
    }
    this.#unauthorized += 1;
    if (this.#otherAnswers > 0 || this.#unauthorized < UNAUTHORIZED_MAX) return;
    const cause = new SendingStopped(
      `the gateway does not accept this producer: the first ${UNAUTHORIZED_MAX} answers were ${status} ${code} ` +
        `(${reasonOf(answer)})`,
    );
    this.#failure ??= { cause };
    this.stop();
  }
}

export function reasonOf(answer: unknown): string {
  const { detail, error } = answer as Readonly<Record<string, unknown>>;
  const reason = detail ?? error;
  return typeof reason === 'string' ? printable(reason).slice(0, 200) : 'no reason given';
}
