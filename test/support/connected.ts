// A connection on a socket in memory, in virtual time, with a host that records its calls.
import type { ConnectionHost } from '../../lib/http/connection-host.ts';
import { Connection } from '../../lib/http/connection.ts';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { MemorySocket } from './memory-socket.ts';
import { VirtualClock } from './virtual-clock.ts';

export const LIMITS = { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000, idleTimeoutMs: 5_000 };
export const LAST = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';
export const CERTIFICATE = {};

export const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`;
export const post = (target: string, body: string, announced = body.length): string =>
  `POST ${target} HTTP/1.1\r\nHost: g\r\nContent-Length: ${announced}\r\n\r\n${body}`;

type TestConnection = Connection<string | undefined>;

export const answerOf = (
  connection: TestConnection,
  request: HttpRequest | undefined,
  close = false,
  body = '',
): void => {
  if (request === undefined) return;
  const text = `${request.head.target}${body}`;
  connection.respond(request, 'id', { status: 200, contentType: 'text/plain', body: text }, close);
};

export function reading(request: HttpRequest, connection: TestConnection, bytesMax = 100): string[] {
  const said: string[] = [];
  request.listener = {
    aborted: () => said.push('aborted'),
    fault: (fault) => {
      said.push(fault);
      connection.respond(request, 'id', { status: 408, contentType: 'text/plain', body: fault }, true);
      return true;
    },
  };
  const bodyRead = (body: Buffer | 'too large'): void => {
    said.push(body === 'too large' ? body : `read ${body.toString()}`);
    if (body !== 'too large') answerOf(connection, request);
  };
  if (request.body === undefined) request.receive(bytesMax, { bodyGrows: () => undefined, bodyRead });
  else bodyRead(request.body);
  return said;
}

interface Given {
  readonly takes?: boolean;
  readonly certificate?: unknown;
  readonly authorized?: boolean;
  readonly readsPlain?: boolean;
  readonly producer?: string;
  readonly onRequest?: (request: HttpRequest, connection: TestConnection) => void;
}

export async function connected(given: Given = {}) {
  const clock = new VirtualClock();
  const socket = new MemorySocket(given.takes);
  socket.certificate = given.certificate;
  socket.authorized = given.authorized ?? false;
  const requests: HttpRequest[] = [];
  const waits: number[] = [];
  const told: string[] = [];
  const host: ConnectionHost<string | undefined, TestConnection> = {
    keepAlive: 'Keep-Alive: timeout=5\r\n',
    clock,
    handOver: new HandOver({ headerBytesMax: 16_384, idleTimeoutMs: LIMITS.idleTimeoutMs }, clock),
    readsPlain: given.readsPlain ?? true,
    turn: { awake: [], answered: 0 },
    handlers: {
      request: (connection, request) => {
        requests.push(request);
        given.onRequest?.(request, connection);
      },
      protocolFault: (fault) => {
        told.push(fault);
        return LAST;
      },
      producerOf: (producer) => producer,
    },
    waits: (_, bytes) => void waits.push(bytes),
    closed: () => void told.push('closed'),
  };
  const connection: TestConnection = new Connection(socket.asTls, host, '10.0.0.1', given.producer);
  await clock.settle();
  const send = async (text: string): Promise<void> => {
    socket.send(text);
    await clock.settle();
  };
  const answer = async (request = requests.at(-1), body = 'ok', close = false): Promise<void> => {
    if (request !== undefined)
      connection.respond(request, 'id', { status: 200, contentType: 'text/plain', body }, close);
    await clock.settle();
  };
  const check = async (): Promise<void> => {
    connection.check(clock.ms(), LIMITS);
    await clock.settle();
  };
  return { clock, socket, connection, host, requests, waits, told, send, answer, check };
}
