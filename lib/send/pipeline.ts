// A connection to the gateway with several requests at a time. After a failure, it is opened again.
//
// States: closed (no socket) -> connecting -> open -> closed. A request opens a closed pipeline.
//
// Invariants: requests are written in order. Requests of the same turn of the event loop share a write unless they
// are long. If the connection fails, only the first unanswered request fails. The others are returned to be sent
// again, which is safe because of their ids. After a failure, requests are sent one at a time for RECOVERY_ANSWERS
// answers, because some servers and proxies do not support pipelining.
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../process/clock.ts';
import { AnswerReader } from './answer-reader.ts';
import { tryOf, type Try } from './try.ts';

const RECOVERY_ANSWERS = 32;

/** A batch ends with the request whose body brings the total of the bodies to this many bytes. */
const WRITE_BYTES = 65_536;

export interface Request {
  readonly body: Buffer;
  readonly requestId: string;
  readonly settle: (result: Try) => void;
  /** The time, on the monotonic clock, at which the request is overdue. */
  dueMs: number;
  /** True if its connection ended before its own answer. The request gets a new time limit only once. */
  displaced: boolean;
  isSent: boolean;
}

interface PipelineOptions {
  readonly clock: Clock;
  /** Starts a connection, and calls `ready` when the socket is writable. */
  readonly connect: (ready: () => void) => Socket;
  readonly depth: number;
  /** Appears in the message of an overdue request. */
  readonly timeoutMs: number;
  readonly isSecure: boolean;
  readonly headOf: (request: Request) => string;
  readonly unanswered: (cause: Error) => Try;
  /** Called when there is room for more requests. The requests in `displaced` must be sent again. */
  readonly onRoom: (displaced: readonly Request[]) => void;
}

export const overdue = (timeoutMs: number): Error => new Error(`no answer within ${timeoutMs} ms`);

export class Pipeline {
  readonly #options: PipelineOptions;
  #socket: Socket | undefined;
  #isOpen = false;
  #reader = new AnswerReader();
  /** Unanswered requests, in order. The first #written of them have been written. */
  #requests: Request[] = [];
  #written = 0;
  #flushes = false;
  #isWriting = false;
  #timer: Timer | undefined;
  #recovery = 0;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  /** The number of requests that the pipeline accepts now. */
  get room(): number {
    return (this.#recovery > 0 ? 1 : this.#options.depth) - this.#requests.length;
  }

  get isIdle(): boolean {
    return this.#requests.length === 0;
  }

  send(request: Request): void {
    // Only a connection with requests keeps the process alive.
    if (this.isIdle) this.#socket?.ref();
    this.#requests.push(request);
    if (this.#socket === undefined) this.#connect();
    else if (this.#isOpen) this.#flushLater();
    this.#watch();
  }

  /** Closes the connection, and settles all requests as unanswered. */
  close(): void {
    const requests = this.#requests;
    this.#drop();
    for (const { settle } of requests) settle(this.#options.unanswered(new Error('the sender was closed')));
  }

  #connect(): void {
    const socket = this.#options.connect(() => {
      if (socket !== this.#socket) return;
      this.#isOpen = true;
      this.#flush();
    });
    this.#socket = socket;
    const ended = (cause: Error): void => {
      if (socket === this.#socket) this.#end(cause);
    };
    const closed = new Error('the connection was closed before the answer');
    socket.on('data', (chunk: Buffer) => {
      if (socket === this.#socket) this.#read(chunk);
    });
    socket.on('error', ended);
    socket.on('end', () => {
      if (socket === this.#socket) this.#read(undefined);
      ended(closed);
    });
    socket.on('close', () => ended(closed));
  }

  #flushLater(): void {
    if (this.#flushes) return;
    this.#flushes = true;
    this.#options.clock.turnEnd(() => this.#flush());
  }

  /** A long request ends the batch, so that the callback of the write reports when that request was sent. */
  #flush(): void {
    this.#flushes = false;
    const socket = this.#socket;
    if (!this.#isOpen || this.#isWriting || socket === undefined) return;
    const batch: Request[] = [];
    const parts: Buffer[] = [];
    for (let bytes = 0; bytes < WRITE_BYTES && this.#written < this.#requests.length; this.#written += 1) {
      const request = this.#requests[this.#written] as Request;
      batch.push(request);
      parts.push(Buffer.from(this.#options.headOf(request), 'latin1'), request.body);
      bytes += request.body.length;
    }
    if (batch.length === 0) return;
    this.#isWriting = true;
    socket.write(Buffer.concat(parts), () => {
      if (socket !== this.#socket) return;
      for (const request of batch) request.isSent = true;
      this.#isWriting = false;
      this.#flush();
    });
  }

  /** Reads answers. `undefined` is the end of the connection. */
  #read(chunk: Buffer | undefined): void {
    const { clock, isSecure, onRoom } = this.#options;
    const isEnd = chunk === undefined;
    try {
      if (!isEnd) this.#reader.add(chunk);
      for (let answer = this.#reader.next(isEnd); answer !== undefined; answer = this.#reader.next(isEnd)) {
        if (this.#written === 0) throw new Error('an answer without a request');
        const request = this.#requests.shift();
        if (request === undefined) return;
        this.#written -= 1;
        const result = tryOf(answer, request, { nowMs: clock.epochMs(), isSecure });
        request.settle(result);
        if (answer.isLast || (result.kind === 'retry' && result.misplaced === true)) return this.#end(undefined);
        if (answer.status >= 400 && !request.isSent) this.#endUnlessSent(request);
        if (this.#recovery > 0) this.#recovery -= 1;
      }
      if (this.#written === 0 && !this.#reader.isEmpty) throw new Error('an answer without a request');
      onRoom([]);
      if (this.isIdle) this.#socket?.unref();
    } catch (cause) {
      this.#end(cause as Error);
    }
  }

  /** Closes the connection if a request was refused before its body was sent: the server may never read the rest. */
  #endUnlessSent(request: Request): void {
    const socket = this.#socket;
    this.#options.clock.turnEnd(() => {
      if (socket === this.#socket && !request.isSent) this.#end(undefined);
    });
  }

  /** Closes the connection. `cause` is the failure of the first request; `undefined` after an answer. */
  #end(cause: Error | undefined): void {
    // A request that was not written does not fail, unless the connection could not be opened.
    const failed = cause !== undefined && (this.#written > 0 || !this.#isOpen) ? this.#requests.shift() : undefined;
    const displaced = this.#requests;
    if (failed !== undefined || displaced.length > 0) this.#recovery = RECOVERY_ANSWERS;
    this.#drop();
    if (cause !== undefined) failed?.settle(this.#options.unanswered(cause));
    this.#options.onRoom(displaced);
  }

  #drop(): void {
    this.#timer?.close();
    this.#timer = undefined;
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#isOpen = false;
    this.#isWriting = false;
    this.#requests = [];
    this.#written = 0;
    this.#reader = new AnswerReader();
  }

  /** Starts one timer for the connection, which costs less than one for each request. */
  #watch(): void {
    const [first] = this.#requests;
    if (first === undefined || this.#timer !== undefined) return;
    const { clock, timeoutMs } = this.#options;
    const leftMs = Math.ceil(Math.max(0, first.dueMs - clock.ms()));
    this.#timer = clock.after(leftMs, () => {
      this.#timer = undefined;
      const [now] = this.#requests;
      if (now !== undefined && now.dueMs <= clock.ms()) this.#end(overdue(timeoutMs));
      else this.#watch();
    });
    this.#timer.unref();
  }
}
