// The sender as a library: `import { sendEvents } from 'ingest-gateway'`.
//
// Retries are bounded, with jitter, and follow `Retry-After`; slow reading of the results slows the sending down. Every
// event that was begun gets a result. `accepted` means what a 202 means: the event is in the queue and
// lands.
import { GatewayClient } from './gateway-client.ts';
import { sendAll, type Retry, type SendResult } from './sender.ts';

export { NO_ANSWER } from './gateway-client.ts';
export { SendingStopped, type Retry, type SendResult } from './sender.ts';

/**
 * An event as text or bytes that hold one JSON object, sent as they are, or a value that JSON.stringify makes one of.
 */
export type EventInput = string | Uint8Array | object;

export interface SendEventsOptions {
  /** The gateway, e.g. `https://gateway:8443`. */
  readonly url: string | URL;
  /** The producer's certificate and its key, PEM. */
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
  /** PEM of the authority that signed the gateway's certificate; left out, the authorities that node trusts. */
  readonly ca?: string | Buffer;
  /** A bearer token, where the gateway requires one. */
  readonly token?: string;
  /** Events in flight at a time; 16. */
  readonly concurrency?: number;
  /** Tries for one event; 10. */
  readonly tries?: number;
  /** For one answer, in milliseconds; 30,000. */
  readonly timeoutMs?: number;
  /** Events in a second, at most; as many as the gateway takes. */
  readonly ratePerS?: number;
  /** Ends the run: what waits for another try is given as `interrupted`. */
  readonly signal?: AbortSignal;
  /** Told before each repeated try. */
  readonly onRetry?: (retry: Retry) => void;
}

/**
 * Sends events and gives the result of each, in the order in which they were settled. Throws SendingStopped where no
 * event can be accepted (the server is not trusted, or the first ten answers are 401 or 403), and what `events` throws.
 */
export async function* sendEvents<T extends EventInput>(
  events: AsyncIterable<T> | Iterable<T>,
  options: SendEventsOptions,
): AsyncGenerator<SendResult<T>, void, undefined> {
  const { cert, key, ca, token, concurrency = 16, tries = 10, timeoutMs = 30_000, ratePerS } = options;
  const client = new GatewayClient({
    url: new URL(options.url),
    identity: { cert, key, ca, token },
    connectionsMax: concurrency,
    timeoutMs,
  });
  try {
    yield* sendAll(events, {
      send: (body) => client.send(body),
      bodyOf,
      concurrency,
      triesMax: tries,
      ratePerS,
      signal: options.signal ?? new AbortController().signal,
      onRetry: options.onRetry ?? (() => undefined),
    });
  } finally {
    client.close();
  }
}

function bodyOf(event: EventInput): Buffer {
  if (typeof event === 'string') return Buffer.from(event);
  if (event instanceof Uint8Array) return Buffer.from(event.buffer, event.byteOffset, event.byteLength);
  return Buffer.from(JSON.stringify(event));
}
