// Sends the events of a source and yields their results in the order in which they settle.
//
// Invariant: at most `concurrency` events are being sent or have unread results, so reading the source stops if the
// caller stops reading results.
import { setMaxListeners } from 'node:events';
import { reasonOf, SendingStopped, type SendResult } from './sender.ts';

/** If the first UNAUTHORIZED_MAX results are all 401 or 403, the run stops, because every event would be refused. */
const UNAUTHORIZED_MAX = 10;

export type Source<T> = AsyncIterator<T> | Iterator<T>;

interface RunOptions<T> {
  /** Settles an event. A rejection ends the run. */
  readonly send: (event: T, signal: AbortSignal) => Promise<SendResult<T>>;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

/** Throws SendingStopped and the errors of `source`, but only after the results of all answered events. */
export async function* sendAll<T>(
  source: Source<T>,
  options: RunOptions<T>,
): AsyncGenerator<SendResult<T>, void, undefined> {
  const run = new Run(source, options);
  try {
    yield* run.results();
  } finally {
    run.stop();
    // The promise is not awaited, because the source may be waiting for its next event.
    void Promise.resolve(source.return?.()).catch(() => undefined);
  }
}

class Run<T> {
  readonly #source: Source<T>;
  readonly #options: RunOptions<T>;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #done: SendResult<T>[] = [];
  #sending = 0;
  #ended = false;
  #failure: { readonly cause: unknown } | undefined;
  #wake = (): void => undefined;
  #unauthorized = 0;

  constructor(source: Source<T>, options: RunOptions<T>) {
    this.#source = source;
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, this.#stopped.signal]);
    // Every pause listens to the signal, and Node warns about more than ten listeners.
    setMaxListeners(0, this.#signal);
    this.#signal.addEventListener('abort', () => this.#wake(), { once: true });
  }

  stop(): void {
    this.#stopped.abort();
  }

  async *results(): AsyncGenerator<SendResult<T>, void, undefined> {
    let reading = false;
    for (;;) {
      for (let next = this.#done.shift(); next !== undefined; next = this.#done.shift()) yield next;
      const over = this.#ended || this.#signal.aborted || this.#failure !== undefined;
      if (over && this.#sending === 0) break;
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      if (!over && !reading && this.#sending < this.#options.concurrency) {
        reading = true;
        void this.#readOne().finally(() => {
          reading = false;
          this.#wake();
        });
      }
      await woken;
    }
    if (this.#failure !== undefined) throw this.#failure.cause;
  }

  async #readOne(): Promise<void> {
    try {
      const next = await this.#source.next();
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

  async #send(event: T): Promise<void> {
    try {
      const result = await this.#options.send(event, this.#signal);
      this.#done.push(result);
      this.#countUnauthorized(result);
    } catch (cause) {
      this.#fail(cause);
    } finally {
      this.#sending -= 1;
      this.#wake();
    }
  }

  #fail(cause: unknown): void {
    this.#failure ??= { cause };
    this.stop();
  }

  /** After any other answer, the number is never reached. */
  #countUnauthorized(result: SendResult<T>): void {
    if (result.kind === 'refused' && (result.status === 401 || result.status === 403)) this.#unauthorized += 1;
    else if (result.kind === 'accepted' || (result.kind === 'refused' && result.status !== 0))
      this.#unauthorized = -Infinity;
    if (result.kind !== 'refused' || this.#unauthorized !== UNAUTHORIZED_MAX) return;
    const { status, code, answer } = result;
    const answers = `the first ${UNAUTHORIZED_MAX} answers were ${status} ${code} (${reasonOf(answer)})`;
    this.#fail(new SendingStopped(`the gateway does not accept this producer: ${answers}`));
  }
}
