// One connection to the gateway, with several requests on it at a time, and its successor after a failure.
//
// States: closed (no socket) -> connecting -> open -> closed. A request opens a closed pipeline.
//
// Invariants: requests are written in their order, those of one turn of the event loop in one write unless they are
// long. Only the first unanswered request can fail: if the connection ends, it alone counts as unanswered, and those
// behind it are handed back to be sent again. Ids make that safe. After such an end requests go one at a time for
// RECOVERY_ANSWERS answers, because some servers and proxies cannot read several.
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../process/clock.ts';
import { AnswerReader } from './answer-reader.ts';
import { tryOf, unansweredTry, type Try } from './try.ts';

const RECOVERY_ANSWERS = 32;

/** A write ends with the request that reaches this. */
const WRITE_BYTES = 65_536;

export interface Request {
  readonly body: Buffer;
  readonly requestId: string;
  readonly settle: (result: Try) => void;
  /** Time limit, on the monotonic clock. */
  dueMs: number;
  /** It was on a connection that failed because of another request, and got more time for that once. */
  displaced: boolean;
  isSent: boolean;
}

export interface PipelineOptions {
  readonly clock: Clock;
  /** Starts a connection, and calls `ready` once it can be written to. */
  readonly connect: (ready: () => void) => Socket;
  readonly depth: number;
  /** Time limit of a request, for its error. */
  readonly timeoutMs: number;
  /** The bytes before a request's body. */
  readonly headOf: (request: Request) => string;
  /** Some requests were answered. `displaced`: those to send again. */
  readonly onRoom: (displaced: readonly Request[]) => void;
}

export const overdue = (timeoutMs: number): Error => new Error(`no answer within ${timeoutMs} ms`);

export class Pipeline {
  readonly #options: PipelineOptions;
  #socket: Socket | undefined;
  #isOpen = false;
  #reader = new AnswerReader();
  /** Unanswered requests, in their order; the first #written of them were written. */
  #requests: Request[] = [];
  #written = 0;
  #flushes = false;
  #isWriting = false;
  #timer: Timer | undefined;
  #recovery = 0;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  /** Requests that it accepts now. */
  get room(): number {
    return (this.#recovery > 0 ? 1 : this.#options.depth) - this.#requests.length;
  }

  get isIdle(): boolean {
    return this.#requests.length === 0;
  }

  send(request: Request): void {
    this.#requests.push(request);
    if (this.#socket === undefined) this.#connect();
    else if (this.#isOpen) this.#flushLater();
    this.#watch();
  }

  /** Unanswered requests count as lost. */
  close(): void {
    const requests = this.#requests;
    this.#drop();
    for (const { settle } of requests) settle(unansweredTry(new Error('the sender was closed')));
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
    socket.on('data', (chunk: Buffer) => {
      if (socket === this.#socket) this.#read(chunk);
    });
    socket.on('error', ended);
    socket.on('end', () => ended(new Error('the connection was closed before the answer')));
    socket.on('close', () => ended(new Error('the connection was closed before the answer')));
  }

  #flushLater(): void {
    if (this.#flushes) return;
    this.#flushes = true;
    this.#options.clock.turnEnd(() => this.#flush());
  }

  /** Long requests get a write each: its callback reports whether that request, not the whole turn's, was sent. */
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

  #read(chunk: Buffer): void {
    const { clock, onRoom } = this.#options;
    try {
      this.#reader.add(chunk);
      for (let answer = this.#reader.next(); answer !== undefined; answer = this.#reader.next()) {
        if (this.#written === 0) throw new Error('an answer without a request');
        const request = this.#requests.shift();
        if (request === undefined) return;
        this.#written -= 1;
        const { result, misplaced } = tryOf(answer, request, clock.epochMs());
        request.settle(result);
        if (answer.isLast || misplaced) return this.#end(undefined);
        if (answer.status >= 400 && !request.isSent) this.#endUnlessSent(request);
        if (this.#recovery > 0) this.#recovery -= 1;
      }
      if (this.#written === 0 && !this.#reader.isEmpty) throw new Error('an answer without a request');
      onRoom([]);
    } catch (cause) {
      this.#end(cause as Error);
    }
  }

  /** A server that refuses a body before it has read it may never read the rest. */
  #endUnlessSent(request: Request): void {
    const socket = this.#socket;
    this.#options.clock.turnEnd(() => {
      if (socket === this.#socket && !request.isSent) this.#end(undefined);
    });
  }

  /** `cause`: why the first request has no answer; undefined if the connection ends after an answer. */
  #end(cause: Error | undefined): void {
    // A request that waited for the turn's end on an idle connection was not sent. It fails only with the connecting.
    const failed = cause !== undefined && (this.#written > 0 || !this.#isOpen) ? this.#requests.shift() : undefined;
    const displaced = this.#requests;
    if (failed !== undefined || displaced.length > 0) this.#recovery = RECOVERY_ANSWERS;
    this.#drop();
    if (cause !== undefined) failed?.settle(unansweredTry(cause));
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

  /** One timer for a connection, not for a request: it fires about once in a request's time limit. */
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
