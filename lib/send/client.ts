// The library: `import { createClient, sendEvents } from 'ingest-client'`.
//
// Every event that was sent has a result, unless the call fails. `accepted` means that the event is in the gateway's
// queue. A caller that reads results slowly slows down the sending.
import { setMaxListeners } from 'node:events';
import { SYSTEM } from '../process/clock.ts';
import { Connections, flowOf, PIPELINING_MAX, type FlowOptions } from './connections.ts';
import { gatewayUrl, type SenderIdentity } from './identity.ts';
import { Journal } from './journal.ts';
import { reasonOf, Sender, SendingStopped, type Retry, type SendResult } from './sender.ts';
import type { Try } from './outcome.ts';

export { NO_ANSWER } from './outcome.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

/** The code of an event that was not sent: JSON.stringify cannot serialize it, or its text has a lone surrogate. */
export const UNSERIALIZABLE = 'UNSERIALIZABLE';

/**
 * An event: the text or the bytes of one JSON object, which are sent unchanged, or an object for JSON.stringify. All
 * producers of a gateway share one set of ids, so begin yours with your name.
 */
export type EventInput = string | Uint8Array | { readonly id: string; readonly type: string };
type Events<T> = AsyncIterable<T> | Iterable<T>;
type Results<T> = AsyncGenerator<SendResult<T>, void, undefined>;

export interface SendEventsOptions extends SenderIdentity, FlowOptions {
  /**
   * The gateway's URL, such as `https://gateway:8443`, without `/events`. For tests, http to this machine is allowed.
   */
  readonly url: string | URL;
  /** The maximum number of tries for one event. The default is 10, or 3 at an address that was never reached. */
  readonly tries?: number | undefined;
  /** The time limit of one try in milliseconds, up to the last byte of its answer. The default is 30,000. */
  readonly timeoutMs?: number | undefined;
  /** The maximum number of events per second. By default, there is no limit. */
  readonly ratePerS?: number | undefined;
  /** Aborts the sending. Events that are waiting for another try have the result `interrupted`. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the pause that precedes each retry. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

export interface JournalOptions<T = EventInput> extends SendEventsOptions {
  /**
   * The path of a file of unsettled events. Each event is written to the file and synced before its first try. An
   * event is settled if it was accepted or refused for good, which does not include a refusal of the producer or URL.
   * Unsettled events of earlier runs are sent first.
   */
  readonly journal: string;
  /** Called when the event is in the journal, so that its source may discard it. */
  readonly onJournaled?: ((event: T) => void) | undefined;
  /** Called with the results of events of earlier runs, unless `sendEvents` yields them. */
  readonly onResumed?: ((result: SendResult<Buffer>) => void) | undefined;
}

/** If the first UNAUTHORIZED_MAX results are all 401 or 403, sendEvents stops, because all events would be refused. */
const UNAUTHORIZED_MAX = 10;

/** The longest delay that Node's timers accept. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Options that are whole numbers. */
const WHOLE = ['concurrency', 'connections', 'pipelining', 'tries', 'timeoutMs'];
const OTHERS = 'url cert key ca token ratePerS signal onRetry journal onJournaled onResumed'.split(' ');

/** `Resumed` is the type of the events of earlier runs, if there is a journal. */
export type Client<Resumed = never> = Pick<EventClient<Resumed>, 'outstanding' | 'send' | 'sendEvents' | 'close'>;

/** Throws a TypeError or a RangeError for invalid options. */
export function createClient(options: JournalOptions): Client<Buffer>;
export function createClient(options: SendEventsOptions): Client;
export function createClient(options: SendEventsOptions | JournalOptions): Client<Buffer> {
  return new EventClient<Buffer>(options);
}

/**
 * Sends events with a client of its own, as `Client.sendEvents` does. The call throws a TypeError or a RangeError for
 * invalid options. The generator throws the errors of `events`. It throws SendingStopped if no event can be accepted,
 * because the server is not trusted or because the first ten answers are all 401 or 403.
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

/** An event. `settle` marks it as settled in the journal, and is set when the event is in the journal. */
interface Item<T> {
  readonly event: T;
  settle?: () => void;
}

