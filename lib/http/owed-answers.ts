// What one connection owes: its requests that have no answer on the way yet, and how the answers leave.
//
// Invariants: answers leave in the order of the requests, and none after one that closes the connection. Some are handed to the
// socket at a time, so that what the client takes shows, and no more than it takes.
import type { TLSSocket } from 'node:tls';
import type { DirectRequest } from './direct-request.ts';

/** How much of one connection may wait for its answers; what is over stays unread. See `loadOf`. */
const LOAD_MAX = 256;

/** The answer to an event is short. That to a GET may be a whole event, or all metrics, and no admission bounds those. */
const loadOf = (request: DirectRequest): number => (request.method === 'POST' ? 1 : 16);

/** About how much is handed to the socket in one piece. */
const WRITE_CHARACTERS = 65_536;

export class OwedAnswers {
  readonly #socket: TLSSocket;
  /** Not answered yet, or answered and not written; oldest first. */
  readonly #requests: DirectRequest[] = [];
  /** The sum of `loadOf`. */
  #load = 0;

  constructor(socket: TLSSocket) {
    this.#socket = socket;
  }

  get any(): boolean {
    return this.#requests.length > 0;
  }

  get oldest(): DirectRequest | undefined {
    return this.#requests[0];
  }

  get newest(): DirectRequest | undefined {
    return this.#requests.at(-1);
  }

  /** So much is owed, or waits to be taken by the client, that nothing more should be read. */
  get full(): boolean {
    return this.#load >= LOAD_MAX || this.#socket.writableNeedDrain;
  }

  add(request: DirectRequest): void {
    this.#requests.push(request);
    this.#load += loadOf(request);
  }

  /** Nothing is owed for the newest any more. */
  dropNewest(): void {
    const request = this.#requests.pop();
    if (request !== undefined) this.#load -= loadOf(request);
  }

  clear(): void {
    this.#requests.length = 0;
    this.#load = 0;
  }

  /** Writes the answers that are ready and not behind one that is not. */
  write(): void {
    while (this.#requests[0]?.answer !== undefined && !this.#socket.writableNeedDrain) this.#writeSome();
  }

  #writeSome(): void {
    const { length } = this.#requests;
    let text = '';
    let wide = false;
    let closes = false;
    let ready = 0;
    for (; ready < length && !closes && text.length < WRITE_CHARACTERS; ready += 1) {
      const request = this.#requests[ready];
      if (request?.answer === undefined) break;
      text += request.answer;
      wide ||= request.wide;
      closes = request.closes;
      this.#load -= loadOf(request);
    }
    if (ready === length) this.#requests.length = 0;
    else this.#requests.splice(0, ready);
    // Fact: the socket writes a latin1 string as it is, and measures and encodes a utf8 one. Nearly all answers are ASCII.
    this.#socket.write(text, wide ? 'utf8' : 'latin1');
    if (!closes) return;
    this.clear();
    this.#socket.destroySoon();
  }
}
