// Many client connections of one kind. They run in a worker thread, so that they do not slow down the test.
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type ConnectionOptions } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { atEnd } from './scope.ts';

interface Crowd {
  readonly port: number;
  readonly connections: number;
  /** Without it, the clients do not begin TLS. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key'> | undefined;
  /** Text that each client sends once it is connected. */
  readonly text?: string;
  /** Text that follows, each byte in a TLS record of its own. */
  readonly records?: string;
  readonly reads: boolean;
  readonly reconnects?: boolean;
}

/** Resolves when all connections were open, and have sent their text. */
export async function gather(crowd: Crowd): Promise<{ end(): Promise<void> }> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { crowd }, execArgv: [] });
  const end = async (): Promise<void> => void (await worker.terminate());
  atEnd(end);
  if (crowd.reconnects !== true) await once(worker, 'message');
  return { end };
}

/** The beginning of a TLS record that announces a ClientHello of 512 bytes. */
const HALF_A_HELLO = Buffer.from('1603010200010001fc0303', 'hex').toString('latin1');

/**
 * Clients that only occupy places and reconnect when they are closed: a `silent` one sends nothing, a `stalled` one
 * sends half a ClientHello, and an `unauthenticated` one connects without a certificate.
 */
export const strangers = (port: number, connections: number, kind: 'silent' | 'stalled' | 'unauthenticated') =>
  gather({
    ...{ port, connections, reads: true, reconnects: true },
    ...(kind === 'unauthenticated' && { tls: {} }),
    ...(kind === 'stalled' && { text: HALF_A_HELLO }),
  });

/** The pause before reconnecting: short enough to find each free place, long enough not to overload the machine. */
const AGAIN_MS = 25;

function run({ port, connections, tls, text = '', records = '', reads, reconnects = false }: Crowd): void {
  const to = { host: '127.0.0.1', port };
  const secureContext = tls && createSecureContext(tls);
  let standing = 0;
  const open = (): void => {
    const socket: Socket = secureContext
      ? connectTls({ ...to, secureContext, rejectUnauthorized: false })
      : connectTcp(to);
    socket.on('error', () => undefined);
    if (reconnects) socket.on('close', () => setTimeout(open, AGAIN_MS));
    if (reads) socket.resume();
    else socket.pause();
    socket.once(secureContext ? 'secureConnect' : 'connect', () => {
      socket.write(text, 'latin1');
      for (const byte of records) socket.write(byte, 'latin1');
      standing += 1;
      if (standing === connections) parentPort?.postMessage('standing');
    });
  };
  for (let opened = 0; opened < connections; opened += 1) open();
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'crowd' in workerData)
  run((workerData as { readonly crowd: Crowd }).crowd);
