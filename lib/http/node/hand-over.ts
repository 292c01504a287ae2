// Hands connections over to node:http, which reads every request that is not plain.
//
// node:http uses our stream `NodeSide` in place of the socket: a server accepts any Duplex that is emitted as its
// 'connection'. This way, our connection still controls reading and writing.
//
// Relies on two facts about node 26.10 (test/http/hand-over.test.ts): a server that does not listen sets no timers,
// and with these options and listeners, node never writes an answer of its own, which would lack X-Request-Id.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Clock } from '../../process/clock.ts';
import { faultOf, isEndOfInput } from './faults.ts';
import { NodeSide, type Wire } from './side.ts';

export interface HandOverLimits {
  readonly headerBytesMax: number;
  readonly idleTimeoutMs: number;
}

/** Number of waiting connections that continue in one turn of the event loop. */
const SIDES_A_TURN = 4;

export class HandOver {
  readonly #server: Server;
  readonly #clock: Clock;
  // Fact: node:http needs 50 µs per request, and one read of a socket returns up to 1,700 requests. The requests of
  // 100 connections blocked the event loop for nine seconds. Choice: all but the first requests of a read wait in
  // this line.
  /** Sides with more input, in the order in which they began to wait. */
  #line: NodeSide[] = [];

  constructor(limits: HandOverLimits, clock: Clock) {
    this.#clock = clock;
    this.#server = createServer({
      maxHeaderSize: limits.headerBytesMax,
      keepAliveTimeout: limits.idleTimeoutMs, // Sets the header only; idle-watch.ts enforces the limit.
      requireHostHeader: false,
    });
    this.#server.maxHeadersCount = 0; // A limit would drop fields silently; headerBytesMax applies instead.
    // A client that has sent its request and ended its side still gets its answer (RFC 9112, section 9.6).
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    const requested = (request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void => {
      (request.socket as unknown as NodeSide).requested(request, response, expectsContinue);
    };
    this.#server.on('request', (request, response) => requested(request, response, false));
    this.#server.on('checkContinue', (request, response) => requested(request, response, true));
    this.#server.on('checkExpectation', (request, response) => requested(request, response, false));
    this.#server.on('connect', (_request, side) => (side as unknown as NodeSide).faulty('connect'));
    this.#server.on('clientError', (error, side) => {
      (side as unknown as NodeSide).faulty(isEndOfInput(error) ? 'end of input' : faultOf(error));
    });
  }

  /** Calls the side's `takeTurn` once, in a later turn of the event loop. */
  readonly #standInLine = (side: NodeSide): void => {
    if (this.#line.push(side) === 1) this.#clock.turnEnd(this.#giveTurns);
  };

  readonly #giveTurns = (): void => {
    const now = this.#line.slice(0, SIDES_A_TURN);
    this.#line = this.#line.slice(SIDES_A_TURN);
    if (this.#line.length > 0) this.#clock.turnEnd(this.#giveTurns);
    for (const side of now) side.takeTurn();
  };

  /** `requests` is the number of earlier requests on the connection. */
  adopt(wire: Wire, requests: number): NodeSide {
    const side = new NodeSide(wire, requests, this.#standInLine);
    this.#server.emit('connection', side);
    side.once('end', () => side.readToItsEnd()); // After node:http's own listener.
    return side;
  }
}
