// Sends events to the gateway over mutual TLS, with several requests at a time on each of a few connections. It tries
// each event only once, and the sender decides whether to try again.
//
// Limits: a try ends after `timeoutMs`, which includes connecting and receiving the last byte of the answer. If the
// connection fails because of another request, the event is sent again with a new time limit, as part of the same
// try. A slow event therefore delays the events after it by at most one time limit.
import { connect as connectPlain, isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ClockAndRandom, Timer } from '../process/clock.ts';
import { debuglog } from 'node:util';
import { AnswerReader } from './answer-reader.ts';
import { authorizationOf, tlsOptionsOf, type SenderIdentity } from './identity.ts';
import { tryOf, unansweredTry, type Try } from './outcome.ts';

const RECOVERY_ANSWERS = 32;

export const PIPELINING_MAX = 32;

export interface FlowOptions {
  /** The maximum number of events in flight, limited by `connections` x `pipelining`. The default is 64. */
  readonly concurrency?: number | undefined;
  /** The number of connections to the gateway. The default is 4, or `concurrency` if `pipelining` is 1. */
  readonly connections?: number | undefined;
  /** The maximum number of unanswered requests on a connection, from 1 to 32. The default is 16. */
  readonly pipelining?: number | undefined;
}

export function flowOf({ concurrency = 64, pipelining = 16, ...others }: FlowOptions) {
  const { connections = pipelining === 1 ? concurrency : 4 } = others;
  return { connections, pipelining, concurrency: Math.min(concurrency, connections * pipelining) };
}

interface ConnectionsOptions extends ClockAndRandom, SenderIdentity {
  readonly url: URL;
  readonly connections: number;
  readonly pipelining: number;
  readonly timeoutMs: number;
}

/** An event as a request: the decoded body, the bytes that are sent, and their header fields. */
export interface Content {
  readonly body: Buffer;
  readonly encoded: Buffer;
  /** Ends with a line break, unless it is empty. */
  readonly fields: string;
  /** The caller's own X-Request-Id. */
  readonly requestId?: string | undefined;
}

interface Request extends Pick<Content, 'body' | 'encoded'> {
  readonly head: string;
  readonly requestId: string;
  readonly settle: (result: Try) => void;
  /** The time, on the monotonic clock, at which the request is overdue. */
  dueMs: number;
  /** True if its connection ended before its own answer. The request gets a new time limit only once. */
  displaced: boolean;
}

const CLOSED = new Error('the client was closed');

/** Writes to standard error if NODE_DEBUG contains ingest-client. */
export const debug = debuglog('ingest-client');

export class Connections {
  readonly options: ConnectionsOptions;
  readonly overdue: Error;
  /** Starts a connection, and calls `ready` when the socket is writable. */
  readonly connect: ReturnType<typeof connectorTo>;
  /** True if a connection may have another certificate or token than the one before. */
  readonly isRenewed: boolean;
  readonly #pipelines: Pipeline[] = [];
  readonly #requestIds: string;
  /** Requests for which no connection has room. */
  #waiting: Request[] = [];
  #requests = 0;
  #isClosed = false;

  /** Throws a TypeError for an unusable certificate or key. */
  constructor(options: ConnectionsOptions) {
    this.options = options;
    this.overdue = new Error(`no answer within ${options.timeoutMs} ms`);
    this.connect = connectorTo(options);
    this.isRenewed = [options.cert, options.key, options.token].some((value) => typeof value === 'function');
    this.#requestIds = options.random.bytes(9).toString('base64url');
  }

  /** Never rejects. */
  send({ body, encoded, fields, requestId = `${this.#requestIds}-${(this.#requests += 1)}` }: Content): Promise<Try> {
    return new Promise((settle) => {
      const head = `${fields}X-Request-Id: ${requestId}\r\nContent-Length: ${encoded.length}\r\n\r\n`;
      const dueMs = this.options.clock.ms() + this.options.timeoutMs;
      this.#waiting.push({ head, body, encoded, requestId, settle, dueMs, displaced: false });
      this.#sendWaiting();
    });
  }