/** A client for the life of a process. It keeps its connections, and opens them again if the gateway closes them. */
class EventClient<Resumed> {
  readonly #options: SendEventsOptions & Partial<JournalOptions>;
  readonly #connections: Connections;
  readonly #sender: Sender;
  readonly #concurrency: number;
  readonly #signal: AbortSignal;
  readonly #closing = new AbortController();
  #journal: Promise<Journal> | undefined;
  /** True until the events of earlier runs are being sent. */
  #resumes: boolean;
  #resumed: Promise<void> | undefined;
  #outstanding = 0;
  #settledAll = (): void => undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SendEventsOptions | JournalOptions) {
    assertOptions(options);
    const { url, tries, timeoutMs = 30_000, ratePerS, signal, onRetry = () => undefined } = options;
    const all = { ...SYSTEM, ...options, ...flowOf(options) };
    this.#options = options;
    this.#resumes = this.#options.journal !== undefined;
    this.#concurrency = all.concurrency;
    const isPatient = this.#resumes || tries !== undefined;
    this.#connections = new Connections({ ...all, url: gatewayUrl(url), timeoutMs, isPatient });
    this.#sender = new Sender({ ...all, triesMax: tries ?? 10, ratePerS, onRetry });
    this.#signal = anyOf(signal === undefined ? [] : [signal]);
    if (this.#resumes) SYSTEM.clock.turnEnd(() => this.#resume());
  }

  /** The number of events without a result. */
  get outstanding(): number {
    return this.#outstanding;
  }

  /**
   * Resolves to the event's result. If `concurrency` events are being sent, the event waits for one of them. Rejects
   * with a TypeError if the value cannot be an event, and with SendingStopped if no event can be accepted.
   */
  async send<T extends EventInput>(event: T): Promise<SendResult<T>> {
    if (typeof event !== 'string' && (typeof event !== 'object' || event === null || Array.isArray(event)))
      throw new TypeError(`send: expected one event, found ${nameOf(event)}; sendEvents sends arrays`);
    this.#resume();
    return this.#settled({ event }, this.#signal, true);
  }

  /**
   * Sends events and yields their results in the order in which they settle. An event is marked as settled in the
   * journal when the caller requests the next result. If `sendEvents` is called immediately after `createClient`, it
   * first yields the results of the events of earlier runs, whose `event` is a Buffer.
   */
  sendEvents<T extends EventInput>(events: Events<T>): Results<T | Resumed> {
    if (!isIterable(events))
      throw new TypeError(
        `expected an array or iterable of events, found ${nameOf(events)}; put one event in an array`,
      );
    const resumes = this.#resumes;
    this.#resumes = false;
    return this.#results(events, resumes) as Results<T | Resumed>;
  }

  /** Yields the results, and then closes the client without waiting for answers. */
  async *only<T>(results: Results<T>): Results<T> {
    try {
      yield* results;
    } finally {
      this.#connections.close();
      await this.close();
    }
  }

  /** Resolves when all events have a result and the connections are closed. Events sent later are rejected. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#closing.abort();
    if (this.#outstanding > 0) await new Promise<void>((resolve) => (this.#settledAll = resolve));
    this.#connections.close();
    try {
      await this.#resumed;
    } finally {
      const journal = await this.#journal?.catch(() => undefined);
      await journal?.close();
    }
  }

  /** Sends the events of earlier runs in the background. `close` reports a failure. */
  #resume(): void {
    if (!this.#resumes || this.#closed !== undefined) return;
    this.#resumes = false;
    this.#resumed = this.#sendResumed();
    this.#resumed.catch(() => undefined);
  }

  async #sendResumed(): Promise<void> {
    for await (const result of this.#results<never>([], true, [this.#closing.signal]))
      this.#options.onResumed?.(result);
  }

  /**
   * Invariant: at most `concurrency` events are being sent or have unread results, so reading `events` stops if the
   * caller stops reading results. Throws SendingStopped and the errors of `events`, but only after the results of all
   * answered events.
   */
  async *#results<T extends EventInput>(
    events: Events<T>,
    resumes: boolean,
    signals: readonly AbortSignal[] = [],
  ): Results<T | Buffer> {
    const journal = await this.#opened();
    const source = itemsOf(resumes ? journal : undefined, events);
    const stop = new AbortController();
    const signal = anyOf([this.#signal, stop.signal, ...signals]);
    let wake = (): void => undefined;
    signal.addEventListener('abort', () => wake(), { once: true });
    const done: [Item<T | Buffer>, SendResult<T | Buffer>][] = [];
    const isUnauthorized = unauthorized();
    let failure: { readonly cause: unknown } | undefined;
    let [sending, isReading, isRead] = [0, false, false];
    const sendOne = async (item: Item<T | Buffer>): Promise<void> => {
      sending += 1;
      try {
        const result = await this.#settled(item, signal, false);
        done.push([item, result]);
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
      if (next?.done === false && !signal.aborted) void sendOne(next.value);
      wake();
    };
    try {
      for (;;) {
        for (let next = done.shift(); next !== undefined; next = done.shift()) {
          const [item, result] = next;
          yield result;
          mark(item, result);
        }
        const isOver = isRead || signal.aborted;
        if (isOver && sending === 0) break;
        const woken = new Promise<void>((resolve) => (wake = resolve));
        if (!isOver && !isReading && sending < this.#concurrency) {
          isReading = true;
          void readOne();
        }
        await woken;
      }
      if (failure !== undefined) throw failure.cause;
    } finally {
      stop.abort();
      // The promise is not awaited, because the source may be waiting for its next event.
      void source.return(undefined).catch(() => undefined);
    }
  }

  /** `marks` is true if the event is to be marked as settled in the journal as soon as it has a result. */
  async #settled<T extends EventInput>(item: Item<T>, signal: AbortSignal, marks: boolean): Promise<SendResult<T>> {
    if (this.#closed !== undefined) throw new Error('the client was closed');
    const body = bodyOf(item.event);
    const isBody = Buffer.isBuffer(body);
    this.#outstanding += 1;
    try {
      const journal = await this.#opened();
      if (journal !== undefined && item.settle === undefined && isBody && !signal.aborted) {
        const number = await journal.put(body);
        item.settle = () => journal.settle(number);
        this.#options.onJournaled?.(item.event);
      }
      const once = isBody ? () => this.#connections.send(body) : () => Promise.resolve(body);
      const result = await this.#sender.send(item.event, once, signal);
      if (marks) mark(item, result);
      return result;
    } finally {
      this.#outstanding -= 1;
      if (this.#outstanding === 0) this.#settledAll();
    }
  }

  /** Opens the journal if the options name one. If that fails, the next call tries again. */
  #opened(): Promise<Journal> | undefined {
    const { journal: path } = this.#options;
    if (path === undefined) return undefined;
    return (this.#journal ??= Journal.open(path, SYSTEM).catch((cause: unknown) => {
      this.#journal = undefined;
      this.#resumes = true;
      throw cause;
    }));
  }
}

