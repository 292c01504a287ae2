// An open-loop load generator on bare TLS sockets: requests are due at a fixed rate, whether answers come or not, and a
// latency counts from when its request was due. So a server that stalls is charged for all that had to wait.
//
// What is due since the last look goes out at once, round robin over the connections, several on one connection in
// one write (HTTP/1.1 pipelining): that makes a request cheap enough to offer more than the server can take from the
// other of two cores. Bodies of 503s are looked at: each must say `"retryable":true`.
import type { LoadOptions } from './options.ts';
import { clientContext, openAll, RawConnection, type AnswerSink } from './raw-connection.ts';
import { Tally, wait } from './tally.ts';
import { requestSource } from './workload.ts';

/** How often the schedule is looked at. A request leaves at most this late, and that is part of its latency. */
const LOOK_MS = 2;
/** Less than this part of the planned rate offered is a run that did not do what it says. */
const OFFERED_MIN = 0.98;
const DEPTH_MAX = 16;

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const ratePerMs = (options.ratePerS ?? 1000) / 1000;
const secureContext = clientContext(options);
const nextRequest = requestSource(options);
const tally = new Tally();
let scheduled = false;
let stopped = false;

class PacedConnection implements AnswerSink {
  readonly connection = new RawConnection(options.port, secureContext, this);
  /** When each request was due, oldest first; `#answered` and `#sent` are places in it. */
  #dueMs: number[] = [];
  #answered = 0;
  #sent = 0;

  add(dueMs: number): void {
    this.#dueMs.push(dueMs);
  }

  /** Sends what is due and may go. */
  write(): void {
    let requests = '';
    const until = Math.min(this.#dueMs.length, this.#answered + DEPTH_MAX);
    for (; this.#sent < until; this.#sent += 1) requests += nextRequest();
    if (requests !== '') this.connection.socket.write(requests, 'latin1');
  }

  answered(status: string, text: string): void {
    if (!scheduled) return;
    tally.answered(status, (performance.now() - (this.#dueMs[this.#answered] ?? 0)) * 1000);
    this.#answered += 1;
    if (this.#answered > 1024) {
      this.#dueMs = this.#dueMs.slice(this.#answered);
      this.#sent -= this.#answered;
      this.#answered = 0;
    }
    if (status === '503' && !text.includes('"retryable":true')) tally.unretryable();
  }

  closed(): void {
    if (!stopped) tally.broken();
  }
}

const connections = await openAll(options.connections, () => new PacedConnection(), nextRequest);
scheduled = true;
const startMs = performance.now();
let sent = 0;
const timer = setInterval(() => {
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
tally.noteOffer(options, OFFERED_MIN);
tally.tell();
