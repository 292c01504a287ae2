// A fake gateway for unit tests of producers, in the process of the test. It is exported as 'ingest-client/testing'.
//
// Its answers are those of the real gateway (the contract suite test/contract/producers.ts tests both), and it stores
// accepted events in memory. It knows only one producer, and does not land events, read CloudEvents, limit rates or
// check how deep a body is nested, if it repeats a member or looks like an erased event, and what follows zstd.
import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { unescape } from 'node:querystring';
import { buffer } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import * as zlib from 'node:zlib';
import { SYSTEM } from '../process/clock.ts';
import { problem, type EventFault, type Refusal } from '../ingest/errors.ts';
import type { Pem } from './identity.ts';

const REFUSALS = {
  401: 'unauthenticated',
  403: 'audienceMissing',
  409: 'eventIdConflict',
  413: 'eventTooLarge',
  PRODUCER_DISABLED: 'producerDisabled',
  TYPE_NOT_ALLOWED: 'typeNotAllowed',
  rateLimited: 'producerRateLimited',
  unavailable: 'queueUnavailable',
  overloaded: 'queueOverloaded',
  internal: 'internal',
} as const satisfies Readonly<Record<string, Refusal>>;

/** Answers that are not refusals. */
const OTHERS = ['shed', 'noAnswer', 'silence'] as const;

/** `shed` does not accept the event. `noAnswer` closes the connection after it, and `silence` keeps it open. */
export type NextAnswer = keyof typeof REFUSALS | (typeof OTHERS)[number];

export interface FakeGatewayOptions {
  /** PEM texts for https. If `ca` is set, clients without a certificate signed by that authority receive 401. */
  readonly tls?: { readonly cert: Pem; readonly key: Pem; readonly ca?: Pem | undefined } | undefined;
  /** The Retry-After of 429 and 503 in seconds. A gateway sends 1 or more; the default is 0, so tests do not wait. */
  readonly retryAfterS?: number | undefined;
}

export type { FakeGateway };

export interface FakeEvent {
  readonly id: string;
  readonly type: string;
  /** The decoded body as text. */
  readonly body: string;
  readonly acceptedAt: string;
}

/** Decoders by content coding. Node 20 does not support zstd. */
const DECODERS: Readonly<Record<string, ((body: Buffer, limit: { maxOutputLength: number }) => Buffer) | undefined>> = {
  identity: (body) => body,
  gzip: zlib.gunzipSync,
  zstd: zlib.zstdDecompressSync,
};

/** Starts a fake gateway on a free port of 127.0.0.1. */
export const startFakeGateway = (options: FakeGatewayOptions = {}): Promise<FakeGateway> =>
  new FakeGateway(options).listen();

class FakeGateway {
  readonly #server: Server;
  readonly #options: FakeGatewayOptions;
  readonly #events = new Map<string, FakeEvent>();
  readonly #givenAway = new Set<string>();
  readonly #next: NextAnswer[] = [];
  /** The URL to pass to `createClient` or `sendEvents`. */
  url = '';
  /** The number of requests to `POST /events`. */
  requests = 0;

