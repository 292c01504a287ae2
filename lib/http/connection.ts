// One TLS connection, the only owner of its socket. It writes answers at the end of the turn of the event loop in
// which they were made.
//
// Invariants: a connection is destroyed, or closed by `end` after its last answer. Answers are written in the order
// of their requests, and none follows one that closes the connection. No byte before such an answer is lost. While
// input waits, the connection is paused, so at most one read of the socket waits.
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../process/clock.ts';
import { assert } from './assert.ts';
import { clientCertificateOf, type ClientCertificate } from './client-certificate.ts';
import type { ConnectionHost, Turn } from './connection-host.ts';
import { IdleWatch, type TimeLimits } from './idle-watch.ts';
import { linger } from './linger.ts';
import { NodeRequest } from './node/request.ts';
import type { NodeSide, Wire } from './node/side.ts';
import { PieceReader } from './piece-reader.ts';
import { PIECE_CHARACTERS, PieceWriter } from './piece-writer.ts';
import { PlainReader, PlainRequest } from './plain/reader.ts';
import type { HttpRequest, ProtocolFault } from './request.ts';
import { bytesOf, responseText, type Answer } from './respond.ts';

/**
 * - `plain`: our own reader parses the requests.
 * - `handing over`: the next request is for node:http, once the answers before it are written.
 * - `node`: node:http parses all further requests.
 * - `closing`: the last answer has been made, and nothing more is read.
 * - `closed`: the socket is closed.
 */
type State = 'plain' | 'handing over' | 'node' | 'closing' | 'closed';

const NEXT_STATES: Readonly<Record<State, readonly State[]>> = {
  plain: ['handing over', 'closing', 'closed'],
  'handing over': ['node', 'closing', 'closed'],
  node: ['closing', 'closed'],
  closing: ['closed'],
  closed: [],
};

/** No further request is read while this many answers, or bytes of answers, are owed. */
const REQUESTS_OWED_MAX = 256;
const BYTES_OWED_MAX = 262_144;

/** An answer to an event is short. Any other may be as long as an event, so only one of those is owed at a time. */
const expectedBytes = ({ head }: HttpRequest): number => (head.method === 'POST' ? 1_024 : BYTES_OWED_MAX);

// Fact: 100 connections may send 25,600 requests. Reading all of them in one turn of the event loop blocked it for
// two seconds and took 220 MB. Choice: read a few hundred per turn.
/** Maximum number of requests that are read and answered in one turn, in addition to one per connection. */
const ANSWERED_A_TURN_MAX = 256;

export class Connection<T> implements Wire {
  readonly clientCertificate: ClientCertificate | undefined;
  readonly address: string;
  readonly context: T;
  readonly clock: Clock;
  readonly #host: ConnectionHost<T, Connection<T>>;
  readonly #socket: TLSSocket;
  #state: State = 'plain';
  readonly #plain: PlainReader;
  #node: NodeSide | undefined;
  /** Plain requests whose answers have not been written, oldest first. */
  readonly #owed: PlainRequest[] = [];
  #owedBytes = 0;
  #clientEnded = false;
  #awake = false;
  #lingers = false;
  retiring = false;
  readonly #reader: PieceReader;
  #paused = false;
  readonly #pieces: PieceWriter;
  #written: (() => void) | undefined;
  readonly #watch: IdleWatch;
  #idleSinceMs: number | undefined;

