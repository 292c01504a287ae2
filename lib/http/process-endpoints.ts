// The endpoints of a process, and a plain HTTP server for them, which does not authenticate clients.
import type { Clock, ClockAndRandom } from '../process/clock.ts';
import type { ServerHandlers, ServerLimits } from './connection.ts';
import { FAULTS, type HttpRequest, type Refused } from './request.ts';
import { lastResponse, requestIdFrom, type Answer } from './respond.ts';
import { route, Router, type Route } from './router.ts';
import { HttpServer } from './server.ts';

export interface ProcessState {
  readonly draining: () => boolean;
  /** Why the process is not ready, without secrets; `undefined` if it is ready. */
  readonly unready: () => string | undefined;
  /** The reason for each part of the queue that is unavailable, without secrets, by the part's number. */
  readonly unavailable: () => ReadonlyMap<number, string>;
  readonly metrics: () => Promise<Answer>;
}

const [TIMEOUT_MS, HELD_BYTES_MAX] = [10_000, 8 << 20];
const LIMITS: ServerLimits = {
  connectionsMax: 256,
  connectionsPerAddressMax: 0,
  held: { producerBytesMax: HELD_BYTES_MAX, totalBytesMax: HELD_BYTES_MAX, bytesInFlight: () => 0 },
  headerBytesMax: 16_384,
  handshakeTimeoutMs: TIMEOUT_MS,
  headersTimeoutMs: TIMEOUT_MS,
  requestTimeoutMs: TIMEOUT_MS,
  idleTimeoutMs: 5_000,
  httpReader: 'node',
  proxyFrom: undefined,
};

const json = (status: number, value: unknown): Answer => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(value),
});

function readiness(state: ProcessState): Answer {
  if (state.draining()) return json(503, { status: 'draining' });
  const reason = state.unready();
  const reasons = state.unavailable();
  const parts = { unavailable: [...reasons.keys()], reasons: Object.fromEntries(reasons) };
  if (reason !== undefined) return json(503, { status: 'unavailable', reason, ...(reasons.size > 1 && parts) });
  return json(200, { status: 'ready', ...(reasons.size > 0 && parts) });
}

const SCRAPE_INTERVAL_MS = 200;

// Fact: rendering the metrics takes about a millisecond, and clients need no certificate to request them. Choice: a
// request that arrives too soon waits, and all waiting requests share one result, made after they arrived.
export function atIntervals<T>(make: () => Promise<T>, clock: Clock): () => Promise<T> {
  let next: Promise<T> | undefined;
  let lastMs = -SCRAPE_INTERVAL_MS;
  const waitAndMake = async (): Promise<T> => {
    await clock.sleep(lastMs + SCRAPE_INTERVAL_MS - clock.ms());
    next = undefined;
    lastMs = clock.ms();
    return make();
  };
  return () => (next ??= waitAndMake());
}

type Handler = () => Answer | Promise<Answer>;

export function processRoutes<M = never>(state: ProcessState, clock: Clock): Route<M | Handler>[] {
  return [
    route<M | Handler>('/health/live', { GET: () => json(200, { status: 'live' }) }),
    route<M | Handler>('/health/ready', { GET: () => readiness(state) }),
    route<M | Handler>('/metrics', { GET: atIntervals(state.metrics, clock) }),
  ];
}

export function createProcessEndpoints(
  state: ProcessState,
  problem: (
    refusal: Refused | 'methodNotAllowed' | 'internal',
    detail: string,
    more?: Pick<Answer, 'headers'>,
  ) => Answer,
  { clock, random }: ClockAndRandom,
  pages: Readonly<Record<string, Answer>> = {},
) {
  const pageRoutes = Object.entries(pages).map(([path, page]) => route(path, { GET: () => page }));
  const router = new Router([...processRoutes(state, clock), ...pageRoutes]);
  const answerTo = async ({ head }: HttpRequest): Promise<Answer> => {
    if (head.defect !== undefined) return problem('invalidEvent', FAULTS.malformed.detail);
    const match = router.find(head.target);
    if (match === undefined) return problem('routeNotFound', 'there is nothing at this path');
    const { methods, allow } = match.route;
    const wrong = { headers: ['Allow', allow] };
    return (await methods.get(head.method)?.()) ?? problem('methodNotAllowed', `expected ${allow}`, wrong);
  };
  const handlers: ServerHandlers<{ client?: string }> = {
    context: () => ({}),
    draining: state.draining,
    // A client that has asked keeps its place when others fill the address.
    producerOf: ({ client }) => client,
    request: ({ context }, request) => {
      context.client = 'known';
      void answerTo(request)
        .catch(() => problem('internal', 'the process failed on this request'))
        .then((answer) => request.respond(requestIdFrom(request.head.requestId, random), answer, false));
    },
    protocolFault: (fault, _connection, requestId) => {
      const { refusal, detail } = FAULTS[fault];
      return lastResponse(requestIdFrom(requestId, random), problem(refusal, detail), clock);
    },
    bug: (cause) => process.emitWarning(cause instanceof Error ? cause : String(cause)),
  };
  const server = new HttpServer(undefined, LIMITS, handlers, clock);
  return {
    listen: ({ host, port }: { readonly host: string; readonly port: number }) => server.listen(host, port),
    close: (): Promise<void> => {
      server.destroy();
      return server.drain();
    },
  };
}
