// An HTTPS server in this process. Tests answer its requests.
import { connect as connectTcp } from 'node:net';
import { connect, type ConnectionOptions } from 'node:tls';
import type { Connection, ServerLimits } from '../../lib/http/connection.ts';
import type { HttpRequest, Received } from '../../lib/http/request.ts';
import { HttpServer } from '../../lib/http/server.ts';
import { RawConnection } from './client.ts';
import type { ClientCertificate, Pki } from './pki.ts';
import { atEnd, eventually } from './scope.ts';
import { SYSTEM } from './system.ts';
import type { VirtualClock } from './virtual-clock.ts';

const MANY_BYTES = 1 << 30;

export const LIMITS: ServerLimits = {
  handshakeTimeoutMs: 20_000,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 20_000,
  idleTimeoutMs: 20_000,
  headerBytesMax: 16_384,
  connectionsMax: 100,
  connectionsPerAddressMax: 0,
  held: { producerBytesMax: MANY_BYTES, totalBytesMax: MANY_BYTES, bytesInFlight: () => 0 },
  httpReader: 'own',
  proxyFrom: undefined,
};

export const last = (fault: string): string =>
  `HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: ${fault.length}\r\n\r\n${fault}`;

export interface TestContext {
  producer: string | undefined;
}

export interface Given {
  readonly clock?: VirtualClock;
  readonly onRequest?: (request: HttpRequest, connection: Connection<TestContext>) => void;
  readonly draining?: () => boolean;
  /** The address of the server: `::` makes its clients come from IPv6 addresses. */
  readonly host?: string;
  /** The certificate of `open`'s clients. */
  readonly certificate?: ClientCertificate;
}

export async function startServer(pki: Pki, more: Partial<ServerLimits> = {}, given: Given = {}) {
  const requests: HttpRequest[] = [];
  const connections: Connection<TestContext>[] = [];
  const told: string[] = [];
  const addresses: string[] = [];
  const server = new HttpServer<TestContext>(
    { cert: pki.server.certificate, key: pki.server.key, ca: pki.authority.certificate },
    { ...LIMITS, ...more },
    {
      context: () => ({ producer: undefined }),
      draining: given.draining ?? (() => false),
      producerOf: ({ producer }) => producer,
      request: (connection, request) => {
        requests.push(request);
        connections.push(connection);
        const received = (body: Received): void => {
          told.push(String(body ?? 'aborted'));
          if (typeof body === 'string') request.respond('id', { status: 408, contentType: 'text/plain', body }, false);
        };
        if (request.body === undefined && request.head.method === 'POST')
          void request.receive(100_000, () => undefined).then(received);
        else if (request.head.method === 'POST') told.push(String(request.body));
        given.onRequest?.(request, connection);
      },
      protocolFault: (fault, _connection, requestId) => last(requestId === undefined ? fault : `${fault} ${requestId}`),
      plainHttp: (requestId) => last(requestId === undefined ? 'plain' : `plain ${requestId}`),
      closed: () => told.push('closed'),
      bug: (cause) => told.push(`bug: ${String(cause)}`),
      connectionFailure: (reason, address) => {
        told.push(reason);
        addresses.push(address);
      },
    },
    given.clock ?? SYSTEM.clock,
  );
  const { port } = await server.listen(given.host ?? '127.0.0.1', 0);
  atEnd(async () => {
    server.destroy();
    await server.drain();
  });
  const open = async (options: ConnectionOptions = {}): Promise<RawConnection> => {
    const { cert, key } = given.certificate ?? {};
    const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, cert, key, ...options });
    const connection = new RawConnection(socket);
    await eventually('the handshake is done', () => socket.authorized);
    return connection;
  };
  const tcp = () => {
    const socket = connectTcp(port, '127.0.0.1');
    atEnd(() => void socket.destroy());
    return socket.on('error', () => undefined);
  };
  const answer = (request: HttpRequest | undefined, body = 'ok', close = false): void =>
    request?.respond('id', { status: 200, contentType: 'text/plain', body }, close);
  return { server, port, requests, connections, told, addresses, open, tcp, answer };
}
