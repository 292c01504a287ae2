// The sender as a library: `import { sendEvents } from 'ingest-gateway'`.
//
// Retries are bounded, with jitter, and follow `Retry-After`; slow reading of the results slows the sending down. Every
// event that was begun gets a result. `accepted` means what a 202 means: the event is in the queue and
// lands.
import { GatewayClient, gatewayUrl } from './gateway-client.ts';
import { sendAll, type Retry, type SendResult } from './sender.ts';

export { NO_ANSWER } from './gateway-client.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

/**
 * An event: text or bytes that hold one JSON object, sent as they are, or an object that JSON.stringify makes one of. Ids
 * are shared by all producers of a gateway: begin yours with your name.
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
  /** Events in flight at a time; 16. */
  readonly concurrency?: number;
  /** Tries for one event; 10. */
  readonly tries?: number;
  /** For one try in all, up to the last byte of its answer, in milliseconds; 30,000. */
  readonly timeoutMs?: number;
  /** Events in a second, at most; as many as the gateway takes. */
  readonly ratePerS?: number;
  /** Ends the run: what waits for another try is given as `interrupted`. */
  readonly signal?: AbortSignal;
  /** Told before each repeated try. */
  readonly onRetry?: (retry: Retry) => void;
}

/**
 * Sends events and gives the result of each, in the order in which they were settled. Throws at once a TypeError or
 * RangeError for options that cannot be used; later SendingStopped where no event can be accepted (the server is not
 * trusted, or the first ten answers are 401 or 403), and what `events` throws.
 */
export function sendEvents<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  options: SendEventsOptions,
): AsyncGenerator<SendResult<T>, void, undefined> {
  const { concurrency = 16, tries = 10, timeoutMs = 30_000, ratePerS, signal, onRetry } = options;
  const client = clientOf(options, wholeNumber('concurrency', concurrency), wholeNumber('timeoutMs', timeoutMs));
  if (ratePerS !== undefined && !(ratePerS > 0)) throw new RangeError(`ratePerS ${ratePerS}: expected more than 0`);
  return closing(client, (send) =>
    sendAll(events, {
      send,
      bodyOf,
      concurrency,
      triesMax: wholeNumber('tries', tries),
      ratePerS,
      signal: signal ?? new AbortController().signal,
      onRetry: onRetry ?? (() => undefined),
    }),
  );
}

async function* closing<R>(
  client: GatewayClient,
  run: (send: GatewayClient['send']) => AsyncGenerator<R, void, undefined>,
): AsyncGenerator<R, void, undefined> {
  try {
    yield* run((body) => client.send(body));
  } finally {
    client.close();
  }
}

function clientOf(options: SendEventsOptions, connectionsMax: number, timeoutMs: number): GatewayClient {
  const { cert, key, ca, token } = options;
  const url = gatewayUrl(options.url);
  if (url.protocol === 'https:' && (cert === undefined || key === undefined))
    throw new TypeError('cert, key: expected the PEM texts of the producer, which a gateway asks for');
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token: expected visible ASCII characters');
  return new GatewayClient({ url, identity: { cert, key, ca, token }, connectionsMax, timeoutMs });
}

/** For counts and for milliseconds, which node's timers hold up to this number. */
function wholeNumber(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1 && value < 2 ** 31) return value;
  throw new RangeError(`${name} ${value}: expected a whole number from 1 to 2147483647`);
}

function bodyOf(event: EventInput): Buffer {
  if (typeof event === 'string') return Buffer.from(event);
  if (event instanceof Uint8Array) return Buffer.from(event.buffer, event.byteOffset, event.byteLength);
  return Buffer.from(JSON.stringify(event));
}
