// The way of a connection that has left the fast path: node:http reads its requests, writes its answers and keeps its
// time limits. This file decides when node:http may read on, and how much, and collects bodies.
//
// Invariants: requests are handled one at a time, in order. Nothing is read after the last request.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Connection } from './connection.ts';
import { headOf } from './node-request.ts';
import type { HttpRequest, ProtocolFault, Received, RequestHead } from './request.ts';
import { bytesOf, respond, type Answer } from './respond.ts';

/** Slice of a head. node:http reads all requests of a slice. */
const HEAD_SLICE_BYTES = 256;
/** Slice of a body whose end is unknown. node:http needs 2 µs for each of its chunks. */
const BODY_SLICE_BYTES = 1_024;
/** A chunked body may have this many pieces of less than 16 bytes on average. Some were cut by the slices. */
const [PIECES_MAX, PIECE_BYTES_MIN] = [1_024, 15.5];
/**
 * A connection with a longer unread rest of a body closes after the answer; a shorter rest is read and discarded. A
 * client whose body is refused for its length may not send it, so that connection always closes.
 */
const REST_BYTES_MAX = 65_536;

export class NodePath<T> {
  readonly connection: Connection<T>;
  /** Node's own listener for data. */
  readonly pass: (bytes: Buffer) => void;
  /** Requests whose answers have not been written, oldest first. The first one is being handled. */
  readonly #owed: NodeRequest<T>[] = [];
  latest: NodeRequest<T> | undefined;
  fault: ProtocolFault | undefined;
  #isInHead = false;

  constructor(connection: Connection<T>, pass: (bytes: Buffer) => void) {
    this.connection = connection;
    this.pass = pass;
    // Node calls this after its last answer, and would reset the connection of a client that is still sending.
    connection.socket.destroySoon = () => connection.finish();
  }

  get owesAnswer(): boolean {
    return this.#owed.length > 0;
  }
  /** The latest request, if a part of its body has not arrived. */
  get unfinished(): NodeRequest<T> | undefined {
    return this.latest?.message.complete === false ? this.latest : undefined;
  }
  get isArriving(): boolean {
    return this.#isInHead || this.unfinished !== undefined;
  }
  /** Length of the answer that is being written. */
  get answerBytes(): number {
    return this.#owed[0]?.answerBytes ?? 0;
  }
  /** The number of bytes that node:http may read next; 0 while it must wait. */
  get wanted(): number {
    const { isClosing, isGone, socket } = this.connection;
    const { latest, unfinished } = this;
    if (isClosing || isGone || this.fault !== undefined) return 0;
    if (unfinished !== undefined) return unfinished.wanted;
    return latest?.isLast === true || this.owesAnswer || socket.writableNeedDrain ? 0 : HEAD_SLICE_BYTES;
  }

  /** Passes the slice that begins at `from` to node:http. Returns its length. */
  read(bytes: Buffer, from: number): number {
    const { latest, unfinished } = this;
    const slice = bytes.subarray(from, from + this.wanted);
    this.pass(slice);
    // Empty lines do not begin a request.
    if (unfinished === undefined && this.latest === latest)
      this.#isInHead ||= slice.some((byte) => byte !== 0x0d && byte !== 0x0a);
    return slice.length;
  }

