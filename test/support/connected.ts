// One connection on a socket in memory, in virtual time, of a host that keeps what it is told.
import { Connection, type ConnectionHost } from '../../lib/http/connection.ts';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { MemorySocket } from './memory-socket.ts';
import { VirtualClock } from './virtual-clock.ts';

export const LIMITS = { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000, idleTimeoutMs: 5_000 };
/** What a host answers to a head that could not be read. */
export const LAST = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';
export const CERTIFICATE = {};

interface Given {
  /** What the client does not take waits. */
  readonly takes?: boolean;
  readonly certificate?: unknown;
  readonly authorized?: boolean;
  readonly readsPlain?: boolean;
  /** Whether the producer may have another connection. */
  readonly known?: boolean;
  readonly onRequest?: (request: HttpRequest) => void;
}

/** A connection of a host that keeps what it is told. */
export async function connected(given: Given = {}) {
  const clock = new VirtualClock();
  const socket = new MemorySocket(given.takes);
  socket.certificate = given.certificate;
  socket.authorized = given.authorized ?? false;
  const requests: HttpRequest[] = [];
  const waits: [holder: string, bytes: number][] = [];
  const told: string[] = [];
  const host: ConnectionHost<string> = {
    keepAlive: 'Keep-Alive: timeout=5\r\n',
    clock,
    handOver: new HandOver({ headerBytesMax: 16_384, idleTimeoutMs: LIMITS.idleTimeoutMs }, clock),
    readsPlain: given.readsPlain ?? true,
    wake: (woken) => {
      told.push('wake');
      clock.turnEnd(() => woken.flush());
    },
    request: (_, request) => {
      requests.push(request);
      given.onRequest?.(request);
    },
    mayReadOn: () => true,
    protocolFault: (fault) => {
      told.push(fault);
      return LAST;
    },
    known: () => given.known ?? true,
    waits: (_, holder, bytes) => void waits.push([holder, bytes]),
    closed: () => void told.push('closed'),
  };
  const connection = new Connection(socket.asTls, host, '10.0.0.1', 'context');
  await clock.settle();
  const send = async (text: string): Promise<void> => {
    socket.send(text);
    await clock.settle();
  };
  const answer = async (request = requests.at(-1), body = 'ok', close = false): Promise<void> => {
    request?.respond('id', { status: 200, contentType: 'text/plain', body }, close);
    await clock.settle();
  };
  const check = async (): Promise<void> => {
    connection.check(clock.ms(), LIMITS);
    await clock.settle();
  };
  const wakes = (): number => told.filter((what) => what === 'wake').length;
  return { clock, socket, connection, requests, waits, told, send, answer, check, wakes };
}
