// One client that sends as much as the server takes, on many connections, and reads all of its answers or none. A
// connection that is closed is opened anew. Says `ready` when all stand, and goes on until it is ended.
import { readFileSync } from 'node:fs';
import { connect, createSecureContext } from 'node:tls';
import type { FloodOptions } from './options.ts';
import { eventBody, postRequest } from './workload.ts';

const REQUESTS_A_WRITE = 2_500;
/** Before a connection that was refused or cut is opened anew. */
const REOPEN_MS = 100;

const { port, caPath, certPath, keyPath, connections, largeBytes, opening, request, reads } = JSON.parse(
  process.argv[2] ?? '{}',
) as FloodOptions;
const secureContext = createSecureContext({
  ca: readFileSync(caPath),
  ...(certPath === undefined ? {} : { cert: readFileSync(certPath) }),
  ...(keyPath === undefined ? {} : { key: readFileSync(keyPath) }),
});
const text = Buffer.from(request.repeat(REQUESTS_A_WRITE), 'latin1');
let standing = 0;

function open(first: boolean): void {
  const socket = connect({ host: '127.0.0.1', port, secureContext });
  socket.on('error', () => undefined);
  socket.once('close', () => setTimeout(open, REOPEN_MS, false));
  socket.once('secureConnect', () => {
    if (reads) socket.resume();
    else socket.pause();
    if (opening !== '') socket.write(opening, 'latin1');
    const send = (): void => {
      while (socket.write(text));
      socket.once('drain', send);
    };
    send();
    if (first && (standing += 1) === connections) process.stdout.write('ready\n');
  });
}

if (largeBytes !== undefined)
  await new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, secureContext }, () =>
      socket.write(postRequest(eventBody('large', largeBytes)), 'latin1'),
    );
    socket.once('error', reject);
    socket.once('data', (answer: Buffer) => {
      socket.destroy();
      if (answer.toString('latin1', 9, 12) === '202') resolve(undefined);
      else reject(new Error(answer.toString('latin1')));
    });
  });
for (let at = 0; at < connections; at += 1) open(true);
