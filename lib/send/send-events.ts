// The sender as a library: `import { sendEvents } from 'ingest-client'`.
//
// Every event that was sent has a result, unless the run fails. `accepted` means that the event is in the gateway's
// queue. A caller that reads results slowly slows down the sending.
import { SYSTEM } from '../process/clock.ts';
import { flowOf, GatewayClient, gatewayUrl, PIPELINING_MAX, type Flow } from './gateway-client.ts';
import { Journal } from './journal.ts';
import { sendAll, type Retry, type SenderOptions, type SendResult } from './sender.ts';
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

export interface SendEventsOptions {
  /**
   * The gateway's URL, such as `https://gateway:8443`, without `/events`. For tests, http to this machine is allowed.
   */
  readonly url: string | URL;
  /** The PEM texts of the producer's certificate and key, which are required for https. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The PEM text of the authority that signed the gateway's certificate. By default, Node's authorities are used. */
  readonly ca?: string | Buffer;
  /** A bearer token, if the gateway requires one. */
  readonly token?: string;
  /** The maximum number of events in flight, limited by `connections` x `pipelining`. The default is 64. */
  readonly concurrency?: number;
  /** The number of connections to the gateway. The default is 4, or `concurrency` if `pipelining` is 1. */
  readonly connections?: number;
  /** The maximum number of unanswered requests on a connection, from 1 to 32. The default is 16. */
  readonly pipelining?: number;
  /** The maximum number of tries for one event. The default is 10. */
  readonly tries?: number;
  /** The time limit of one try in milliseconds, up to the last byte of its answer. The default is 30,000. */
  readonly timeoutMs?: number;
  /** The maximum number of events per second. By default, there is no limit. */
  readonly ratePerS?: number;
  /** Aborts the run. Events that are waiting for another try have the result `interrupted`. */
  readonly signal?: AbortSignal;
  /** Called before the pause that precedes each retry. */
  readonly onRetry?: (retry: Retry) => void;
}

export interface JournalOptions<T> extends SendEventsOptions {
  /**
   * The path of a file of unsettled events. Each event is written to the file and synced before its first try.
   * Unsettled events of earlier runs are sent first, and the `event` in their results is a Buffer. An event is marked
   * as settled in the file when the caller requests the result after its own.
   */
  readonly journal: string;
  /** Called when the event is in the journal, so that its source may discard it. */
  readonly onJournaled?: (event: T) => void;
}

/** The longest delay that Node's timers accept. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Maxima of the options that are whole numbers. The minimum is 1. */
const WHOLE_MAX = {
  concurrency: TIMER_MS_MAX,
  connections: TIMER_MS_MAX,
  pipelining: PIPELINING_MAX,
  tries: TIMER_MS_MAX,
  timeoutMs: TIMER_MS_MAX,
} as const;

const OPTIONS: ReadonlySet<string> = new Set([
  ...['url', 'cert', 'key', 'ca', 'token', ...Object.keys(WHOLE_MAX), 'ratePerS'],
  ...['signal', 'onRetry', 'journal', 'onJournaled'],
]);

/**
 * Sends events and yields their results in the order in which they settle. The call throws a TypeError or a
 * RangeError for invalid options. The generator throws the errors of `events`. It throws SendingStopped if no event
 * can be accepted, because the server is not trusted or because the first ten answers are all 401 or 403.
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
  for (const name of Object.keys(WHOLE_MAX) as (keyof typeof WHOLE_MAX)[]) {
    const [value = 1, max] = [options[name], WHOLE_MAX[name]];
    if (!Number.isInteger(value) || value < 1 || value > max)
      throw new RangeError(`${name} ${value}: expected a whole number from 1 to ${max}`);
  }
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

/** An event, and its number after it was added to the journal. */
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
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway requires');
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token: expected visible ASCII characters');
  return new GatewayClient({ ...SYSTEM, ...flow, url, identity: { cert, key, ca, token }, timeoutMs });
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
