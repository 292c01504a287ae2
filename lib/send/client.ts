// The library: `import { createClient, sendEvents } from 'ingest-client'`.
//
// Every event that was sent has a result, unless the call fails. `accepted` means that the event is in the gateway's
// queue. A caller that reads results slowly slows down the sending.
import { pauseMs } from '../process/backoff.ts';
import { SYSTEM } from '../process/clock.ts';
import { Connections, debug, flowOf } from './connections.ts';
import { gatewayUrl } from './identity.ts';
import { Journal } from './journal.ts';
import {
  assertEvent,
  assertIterable,
  assertOptions,
  bodyOf,
  contentOf,
  fieldsOf,
  TIMER_MS_MAX,
  type CallOptions,
  type EventInput,
  type JournalOptions,
  type SendEventsOptions,
} from './options.ts';
import type { Try } from './outcome.ts';
import { anyOf, isForGood, Sender, unauthorized, type SendResult } from './sender.ts';

export { NO_ANSWER } from './outcome.ts';
export { UNSERIALIZABLE } from './options.ts';
export type { CallOptions, EventInput, JournalOptions, SendEventsOptions } from './options.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

type Events<T> = AsyncIterable<T> | Iterable<T>;
type Results<T> = AsyncGenerator<SendResult<T>, void, undefined>;

/** Pauses between the attempts to send what is in the journal. */
const FORWARD_FIRST_MS = 500;
const FORWARD_MAX_MS = 10_000;

/** `Resumed` is the type of the events of earlier calls, if there is a journal. */
export type Client<Resumed = never> = Pick<
  EventClient<Resumed>,
  'outstanding' | 'send' | 'sendEvents' | 'resume' | 'close' | typeof Symbol.asyncDispose
>;

/** Throws a TypeError or a RangeError for invalid options. */
export function createClient(options: JournalOptions): Client<Buffer>;
export function createClient(options: SendEventsOptions): Client;
export function createClient(options: SendEventsOptions | JournalOptions): Client<Buffer> {
  return new EventClient<Buffer>(options);
}

/**
 * Sends events with a client of its own, as `Client.sendEvents` does. The call throws a TypeError or a RangeError for
 * invalid options. The generator throws the errors of `events` and of the journal. It throws SendingStopped if the
 * first ten answers all refuse the producer.
 */
export function sendEvents<T extends EventInput>(events: Events<T>, options: JournalOptions<T>): Results<T | Buffer>;
export function sendEvents<T extends EventInput>(events: Events<T>, options: SendEventsOptions): Results<T>;
export function sendEvents<T extends EventInput>(
  events: Events<T>,
  options: SendEventsOptions | JournalOptions<T>,
): Results<T | Buffer> {
  const client = new EventClient<Buffer>(options);
  return client.only(client.sendEvents(events));
}

/** An event and its line in the journal, if it has one. */
interface Item<T> {
  readonly event: T;
  number?: number;
}

interface Call extends CallOptions {
  readonly tries?: number;
}

const ignored = (cause: unknown): void => debug('a call has failed: %s', cause);

/** An unhandled rejection would end the process. */
function ignorable<T>(promise: Promise<T>): Promise<T> {
  promise.catch(ignored);
  return promise;
}

