// The server and the application, as a connection sees them. `C` is the connection and `T` the application's context
// of it.
import type { Clock } from '../process/clock.ts';
import type { HandOver } from './node/hand-over.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';

export interface ConnectionHandlers<T, C> {
  readonly request: (connection: C, request: HttpRequest) => void;
  /** Returns the whole response to a request whose head could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: C) => string;
  /** The producer that has sent a request on a connection; `undefined` if none has. */
  readonly producerOf: (context: T) => string | undefined;
}

export interface ConnectionHost<T, C> {
  readonly clock: Clock;
  /** The header lines that announce the idle time-out. */
  readonly keepAlive: string;
  readonly handOver: HandOver;
  readonly readsPlain: boolean;
  readonly handlers: ConnectionHandlers<T, C>;
  readonly turn: Turn<C>;
  /** Reports how many bytes of answers wait for the client now. */
  waits(connection: C, bytes: number): void;
  closed(connection: C): void;
}

/** The current turn of the event loop, for all connections of a server. */
export interface Turn<C> {
  readonly awake: C[];
  /** Requests answered as soon as they were read. */
  answered: number;
}
