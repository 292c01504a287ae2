// Clients that send many TLS records of one byte simultaneously. A worker thread encrypts the records beforehand.
import { connect as connectTcp } from 'node:net';
import { once } from 'node:events';
import { Duplex } from 'node:stream';
import { connect, type ConnectionOptions } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { atEnd } from './scope.ts';

export interface ShortRecords {
  readonly connections: number;
  /** Text sent immediately, in one piece. */
  readonly first: string;
  /** Text sent after `release`, in records of one byte. */
  readonly text: string;
  readonly tls: Pick<ConnectionOptions, 'port' | 'ca'>;
}

/** Resolves when all connections are open and have sent `first`. */
export async function holdShortRecords(held: ShortRecords): Promise<{ release(): void }> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { held }, execArgv: [] });
  atEnd(async () => void (await worker.terminate()));
  await new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return { release: () => worker.postMessage('release') };
}

async function prepare({ first, text, tls: { port = 0, ca } }: ShortRecords): Promise<() => void> {
  const below = connectTcp(Number(port), '127.0.0.1');
  below.on('error', () => undefined);
  const encrypted: Buffer[] = [];
  let holds = false;
  const stream = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      if (holds) encrypted.push(Buffer.from(chunk));
      else below.write(chunk);
      done();
    },
  });
  below.on('data', (chunk) => {
    if (!stream.push(chunk)) below.pause();
  });
  const socket = connect({ socket: stream, ca, servername: 'localhost' });
  await once(socket, 'secureConnect');
  socket.pause();
  await new Promise<unknown>((resolve) => socket.write(first, 'latin1', resolve));
  holds = true;
  for (const byte of text) await new Promise<unknown>((resolve) => socket.write(byte, 'latin1', resolve));
  return () => void below.write(Buffer.concat(encrypted));
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'held' in workerData) {
  const { held } = workerData as { readonly held: ShortRecords };
  const releases: (() => void)[] = [];
  for (let at = 0; at < held.connections; at += 1) releases.push(await prepare(held));
  parentPort?.on('message', () => {
    for (const release of releases) release();
  });
  parentPort?.postMessage('standing');
}