  requested(message: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void {
    const { connection, latest } = this;
    if (connection.isClosing || latest?.isLast === true) return;
    const request = new NodeRequest(this, message, response, expectsContinue);
    this.latest = request;
    this.#isInHead = false;
    response.once('close', () => {
      this.#owed.shift();
      connection.guard(() => this.#next());
    });
    if (this.#owed.push(request) === 1) connection.guard(() => this.#next());
  }

  /** Called if node:http cannot read the next bytes, or has waited too long for them. */
  faulty(fault: ProtocolFault): void {
    if (this.latest?.isLast === true && this.unfinished === undefined) return;
    this.fault ??= fault;
    this.connection.guard(() => this.#settleFault());
  }

  #next(): void {
    const { connection } = this;
    const [next] = this.#owed;
    if (connection.isClosing || connection.isGone) return;
    if (connection.isRetiring) return connection.finish();
    if (next !== undefined) connection.host.handlers.request(connection, next);
    this.#settleFault();
    connection.wake();
  }

  /** Answers a fault after all earlier requests. */
  #settleFault(): void {
    const { connection, fault, latest, unfinished } = this;
    const { isClosing, isGone, socket, host } = connection;
    if (fault === undefined || isClosing || isGone) return;
    // A request whose body ends early gets no answer. Another one gets one from its handler.
    const isCut = unfinished !== undefined && this.#owed[0] === unfinished && !unfinished.isAnswered;
    if (isCut && !socket.readableEnded) unfinished.cut();
    else if (this.owesAnswer && !isCut) return;
    else if (unfinished !== undefined || (fault === 'timeout' && latest === undefined && !this.#isInHead))
      connection.finish();
    else connection.finish(host.handlers.protocolFault(fault, connection));
  }
}

export class NodeRequest<T> implements HttpRequest {
  readonly head: RequestHead;
  readonly message: IncomingMessage;
  body = undefined;
  isAnswered = false;
  /** True if no request may follow this one: the connection closes after its answer. */
  isLast: boolean;
  answerBytes = 0;
  readonly #path: NodePath<T>;
  readonly #response: ServerResponse;
  /** True if the client waits for 100 (Continue). */
  #expectsContinue: boolean;
  /** Set while the body is being read. */
  #done: ((body: Received) => void) | undefined;
  #bytes = 0;

  constructor(path: NodePath<T>, message: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.#path = path;
    this.message = message;
    this.#response = response;
    this.#expectsContinue = expectsContinue;
    this.head = headOf(message);
    // Another protocol may follow an Upgrade (RFC 9110, section 7.8). HTTP/1.0 has no Transfer-Encoding, so a proxy
    // may have found the end of the body elsewhere (RFC 9112, section 6.1).
    const { headers, httpVersionMinor } = message;
    const oddEnd = httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined;
    const isOdd = this.head.defect !== undefined || headers.upgrade !== undefined || oddEnd;
    this.isLast = isOdd || path.connection.hasOneAnswer;
  }

  /** The number of bytes to read or discard next, so that little after the body is read. */
  get wanted(): number {
    if (this.#done !== undefined && this.head.contentLength !== undefined) return this.head.contentLength - this.#bytes;
    return this.#done !== undefined || this.isAnswered ? BODY_SLICE_BYTES : 0;
  }

  receive(bytesMax: number, grows: (bytes: number) => void): Promise<Received> {
    if (this.#expectsContinue) this.#response.writeContinue();
    this.#expectsContinue = false;
    const { contentLength } = this.head;
    // Pieces are copied as they arrive, so that a body is not held twice.
    let body = Buffer.allocUnsafeSlow(contentLength ?? BODY_SLICE_BYTES);
    let pieces = 0;
    const take = (piece: Buffer): void => {
      if (this.#done === undefined) return;
      const bytes = this.#bytes + piece.length;
      if (bytes > bytesMax) return this.#done('too large');
      pieces += 1;
      if (contentLength === undefined) {
        const isTiny = pieces > PIECES_MAX && bytes < PIECE_BYTES_MIN * pieces;
        if (isTiny) return this.#path.faulty('tinyChunks');
        grows(piece.length);
        if (bytes > body.length) body = Buffer.concat([body], Math.min(2 * bytes, bytesMax));
      }
      piece.copy(body, this.#bytes);
      this.#bytes = bytes;
    };
    const { promise, resolve } = Promise.withResolvers<Received>();
    this.#done = (whole) => {
      this.#done = undefined;
      body = Buffer.alloc(0);
      resolve(whole);
    };
    this.message.on('data', take);
    this.message.on('end', () => this.#done?.(body.subarray(0, this.#bytes)));
    this.message.on('close', () => this.#done?.(undefined));
    this.cut();
    this.#path.connection.wake();
    return promise;
  }

  get fault(): ProtocolFault | undefined {
    return this.#path.unfinished === this ? this.#path.fault : undefined;
  }
  /** Ends the reading of a body whose rest is unreadable or late. */
  cut(): void {
    if (this.fault !== undefined) this.#done?.(this.fault);
  }

  respond(requestId: string, answer: Answer, close: boolean): void {
    const response = this.#response;
    const { connection, latest } = this.#path;
    if (this.isAnswered || response.destroyed) return;
    this.isAnswered = true;
    this.#done?.(undefined);
    // If the client was not told to continue, it may send the body or not, so the next request cannot be found.
    const rest = this.head.contentLength ?? (this.message.headers['transfer-encoding'] ? Infinity : 0);
    const isLong = this.#path.fault !== undefined || rest > (answer.status === 413 ? 0 : REST_BYTES_MAX);
    const isLatest = latest === this && connection.socket.readableLength === 0;
    this.isLast ||=
      close || this.#expectsContinue || (isLong && !this.message.complete) || connection.isLastAnswer(isLatest);
    connection.isRetiring ||= this.isLast;
    if (this.isLast) response.shouldKeepAlive = false;
    this.answerBytes = bytesOf(answer.body);
    respond(response, requestId, answer);
    connection.wake();
  }
}

export function faultOf({ code }: NodeJS.ErrnoException): ProtocolFault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'timeout';
  return code === 'HPE_HEADER_OVERFLOW' ? 'headersTooLarge' : 'malformed';
}
