import { Agent, request } from 'node:https';
import { createSecureContext } from 'node:tls';
import type { ClientCertificate } from '../support/pki.ts';
import type { RawAnswer } from './documented-answer.ts';

const CONNECTIONS = 24;
/** A gateway answers sooner, because it waits at most one second for the queue. */
const ANSWER_TIMEOUT_MS = 3_000;

export class Poster {
  readonly gateway: string;
  readonly #port: number;
  readonly #agent: Agent;

  constructor(gateway: string, port: number, ca: string, { cert, key }: ClientCertificate) {
    this.gateway = gateway;
    this.#port = port;
    // All connections share one context. Creating a context is most of the cost of a failed try, and while no gateway
    // runs there are hundreds of tries per second.
    const secureContext = createSecureContext({ ca, cert, key });
    this.#agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, secureContext });
  }

  post(body: string, requestId: string): Promise<RawAnswer | undefined> {
    return new Promise((resolve) => {
      const asked = request({
        host: '127.0.0.1',
        port: this.#port,
        agent: this.#agent,
        method: 'POST',
        path: '/events',
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'x-request-id': requestId,
        },
      });
      const timer = setTimeout(() => asked.destroy(), ANSWER_TIMEOUT_MS);
      const ended = (answer?: RawAnswer): void => {
        clearTimeout(timer);
        resolve(answer);
      };
      asked.on('error', () => ended());
      asked.on('close', () => ended());
      asked.on('response', (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('error', () => ended());
        response.on('end', () => {
          const { 'content-type': contentType = '', 'x-request-id': id } = response.headers;
          const echoed = typeof id === 'string' ? id : undefined;
          ended({ status: response.statusCode ?? 0, contentType, requestId: echoed, text });
        });
      });
      asked.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
