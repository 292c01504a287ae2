// How a connection and the side of it that reads requests see each other. There are two such sides: plain/side.ts, our
// own reader, and node/side.ts, node:http.
import type { Clock } from '../process/clock.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';

/**
 * - `plain`: our own reader has it.
 * - `handing over`: the next request is node:http's; the answers that are owed before it come first.
 * - `node`: node:http has it, for good.
 * - `closing`: the last answer is made, and nothing is read any more.
 * - `closed`: the client is gone.
 */
export type ConnectionState = 'plain' | 'handing over' | 'node' | 'closing' | 'closed';

/** What each state may turn into. */
export const NEXT_STATES: Readonly<Record<ConnectionState, readonly ConnectionState[]>> = {
  plain: ['handing over', 'closing', 'closed'],
  'handing over': ['node', 'closing', 'closed'],
  node: ['closing', 'closed'],
  closing: ['closed'],
  closed: [],
};

/** The connection, as its reading side sees it. */
export interface Wire {
  readonly state: ConnectionState;
  readonly clock: Clock;
  /** The header lines that say how long the connection may idle. */
  readonly keepAlive: string;
  /** The client takes its answers. */
  readonly writable: boolean;
  /** Calls `Side.flush` at the end of this turn of the event loop. */
  wake(): void;
  /** A request has come. */
  request(request: HttpRequest): void;
  /** A request was answered as soon as it was read. False: read the next one in a later turn of the event loop. */
  mayReadOn(): boolean;
  /** `done` is called as soon as more may be written. */
  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void;
  /** Nothing more is to be fed before `resume`. */
  pause(): void;
  resume(): void;
  /** The last answer is made: nothing is read any more. `unread`: the client may still be sending. */
  stopReading(unread: boolean): void;
  /** The last answer was written: the connection ends behind it. `unread`: the client may still be sending. */
  end(unread: boolean): void;
  /** Answers a request whose head could not be read, and closes. */
  sayLast(fault: ProtocolFault): void;
  /** The connection ends behind the answers that are owed: no request begins any more. */
  readonly retiring: boolean;
  /** Closes the connection immediately: the client is gone. */
  abort(): void;
  /** The next request is not plain. */
  prepareHandOver(): void;
  /** Nothing is owed any more: from `rest` on the connection is node:http's. */
  handOver(rest: Buffer): void;
}

export interface Side {
  /** A request is under way, or an answer is. */
  readonly busy: boolean;
  /** The next answer is owed and not made yet. */
  readonly owing: boolean;
  /** How many requests have come. */
  readonly requests: number;
  /** Of answers, that the connection was not given yet because the client does not take them. */
  readonly unwrittenBytes: number;
  /**
   * When the first byte of the head that is arriving came, by `Clock.ms()`; undefined where none is known to arrive.
   */
  readonly headSinceMs: number | undefined;
  /** When the request whose body is arriving began; undefined where none is. */
  readonly bodySinceMs: number | undefined;

  /** Bytes have come. */
  feed(bytes: Buffer): void;
  /** The client has ended its side. */
  feedEnd(): void;
  /** Writes the answers that are ready, and reads on where that was waited for. */
  flush(): void;
  /** The rest of the request that is arriving did not come in time. False where it was answered before. */
  late(): boolean;
  /** Nothing is read any more. */
  stop(): void;
  /** The connection is closed. */
  close(): void;
}