  close(): void {
    this.#isClosed = true;
    for (const pipeline of this.#pipelines) pipeline.end(CLOSED);
    this.#sendWaiting();
  }

  /** Sends more requests because there is room for them. The requests in `displaced` must be sent again. */
  onRoom(displaced: readonly Request[]): void {
    const { clock, timeoutMs } = this.options;
    const nowMs = clock.ms();
    for (const request of displaced) {
      if (!request.displaced) request.dueMs = nowMs + timeoutMs;
      request.displaced = true;
    }
    if (displaced.length > 0) this.#waiting.unshift(...displaced);
    if (this.#waiting.length === 0) return;
    for (const { settle } of this.#waiting.filter(({ dueMs }) => dueMs <= nowMs)) settle(unansweredTry(this.overdue));
    this.#waiting = this.#waiting.filter(({ dueMs }) => dueMs > nowMs);
    this.#sendWaiting();
  }

  #sendWaiting(): void {
    if (this.#isClosed) for (const { settle } of this.#waiting.splice(0)) settle(unansweredTry(CLOSED));
    while (this.#waiting.length > 0) {
      const pipeline = this.#pipelineWithRoom();
      const next = pipeline && this.#waiting.shift();
      if (pipeline === undefined || next === undefined) return;
      pipeline.send(next);
    }
  }

  /** Returns the connection with the most room, or a new one if that one is not idle and `connections` allows it. */
  #pipelineWithRoom(): Pipeline | undefined {
    let best: Pipeline | undefined;
    for (const one of this.#pipelines) if (one.room > (best?.room ?? 0)) best = one;
    if (best?.isIdle === true || this.#pipelines.length === this.options.connections) return best;
    const pipeline = new Pipeline(this);
    this.#pipelines.push(pipeline);
    return pipeline;
  }
}

/**
 * A connection to the gateway with several requests at a time. After a failure, it is opened again.
 *
 * States: closed (no socket) -> connecting -> open -> closed. A request opens a closed pipeline.
 *
 * Invariants: requests are written in order. Requests of the same turn of the event loop share a write. If the
 * connection fails, only the first unanswered request fails. The others are returned to be sent again, which is safe
 * because of their ids. After a failure, requests are sent one at a time for RECOVERY_ANSWERS answers, because some
 * servers and proxies do not support pipelining.
 */
class Pipeline {
  readonly #all: Connections;
  #socket: Socket | undefined;
  /** The beginning of each request's head on this connection. */
  #start = '';
  #isOpen = false;
  /** True after an answer that is not 401. */
  #isAuthorized = false;
  #reader = new AnswerReader();
  /** Unanswered requests, in order. The first #written of them have been written. */
  #requests: Request[] = [];
  #written = 0;
  #timer: Timer | undefined;
  #recovery = 0;

  constructor(all: Connections) {
    this.#all = all;
  }

  /** The number of requests that the pipeline accepts now. */
  get room(): number {
    return (this.#recovery > 0 ? 1 : this.#all.options.pipelining) - this.#requests.length;
  }

  get isIdle(): boolean {
    return this.#requests.length === 0;
  }

  send(request: Request): void {
    // Only a connection with requests keeps the process alive.
    if (this.isIdle) this.#socket?.ref();
    this.#requests.push(request);
    if (this.#socket === undefined) this.#connect();
    else if (this.#isOpen && this.#requests.length - this.#written === 1)
      this.#all.options.clock.turnEnd(() => this.#flush());
    this.#watch();
  }

  #connect(): void {
    const { socket, start } = this.#all.connect(() => {
      if (socket !== this.#socket) return;
      debug('connected to %s', this.#all.options.url.host);
      this.#isOpen = true;
      this.#flush();
    });
    this.#socket = socket;
    this.#start = start;
    this.#isAuthorized = false;
    const read = (chunk?: Buffer): void => {
      if (socket === this.#socket) this.#read(chunk);
    };
    socket.on('data', read);
    socket.on('end', () => read());
    socket.on('close', () => read());
    socket.on('error', (cause) => {
      if (socket === this.#socket) this.end(cause);
    });
  }

  #flush(): void {
    if (!this.#isOpen || this.#written === this.#requests.length) return;
    const unwritten = this.#requests.slice(this.#written);
    this.#written = this.#requests.length;
    const parts = unwritten.flatMap(({ head, encoded }) => [Buffer.from(this.#start + head, 'latin1'), encoded]);
    this.#socket?.write(Buffer.concat(parts));
  }

  /** Reads answers. `undefined` is the end of the connection. */
  #read(chunk: Buffer | undefined): void {
    const { clock, url } = this.#all.options;
    const isEnd = chunk === undefined;
    try {
      if (!isEnd) this.#reader.add(chunk);
      for (let answer = this.#reader.next(isEnd); answer !== undefined; answer = this.#reader.next(isEnd)) {
        const [request] = this.#requests;
        if (this.#written === 0 || request === undefined) throw new Error('an answer without a request');
        // The certificate or the token has expired, and the next connection has another one.
        if (answer.status === 401 && this.#isAuthorized && this.#all.isRenewed) return this.end(undefined);
        this.#isAuthorized ||= answer.status !== 401;
        this.#requests.shift();
        this.#written -= 1;
        const result = tryOf(answer, request, { nowMs: clock.epochMs(), isSecure: url.protocol === 'https:' });
        request.settle(result);
        if (answer.isLast || (result.kind === 'retry' && result.misplaced === true)) return this.end(undefined);
        if (this.#recovery > 0) this.#recovery -= 1;
      }
      if (isEnd) throw new Error('the connection was closed before the answer');
      if (this.#written === 0 && !this.#reader.isEmpty) throw new Error('an answer without a request');
      this.#all.onRoom([]);
      if (this.isIdle) this.#socket?.unref();
    } catch (cause) {
      this.end(cause as Error);
    }
  }

  /** Closes the connection. `cause` is the failure of the first request; `undefined` after an answer. */
  end(cause: Error | undefined): void {
    // A request that was not written does not fail, unless the connection could not be opened.
    const failed = cause !== undefined && (this.#written > 0 || !this.#isOpen) ? this.#requests.shift() : undefined;
    const displaced = this.#requests;
    if (failed !== undefined || displaced.length > 0) this.#recovery = RECOVERY_ANSWERS;
    debug('a connection to %s has ended: %s', this.#all.options.url.host, cause?.message ?? 'after an answer');
    this.#timer?.close();
    this.#timer = undefined;
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#isOpen = false;
    this.#requests = [];
    this.#written = 0;
    this.#reader = new AnswerReader();
    if (cause !== undefined) failed?.settle(unansweredTry(cause));
    this.#all.onRoom(displaced);
  }

  /** Starts one timer for the connection, which costs less than one for each request. */
  #watch(): void {
    const [first] = this.#requests;
    if (first === undefined || this.#timer !== undefined) return;
    const { clock } = this.#all.options;
    const leftMs = Math.ceil(Math.max(0, first.dueMs - clock.ms()));
    this.#timer = clock.after(leftMs, () => {
      this.#timer = undefined;
      const [now] = this.#requests;
      if (now !== undefined && now.dueMs <= clock.ms()) this.end(this.#all.overdue);
      else this.#watch();
    });
    this.#timer.unref();
  }
}

function connectorTo({ url, ...identity }: ConnectionsOptions) {
  const secure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const named = isIP(host) === 0 ? { servername: host } : {};
  const to = { host, port: url.port === '' ? (secure ? 443 : 80) : Number(url.port), ...named };
  const line = `POST ${url.pathname.replace(/\/$/, '')}/events HTTP/1.1\r\nHost: ${url.host}\r\n`;
  const start = (): string => `${line}Content-Type: application/json\r\n${authorizationOf(identity.token)}`;
  const isFixed = [identity.cert, identity.key, identity.ca].every((value) => typeof value !== 'function');
  const fixed = secure && isFixed ? tlsOptionsOf(identity) : undefined;
  if (typeof identity.token !== 'function') start();
  return (ready: () => void): { readonly socket: Socket; readonly start: string } => {
    try {
      const connection = {
        start: start(),
        // Nothing is written before `ready` is called, after the server's certificate has been accepted.
        socket: secure
          ? connectTls({ ...to, ...(fixed ?? tlsOptionsOf(identity)), ALPNProtocols: ['http/1.1'] }, ready)
          : connectPlain(to, ready),
      };
      connection.socket.setNoDelay(true);
      return connection;
    } catch (cause) {
      // A function of the caller has thrown, or the files do not belong together while they are being replaced.
      return { start: '', socket: new Socket().destroy(cause as Error) };
    }
  };
}
