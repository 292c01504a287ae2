// The library: `import { createClient, sendEvents } from 'ingest-client'`.
//
// Every event that was sent has a result, unless the call fails. `accepted` means that the event is in the gateway's
// queue. A caller that reads results slowly slows down the sending.
import { setMaxListeners } from 'node:events';
import { SYSTEM } from '../process/clock.ts';
import { Connections, flowOf, PIPELINING_MAX } from './connections.ts';
import { gatewayUrl } from './identity.ts';
import { Journal, type Entry } from './journal.ts';
import { sendAll } from './run.ts';
import { Sender, type Retry, type SendResult } from './sender.ts';
import type { Try } from './try.ts';

export { NO_ANSWER } from './try.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

/** The code of an event that was not sent because JSON.stringify cannot serialize it. */
export const UNSERIALIZABLE = 'UNSERIALIZABLE';

/**
 * An event: the text or the bytes of one JSON object, which are sent unchanged, or an object for JSON.stringify. All
 * producers of a gateway share one set of ids, so begin yours with your name.
 */
export type EventInput = string | Uint8Array | { readonly id: string; readonly type: string };
type Events<T> = AsyncIterable<T> | Iterable<T>;
type Results<T> = AsyncGenerator<SendResult<T>, void, undefined>;

export interface SendEventsOptions {
  /**
   * The gateway's URL, such as `https://gateway:8443`, without `/events`. For tests, http to this machine is allowed.
   */
  readonly url: string | URL;
  /** The PEM texts of the producer's certificate and key, which are required for https. */
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  /** The PEM text of the authority that signed the gateway's certificate. By default, Node's authorities are used. */
  readonly ca?: string | Buffer | undefined;
  /** A bearer token, if the gateway requires one. */
  readonly token?: string | undefined;
  /** The maximum number of events in flight, limited by `connections` x `pipelining`. The default is 64. */
  readonly concurrency?: number | undefined;
  /** The number of connections to the gateway. The default is 4, or `concurrency` if `pipelining` is 1. */
  readonly connections?: number | undefined;
  /** The maximum number of unanswered requests on a connection, from 1 to 32. The default is 16. */
  readonly pipelining?: number | undefined;
  /** The maximum number of tries for one event. The default is 10, or 1 at an address that was never reached. */
  readonly tries?: number | undefined;
  /** The time limit of one try in milliseconds, up to the last byte of its answer. The default is 30,000. */
  readonly timeoutMs?: number | undefined;
  /** The maximum number of events per second. By default, there is no limit. */
  readonly ratePerS?: number | undefined;
  /** Aborts the sending. Events that are waiting for another try have the result `interrupted`. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the pause that precedes each retry. */
  readonly onRetry?: (retry: Retry) => void;
}

export interface JournalOptions<T = EventInput> extends SendEventsOptions {
  /**
   * The path of a file of unsettled events. Each event is written to the file and synced before its first try. An
   * event is settled if it was accepted or refused for good. Unsettled events of earlier runs are sent first.
   */
  readonly journal: string;
  /** Called when the event is in the journal, so that its source may discard it. */
  readonly onJournaled?: (event: T) => void;
  /** Called with the results of events of earlier runs, unless `sendEvents` yields them. */
  readonly onResumed?: (result: SendResult<Buffer>) => void;
}

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

