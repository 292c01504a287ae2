// Client connections that only occupy places and reconnect when they are closed. They run in a worker thread, so that
// they do not slow down the test.
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { atEnd } from './scope.ts';

/**
 * A `silent` client sends nothing, a `stalled` client sends half a ClientHello, and an `unauthenticated` client
 * connects without a certificate.
 */
export type StrangerKind = 'silent' | 'stalled' | 'unauthenticated';

interface Strangers {
  readonly port: number;
  readonly count: number;
  readonly kind: StrangerKind;
}

/** The beginning of a TLS record that announces a ClientHello of 512 bytes. */
const HALF_A_HELLO = Buffer.from('1603010200010001fc0303', 'hex');

/** The pause before reconnecting: short enough to find each free place, long enough not to overload the machine. */
const AGAIN_MS = 25;

export function holdConnections(port: number, count: number, kind: StrangerKind): { end(): Promise<void> } {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { strangers: { port, count, kind } satisfies Strangers },
    execArgv: [],
  });
  const end = async (): Promise<void> => void (await worker.terminate());
  atEnd(end);
  return { end };
}

function hold({ port, count, kind }: Strangers): void {
  const at = { host: '127.0.0.1', port };
  const open = (): void => {
    const socket: Socket =
      kind === 'unauthenticated' ? connectTls({ ...at, rejectUnauthorized: false }) : connectTcp(at);
    if (kind === 'stalled') socket.write(HALF_A_HELLO);
    socket.on('error', () => undefined).on('close', () => setTimeout(open, AGAIN_MS));
    socket.resume();
  };
  for (let opened = 0; opened < count; opened += 1) open();
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'strangers' in workerData)
  hold((workerData as { readonly strangers: Strangers }).strangers);
