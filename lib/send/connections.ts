// Sends events to the gateway over mutual TLS, with several requests at a time on each of a few connections. It tries
// each event only once, and the sender decides whether to try again.
//
// Limits: a try ends after `timeoutMs`, which includes connecting and receiving the last byte of the answer. If the
// connection fails because of another request, the event is sent again with a new time limit, as part of the same
// try. A slow event therefore delays the events behind it by at most one time limit.
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ClockAndRandom } from '../process/clock.ts';
import { tlsOptionsOf, type SenderIdentity } from './identity.ts';
import { overdue, Pipeline, type Request } from './pipeline.ts';
import { unansweredTry, type Try } from './try.ts';

interface ConnectionsOptions extends ClockAndRandom {
  /** A URL returned by `gatewayUrl`. */
  readonly url: URL;
  readonly identity: SenderIdentity;
  readonly connections: number;
  readonly pipelining: number;
  readonly timeoutMs: number;
  /** True if an address to which no connection has succeeded yet may be correct. */
  readonly isPatient: boolean;
}

export interface Flow {
  readonly connections: number;
  readonly pipelining: number;
  /** The maximum number of events in flight. */
  readonly concurrency: number;
}

export const PIPELINING_MAX = 32;

/** Applies the defaults of sendEvents and ingest-send. With `pipelining: 1`, every event has its own connection. */
export function flowOf(asked: { readonly [name in keyof Flow]?: number | undefined }): Flow {
  const { concurrency = 64, pipelining = 16 } = asked;
  const { connections = pipelining === 1 ? concurrency : 4 } = asked;
  return { connections, pipelining, concurrency: Math.min(concurrency, connections * pipelining) };
}

/**
 * Parses the URL of a gateway, or an `http` URL of this machine for tests. Throws a TypeError that names the mistake.
 */
export function gatewayUrl(value: string | URL): URL {
  if (!URL.canParse(String(value))) throw new TypeError(`${String(value)}: expected an https URL`);
  const url = new URL(value);
  const shown = `${url.protocol}//${url.host}${url.pathname}`;
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && local))
    throw new TypeError(`${shown}: expected an https URL`);
  if (url.username !== '' || url.password !== '') throw new TypeError(`${shown}: expected a URL without a user`);
  if (url.search !== '' || url.hash !== '')
    throw new TypeError(`${shown}: expected a URL without a query or a fragment`);
  if (/\/events\/?$/.test(url.pathname))
    throw new TypeError(`${shown}: expected a URL without /events at its end, which is added`);
  return url;
}

/** Hosts and ports to which a connection of this process has succeeded. They may be unreachable while they restart. */
const REACHED = new Set<string>();

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #newPipeline: () => Pipeline;
  readonly #pipelines: Pipeline[] = [];
  readonly #requestIds: string;
  /** Requests for which no connection has room. */
  #waiting: Request[] = [];
  #requests = 0;
  #isClosed = false;

  /** Throws a TypeError for an unusable certificate or key. */
  constructor(options: ConnectionsOptions) {
    const { clock, random, url, identity, pipelining: depth, timeoutMs, isPatient } = options;
    this.#options = options;
    this.#requestIds = random.bytes(9).toString('base64url');
    const connectTo = connectorTo(url, identity);
    const connect = (ready: () => void): Socket =>
      connectTo(() => {
        REACHED.add(url.host);
        ready();
      });
    const start = requestStart(url, identity);
    const headOf = ({ body, requestId }: Request): string =>
      `${start}X-Request-Id: ${requestId}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const onRoom = (displaced: readonly Request[]): void => this.#onRoom(displaced);
    const unanswered = (cause: Error): Try => unansweredTry(cause, !isPatient && !REACHED.has(url.host));
    const isSecure = url.protocol === 'https:';
    const pipeline = { clock, connect, depth, timeoutMs, isSecure, headOf, unanswered, onRoom };
    this.#newPipeline = () => new Pipeline(pipeline);
  }

  /** Never rejects. */
  send(body: Buffer): Promise<Try> {
    return new Promise((settle) => {
      const requestId = `${this.#requestIds}-${(this.#requests += 1)}`;
      const dueMs = this.#options.clock.ms() + this.#options.timeoutMs;
      if (this.#isClosed) return settle(unansweredTry(new Error('the sender was closed')));
      this.#waiting.push({ body, requestId, settle, dueMs, displaced: false, isSent: false });
      this.#sendWaiting();
    });
  }

  /** Settles all pending requests as unanswered, and closes the connections. */
  close(): void {
    this.#isClosed = true;
    for (const { settle } of this.#waiting.splice(0)) settle(unansweredTry(new Error('the sender was closed')));
    for (const pipeline of this.#pipelines) pipeline.close();
  }

  #onRoom(displaced: readonly Request[]): void {
    const { clock, timeoutMs } = this.#options;
    const nowMs = clock.ms();
    for (const request of displaced) {
      request.isSent = false;
      if (!request.displaced) request.dueMs = nowMs + timeoutMs;
      request.displaced = true;
    }
    if (displaced.length > 0) this.#waiting.unshift(...displaced);
    if (this.#waiting.length === 0) return;
    for (const { settle } of this.#waiting.filter(({ dueMs }) => dueMs <= nowMs))
      settle(unansweredTry(overdue(timeoutMs)));
    this.#waiting = this.#waiting.filter(({ dueMs }) => dueMs > nowMs);
    this.#sendWaiting();
  }

  #sendWaiting(): void {
    while (this.#waiting.length > 0) {
      const pipeline = this.#pipelineWithRoom();
      const next = pipeline && this.#waiting.shift();
      if (pipeline === undefined || next === undefined) return;
      pipeline.send(next);
    }
  }

  /** Returns the connection with the most room, or a new one if that one is not idle and `connections` allows it. */
  #pipelineWithRoom(): Pipeline | undefined {
    const { connections } = this.#options;
    let best: Pipeline | undefined;
    for (const one of this.#pipelines) if (one.room > (best?.room ?? 0)) best = one;
    if (best?.isIdle === true || this.#pipelines.length === connections) return best;
    const pipeline = this.#newPipeline();
    this.#pipelines.push(pipeline);
    return pipeline;
  }
}

function connectorTo(url: URL, identity: SenderIdentity): (ready: () => void) => Socket {
  const secure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const to = { host, port: url.port === '' ? (secure ? 443 : 80) : Number(url.port) };
  if (!secure) return (ready) => connectPlain(to, ready).setNoDelay(true);
  const tls = { ...to, ...tlsOptionsOf(identity), ALPNProtocols: ['http/1.1'] };
  const named = isIP(host) === 0 ? { ...tls, servername: host } : tls;
  // Nothing is written before `ready` is called, which happens after the server's certificate has been accepted.
  return (ready) => connectTls(named, ready).setNoDelay(true);
}

function requestStart(url: URL, { token }: SenderIdentity): string {
  return [
    `POST ${url.pathname.replace(/\/$/, '')}/events HTTP/1.1`,
    `Host: ${url.host}`,
    'Content-Type: application/json',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    '',
  ].join('\r\n');
}
