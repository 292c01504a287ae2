// A TLS server that answers requests for events with any bytes.
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import type { SendEventsOptions } from '../../lib/send/client.ts';
import { Pki } from '../support/pki.ts';
import { atEnd } from '../support/scope.ts';

/** Starts a server on a free port, and closes it at the end of the test file. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  atEnd(() => void server.close());
  return (server.address() as AddressInfo).port;
}

export interface Seen {
  readonly id: string;
  readonly requestId: string;
  readonly head: string;
  /** The bytes as latin1. */
  readonly body: string;
  readonly socket: TLSSocket;
}

export interface AnyServer {
  readonly pki: Pki;
  readonly options: Pick<SendEventsOptions, 'url' | 'cert' | 'key' | 'ca'>;
  answer: (seen: Seen) => unknown;
  seen: Seen[];
  connections: number;
  requestsInRead: number;
}

export async function serve(answer: (seen: Seen) => unknown = () => undefined): Promise<AnyServer> {
  const pki = await Pki.create();
  const { cert, key } = await pki.producer('sender');
  const ca = pki.authority.certificate;
  const tls = { cert: pki.server.certificate, key: pki.server.key, ca, requestCert: true };
  const server = createServer(tls, (socket) => {
    found.connections += 1;
    let text = '';
    socket.on('error', () => undefined);
    atEnd(() => void socket.destroy());
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      let inRead = 0;
      // `answer` may close the connection or stop reading from it.
      while (!socket.writableEnded && socket.listenerCount('data') > 0) {
        const [head, requestId = '', length = '0'] =
          /^POST [^]*?X-Request-Id: (\S+)\r\nContent-Length: (\d+)\r\n\r\n/.exec(text) ?? [];
        const end = (head?.length ?? 0) + Number(length);
        if (head === undefined || text.length < end) break;
        const body = text.slice(head.length, end);
        text = text.slice(end);
        found.requestsInRead = Math.max(found.requestsInRead, (inRead += 1));
        const [, id = ''] = /"id":"([^"]*)"/.exec(body) ?? [];
        const one = { id, requestId, head, body, socket };
        found.seen.push(one);
        found.answer(one);
      }
    });
  });
  const url = `https://127.0.0.1:${await listening(server)}`;
  const found: AnyServer = {
    pki,
    options: { url, cert, key, ca },
    answer,
    seen: [],
    connections: 0,
    requestsInRead: 0,
  };
  return found;
}

export function http(status: number, body: string | object, more = 'Content-Type: application/json\r\n'): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return `HTTP/1.1 ${status} Some Words\r\n${more}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

export const accepted = ({ id }: Pick<Seen, 'id'>, more = '', members: object = {}): string =>
  http(202, { id, status: 'accepted', ...members }, `Content-Type: application/json\r\n${more}`);

/** An error with the X-Request-Id of its request. */
export const problem = ({ requestId }: Seen, members: object, status = 503, more = ''): string =>
  http(status, members, `Content-Type: application/problem+json\r\nX-Request-Id: ${requestId}\r\n${more}`);

/** Writes a text in pieces, each in its own turn of the event loop. */
export async function writeInPieces(socket: TLSSocket, text: string, length: number): Promise<void> {
  for (let at = 0; at < text.length; at += length)
    await new Promise((resolve) => socket.write(text.slice(at, at + length), () => setImmediate(resolve)));
}
