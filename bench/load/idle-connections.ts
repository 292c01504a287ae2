// Opens connections, sends one request on each, prints `ready` and keeps them open.
import type { LoadOptions } from './options.ts';
import { clientContext, RawConnection } from './raw-connection.ts';
import { requestSource } from './workload.ts';

const AT_ONCE = 50;

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const secureContext = clientContext(options);
const nextRequest = requestSource(options);

function open(): Promise<void> {
  return new Promise((resolve, reject) => {
    const { socket } = new RawConnection(options.port, secureContext, {
      answered: () => resolve(),
      closed: () => reject(new Error('a connection was closed')),
    });
    socket.once('secureConnect', () => socket.write(nextRequest(), 'latin1'));
  });
}

for (let at = 0; at < options.connections; at += AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, options.connections - at) }, open));
}
process.stdout.write('ready\n');
