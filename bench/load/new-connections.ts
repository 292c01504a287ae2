// A closed loop with a new TLS connection for each request. With `resume`, each connection offers the session of the
// previous connection. If the server does not resume that session, the connection counts as broken, because it would
// measure a full handshake.
import { setTimeout as wait } from 'node:timers/promises';
import type { LoadOptions } from './options.ts';
import { clientContext, RawConnection } from './raw-connection.ts';
import { Tally } from './tally.ts';
import { requestSource } from './workload.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const secureContext = clientContext(options);
const nextRequest = requestSource(options);
const tally = new Tally();
let stopped = false;

/** Sends one request on a new connection. Resolves to the session that the next connection offers. */
function once(session: Buffer | undefined): Promise<Buffer | undefined> {
  return new Promise((done) => {
    const beganMs = performance.now();
    let status = '0';
    let granted = session;
    const { socket } = new RawConnection(
      options.port,
      secureContext,
      {
        answered: (answered) => {
          status = answered;
          if (session === undefined || socket.isSessionReused())
            tally.answered(status, (performance.now() - beganMs) * 1000);
          else tally.broken();
          socket.end();
        },
        closed: () => {
          if (status === '0' && !stopped) tally.broken();
          done(options.resume === true ? granted : undefined);
        },
      },
      session === undefined ? {} : { session },
    );
    socket.on('session', (ticket: Buffer) => (granted = ticket));
    socket.once('secureConnect', () => socket.write(nextRequest(), 'latin1'));
  });
}

async function loop(): Promise<void> {
  let session: Buffer | undefined;
  while (!stopped) session = await once(session);
}

const loops = Array.from({ length: options.connections }, loop);
await tally.run(options);
stopped = true;
await Promise.race([Promise.all(loops), wait(2_000)]);
tally.tell();