/** A client for the life of a process. It keeps its connections, and opens them again if the gateway closes them. */
class EventClient<Resumed> {
  readonly #options: SendEventsOptions & Partial<JournalOptions>;
  /** `undefined` if the client is disabled. */
  readonly #connections: Connections | undefined;
  readonly #sender: Sender;
  readonly #concurrency: number;
  readonly #signal: AbortSignal;
  readonly #closing = new AbortController();
  /** Aborts at the time limit of `close`, and if a client without results to wait for still waits for its journal. */
  readonly #end = new AbortController();
  #opening: Promise<Journal | undefined> | undefined;
  #journal: Journal | undefined;
  /** Sends what is in the journal in the background, if anything is. */
  #forwarding: Promise<void> | undefined;
  #pass: { readonly stop: AbortController; readonly ended: Promise<unknown> } | undefined;
  /** Calls of `sendEvents` that read the journal. The background does not, so that they have all results. */
  #readers = 0;
  #wake = (): void => undefined;
  #outstanding = 0;
  readonly #unsent: unknown[] = [];
  #settledAll = (): void => undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SendEventsOptions | JournalOptions) {
    assertOptions(options);
    const { url, tries, timeoutMs = 30_000, ratePerS, signal, enabled = true, onRetry = () => undefined } = options;
    const all = { ...SYSTEM, ...options, ...flowOf(options) };
    [this.#options, this.#concurrency] = [options, all.concurrency];
    if (enabled) this.#connections = new Connections({ ...all, url: gatewayUrl(url), timeoutMs });
    this.#sender = new Sender({ ...all, triesMax: tries ?? 10, ratePerS, onRetry });
    this.#signal = anyOf(this.#end.signal, signal);
    this.#end.signal.addEventListener('abort', () => this.#connections?.close());
    if (enabled && this.#options.journal !== undefined) SYSTEM.clock.turnEnd(() => this.#forward(0));
  }

  /** The number of events without a result. */
  get outstanding(): number {
    return this.#outstanding;
  }

  /**
   * Resolves to the event's result. If `concurrency` events are being sent, the event waits for one of them. Rejects
   * with a TypeError if the value cannot be an event or has wrong call options, and with an Error if the client was
   * closed, if the journal cannot be written, or if a callback throws. An unhandled rejection is ignored.
   */
  send<T extends EventInput>(event: T, call: CallOptions = {}): Promise<SendResult<T>> {
    return ignorable(this.#settled({ event }, this.#signal, call, true));
  }

  /**
   * Sends events and yields their results in the order in which they settle. If there is a journal, it first sends the
   * unsettled events of earlier runs and calls, whose `event` is a Buffer. An event is marked as settled in the journal
   * when the caller requests the next result.
   */
  sendEvents<T extends EventInput>(events: Events<T>, call: CallOptions = {}): Results<T | Resumed> {
    assertIterable(events);
    fieldsOf(call.headers);
    return this.#results(this.#items(events), call) as Results<T | Resumed>;
  }

  /**
   * Sends the unsettled events in the journal, as `sendEvents([])` does, and calls `onResumed`. Resolves to the number
   * of events that remain in the journal.
   */
  resume(): Promise<number> {
    return ignorable(this.#resume(this.#items([]), {}));
  }

  /** Aborts `stop` if the gateway accepts none of `concurrency` events, and not if it refuses those of one queue. */
  async #resume(items: AsyncGenerator<Item<Buffer>>, call: Call, stop?: AbortController): Promise<number> {
    let retained = 0;
    for await (const result of this.#results<never>(items, call)) {
      retained = isForGood(result) ? 0 : retained + 1;
      if (retained === 0) this.#options.onResumed?.(result);
      else if (retained >= this.#concurrency) stop?.abort();
    }
    return this.#journal?.unsettled ?? 0;
  }

  /** Yields the results, and then closes the client without waiting for answers. */
  async *only<T>(results: Results<T>): Results<T> {
    try {
      yield* results;
    } finally {
      this.#connections?.close();
      await this.close();
    }
  }

  /**
   * Resolves when all events have a result and the connections are closed. After `timeoutMs`, events without an answer
   * are `interrupted`. Resolves to these events; an open journal has them too. Events that are sent later are rejected.
   * Ignores a time limit that is not a number.
   */
  close({ timeoutMs }: { readonly timeoutMs?: number | undefined } = {}): Promise<readonly unknown[]> {
    this.#closed ??= this.#close();
    const isLimited = typeof timeoutMs === 'number' && timeoutMs <= TIMER_MS_MAX;
    const timer = isLimited ? SYSTEM.clock.after(timeoutMs, () => this.#end.abort()) : undefined;
    return ignorable(this.#closed.finally(() => timer?.close()).then(() => this.#unsent));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    this.#wake();
    if (this.#outstanding > 0) await new Promise<void>((resolve) => (this.#settledAll = resolve));
    if (this.#opening !== undefined && this.#journal === undefined) this.#end.abort();
    this.#connections?.close();
    await this.#forwarding;
    await (await this.#opening)?.close();
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new Error('the client was closed');
  }

  /** Sends unsettled events that nobody else sends, with one try each, until none remains. Pauses after a failure. */
  #forward(failures: number): void {
    if (this.#forwarding !== undefined || this.#closed !== undefined) return;
    this.#forwarding = this.#forwardAll(failures).finally(() => (this.#forwarding = undefined));
  }

  async #forwardAll(first: number): Promise<void> {
    for (let failures = first; !this.#closing.signal.aborted; failures += 1) {
      if (failures > 0) await this.#pause(failures);
      if (this.#closing.signal.aborted || this.#signal.aborted) return;
      if (this.#readers > 0) continue;
      const stop = new AbortController();
      const call = { signal: AbortSignal.any([stop.signal, this.#closing.signal]), tries: 1 };
      this.#pass = { stop, ended: this.#resume(this.#resumedItems(), call, stop).catch(ignored) };
      await this.#pass.ended;
      this.#pass = undefined;
      if (this.#journal?.unsent === 0) return;
    }
  }

  /** Does not keep the process alive, because the next client sends the events in the journal. */
  #pause(failures: number): Promise<void> {
    const ms = pauseMs(failures, FORWARD_FIRST_MS, FORWARD_MAX_MS, SYSTEM.random.fraction());
    return new Promise((resolve) => {
      this.#wake = resolve;
      SYSTEM.clock.after(ms, resolve).unref();
    });
  }

  /** Yields the events in the journal, and then those of the caller. */
  async *#items<T>(events: Events<T>): AsyncGenerator<Item<T | Buffer>> {
    this.#readers += 1;
    try {
      this.#pass?.stop.abort();
      await this.#pass?.ended;
      yield* this.#resumedItems();
    } finally {
      this.#readers -= 1;
    }
    for await (const event of events) yield { event };
  }

  async *#resumedItems(): AsyncGenerator<Item<Buffer>> {
    const journal = await this.#opened();
    for await (const { body, number } of journal?.pending() ?? []) yield { event: body, number };
  }

  /**
   * Invariant: at most `concurrency` events are being sent or have unread results, so reading `source` stops if the
   * caller stops reading results. Throws SendingStopped and the errors of `source`, but only after the results of all
   * answered events.
   */
  async *#results<T extends EventInput>(source: AsyncGenerator<Item<T | Buffer>>, call: Call): Results<T | Buffer> {
    const stop = new AbortController();
    const signal = anyOf(this.#signal, stop.signal, call.signal);
    let wake = (): void => undefined;
    signal.addEventListener('abort', () => wake(), { once: true });
    const done: [Item<T | Buffer>, SendResult<T | Buffer>][] = [];
    const isUnauthorized = call.tries === undefined ? unauthorized() : () => undefined;
    let failure: { readonly cause: unknown } | undefined;
    let [sending, isReading, isRead, isOver] = [0, false, false, false];
    // The signal does not end a try.
    const one = { ...call, signal: undefined };
    const sendOne = async (item: Item<T | Buffer>): Promise<void> => {
      sending += 1;
      try {
        const result = await this.#settled(item, signal, one, false);
        if (isOver) this.#release(item);
        else done.push([item, result]);
        isUnauthorized(result);
      } catch (cause) {
        failure ??= { cause };
        stop.abort();
      }
      sending -= 1;
      wake();
    };
    const readOne = async (): Promise<void> => {
      const next = await source.next().catch((cause: unknown) => {
        failure ??= { cause };
      });
      isReading = false;
      isRead = next?.done !== false;
      if (next?.done === false) {
        if (signal.aborted) this.#release(next.value);
        else void sendOne(next.value);
      }
      wake();
    };
    try {
      for (;;) {
        for (let [next] = done; next !== undefined; [next] = done) {
          yield next[1];
          this.#mark(...next);
          done.shift();
        }
        const isEnding = isRead || signal.aborted;
        if (isEnding && sending === 0) break;
        const woken = new Promise<void>((resolve) => (wake = resolve));
        if (!isEnding && !isReading && sending < this.#concurrency) {
          isReading = true;
          void readOne();
        }
        await woken;
      }
      if (failure !== undefined) throw failure.cause;
      const isOwn = [call.signal, this.#options.signal].some((one) => one?.aborted);
      if (!isRead && !isOwn) this.#assertOpen();
    } finally {
      isOver = true;
      for (const [item] of done) this.#release(item);
      stop.abort();
      // The promise is not awaited, because the source may be waiting for its next event.
      void source.return(undefined).catch(() => undefined);
    }
  }

  /** `marks`: the event, of a call of `send`, is settled in the journal as soon as it has a result. */
  async #settled<T extends EventInput>(
    item: Item<T>,
    all: AbortSignal,
    call: Call,
    marks: boolean,
  ): Promise<SendResult<T>> {
    this.#assertOpen();
    const { event } = item;
    if (marks) assertEvent(event);
    const signal = call.signal === undefined ? all : anyOf(all, call.signal);
    const connections = this.#connections;
    const startMs = SYSTEM.clock.ms();
    const [body, fields] = [bodyOf(event), fieldsOf(call.headers)];
    this.#outstanding += 1;
    try {
      const isSent = connections !== undefined && Buffer.isBuffer(body);
      if (this.#options.journal !== undefined && isSent && item.number === undefined && !signal.aborted)
        await this.#put(item, body);
      const content = isSent ? contentOf(body, fields, this.#options.compression) : undefined;
      const once = () =>
        content === undefined ? Promise.resolve(body as Try) : (connections as Connections).send(content);
      const result: SendResult<T> =
        connections === undefined
          ? { kind: 'disabled', event, tries: 0, durationMs: 0 }
          : await this.#sender.send(event, once, { startMs, signal, own: call.signal, triesMax: call.tries });
      if (result.kind === 'interrupted' && this.#end.signal.aborted) this.#unsent.push(event);
      this.#options.onResult?.(result);
      if (marks) this.#mark(item, result);
      return result;
    } catch (cause) {
      this.#release(item);
      throw cause;
    } finally {
      this.#outstanding -= 1;
      if (this.#outstanding === 0) this.#settledAll();
    }
  }

  async #put<T>(item: Item<T>, body: Buffer): Promise<void> {
    const journal = await this.#opened();
    if (journal === undefined) return;
    item.number = await journal.put(body);
    this.#options.onJournaled?.(item.event as never);
  }

  /** Marks an event as settled in the journal, or leaves it there to be sent again. */
  #mark(item: Item<unknown>, result: SendResult<unknown>): void {
    if (item.number !== undefined && isForGood(result)) this.#journal?.settle(item.number);
    else this.#release(item);
  }

  #release({ number }: Item<unknown>): void {
    if (number === undefined) return;
    this.#journal?.release(number);
    this.#forward(1);
  }

  /**
   * Opens the journal if the options name one. If that fails, the next call tries again. Resolves to undefined if the
   * client ends while another one has the journal.
   */
  #opened(): Promise<Journal | undefined> | undefined {
    const { journal: path } = this.#options;
    if (path === undefined || this.#connections === undefined) return undefined;
    this.#assertOpen();
    const signals = { closing: this.#closing.signal, end: this.#end.signal };
    return (this.#opening ??= Journal.open(path, SYSTEM, signals).then(
      (journal) => (this.#journal = journal),
      (cause: unknown) => {
        this.#opening = undefined;
        if (!this.#end.signal.aborted) throw cause;
        return undefined;
      },
    ));
  }
}
