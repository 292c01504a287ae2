// A process's own `/health/live`, `/health/ready` and `/metrics`: the answers, and a plain HTTP server for them. It
// serves no event and asks for no identity, so it belongs on loopback or a private network.
//
// Each program says by a ProcessState what is true of it; the gateway gives the same answers to producers, over TLS.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { requestIdOf, respond, type Answer } from './respond.ts';
import { route, Router } from './router.ts';

/**
 * What the endpoints tell. `unready` says why not, in words that hold no secret; undefined when the process is ready.
 */
export interface ProcessState {
  readonly draining: () => boolean;
  readonly unready: () => string | undefined;
  /** The parts of the queue that are away while the process is ready, by number or name. */
  readonly unavailable: () => readonly (number | string)[];
  readonly metrics: () => Promise<string>;
  readonly metricsType: string;
}

export interface ProcessEndpoints {
  /** Binds. Rejects with the system's error. */
  listen(address: { readonly host: string; readonly port: number }): Promise<AddressInfo>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 10_000;

const json = (status: number, value: unknown): Answer => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(value),
});

const problem = (status: number, code: string, title: string, headers: readonly string[] = []): Answer => ({
  status,
  contentType: 'application/problem+json',
  body: JSON.stringify({ type: `urn:ingest:error:${code}`, title, status, code, retryable: status === 500 }),
  headers,
});

/** The process runs and its event loop turns. It says nothing of the queue. */
export const live = (): Answer => json(200, { status: 'live' });

export function readiness(state: Pick<ProcessState, 'draining' | 'unready' | 'unavailable'>): Answer {
  if (state.draining()) return json(503, { status: 'draining' });
  const reason = state.unready();
  if (reason !== undefined) return json(503, { status: 'unavailable', reason });
  const unavailable = state.unavailable();
  return json(200, unavailable.length === 0 ? { status: 'ready' } : { status: 'ready', unavailable });
}

export async function scrape(state: Pick<ProcessState, 'metrics' | 'metricsType'>): Promise<Answer> {
  return { status: 200, contentType: state.metricsType, body: await state.metrics() };
}

const ROUTES = new Router<(state: ProcessState) => Answer | Promise<Answer>>([
  route('/health/live', { GET: live }),
  route('/health/ready', { GET: readiness }),
  route('/metrics', { GET: scrape }),
]);

export function createProcessEndpoints(state: ProcessState): ProcessEndpoints {
  const server = createServer((request, response) => void serve(request, response, state));
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

async function serve(request: IncomingMessage, response: ServerResponse, state: ProcessState): Promise<void> {
  const answer = await answerOf(request, state).catch(() => problem(500, 'INTERNAL', 'Internal error'));
  request.resume();
  respond(response, requestIdOf(request), answer, state.draining());
}

async function answerOf(request: IncomingMessage, state: ProcessState): Promise<Answer> {
  const match = ROUTES.find(request.url ?? '/');
  if (match === undefined) return problem(404, 'ROUTE_NOT_FOUND', 'Route not found');
  const handler = match.route.methods.get(request.method ?? '');
  if (handler === undefined)
    return problem(405, 'METHOD_NOT_ALLOWED', 'Method not allowed', ['Allow', match.route.allow]);
  return await handler(state);
}
