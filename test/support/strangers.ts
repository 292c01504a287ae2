// Connections of clients that want nothing but to be there: each is opened anew soon after it was closed. They live in
// a worker thread, so that the test's own clients are not slower than they are.
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { atEnd } from './scope.ts';

/**
 * `silent`: no byte is sent; `stalled`: the beginning of a ClientHello; `nameless`: a handshake without a certificate.
 */
export type StrangerKind = 'silent' | 'stalled' | 'nameless';

interface Strangers {
  readonly port: number;
  readonly count: number;
  readonly kind: StrangerKind;
}

/** A TLS record that announces 512 bytes of a ClientHello, and its first ones. */
const HALF_A_HELLO = Buffer.from('1603010200010001fc0303', 'hex');

/**
 * As many as are too many knock so often: often enough to find each place that is free, without filling the machine.
 */
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
    const socket: Socket = kind === 'nameless' ? connectTls({ ...at, rejectUnauthorized: false }) : connectTcp(at);
    if (kind === 'stalled') socket.write(HALF_A_HELLO);
    socket.on('error', () => undefined).on('close', () => setTimeout(open, AGAIN_MS));
    socket.resume();
  };
  for (let opened = 0; opened < count; opened += 1) open();
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'strangers' in workerData)
  hold((workerData as { readonly strangers: Strangers }).strangers);
