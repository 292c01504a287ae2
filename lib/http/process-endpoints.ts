// The endpoints `/health/live`, `/health/ready` and `/metrics` of a process, and a plain HTTP server for them. The
// server does not authenticate clients, so it belongs on loopback or a private network. The gateway serves the same
// endpoints over TLS.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { ClockAndRandom } from '../process/clock.ts';
import { linger } from './linger.ts';
import { faultOf } from './node/faults.ts';
import { defectOf } from './node/request.ts';
import { FAULTS, type ProtocolFault, type Refused } from './request.ts';
import { lastResponse, requestIdFrom, respond, type Answer } from './respond.ts';
import { route, Router, type Route } from './router.ts';

export interface ProcessState {
  readonly draining: () => boolean;
  /** Why the process is not ready, without secrets; `undefined` if it is ready. */
  readonly unready: () => string | undefined;
  /** The reason for each part of the queue that is unavailable, without secrets, by the part's number. */
  readonly unavailable: () => ReadonlyMap<number, string>;
  readonly metrics: () => Promise<Exposition>;
}

export interface Exposition {
  readonly contentType: string;
  readonly text: string;
}

export interface ProcessEndpoints {
  readonly listen: (address: { readonly host: string; readonly port: number }) => Promise<AddressInfo>;
  readonly close: () => Promise<void>;
}

const TIMEOUT_MS = 10_000;
/** Interval of node's checks for overdue requests; node's default is 30 s. */
const CHECK_INTERVAL_MS = 1_000;
/** Above this limit, a new connection replaces the one that has been quiet the longest. */
const CONNECTIONS_MAX = 256;

const json = (status: number, value: unknown): Answer => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(value),
});

export type ProblemOf = (
  refusal: Refused | 'methodNotAllowed' | 'internal',
  detail: string,
  more?: { readonly headers: readonly string[] },
) => Answer;

const live = (): Answer => json(200, { status: 'live' });

function readiness(state: ProcessState): Answer {
  if (state.draining()) return json(503, { status: 'draining' });
  const reason = state.unready();
  const reasons = state.unavailable();
  const parts = { unavailable: [...reasons.keys()], reasons: Object.fromEntries(reasons) };
  if (reason !== undefined) return json(503, { status: 'unavailable', reason, ...(reasons.size > 1 ? parts : {}) });
  return json(200, { status: 'ready', ...(reasons.size > 0 ? parts : {}) });
}

async function scrape(state: ProcessState): Promise<Answer> {
  const { contentType, text } = await state.metrics();
  return { status: 200, contentType, body: text };
}

type Handler = () => Answer | Promise<Answer>;

/** Returns the routes of the endpoints. `M` is the type of the router's other handlers. */
export const processRoutes = <M = never>(state: ProcessState): Route<M | Handler>[] => [
  route<M | Handler>('/health/live', { GET: live }),
  route<M | Handler>('/health/ready', { GET: () => readiness(state) }),
  route<M | Handler>('/metrics', { GET: () => scrape(state) }),
];

export function createProcessEndpoints(
  state: ProcessState,
  problem: ProblemOf,
  system: ClockAndRandom,
  pages: Readonly<Record<string, Answer>> = {},
): ProcessEndpoints {
  const router = new Router([
    ...processRoutes(state),
    ...Object.entries(pages).map(([path, page]) => route(path, { GET: () => page })),
  ]);
  const server = createServer({ requireHostHeader: false, connectionsCheckingInterval: CHECK_INTERVAL_MS });
  const open = new Set<Socket>();
  const latest = new WeakMap<Socket, ServerResponse>();
  const requested = (request: IncomingMessage, response: ServerResponse): void => {
    latest.set(request.socket, response);
    if (open.delete(request.socket)) open.add(request.socket);
    void serve(request, response, { state, problem, router }, system);
  };
  /** Connections that have received their last answer. Further input from them is ignored. */
  const ended = new WeakSet<Socket>();
  const faulty = (socket: Socket, fault: ProtocolFault): void => {
    if (ended.has(socket)) return;
    ended.add(socket);
    sayLast(socket, latest.get(socket), problem(FAULTS[fault].refusal, FAULTS[fault].detail), system);
  };
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    if (open.size <= CONNECTIONS_MAX) return;
    const [longestQuiet] = open;
    longestQuiet?.destroy();
  });
  // Without these listeners, node would answer on its own, without a problem body and without X-Request-Id.
  server.on('request', requested);
  server.on('checkExpectation', requested);
  server.on('connect', (_request, socket) => faulty(socket as Socket, 'connect'));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    faulty(socket as Socket, error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'timeout' : faultOf(error));
  });
  server.headersTimeout = TIMEOUT_MS;
  server.requestTimeout = TIMEOUT_MS;
  return {
    listen: ({ host, port }) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, () => {
          server.off('error', reject);
          resolve(server.address() as AddressInfo);
        });
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Answers an unreadable request, after the answer to the previous request, and closes the connection. */
function sayLast(
  socket: Socket,
  owed: ServerResponse | undefined,
  answer: Answer,
  { clock, random }: ClockAndRandom,
): void {
  if (owed?.closed === false) {
    owed.once('close', () => sayLast(socket, undefined, answer, { clock, random }));
  } else if (socket.writable) {
    socket.write(lastResponse(random.uuid(), answer, clock), 'latin1');
    linger(socket, clock);
  } else socket.destroy();
}

interface Served {
  readonly state: ProcessState;
  readonly problem: ProblemOf;
  readonly router: Router<Handler>;
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  served: Served,
  { random }: ClockAndRandom,
): Promise<void> {
  const { state, problem } = served;
  const isDefective = defectOf(request) !== undefined;
  const answer = isDefective
    ? problem('invalidEvent', FAULTS.malformed.detail)
    : await answerOf(request, served).catch(() => problem('internal', 'the process failed on this request'));
  request.resume();
  const requestId = requestIdFrom(request.headers['x-request-id'] as string | undefined, random);
  respond(response, requestId, answer, isDefective || state.draining());
}

async function answerOf(request: IncomingMessage, { problem, router }: Served): Promise<Answer> {
  const match = router.find(request.url ?? '/');
  if (match === undefined) return problem('routeNotFound', 'there is nothing at this path');
  const handler = match.route.methods.get(request.method ?? '');
  if (handler === undefined) {
    const { allow } = match.route;
    return problem('methodNotAllowed', `expected ${allow}`, { headers: ['Allow', allow] });
  }
  return await handler();
}
