// The server and the application behind a connection, as the connection sees them. `C` stands for the connection, `T`
// for what the application keeps with it.
import type { Clock } from '../process/clock.ts';
import type { HandOver } from './node/hand-over.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';

export interface ConnectionHandlers<T, C> {
  readonly request: (connection: C, request: HttpRequest) => void;
  /** Returns the whole response to a request whose head could not be read. */
  readonly protocolFault: (fault: ProtocolFault, connection: C) => string;
  /** The producer whose request arrived by a connection; `undefined` for a stranger. */
  readonly producerOf: (context: T) => string | undefined;
}

export interface ConnectionHost<T, C> {
  readonly clock: Clock;
  /** The header lines that say how long a connection may idle. */
  readonly keepAlive: string;
  readonly handOver: HandOver;
  /** Our own reader reads plain requests. */
  readonly readsPlain: boolean;
  readonly handlers: ConnectionHandlers<T, C>;
  readonly turn: Turn<C>;
  /** So many bytes of answers wait for the client of this connection now. */
  waits(connection: C, bytes: number): void;
  closed(connection: C): void;
}

/** The current turn of the event loop, for all connections of a server. */
export interface Turn<C> {
  /** Connections to flush at its end. */
  readonly awake: C[];
  /** Requests that were answered as soon as they were read. */
  answered: number;
}
