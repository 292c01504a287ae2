// The options of a client and of its calls, and the checks of both.
import * as zlib from 'node:zlib';
import { PIPELINING_MAX, type Content, type FlowOptions } from './connections.ts';
import { gatewayUrl, type SenderIdentity } from './identity.ts';
import type { Try } from './outcome.ts';
import type { Retry, SendResult } from './sender.ts';

/** The code of an event that was not sent: JSON.stringify cannot serialize it, or its text has a lone surrogate. */
export const UNSERIALIZABLE = 'UNSERIALIZABLE';

/**
 * An event: the text or the bytes of one JSON object, which are sent unchanged, or an object for JSON.stringify. All
 * producers of a gateway share one set of ids, so begin yours with your name.
 */
export type EventInput = string | Uint8Array | { readonly id: string; readonly type: string };

/** Node 20 has no zstd. */
const ENCODERS: Readonly<Record<'gzip' | 'zstd', ((body: Buffer) => Buffer) | undefined>> = {
  gzip: (body) => zlib.gzipSync(body),
  zstd: (zlib as Partial<typeof zlib>).zstdCompressSync,
};

export interface SendEventsOptions extends SenderIdentity, FlowOptions {
  /**
   * The gateway's URL, such as `https://gateway:8443`, without `/events`. For tests, http to this machine is allowed.
   */
  readonly url: string | URL;
  /** The maximum number of tries for one event. The default is 10. */
  readonly tries?: number | undefined;
  /** The time limit of one try in milliseconds, up to the last byte of its answer. The default is 30,000. */
  readonly timeoutMs?: number | undefined;
  /** The maximum number of events per second. By default, there is no limit. */
  readonly ratePerS?: number | undefined;
  /** Aborts the sending. Events that are waiting for another try have the result `interrupted`. */
  readonly signal?: AbortSignal | undefined;
  /** Compresses events that become shorter. Node supports `zstd` in 22.15 and newer. */
  readonly compression?: keyof typeof ENCODERS | undefined;
  /** `false`: nothing is opened or sent, and all results are `disabled`. For work without a gateway. */
  readonly enabled?: boolean | undefined;
  /** Called with each result, before the call returns it. */
  readonly onResult?: ((result: SendResult<unknown>) => void) | undefined;
  /** Called before the pause that precedes each retry. */
  readonly onRetry?: ((retry: Retry) => void) | undefined;
}

export interface JournalOptions<T = EventInput> extends SendEventsOptions {
  /**
   * The path of a file of unsettled events. Each event is written to the file and synced before its first try. An
   * event is settled if it was accepted or refused for good, which does not include a refusal of the producer or URL.
   * Unsettled events are sent again, by this client or the next one, until they are settled.
   */
  readonly journal: string;
  /** Called when the event is in the journal, so that its source may discard it. */
  readonly onJournaled?: ((event: T) => void) | undefined;
  /** Called when an event of an earlier run or call is settled, unless `sendEvents` yields its result. */
  readonly onResumed?: ((result: SendResult<Buffer>) => void) | undefined;
}

export interface CallOptions {
  /** Aborts the call. `send` does not wait for an answer then; `sendEvents` waits for those to the events in flight. */
  readonly signal?: AbortSignal | undefined;
  /** More header fields, such as `traceparent`. With `X-Request-Id`, the gateway's log has that id. */
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]> | undefined;
}

/** The longest delay that Node's timers accept. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/** Options that are whole numbers. */
const WHOLE = ['concurrency', 'connections', 'pipelining', 'tries', 'timeoutMs'];
const OTHERS =
  'url cert key ca token ratePerS compression enabled signal onResult onRetry journal onJournaled onResumed';

/** Throws a TypeError or a RangeError that names the option. */
export function assertOptions(options: SendEventsOptions & Partial<JournalOptions>): void {
  const names = [...WHOLE, ...OTHERS.split(' ')];
  for (const [name, value] of Object.entries(options) as [string, unknown][]) {
    if (!names.includes(name)) throw new TypeError(`${name}: unknown option, expected one of ${names.join(', ')}`);
    if (!WHOLE.includes(name) || value === undefined) continue;
    const [number, max] = [Number(value), name === 'pipelining' ? PIPELINING_MAX : TIMER_MS_MAX];
    if (!Number.isInteger(value) || number < 1 || number > max)
      throw new RangeError(`${name} ${number}: expected a whole number from 1 to ${max}`);
  }
  if (options.enabled === false) return;
  const { url, cert, key, ratePerS, compression, journal } = options;
  if (ratePerS !== undefined && !(ratePerS > 0)) throw new RangeError(`ratePerS ${ratePerS}: expected more than 0`);
  if (gatewayUrl(url).protocol === 'https:' && (cert === undefined || key === undefined))
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway requires');
  if (compression !== undefined && typeof ENCODERS[compression] !== 'function')
    throw new TypeError(`compression ${compression}: expected gzip, or zstd in Node 22.15 and newer`);
  if (journal === '') throw new TypeError('journal: expected the path of a file');
}

const RESERVED =
  /^(authorization|connection|content-(encoding|length|type)|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;

const NO_FIELDS = { fields: '', requestId: undefined };

/** Returns the header fields of a call. Throws a TypeError for a field that would change the request. */
export function fieldsOf(headers: CallOptions['headers']): Pick<Content, 'fields' | 'requestId'> {
  if (headers === undefined) return NO_FIELDS;
  let [fields, requestId]: [string, string | undefined] = ['', undefined];
  const all = Symbol.iterator in headers ? headers : Object.entries(headers);
  for (const [name, value] of all as Iterable<[string, unknown]>) {
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name) || RESERVED.test(name))
      throw new TypeError(`headers: ${name}: expected the name of a field that the client does not set`);
    const isId = /^x-request-id$/i.test(name);
    if (typeof value !== 'string' || !(isId ? /^[\x21-\x7e]{1,128}$/ : /^[\x20-\x7e]*$/).test(value))
      throw new TypeError(`headers: ${name}: expected ${isId ? '1 to 128 visible' : 'only'} ASCII characters`);
    if (isId) requestId = value;
    else fields += `${name}: ${value}\r\n`;
  }
  return { fields, requestId };
}

export function assertEvent(event: unknown): void {
  if (typeof event === 'string' || (typeof event === 'object' && event !== null && !Array.isArray(event))) return;
  throw new TypeError(`send: expected one event, found ${nameOf(event)}; sendEvents sends arrays`);
}

/** The characters of a text and the bytes of a buffer are not events. */
export function assertIterable(events: unknown): void {
  const isObject = typeof events === 'object' && events !== null && !(events instanceof Uint8Array);
  if (isObject && (Symbol.asyncIterator in events || Symbol.iterator in events)) return;
  throw new TypeError(`expected an array or iterable of events, found ${nameOf(events)}; put one event in an array`);
}

const nameOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value);

/** Returns the bytes to send, or the refusal of an event that cannot be serialized. */
export function bodyOf(event: EventInput): Buffer | Try {
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

/** Returns the request of an event, compressed if that makes it shorter. */
export function contentOf(
  body: Buffer,
  { fields, requestId }: Pick<Content, 'fields' | 'requestId'>,
  compression: SendEventsOptions['compression'],
): Content {
  const encoded = compression && ENCODERS[compression]?.(body);
  if (encoded === undefined || encoded.length >= body.length) return { body, encoded: body, fields, requestId };
  return { body, encoded, fields: `Content-Encoding: ${compression}\r\n${fields}`, requestId };
}
