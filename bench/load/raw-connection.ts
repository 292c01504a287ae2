// One TLS connection that speaks just enough HTTP/1.1 to be a load: requests go out as they are, and of an answer only
// the status, the length and the body's text are looked at.
//
// Why not autocannon or node:https: the generator shares two cores with what it measures, and what it uses the server
// does not get. Relies on answers that carry Content-Length, in the order of the requests (RFC 9112, section 9.3.2).
import { readFileSync } from 'node:fs';
import { connect, createSecureContext, type ConnectionOptions, type SecureContext, type TLSSocket } from 'node:tls';
import type { LoadOptions } from './options.ts';

/**
 * The client's certificate and the CA it trusts. Made once: reading keys for each connection would be part of the load.
 */
export function clientContext(options: Pick<LoadOptions, 'caPath' | 'certPath' | 'keyPath'>): SecureContext {
  return createSecureContext({
    ca: readFileSync(options.caPath),
    cert: readFileSync(options.certPath),
    key: readFileSync(options.keyPath),
  });
}

const OPEN_AT_ONCE = 50;

export interface AnswerSink {
  /** The answer to the oldest request that has none yet. `text` holds it whole, head and body. */
  answered(status: string, text: string): void;
  /** The connection is gone. */
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
    this.ready.catch(() => undefined); // Whoever cares awaits it; for the rest `closed` tells.
    this.ended = new Promise((resolve) => this.socket.once('close', () => resolve()));
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => sink.closed());
    this.socket.on('data', (chunk: Buffer) => this.#read(chunk, sink));
  }

  #read(chunk: Buffer, sink: AnswerSink): void {
    let text = this.#buffered === '' ? chunk.toString('latin1') : this.#buffered + chunk.toString('latin1');
    for (let end = responseEnd(text); end !== -1; end = responseEnd(text)) {
      const one = end === text.length ? text : text.slice(0, end);
      text = end === text.length ? '' : text.slice(end);
      sink.answered(one.slice(9, 12), one);
    }
    this.#buffered = text;
  }
}

/**
 * Makes `count` connections, some at a time (a listener's backlog has an end), and sends one request on each at once: a
 * server gives up on a connection that brings none for a while, and making a thousand of them takes seconds.
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
        const answered = new Promise((resolve) => socket.once('data', resolve));
        socket.write(request(), 'latin1');
        await answered;
      }),
    );
    opened.push(...some);
  }
  return opened;
}

const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** Where the response that `text` begins with ends; -1 when it is not there whole. */
function responseEnd(text: string): number {
  const body = text.indexOf('\r\n\r\n');
  if (body === -1) return -1;
  const length = LENGTH.exec(text);
  const end = body + 4 + (length === null || length.index > body ? 0 : Number(length[1]));
  return text.length >= end ? end : -1;
}
