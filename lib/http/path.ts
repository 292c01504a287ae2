// The interfaces between a connection and the part that reads its requests: the fast path, then node:http.
import type { Socket } from 'node:net';
import type { Clock } from '../process/clock.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import type { Turns } from './turns.ts';

export interface Path {
  /** True if a request or an answer is in progress. */
  readonly isBusy: boolean;
  /** True if a request waits for its answer. */
  readonly owesAnswer: boolean;
  /** True if part of a request has arrived. */
  readonly isArriving: boolean;
  /** Bytes that are held outside of the socket's streams. */
  readonly heldBytes: number;
  check(nowMs: number): void;
  /** Called at the end of a turn in which the owner was woken. */
  flush(): void;
  /** Stops reading, because the last answer has been made. */
  stop(): void;
}

export interface PathOwner {
  readonly socket: Socket;
  readonly clock: Clock;
  readonly turns: Turns;
  /** The producer, for a fair share of each turn. */
  readonly holder: string;
  /** True if the first answer closes the connection, because the client is not authenticated. */
  readonly hasOneAnswer: boolean;
  /** True if the connection closes after the answers that it owes. No further request may be handled. */
  readonly isRetiring: boolean;
  /** True once the last answer has been made. */
  readonly isClosing: boolean;
  /** The last lines of the head of an answer that keeps the connection open. */
  keepAliveTail(): string;
  /** The last lines of the head of the last answer. */
  closingTail(): string;
  handle(request: HttpRequest): void;
  /** Calls `flush` at the end of this turn. */
  wake(): void;
  /** Closes the connection after `text` and `parts`. `unread`: the client may still be sending. */
  finish(text: string, unread: boolean, parts?: readonly Buffer[]): void;
  finishWithFault(fault: ProtocolFault): void;
  /** Runs `run`. If it throws, the connection is closed and the failure is logged. */
  guard(run: () => void): void;
}