  constructor(options: FakeGatewayOptions) {
    const { tls } = (this.#options = options);
    const listener: RequestListener = (request, response) => this.#serve(request, response);
    const asks = { requestCert: tls?.ca !== undefined, rejectUnauthorized: false };
    this.#server = tls === undefined ? createServer(listener) : createTlsServer({ ...tls, ...asks }, listener);
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    this.url = `${this.#options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
    return this;
  }

  /** The accepted events in order of acceptance, one for each id. */
  get events(): readonly FakeEvent[] {
    return [...this.#events.values()];
  }

  /** Sets the answers to the next requests to `POST /events`. */
  next(...answers: readonly NextAnswer[]): void {
    const names = [...Object.keys(REFUSALS), ...OTHERS];
    const unknown = answers.find((one) => !names.includes(String(one)));
    if (unknown !== undefined) throw new TypeError(`next: ${unknown}: expected one of ${names.join(', ')}`);
    this.#next.push(...answers);
  }

  /** Assigns the id to another producer, so that the next request with it receives 409. */
  giveAway(id: string): void {
    this.#events.delete(id);
    this.#givenAway.add(id);
  }

  /** Removes all events, assigned ids and answers that were set. */
  reset(): void {
    this.#events.clear();
    this.#givenAway.clear();
    this.#next.length = 0;
    this.requests = 0;
  }

  /** Stops the server and closes its connections. */
  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const header = String(request.headers['x-request-id'] ?? '');
    response.setHeader('X-Request-Id', /^[\t\x20-\x7e\x80-\xff]+$/.test(header) ? header : SYSTEM.random.uuid());
    const path = (request.url ?? '').replace(/\?.*$/, '');
    const id = /^\/events\/([^/]+)$/.exec(path)?.[1];
    const methods = path === '/events' ? ['POST'] : id === undefined ? [] : ['GET', 'HEAD'];
    if (methods.length === 0) return refuse(response, 'routeNotFound', 'no such path');
    if (!methods.includes(request.method ?? '')) {
      const headers = ['Allow', methods.join(', ')];
      return refuse(response, 'methodNotAllowed', `expected ${methods.join(' or ')}`, { headers });
    }
    if (this.#options.tls?.ca !== undefined && !(request.socket as TLSSocket).authorized) {
      const headers = ['WWW-Authenticate', 'TLS-Client-Certificate realm="ingest-gateway"'];
      return refuse(response, 'unauthenticated', 'expected a client certificate', { headers });
    }
    if (id === undefined) void this.#accept(request, response);
    else this.#find(unescape(id), response);
  }

  #find(id: string, response: ServerResponse): void {
    const event = this.#events.get(id);
    if (event === undefined) return refuse(response, 'eventNotFound', 'no event has this id');
    const { type, acceptedAt, body } = event;
    answer(response, 200, { id, type, status: 'accepted', acceptedAt, event: JSON.parse(body) as unknown });
  }

  async #accept(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    const { 'content-type': type, 'content-encoding': coding = 'identity' } = request.headers;
    if (!/^application\/json[ \t]*(?:$|;(?!.*charset(?![ \t]*=[ \t]*["']?utf-?8\b)))/i.test(type ?? '')) {
      const headers = ['Accept', 'application/json, application/cloudevents+json'];
      return refuse(response, 'unsupportedMediaType', 'expected application/json in UTF-8', { headers });
    }
    const decode = DECODERS[coding.toLowerCase()];
    if (decode === undefined) {
      const detail = 'expected no Content-Encoding, or one of gzip and zstd';
      return refuse(response, 'unsupportedMediaType', detail, { headers: ['Accept-Encoding', 'gzip, zstd'] });
    }
    const maxOutputLength = 262_144;
    const limit = `the body is over the limit of ${maxOutputLength} bytes`;
    const body = await buffer(request).catch(() => undefined);
    // The client has left, or an earlier request with the answer `noAnswer` has closed the connection.
    if (body === undefined || request.socket.destroyed) return;
    if (body.length > maxOutputLength) return refuse(response, 'eventTooLarge', limit);
    try {
      this.#settle(decode(body, { maxOutputLength }), response);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') refuse(response, 'eventTooLarge', limit);
      else refuse(response, 'invalidCompression', 'the body does not match its Content-Encoding');
    }
  }

  #settle(bytes: Buffer, response: ServerResponse): void {
    const body = bytes.toString();
    const event = isUtf8(bytes) ? envelopeOf(body) : [{ path: '', message: 'the body is not valid UTF-8' }];
    const next = this.#next.shift();
    if (next !== undefined && next in REFUSALS) {
      const { retryAfterS = 0 } = this.#options;
      const more = ['rateLimited', 'unavailable', 'overloaded'].includes(String(next)) ? { retryAfterS } : {};
      return refuse(response, REFUSALS[next as keyof typeof REFUSALS], `asked for: ${next}`, more);
    }
    if (Array.isArray(event)) {
      const [{ path, message } = { path: '', message: '' }, ...more] = event as readonly EventFault[];
      const about = path === '' ? message.replace(/^must/, 'the body must') : `${path.slice(1)} ${message}`;
      const detail = `${about}${more.length === 0 ? '' : ` (and ${more.length} more, see errors)`}`;
      return refuse(response, 'invalidEvent', detail, { errors: event });
    }
    const { id, type } = event;
    if (next === 'shed') return answer(response, 202, { id, status: 'shed', code: 'INGEST_SHED', retryable: true });
    if (this.#givenAway.has(id)) {
      const detail = "another producer's event has this id: begin yours with your name, such as shop-order-1042";
      return refuse(response, 'eventIdConflict', detail);
    }
    const first = this.#events.get(id);
    if (first === undefined)
      this.#events.set(id, { id, type, body, acceptedAt: new Date(SYSTEM.clock.epochMs()).toISOString() });
    if (next === 'noAnswer') return void response.req.socket.destroy();
    if (next === 'silence') return;
    const duplicate = first === undefined ? {} : { duplicate: true };
    const differs = first === undefined || first.body === body ? {} : { differs: true };
    answer(response, 202, { id, status: 'accepted', ...duplicate, ...differs });
  }
}

/** Returns the envelope, or its mistakes with the JSON Pointers of the wrong members, as lib/ingest/event.ts does. */
function envelopeOf(body: string): Pick<FakeEvent, 'id' | 'type'> | EventFault[] {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return [{ path: '', message: body === '' ? 'the body is empty' : 'the body is not JSON' }];
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [{ path: '', message: 'must be one JSON object: one event per request' }];
  const { id, type } = value as Readonly<Record<string, unknown>>;
  const faults: EventFault[] = [];
  const fault = (name: string, expected: string): unknown =>
    faults.push({ path: `/${name}`, message: Object.hasOwn(value, name) ? expected : 'is missing' });
  // eslint-disable-next-line no-control-regex -- the expression excludes them
  if (typeof id !== 'string' || !/^[^\u0000-\u001F\u007F\uD800-\uDFFF]{1,256}$/u.test(id))
    fault('id', 'must be a string of 1 to 256 characters without control characters or lone surrogates');
  if (typeof type !== 'string' || type.length > 256 || !/^[\w-]+(\.[\w-]+)*$/.test(type))
    fault('type', 'must be 1 to 256 characters: words of letters, digits, "_" or "-", joined by dots');
  return faults.length === 0 ? { id: String(id), type: String(type) } : faults;
}

function refuse(
  response: ServerResponse,
  refusal: Refusal,
  detail: string,
  more?: Parameters<typeof problem>[2],
): void {
  const { status, contentType, body, headers } = problem(refusal, detail, more);
  write(response, status, contentType, body, headers);
}

const answer = (response: ServerResponse, status: number, body: object): void =>
  write(response, status, 'application/json', JSON.stringify(body));

function write(response: ServerResponse, status: number, type: string, body: string, headers: readonly string[] = []) {
  const about = ['Content-Type', type, 'Content-Length', String(Buffer.byteLength(body)), ...headers];
  // With a string, node would encode the head in the body's encoding.
  response.writeHead(status, about).end(Buffer.from(body));
}
