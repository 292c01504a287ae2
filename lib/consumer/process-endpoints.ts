// The consumer's own `/health/live`, `/health/ready` and `/metrics`: plain HTTP, for the platform it runs on. It serves
// no event and asks for no identity, so it belongs on loopback or a private network.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { requestIdOf, respond, type Answer } from '../http/respond.ts';
import { route, Router } from '../http/router.ts';
import type { BindAddress } from '../process/env.ts';

/** What the endpoints tell. `unready` says why not, in words that hold no secret. */
export interface ProcessState {
  readonly draining: () => boolean;
  readonly unready: () => string | undefined;
  readonly metrics: () => Promise<string>;
  readonly metricsType: string;
}

export interface ProcessEndpoints {
  /** Binds. Rejects with the system's error. */
  listen(address: BindAddress): Promise<AddressInfo>;
  close(): Promise<void>;
}

type Handler = (state: ProcessState) => Answer | Promise<Answer>;

const TIMEOUT_MS = 10_000;

const json = (status: number, value: unknown): Answer => ({
  status,
  contentType: 'application/json',
  body: JSON.stringify(value),
});

const problem = (status: number, title: string, headers: readonly string[] = []): Answer => ({
  status,
  contentType: 'application/problem+json',
  body: JSON.stringify({ type: 'about:blank', title, status }),
  headers,
});

const ROUTES = new Router<Handler>([
  route('/health/live', { GET: () => json(200, { status: 'live' }) }),
  route('/health/ready', { GET: readiness }),
  route('/metrics', {
    GET: async (state) => ({ status: 200, contentType: state.metricsType, body: await state.metrics() }),
  }),
]);

function readiness(state: ProcessState): Answer {
  if (state.draining()) return json(503, { status: 'draining' });
  const reason = state.unready();
  return reason === undefined ? json(200, { status: 'ready' }) : json(503, { status: 'unavailable', reason });
}

export function createProcessEndpoints(state: ProcessState): ProcessEndpoints {
  const server = createServer((request, response) => {
    void answer(request, response, state);
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

async function answer(request: IncomingMessage, response: ServerResponse, state: ProcessState): Promise<void> {
  const match = ROUTES.find(request.url ?? '/');
  const handler = match?.route.methods.get(request.method ?? '');
  let reply: Answer;
  if (match === undefined) reply = problem(404, 'Route not found');
  else if (handler === undefined) reply = problem(405, 'Method not allowed', ['Allow', match.route.allow]);
  else reply = await handler(state);
  request.resume();
  respond(response, requestIdOf(request), reply, state.draining());
}
