// A load on bare TLS sockets. With a rate, requests are due at that rate (an open loop). Without one, each connection's
// next request is due when the previous one was answered (a closed loop). Latency is measured from the due time, so a
// stalled server is charged with the delay of every waiting request.
//
// All due requests of a connection are sent in one write (HTTP/1.1 pipelining). This makes requests cheap enough to
// overload a server that runs on the other core.
//
// Runs in its own process: argv[2] contains LoadOptions as JSON, and the result is printed as one line of JSON. The
// lines `warm` and `done` on standard error mark the start and the end of the measured part.
import { setTimeout as wait } from 'node:timers/promises';
import type { LoadOptions } from './options.ts';
import { clientContext, openAll, RawConnection, type AnswerSink } from './raw-connection.ts';
import { Tally } from './tally.ts';
import { requestSource } from './workload.ts';

/** The interval at which due requests are sent. A request's latency includes the delay until then. */
const LOOK_MS = 1;
const DEPTH_MAX = 16;

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const ratePerMs = options.ratePerS === undefined ? undefined : options.ratePerS / 1000;
const secureContext = clientContext(options);
const nextRequest = requestSource(options);
const tally = new Tally();
let scheduled = false;
let stopped = false;

class PacedConnection implements AnswerSink {
  readonly connection = new RawConnection(options.port, secureContext, this);
  /** Due times, oldest first. `#answered` and `#sent` are indexes into this list. */
  #dueMs: number[] = [];
  #answered = 0;
  #sent = 0;

  add(dueMs: number): void {
    this.#dueMs.push(dueMs);
  }

  sendNow(): void {
    this.add(performance.now());
    this.write();
  }

  write(): void {
    let requests = '';
    const until = Math.min(this.#dueMs.length, this.#answered + DEPTH_MAX);
    for (; this.#sent < until; this.#sent += 1) requests += nextRequest();
    if (requests !== '') this.connection.socket.write(requests, 'latin1');
  }

  answered(status: string): void {
    if (!scheduled) return;
    tally.answered(status, (performance.now() - (this.#dueMs[this.#answered] ?? 0)) * 1000);
    this.#answered += 1;
    if (this.#answered > 1024) {
      this.#dueMs = this.#dueMs.slice(this.#answered);
      this.#sent -= this.#answered;
      this.#answered = 0;
    }
    if (ratePerMs === undefined && !stopped) this.sendNow();
  }

  closed(): void {
    if (!stopped) tally.broken();
  }
}

const connections = await openAll(options.connections, () => new PacedConnection(), nextRequest);
scheduled = true;
const startMs = performance.now();
let sent = 0;
let timer: NodeJS.Timeout | undefined;
if (ratePerMs === undefined) for (const connection of connections) connection.sendNow();
else
  timer = setInterval(() => {
    const now = performance.now();
    const due = Math.floor((now - startMs) * ratePerMs);
    for (; sent < due; sent += 1) {
      connections[sent % connections.length]?.add(startMs + sent / ratePerMs);
      tally.offered();
    }
    for (const connection of connections) connection.write();
  }, LOOK_MS);

await tally.run(options);
clearInterval(timer);
stopped = true;
for (const { connection } of connections) connection.socket.destroy();
await wait(50);
tally.tell();
