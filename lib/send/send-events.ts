// The sender as a library: `import { sendEvents } from 'ingest-client'`.
//
// Retries are bounded, with jitter, and follow `Retry-After`; slow reading of the results slows the sending down. Every
// event that was started gets a result. `accepted` is the gateway's 202: the event is in the queue and lands.
import { SystemClock, SystemRandom } from '../process/clock.ts';
import { flowOf, GatewayClient, gatewayUrl, PIPELINING_MAX, type Flow } from './gateway-client.ts';
import { Journal } from './journal.ts';
import { sendAll, type Retry, type SenderOptions, type SendResult } from './sender.ts';
import type { Try } from './try.ts';

export { NO_ANSWER } from './try.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

/** The code of an event that JSON.stringify cannot write. It was not sent. */
export const UNSERIALIZABLE = 'UNSERIALIZABLE';

const SYSTEM = { clock: new SystemClock(), random: new SystemRandom() };

/**
 * An event: text or bytes that hold one JSON object, sent as they are, or an object for JSON.stringify.
 * Ids are shared by all producers of a gateway: begin yours with your name.
 */
export type EventInput = string | Uint8Array | { readonly id: string; readonly type: string };

export interface SendEventsOptions {
  /** The gateway, e.g. `https://gateway:8443`; `/events` is added. Plain http only to this machine, for tests. */
  readonly url: string | URL;
  /** The producer's certificate and its key, PEM; both are needed with https. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** PEM of the authority that signed the gateway's certificate; left out, the authorities that node trusts. */
  readonly ca?: string | Buffer;
  /** A bearer token, where the gateway requires one. */
  readonly token?: string;
  /** Events in flight at a time, at most `connections` x `pipelining`; 64. */
  readonly concurrency?: number;
  /** Connections to the gateway; 4, or as many as `concurrency` if `pipelining` is 1. */
  readonly connections?: number;
  /** Requests on a connection at a time, 1 to 32; 16. */
  readonly pipelining?: number;
  /** Tries for one event; 10. */
  readonly tries?: number;
  /** Milliseconds for one try, up to the last byte of its answer; 30,000. */
  readonly timeoutMs?: number;
  /** Maximum events per second; no limit by default. */
  readonly ratePerS?: number;
  /** Ends the run: the result of an event that waits for another try is `interrupted`. */
  readonly signal?: AbortSignal;
  /** Called before each repeated try. */
  readonly onRetry?: (retry: Retry) => void;
}

export interface JournalOptions<T> extends SendEventsOptions {
  /**
   * A file of unsettled events. An event is in it, after fsync, before its first try. Events left by an earlier run
   * (its process ended, it was aborted, tries were used up) are sent first; the `event` of such a result is the bytes.
   * An event leaves the file when the reader asks for the next result after the event's own.
   */
  readonly journal: string;
  /** Called once the journal holds an event: its source may forget it. */
  readonly onJournaled?: (event: T) => void;
}

const OPTIONS: ReadonlySet<string> = new Set([
  ...[
    'url',
    'cert',
    'key',
    'ca',
    'token',
    'concurrency',
    'connections',
    'pipelining',
    'tries',
    'timeoutMs',
    'ratePerS',
  ],
  ...['signal', 'onRetry', 'journal', 'onJournaled'],
]);

/**
 * Sends events and yields the result of each, in the order in which they settle. The call throws a TypeError or a
 * RangeError for unusable options. The generator throws SendingStopped if no event can be accepted (the server is not
 * trusted, or the first ten answers are 401 or 403), and any error of `events`.
 */
export function sendEvents<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  options: JournalOptions<T>,
): AsyncGenerator<SendResult<T | Buffer>, void, undefined>;
export function sendEvents<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  options: SendEventsOptions,
): AsyncGenerator<SendResult<T>, void, undefined>;
export function sendEvents<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  options: SendEventsOptions | JournalOptions<T>,
): AsyncGenerator<SendResult<T | Buffer>, void, undefined> {
  for (const name of Object.keys(options))
    if (!OPTIONS.has(name)) throw new TypeError(`${name}: unknown option, expected one of ${[...OPTIONS].join(', ')}`);
  const { tries = 10, timeoutMs = 30_000, ratePerS, signal, onRetry } = options;
  if (ratePerS !== undefined && !(ratePerS > 0)) throw new RangeError(`ratePerS ${ratePerS}: expected more than 0`);
  for (const name of ['concurrency', 'connections', 'tries', 'timeoutMs'] as const) wholeNumber(name, options[name]);
  wholeNumber('pipelining', options.pipelining, PIPELINING_MAX);
  const flow = flowOf(options);
  const client = clientOf(options, flow, timeoutMs);
  const sending = {
    ...SYSTEM,
    concurrency: flow.concurrency,
    triesMax: tries,
    ratePerS,
    signal: signal ?? new AbortController().signal,
    onRetry: onRetry ?? (() => undefined),
  };
  return 'journal' in options && options.journal !== undefined
    ? sendJournaled(events, options, client, sending)
    : sendDirectly(events, client, sending);
}

type Sending = Omit<SenderOptions<unknown>, 'send'>;

async function* sendDirectly<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  client: GatewayClient,
  sending: Sending,
): AsyncGenerator<SendResult<T>, void, undefined> {
  try {
    const send = async (event: T): Promise<Try> => {
      const body = bodyOf(event);
      return Buffer.isBuffer(body) ? client.send(body) : body;
    };
    yield* sendAll(events, { ...sending, send });
  } finally {
    client.close();
  }
}

/** An event, and its number in the journal once that holds it. */
interface Journaled<T> {
  readonly event: T;
  number?: number;
}

async function* sendJournaled<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  { journal: path, onJournaled }: JournalOptions<T>,
  client: GatewayClient,
  sending: Sending,
): AsyncGenerator<SendResult<T | Buffer>, void, undefined> {
  const journal = await Journal.open(path, SYSTEM);
  async function* all(): AsyncGenerator<Journaled<T | Buffer>> {
    for await (const { number, body } of journal.resumed()) yield { number, event: body };
    for await (const event of events) yield { event };
  }
  const send = async (item: Journaled<T | Buffer>): Promise<Try> => {
    const body = bodyOf(item.event);
    if (!Buffer.isBuffer(body)) return body;
    if (item.number === undefined) {
      item.number = await journal.put(body);
      onJournaled?.(item.event as T);
    }
    return client.send(body);
  };
  try {
    for await (const result of sendAll(all(), { ...sending, send })) {
      const { event, number } = result.event;
      yield { ...result, event };
      const settled = result.kind === 'accepted' || (result.kind === 'refused' && !result.retryable);
      if (settled && number !== undefined) journal.settle(number);
    }
  } finally {
    client.close();
    await journal.close();
  }
}

function clientOf(options: SendEventsOptions, flow: Flow, timeoutMs: number): GatewayClient {
  const { cert, key, ca, token } = options;
  const url = gatewayUrl(options.url);
  if (url.protocol === 'https:' && (cert === undefined || key === undefined))
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway asks for');
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token: expected visible ASCII characters');
  return new GatewayClient({ ...SYSTEM, ...flow, url, identity: { cert, key, ca, token }, timeoutMs });
}

/** Node's timers hold milliseconds up to the default of `max`. */
function wholeNumber(name: string, value: number | undefined, max = 2 ** 31 - 1): void {
  if (value === undefined || (Number.isInteger(value) && value >= 1 && value <= max)) return;
  throw new RangeError(`${name} ${value}: expected a whole number from 1 to ${max}`);
}

/** The bytes to send, or the refusal of an object that JSON cannot hold. */
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
