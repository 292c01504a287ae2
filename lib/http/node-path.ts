// The way of a connection that has left the fast path: node:http reads its requests, orders its answers and keeps its
// time limits. This file only decides when node:http may read on, and how much.
//
// Invariants: requests are handled one at a time, in order. Nothing is read after the last request.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Connection } from './connection.ts';
import { NodeRequest } from './node-request.ts';
import type { ProtocolFault } from './request.ts';
import { bytesOf, respond, responseText, type Answer } from './respond.ts';

const HEAD_SLICE_BYTES = 256;

export class NodePath<T> {
  readonly #connection: Connection<T>;
  /** Node's own listener for data. */
  readonly pass: (bytes: Buffer) => void;
  /** Requests whose answers have not been written, oldest first. The first one is being handled. */
  readonly #owed: NodeRequest[] = [];
  #latest: NodeRequest | undefined;
  #fault: ProtocolFault | undefined;
  #isInHead = false;
  /** Length of the answer that is being written. */
  answerBytes = 0;

  constructor(connection: Connection<T>, pass: (bytes: Buffer) => void) {
    this.#connection = connection;
    this.pass = pass;
  }

  get owesAnswer(): boolean {
    return this.#owed.length > 0;
  }
  get isArriving(): boolean {
    return this.#isInHead || this.#latest?.isComplete === false;
  }
  get mayRead(): boolean {
    const { isClosing, socket } = this.#connection;
    if (isClosing || this.#fault !== undefined || socket.destroyed) return false;
    const latest = this.#latest;
    if (latest === undefined) return true;
    if (!latest.isComplete) return latest.wantsBody;
    return !latest.isLast && !this.owesAnswer && !socket.writableNeedDrain;
  }

  /** Passes the slice that begins at `from` to node:http. Returns its length. */
  read(bytes: Buffer, from: number): number {
    const latest = this.#latest;
    const isInBody = latest?.isComplete === false;
    const slice = bytes.subarray(from, from + (isInBody ? latest.sliceBytes : HEAD_SLICE_BYTES));
    this.pass(slice);
    // Empty lines do not begin a request.
    if (!isInBody && this.#latest === latest) this.#isInHead ||= slice.some((byte) => byte !== 0x0d && byte !== 0x0a);
    return slice.length;
  }

  /** Called when the client has ended its side. */
  end(): void {
    // If a body after `Upgrade` is cut short, node:http reports no error and waits for the rest forever.
    if (this.#latest?.isComplete === false) this.faulty('malformed');
  }

  requested(message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const connection = this.#connection;
    if (connection.isClosing || this.#latest?.isLast === true) return;
    const latest = new NodeRequest(this, message, response, expectsContinue);
    this.#latest = latest;
    this.#isInHead = false;
    response.once('close', () => {
      this.#owed.shift();
      this.answerBytes = 0;
      connection.guard(() => this.#next());
    });
    if (this.#owed.push(latest) === 1) connection.guard(() => this.#next());
  }

  /** Called if node:http cannot read the next bytes, or has waited too long for them. */
  faulty(fault: ProtocolFault): void {
    if (this.#latest?.isLast === true && this.#latest.isComplete) return;
    this.#fault ??= fault;
    if (!this.#connection.socket.destroyed) this.#connection.guard(() => this.#settleFault());
  }

  respond(request: NodeRequest, requestId: string, answer: Answer, close: boolean): void {
    const connection = this.#connection;
    if (connection.isClosing) return;
    const isLatest = this.#latest === request && connection.socket.readableLength === 0;
    if (!close && !connection.isLastAnswer(isLatest)) {
      this.answerBytes = bytesOf(answer.body);
      respond(request.response, requestId, answer);
      return this.readOn();
    }
    // Node closes a connection right after its last answer, so a client that is still sending may not get to read it.
    // All earlier answers are written, so this one does not need node.
    const isToHead = request.head.method === 'HEAD';
    const text = responseText(requestId, answer, connection.tail(true), isToHead);
    connection.finish(text, ...(typeof answer.body === 'string' || isToHead ? [] : answer.body));
  }

  /** Called when more may be read. */
  readOn(): void {
    this.#connection.wake();
  }

  /** Handles the next request. */
  #next(): void {
    const connection = this.#connection;
    if (connection.isClosing || connection.isGone) return;
    if (connection.isRetiring) return connection.finish();
    const [next] = this.#owed;
    if (next !== undefined) connection.host.handlers.request(connection, next);
    if (this.#fault === undefined) this.readOn();
    else this.#settleFault();
  }

  #settleFault(): void {
    const connection = this.#connection;
    const fault = this.#fault;
    const latest = this.#latest;
    if (fault === undefined || connection.isClosing) return;
    if (latest?.isComplete === false) {
      if (this.#owed[0] !== latest && this.owesAnswer) return;
      // A request whose body ends early gets no answer.
      if (connection.socket.readableEnded || latest.isAnswered || !latest.fault(fault)) connection.finish();
    } else if (!this.owesAnswer) {
      if (fault === 'timeout' && latest === undefined && !this.#isInHead) connection.finish();
      else connection.finish(connection.host.handlers.protocolFault(fault, connection));
    }
  }
}

export function faultOf({ code }: NodeJS.ErrnoException): ProtocolFault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'timeout';
  return code === 'HPE_HEADER_OVERFLOW' ? 'headersTooLarge' : 'malformed';
}