  constructor(socket: TLSSocket, host: ConnectionHost<T, Connection<T>>, address: string, context: T) {
    this.#socket = socket;
    this.address = address;
    this.context = context;
    this.clock = host.clock;
    this.#watch = new IdleWatch(host.clock.ms());
    this.#pieces = new PieceWriter(socket);
    this.#host = host;
    this.#plain = new PlainReader(host.clock, () => this.wake());
    this.clientCertificate = clientCertificateOf(socket);
    this.#reader = new PieceReader(socket, host.clock, this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('drain', this.#onDrain);
    socket.on('close', this.#onClose);
    if (host.readsPlain) return;
    this.#become('handing over');
    this.#handOver();
  }

  get certified(): boolean {
    return this.clientCertificate !== undefined && this.clientCertificate.fault === undefined;
  }

  get idle(): boolean {
    if (this.#socket.writableLength > 0 || !this.#pieces.empty) return false;
    if (this.#node !== undefined) return !this.#node.busy;
    return this.#owed.length === 0 && this.#plain.arriving === undefined && this.#plain.unread === 0;
  }

  get reading(): boolean {
    return this.#state === 'plain' || this.#state === 'node';
  }

  get writable(): boolean {
    return this.#pieces.empty && !this.#socket.writableNeedDrain;
  }

  /** True if nothing has arrived after this request, so its answer may close the connection. */
  isLatest(request: HttpRequest): boolean {
    if (request instanceof NodeRequest) return this.#node?.isLatest(request) === true;
    return this.#owed.at(-1) === request && this.#plain.atEnd;
  }

  /** Does nothing if the request already has an answer or the client is gone. */
  respond(request: HttpRequest, requestId: string, answer: Answer, close: boolean): void {
    if (request instanceof NodeRequest) return request.respond(requestId, answer, close);
    assert(request instanceof PlainRequest, 'one of the two readers read this request');
    if (request.answer !== undefined || request.gone) return;
    const { body } = answer;
    const bytes = bytesOf(body);
    if (typeof body === 'string') request.answerIsAscii = bytes === body.length;
    else request.answerBody = body;
    request.closes = close;
    const connection = close ? 'Connection: close\r\n' : this.#host.keepAlive;
    request.answer = responseText(requestId, answer, bytes, connection, this.clock);
    this.#owedBytes += request.answer.length + bytesOf(request.answerBody) - expectedBytes(request);
    if (!request.complete) request.abandonBody();
    if (close) this.stopReading(!request.complete);
    this.wake();
  }

  giveWay(): void {
    const isKnown = this.#host.handlers.producerOf(this.context) !== undefined;
    if (isKnown && this.idle && this.#state !== 'closing') this.end(false);
    else this.#socket.destroy();
  }

  /** Closes the connection after the answers to the requests that are being handled. Drops all later requests. */
  retire(): void {
    this.retiring = true;
    this.wake();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  wake(): void {
    if (this.#awake) return;
    this.#awake = true;
    const { turn } = this.#host;
    if (turn.awake.push(this) === 1) this.clock.turnEnd(() => flushAll(turn));
  }

  request(request: HttpRequest): void {
    assert(this.reading, 'requests arrive while the connection is read');
    this.#idleSinceMs = undefined;
    this.#host.handlers.request(this, request);
  }

  write(text: string | Buffer, encoding: BufferEncoding, done?: () => void): void {
    if (text.length <= 2 * PIECE_CHARACTERS && this.#pieces.empty) {
      if (this.#socket.writable) this.#socket.write(text, encoding);
    } else this.#pieces.write(text, encoding);
    const { writable } = this;
    if (!writable) this.#host.waits(this, this.#heldBytes);
    if (done === undefined) return;
    if (writable) done();
    else this.#written = done;
  }

  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#reader.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#reader.resume();
  }

  stopReading(unread: boolean): void {
    this.#lingers ||= unread;
    if (this.#state === 'closing' || this.#state === 'closed') return;
    this.#become('closing');
    (this.#node ?? this.#plain).stop();
    this.resume();
  }

  end(unread: boolean): void {
    this.stopReading(unread);
    assert(this.#state === 'closing' || this.#state === 'closed', 'nothing is read after the end');
    if (!this.#pieces.empty) this.#written = () => this.end(false);
    else if (this.#lingers) linger(this.#socket, this.clock);
    else this.#socket.destroySoon();
  }

  sayLast(fault: ProtocolFault): void {
    this.stopReading(true);
    this.write(this.#host.handlers.protocolFault(fault, this), 'latin1');
    this.end(true);
  }

  abort(): void {
    if (!this.#socket.writableEnded) this.#socket.destroy();
  }

  flush(): void {
    assert(this.#awake, 'a connection is flushed once each time it was woken');
    this.#awake = false;
    if (this.#state === 'closed') return;
    if (this.#node !== undefined) return this.#node.flush();
    this.#writeAnswers();
    if (this.#plain.unread > 0) this.#readPlain();
    this.#settlePlain();
  }

  check(nowMs: number, limits: TimeLimits): void {
    const unreadBytes = this.#socket.writableLength + this.#pieces.unwritten + (this.#node?.unwrittenBytes ?? 0);
    const { requests, headSinceMs, bodySinceMs } = this.#node ?? this.#plain;
    const owing = this.#node?.owing ?? (this.#owed.length > 0 && this.#owed[0]?.answer === undefined);
    const { certified } = this;
    const snapshot = { requests, owing, headSinceMs, bodySinceMs, unreadBytes, certified };
    const overdue = this.#watch.overdue(snapshot, nowMs, limits);
    if (overdue === undefined) return;
    if (unreadBytes > 0) this.#socket.destroy();
    else if (this.#state === 'closing') return;
    else if (overdue === 'head') this.sayLast('timeout');
    else if (overdue === 'request') this.end(false);
    else if (!(this.#node ?? this.#plain).late()) this.#socket.destroy();
  }

  /** Closes the connection if it has been idle for `graceMs`. Called while the server is stopping. */
  endIdle(nowMs: number, graceMs: number): void {
    if (!this.idle || this.#state === 'closing') return;
    this.#idleSinceMs ??= nowMs;
    if (nowMs - this.#idleSinceMs < graceMs) return;
    // A request may still arrive in this turn, so check again at its end.
    this.clock.turnEnd(() => {
      if (this.#idleSinceMs !== undefined && this.idle) this.end(false);
    });
  }

  #become(next: State): void {
    assert(NEXT_STATES[this.#state].includes(next), `a connection that is ${this.#state} may become ${next}`);
    this.#state = next;
  }

  get #heldBytes(): number {
    return this.#socket.writableLength + this.#pieces.held + (this.#node?.unwrittenBytes ?? 0);
  }

  #readPlain(arrived?: Buffer): void {
    let bytes = arrived;
    while (this.#state === 'plain') {
      const isFull = this.#owed.length >= REQUESTS_OWED_MAX || this.#owedBytes >= BYTES_OWED_MAX;
      const request = this.#plain.next(bytes, !isFull && this.writable && !this.retiring);
      bytes = undefined;
      if (request === 'body') continue;
      if (request === 'more') break;
      if (request === 'not plain') {
        this.#become('handing over');
        this.wake();
        break;
      }
      this.#owed.push(request);
      this.#owedBytes += expectedBytes(request);
      this.request(request);
      if (request.answer !== undefined && (this.#host.turn.answered += 1) >= ANSWERED_A_TURN_MAX) break;
      if (this.#plain.arriving === undefined && this.#plain.unread === 0) break;
    }
    // The connection is being handed over: node:http gets these bytes.
    if (bytes !== undefined) this.#plain.push(bytes);
    if (this.#plain.unread > 0) this.pause();
    else this.resume();
  }

  // Fact: under overload, many requests of one connection arrive in one turn, and most of the cost of a refusal is
  // the TLS record and the system call for its answer. Choice: write all ready answers of a connection together.
  // Effect: at twice saturation, every request is answered, and more events are accepted than at saturation; before,
  // 87% were answered and 6% accepted (BENCH_CASES=overload make bench).
  #writeAnswers(): void {
    while (this.writable && this.#owed[0]?.answer !== undefined) {
      const owed = this.#owed;
      let text = '';
      let isAscii = true;
      let body: readonly Buffer[] = [];
      let closes = false;
      let ready = 0;
      for (; ready < owed.length && !closes && body.length === 0 && text.length < PIECE_CHARACTERS; ready += 1) {
        const request = owed[ready];
        if (request?.answer === undefined) break;
        text += request.answer;
        ({ answerBody: body, closes } = request);
        isAscii &&= request.answerIsAscii;
      }
      if (closes || ready === owed.length) this.#forgetOwed();
      else {
        owed.splice(0, ready);
        this.#owedBytes -= text.length + bytesOf(body);
        assert(this.#owedBytes >= 0, 'no more bytes leave than were owed');
      }
      // Fact: the socket writes a latin1 string as is, but has to measure and encode a utf8 string.
      this.write(text, isAscii ? 'latin1' : 'utf8');
      for (const part of body) this.write(part, 'latin1');
      if (closes) this.end(false);
    }
  }

  #forgetOwed(): void {
    this.#owed.length = 0;
    this.#owedBytes = 0;
  }

  #settlePlain(): void {
    if (this.#state !== 'plain' && this.#state !== 'handing over') return;
    const { arriving } = this.#plain;
    if (this.#clientEnded && arriving !== undefined && this.#plain.unread === 0) this.#abort(arriving);
    if (this.#owed.length > 0 || !this.writable) return;
    if (this.retiring) {
      if (this.#plain.arriving === undefined) this.end(true);
    } else if (this.#state === 'handing over') this.#handOver();
    else if (!this.#clientEnded) return;
    else if (this.#plain.inHead) this.sayLast('malformed');
    else if (this.#plain.unread === 0) this.end(false);
  }

  /** The client ended its side in the middle of a body, so that request gets no answer. */
  #abort(arriving: PlainRequest): void {
    this.#plain.cut();
    if (arriving.answer !== undefined) return;
    assert(this.#owed.at(-1) === arriving, 'nothing is owed after a body that arrives');
    this.#owed.pop();
    this.#owedBytes -= expectedBytes(arriving);
  }

  #handOver(): void {
    assert(this.#owed.length === 0, 'no answer is owed when the connection is handed over');
    this.#become('node');
    this.#node = this.#host.handOver.adopt(this, this.#plain.requests);
    this.#node.feed(this.#plain.rest());
    if (this.#clientEnded) this.#node.feedEnd();
  }

  readonly #onData = (chunk: Buffer): boolean => {
    if (this.#state === 'closing' || this.#state === 'closed') return false;
    if (this.#node !== undefined) return this.#node.feed(chunk);
    const before = this.#plain.requests;
    this.#readPlain(chunk);
    return this.#plain.requests > before;
  };

  readonly #onEnd = (): void => {
    this.#clientEnded = true;
    if (this.#state === 'closing' || this.#state === 'closed') return;
    if (this.#node === undefined) this.wake();
    else this.#node.feedEnd();
  };

  readonly #onDrain = (): void => {
    this.#pieces.goOn();
    const { writable } = this;
    this.#host.waits(this, writable ? 0 : this.#heldBytes);
    if (!writable) return;
    const written = this.#written;
    this.#written = undefined;
    written?.();
    this.wake();
  };

  readonly #onClose = (): void => {
    this.#become('closed');
    this.#pieces.clear();
    for (const request of this.#owed) request.gone = true;
    this.#forgetOwed();
    this.#plain.close();
    this.#node?.close();
    this.#host.waits(this, 0);
    this.#host.closed(this);
  };
}

function flushAll<T>(turn: Turn<Connection<T>>): void {
  const awake = turn.awake.splice(0);
  assert(awake.length > 0, 'a flush has connections');
  turn.answered = 0;
  for (const connection of awake) connection.flush();
}
