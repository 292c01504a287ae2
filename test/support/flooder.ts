// Opens many connections, sends the same text on each, and reads all answers or none. It runs in a worker thread, so
// that it does not slow down the measurements of the test.
import { connect, createSecureContext, type ConnectionOptions } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { atEnd } from './scope.ts';

export interface Flood {
  readonly connections: number;
  readonly text: string;
  /** Text that follows, each byte in a TLS record of its own. */
  readonly records?: string;
  readonly reads: boolean;
  readonly tls: Pick<ConnectionOptions, 'port' | 'ca' | 'cert' | 'key'>;
}

/** Resolves when all connections are open and have written their text. */
export async function flood(flood: Flood): Promise<{ end(): Promise<void> }> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { flood }, execArgv: [] });
  const end = async (): Promise<void> => void (await worker.terminate());
  atEnd(end);
  await new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return { end };
}

function send({ connections, text, records = '', reads, tls: { port, ...files } }: Flood): void {
  const secureContext = createSecureContext(files);
  let standing = 0;
  for (let at = 0; at < connections; at += 1) {
    const socket = connect({ host: '127.0.0.1', port, secureContext });
    socket.on('error', () => undefined);
    socket.once('secureConnect', () => {
      if (reads) socket.resume();
      else socket.pause();
      socket.write(text, 'latin1');
      for (const byte of records) socket.write(byte, 'latin1');
      standing += 1;
      if (standing === connections) parentPort?.postMessage('standing');
    });
  }
}

if (!isMainThread && typeof workerData === 'object' && workerData !== null && 'flood' in workerData)
  send((workerData as { readonly flood: Flood }).flood);