/** Codes of refusals that concern the producer, the URL or the token. The gateway may accept the event later. */
const EVENT_UNREAD = new Set(['UNAUTHORIZED_PRODUCER', 'PRODUCER_DISABLED', 'ROUTE_NOT_FOUND', 'HEADERS_TOO_LARGE']);

/** Marks an event as settled if it was accepted or refused for good. */
function mark({ settle }: Item<unknown>, result: SendResult<unknown>): void {
  if (result.kind === 'interrupted' || (result.kind === 'refused' && result.retryable)) return;
  if (result.kind === 'accepted' || !EVENT_UNREAD.has(result.code)) settle?.();
}

/** Every pause listens to the returned signal, and Node warns about more than ten listeners. */
function anyOf(signals: AbortSignal[]): AbortSignal {
  const signal = AbortSignal.any(signals);
  setMaxListeners(0, signal);
  return signal;
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

function assertOptions(options: SendEventsOptions & Partial<JournalOptions>): void {
  const known = [...WHOLE, ...OTHERS];
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (!known.includes(name)) throw new TypeError(`${name}: unknown option, expected one of ${known.join(', ')}`);
    if (!WHOLE.includes(name) || value === undefined) continue;
    const [number, max] = [Number(value), name === 'pipelining' ? PIPELINING_MAX : TIMER_MS_MAX];
    if (!Number.isInteger(value) || number < 1 || number > max)
      throw new RangeError(`${name} ${number}: expected a whole number from 1 to ${max}`);
  }
  const { url, cert, key, token, ratePerS, journal } = options;
  if (ratePerS !== undefined && !(ratePerS > 0)) throw new RangeError(`ratePerS ${ratePerS}: expected more than 0`);
  if (gatewayUrl(url).protocol === 'https:' && (cert === undefined || key === undefined))
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway requires');
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token: expected visible ASCII characters');
  if (journal === '') throw new TypeError('journal: expected the path of a file');
}

/** The characters of a text and the bytes of a buffer are not events. */
const isIterable = (events: unknown): boolean =>
  typeof events === 'object' &&
  events !== null &&
  !(events instanceof Uint8Array) &&
  (Symbol.asyncIterator in events || Symbol.iterator in events);

const nameOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value);

/** Yields the events of earlier runs, and then those of the caller. */
async function* itemsOf<T>(journal: Journal | undefined, events: Events<T>): AsyncGenerator<Item<T | Buffer>> {
  for await (const { body, number } of journal?.resumed() ?? [])
    yield { event: body, settle: () => journal?.settle(number) };
  for await (const event of events) yield { event };
}

/** Returns the bytes to send, or the refusal of an event that cannot be serialized. */
function bodyOf(event: EventInput): Buffer | Try {
  if (event instanceof Uint8Array) return Buffer.from(event); // A copy: the caller may use its buffer again.
  let error = 'JSON.stringify returned undefined';
  try {
    const text = typeof event === 'string' ? event : (JSON.stringify(event) as string | undefined);
    // UTF-8 has no lone surrogates. A replacement would change the event, and could make one id of two.
    if (text?.isWellFormed() === true) return Buffer.from(text);
    if (text !== undefined) error = 'the text contains a lone surrogate';
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  return { kind: 'refused', code: UNSERIALIZABLE, status: 0, answer: { error }, requestId: undefined };
}