/** An event, and its number after it was added to the journal. */
interface Item<T> {
  readonly event: T;
  number?: number;
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
    const { url, cert, key, ca, token, tries, timeoutMs = 30_000, ratePerS, signal, onRetry } = options;
    const flow = flowOf(options);
    this.#options = options;
    this.#resumes = this.#options.journal !== undefined;
    this.#concurrency = flow.concurrency;
    this.#connections = new Connections({
      ...{ ...SYSTEM, ...flow, timeoutMs, url: gatewayUrl(url), identity: { cert, key, ca, token } },
      isPatient: this.#resumes || tries !== undefined,
    });
    this.#sender = new Sender({
      ...{ ...SYSTEM, ...flow, triesMax: tries ?? 10, ratePerS },
      onRetry: onRetry ?? (() => undefined),
    });
    this.#signal = AbortSignal.any(signal === undefined ? [] : [signal]);
    // Every pause listens to the signal, and Node warns about more than ten listeners.
    setMaxListeners(0, this.#signal, this.#closing.signal);
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
      throw new TypeError(`send: expected one event, found ${nameOf(event)}`);
    this.#resume();
    return { ...(await this.#settled({ event }, this.#signal, true)), event };
  }

  /**
   * Sends events and yields their results in the order in which they settle. An event is marked as settled in the
   * journal when the caller requests the next result. If `sendEvents` is called immediately after `createClient`, it
   * first yields the results of the events of earlier runs, whose `event` is a Buffer.
   */
  sendEvents<T extends EventInput>(events: Events<T>): Results<T | Resumed> {
    if (!isIterable(events)) throw new TypeError(`expected an array or iterable of events, found ${nameOf(events)}`);
    const resumes = this.#resumes;
    this.#resumes = false;
    return this.#results(events, resumes, this.#signal) as Results<T | Resumed>;
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
    await this.#resumed;
    await this.#journal?.then(
      (journal) => journal.close(),
      () => undefined,
    );
  }

  /** Sends the events of earlier runs in the background. `close` reports a failure. */
  #resume(): void {
    if (!this.#resumes || this.#closed !== undefined) return;
    this.#resumes = false;
    this.#resumed = this.#sendResumed();
    this.#resumed.catch(() => undefined);
  }

  async #sendResumed(): Promise<void> {
    const signal = AbortSignal.any([this.#signal, this.#closing.signal]);
    for await (const result of this.#results<never>([], true, signal)) this.#options.onResumed?.(result);
  }

  async *#results<T extends EventInput>(events: Events<T>, resumes: boolean, signal: AbortSignal): Results<T | Buffer> {
    const journal = await this.#opened();
    const source = itemsOf(resumes && journal !== undefined ? journal.resumed() : [], events);
    const send = (item: Item<T | Buffer>, until: AbortSignal) => this.#settled(item, until, false);
    for await (const result of sendAll(source, { send, concurrency: this.#concurrency, signal })) {
      yield { ...result, event: result.event.event };
      mark(journal, result);
    }
  }

  /** `marks` is true if the event is to be marked as settled in the journal as soon as it has a result. */
  async #settled<T extends EventInput>(
    item: Item<T>,
    signal: AbortSignal,
    marks: boolean,
  ): Promise<SendResult<Item<T>>> {
    if (this.#closed !== undefined) throw new Error('the client was closed');
    const body = bodyOf(item.event);
    const isBody = Buffer.isBuffer(body);
    this.#outstanding += 1;
    try {
      const journal = await this.#opened();
      if (journal !== undefined && item.number === undefined && isBody && !signal.aborted) {
        item.number = await journal.put(body);
        this.#options.onJournaled?.(item.event);
      }
      const once = isBody ? () => this.#connections.send(body) : () => Promise.resolve(body);
      const result = await this.#sender.send(item, once, signal);
      if (marks) mark(journal, result);
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

/** Marks an event as settled if it was accepted or refused for good. */
function mark(journal: Journal | undefined, result: SendResult<Item<unknown>>): void {
  const { number } = result.event;
  const isSettled = result.kind === 'accepted' || (result.kind === 'refused' && !result.retryable);
  if (isSettled && number !== undefined) journal?.settle(number);
}

function assertOptions(options: SendEventsOptions): void {
  const known = [...WHOLE, ...OTHERS];
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (!known.includes(name)) throw new TypeError(`${name}: unknown option, expected one of ${known.join(', ')}`);
    if (!WHOLE.includes(name) || value === undefined) continue;
    const [number, max] = [Number(value), name === 'pipelining' ? PIPELINING_MAX : TIMER_MS_MAX];
    if (!Number.isInteger(value) || number < 1 || number > max)
      throw new RangeError(`${name} ${number}: expected a whole number from 1 to ${max}`);
  }
  const { url, cert, key, token, ratePerS } = options;
  if (ratePerS !== undefined && !(ratePerS > 0)) throw new RangeError(`ratePerS ${ratePerS}: expected more than 0`);
  if (gatewayUrl(url).protocol === 'https:' && (cert === undefined || key === undefined))
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway requires');
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token: expected visible ASCII characters');
}

/** The characters of a text and the bytes of a buffer are not events. */
const isIterable = (events: unknown): boolean =>
  typeof events === 'object' &&
  events !== null &&
  !(events instanceof Uint8Array) &&
  (Symbol.asyncIterator in events || Symbol.iterator in events);

function nameOf(value: unknown): string {
  if (Array.isArray(value)) return 'an array, which sendEvents sends';
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  return `one ${value instanceof Uint8Array ? 'body' : 'object'}; put it into an array`;
}

/** Yields the events of earlier runs, and then those of the caller. */
async function* itemsOf<T>(resumed: Events<Entry>, events: Events<T>): AsyncGenerator<Item<T | Buffer>> {
  for await (const { body, number } of resumed) yield { event: body, number };
  for await (const event of events) yield { event };
}

/** Returns the bytes to send, or the refusal of an object that cannot be serialized. */
function bodyOf(event: EventInput): Buffer | Try {
  if (typeof event === 'string') return Buffer.from(event);
  if (event instanceof Uint8Array) return Buffer.from(event.buffer, event.byteOffset, event.byteLength);
  let error = 'JSON.stringify returned undefined';
  try {
    const text = JSON.stringify(event) as string | undefined;
    if (text !== undefined) return Buffer.from(text);
  } catch (cause) {
    error = cause instanceof Error ? cause.message : String(cause);
  }
  return { kind: 'refused', code: UNSERIALIZABLE, status: 0, answer: { error }, requestId: undefined };
}
