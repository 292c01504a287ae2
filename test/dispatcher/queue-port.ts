// A dispatcher's port in process, and connections to it by bytes.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { QueueServer, type QueueServerOptions } from '../../lib/dispatcher/queue-server.ts';
import type { Queue } from '../../lib/ingest/queue.ts';
import { SystemClock } from '../../lib/process/clock.ts';
import { createLog } from '../../lib/process/log.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

interface Served {
  readonly server: QueueServer;
  readonly port: number;
  /** How many grants of AUTH were given back. */
  readonly released: () => number;
}

/** A server for this queue; AUTH with the password `good` gives `other`. */
export async function serve(
  queue: Queue,
  { other = queue, ...options }: Partial<QueueServerOptions> & { readonly other?: Queue } = {},
): Promise<Served> {
  let released = 0;
  const server = new QueueServer({
    anonymous: { queue, release: () => undefined },
    authenticate: async (_user, password) => {
      await new Promise((resolve) => setImmediate(resolve));
      return password === 'good'
        ? { queue: other, release: () => void (released += 1) }
        : 'invalid username-password pair';
    },
    tls: undefined,
    clock: new SystemClock(),
    log: LOG,
    ...options,
  });
  const { port } = await server.listen('127.0.0.1', 0);
  atEnd(() => server.drain());
  return { server, port, released: () => released };
}

/** A connection; over TLS where it is given options for that. */
export class Wire {
  readonly socket: Socket;
  received = '';
  closed = false;

  constructor(port: number, tls?: ConnectionOptions) {
    const address = { port, host: '127.0.0.1' };
    this.socket = tls === undefined ? connect(address) : connectTls({ ...address, ...tls });
    this.socket.setEncoding('utf8').on('data', (piece: string) => (this.received += piece));
    this.socket.on('error', () => undefined).on('close', () => (this.closed = true));
    atEnd(() => void this.socket.destroy());
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  async answers(wanted: string): Promise<void> {
    await eventually('the answers', () => this.received.length >= wanted.length || this.closed);
    assert.equal(this.received, wanted);
  }

  async ended(): Promise<void> {
    await eventually('the connection is closed', () => this.closed);
  }
}

export const command = (...parts: readonly string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;

export const accept = (...ids: readonly string[]): string =>
  command('INGEST.ACCEPT', ...ids, ...ids.flatMap((id) => ['p', JSON.stringify({ id, type: 'a' })]));
