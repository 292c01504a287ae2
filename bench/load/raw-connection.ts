// A TLS connection with just enough HTTP/1.1 for a load. It parses only the status and the length of an answer,
// because the generator shares two cores with the server. Answers must have a Content-Length and arrive in the order
// of the requests (RFC 9112, section 9.3.2).
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createSecureContext, type ConnectionOptions, type SecureContext, type TLSSocket } from 'node:tls';
import type { ClientFiles } from './options.ts';

/** Create one context for all connections, because reading the keys for each connection would add to the load. */
export function clientContext({ caPath, certPath, keyPath }: ClientFiles): SecureContext {
  return createSecureContext({ ca: readFileSync(caPath), cert: readFileSync(certPath), key: readFileSync(keyPath) });
}

const OPEN_AT_ONCE = 50;
/** A server that does not answer the first request within this time does not work. */
const ANSWER_MS_MAX = 30_000;

export interface AnswerSink {
  /** Called with the status of the answer to the oldest open request. */
  answered(status: string): void;
  closed(): void;
}

export class RawConnection {
  readonly socket: TLSSocket;
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;
  #buffered = '';

  constructor(port: number, secureContext: SecureContext, sink: AnswerSink, options: ConnectionOptions = {}) {
    this.socket = connect({ host: '127.0.0.1', port, secureContext, ALPNProtocols: ['http/1.1'], ...options });
    this.socket.setNoDelay(true);
    this.ready = new Promise((resolve, reject) => {
      this.socket.once('secureConnect', resolve);
      this.socket.once('error', reject);
    });
    this.ready.catch(() => undefined); // `closed` also reports the failure.
    this.ended = new Promise((resolve) => this.socket.once('close', () => resolve()));
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => sink.closed());
    this.socket.on('data', (chunk: Buffer) => this.#read(chunk, sink));
  }

  #read(chunk: Buffer, sink: AnswerSink): void {
    let text = this.#buffered === '' ? chunk.toString('latin1') : this.#buffered + chunk.toString('latin1');
    for (let end = responseEnd(text); end !== -1; end = responseEnd(text)) {
      const status = text.slice(9, 12);
      text = text.slice(end);
      sink.answered(status);
    }
    this.#buffered = text;
  }
}

/**
 * Opens `count` connections in groups that fit the listener's backlog. Sends a request on each connection, because
 * servers close silent connections.
 */
export async function openAll<T extends { readonly connection: RawConnection }>(
  count: number,
  open: () => T,
  request: () => string,
): Promise<T[]> {
  const opened: T[] = [];
  while (opened.length < count) {
    const some = Array.from({ length: Math.min(OPEN_AT_ONCE, count - opened.length) }, open);
    await Promise.all(
      some.map(async ({ connection: { ready, socket } }) => {
        await ready;
        const answered = once(socket, 'data', { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
        socket.write(request(), 'latin1');
        await answered;
      }),
    );
    opened.push(...some);
  }
  return opened;
}

const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** Returns the index of the end of the first response in `text`; -1 if the response is incomplete. */
function responseEnd(text: string): number {
  const body = text.indexOf('\r\n\r\n');
  if (body === -1) return -1;
  const length = LENGTH.exec(text);
  const end = body + 4 + (length === null || length.index > body ? 0 : Number(length[1]));
  return text.length >= end ? end : -1;
}
