// A closed loop on bare TLS sockets. Each connection sends its next request after the answer to the previous one.
//
// Runs in its own process: argv[2] contains LoadOptions as JSON, and the result is printed as one line of JSON. The
// lines `warm` and `done` on standard error mark the start and the end of the measured part.
import type { LoadOptions } from './options.ts';
import { clientContext, openAll, RawConnection, type AnswerSink } from './raw-connection.ts';
import { Tally, wait } from './tally.ts';
import { requestSource } from './workload.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const secureContext = clientContext(options);
const nextRequest = requestSource(options);
const tally = new Tally();
let looping = false;
let stopped = false;

class ClosedLoop implements AnswerSink {
  readonly connection = new RawConnection(options.port, secureContext, this);
  #sentMs = 0;

  send(): void {
    this.#sentMs = performance.now();
    this.connection.socket.write(nextRequest(), 'latin1');
  }

  answered(status: string): void {
    tally.answered(status, (performance.now() - this.#sentMs) * 1000);
    if (!looping) return;
    if (stopped) this.connection.socket.end();
    else this.send();
  }

  closed(): void {
    if (!stopped) tally.broken();
  }
}

const loops = await openAll(options.connections, () => new ClosedLoop(), nextRequest);
looping = true;
for (const loop of loops) loop.send();
await tally.run(options);
stopped = true;
await Promise.race([Promise.all(loops.map(({ connection }) => connection.ended)), wait(2_000)]);
tally.tell();
