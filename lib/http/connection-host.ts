// The interfaces through which a connection calls its server and the application. `C` is the type of a connection,
// and `T` is the type of the application's context for it.
import type { Clock } from '../process/clock.ts';
import type { HandOver } from './node/hand-over.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';

export interface ConnectionHandlers<T, C> {
  readonly request: (connection: C, request: HttpRequest) => void;
  /** Returns the complete response to a request that could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: C) => string;
  /** The producer that has sent a request on the connection; `undefined` if none has. */
  readonly producerOf: (context: T) => string | undefined;
}

export interface ConnectionHost<T, C> {
  readonly clock: Clock;
  readonly keepAlive: string;
  readonly handOver: HandOver;
  readonly readsPlain: boolean;
  readonly handlers: ConnectionHandlers<T, C>;
  readonly turn: Turn<C>;
  /** Reports how many bytes of answers are waiting for the client to read them. */
  waits(connection: C, bytes: number): void;
  closed(connection: C): void;
}

/** State of the current turn of the event loop, shared by all connections of a server. */
export interface Turn<C> {
  readonly awake: C[];
  /** Number of requests that were answered as soon as they were read. */
  answered: number;
}
