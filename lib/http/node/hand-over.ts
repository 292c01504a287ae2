// Gives a connection to node:http, which reads every request that is not plain.
//
// node:http gets a stream of our own (`NodeSide` in side.ts) and never sees the socket. A server takes any Duplex that
// is emitted as its 'connection'; node documents that. So the connection still decides what is read and when, and what
// is written.
//
// What it relies on, checked on node 26.10 and held by test/http/hand-over.test.ts: a server that does not listen
// sets no timers of its own; `requireHostHeader: false`, `maxHeadersCount: 0` and the listeners here leave no answer to
// be written by node itself (it would lack X-Request-Id).
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Clock } from '../../process/clock.ts';
import { faultOf, isEndOfInput } from './faults.ts';
import { NodeSide, type Wire } from './side.ts';

export interface HandOverLimits {
  readonly headerBytesMax: number;
  readonly idleTimeoutMs: number;
}

/** How many connections with more requests in hand go on in one turn of the event loop. */
const SIDES_A_TURN = 4;

/** Makes the node:http side of connections, and lets them take turns. */
export class HandOver {
  readonly #server: Server;
  readonly #clock: Clock;
  // Fact: a request takes node:http 50 us, and one read of a socket brings up to 1,700: those of 100 connections,
  // served as they came, kept the event loop for nine seconds. Choice: what follows the first requests of a read
  // waits in this line.
  /** Sides with more to feed, in the order in which they came. */
  #line: NodeSide[] = [];

  constructor(limits: HandOverLimits, clock: Clock) {
    this.#clock = clock;
    this.#server = createServer({
      maxHeaderSize: limits.headerBytesMax,
      keepAliveTimeout: limits.idleTimeoutMs, // For the header that tells the client; idle-watch.ts keeps it.
      requireHostHeader: false,
    });
    this.#server.maxHeadersCount = 0; // Node would drop the excess silently; headerBytesMax bounds it.
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

  /** Calls `takeTurn` of the side, once, in a later turn of the event loop. */
  readonly #standInLine = (side: NodeSide): void => {
    if (this.#line.push(side) === 1) this.#clock.turnEnd(this.#giveTurns);
  };

  readonly #giveTurns = (): void => {
    const now = this.#line.slice(0, SIDES_A_TURN);
    this.#line = this.#line.slice(SIDES_A_TURN);
    if (this.#line.length > 0) this.#clock.turnEnd(this.#giveTurns);
    for (const side of now) side.takeTurn();
  };

  /** `requests` have come by the connection before. */
  adopt(wire: Wire, requests: number): NodeSide {
    const side = new NodeSide(wire, requests, this.#standInLine);
    this.#server.emit('connection', side);
    side.once('end', () => side.readToItsEnd()); // Behind node:http's own listener.
    return side;
  }
}
