// Sends the events of a source and yields their results in the order in which they settle.
//
// Invariant: at most `concurrency` events are being sent or have unread results, so reading the source stops if the
// caller stops reading results.
import { setMaxListeners } from 'node:events';
import { reasonOf, SendingStopped, type SendResult } from './sender.ts';

/** If the first UNAUTHORIZED_MAX results are all 401 or 403, the run stops, because every event would be refused. */
const UNAUTHORIZED_MAX = 10;

interface RunOptions<T> {
  /** Settles an event. A rejection ends the run. */
  readonly send: (event: T, signal: AbortSignal) => Promise<SendResult<T>>;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

/** Throws SendingStopped and the errors of `source`, but only after the results of all answered events. */
export async function* sendAll<T>(
  source: AsyncIterator<T>,
  { send, concurrency, signal: given }: RunOptions<T>,
): AsyncGenerator<SendResult<T>, void, undefined> {
  const stop = new AbortController();
  const signal = AbortSignal.any([given, stop.signal]);
  // Every pause listens to the signal, and Node warns about more than ten listeners.
  setMaxListeners(0, signal);
  let wake = (): void => undefined;
  signal.addEventListener('abort', () => wake(), { once: true });
  const done: SendResult<T>[] = [];
  const isUnauthorized = unauthorized();
  let failure: { readonly cause: unknown } | undefined;
  let [sending, isReading, isRead] = [0, false, false];
  const sendOne = async (event: T): Promise<void> => {
    try {
      const result = await send(event, signal);
      done.push(result);
      isUnauthorized(result);
    } catch (cause) {
      failure ??= { cause };
      stop.abort();
    }
    sending -= 1;
    wake();
  };
  const readOne = async (): Promise<void> => {
    try {
      const next = await source.next();
      isRead = next.done === true;
      if (next.done === true || signal.aborted) return;
      sending += 1;
      void sendOne(next.value);
    } catch (cause) {
      failure ??= { cause };
    } finally {
      isReading = false;
      wake();
    }
  };
  try {
    for (;;) {
      while (done.length > 0) yield* done.splice(0);
      const isOver = isRead || signal.aborted || failure !== undefined;
      if (isOver && sending === 0) break;
      const woken = new Promise<void>((resolve) => (wake = resolve));
      if (!isOver && !isReading && sending < concurrency) {
        isReading = true;
        void readOne();
      }
      await woken;
    }
    if (failure !== undefined) throw failure.cause;
  } finally {
    stop.abort();
    // The promise is not awaited, because the source may be waiting for its next event.
    void source.return?.().catch(() => undefined);
  }
}

/** Returns a function that throws SendingStopped at the last of the first results if all of them are 401 or 403. */
function unauthorized(): (result: SendResult<unknown>) => void {
  let count = 0;
  return (result) => {
    if (result.kind === 'interrupted' || (result.kind === 'refused' && result.status === 0)) return;
    if (result.kind === 'accepted' || (result.status !== 401 && result.status !== 403)) count = Number.NaN;
    else if ((count += 1) === UNAUTHORIZED_MAX)
      throw new SendingStopped(
        `the gateway does not accept this producer: the first ${UNAUTHORIZED_MAX} answers were ${result.status} ` +
          `${result.code} (${reasonOf(result.answer)})`,
      );
  };
}
