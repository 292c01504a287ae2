// A load on bare TLS sockets. With a rate, requests are due at that rate (an open loop). Without one, each connection's
// next request is due when the previous one was answered (a closed loop). Latency is measured from the due time, so a
// stalled server is charged with the delay of every waiting request.
//
// All due requests of a connection are sent in one write (HTTP/1.1 pipelining). This makes requests cheap enough to
// overload a server that runs on the other core.
import type { LoadOptions, LoadResult } from './options.ts';
import { clientContext, openAll, RawConnection, type AnswerSink } from './raw-connection.ts';
import { Tally, type Marks } from './tally.ts';
import { requestSource } from './workload.ts';

/** The interval at which due requests are sent. A request's latency includes the delay until then. */
const LOOK_MS = 1;
const DEPTH_MAX = 16;

export class PacedLoad {
  readonly #connections: readonly PacedConnection[];
  readonly #load: State;

  private constructor(load: State, connections: readonly PacedConnection[]) {
    this.#load = load;
    this.#connections = connections;
  }

  static async open(options: LoadOptions): Promise<PacedLoad> {
    const [context, nextRequest] = [clientContext(options), requestSource(options)];
    const load: State = { options, nextRequest, tally: new Tally(), phase: 'opening' };
    const connect = (sink: AnswerSink): RawConnection => new RawConnection(options.port, context, sink);
    return new PacedLoad(
      load,
      await openAll(options.connections, () => new PacedConnection(load, connect), nextRequest),
    );
  }

  /** Sends until the warm-up and the measured part have passed, then closes the connections. */
  async run(marks: Marks): Promise<LoadResult> {
    const { options, tally } = this.#load;
    this.#load.phase = 'running';
    const timer = options.ratePerS === undefined ? this.#sendEach() : this.#sendDue(options.ratePerS / 1000);
    const done = (): void => {
      const nowMs = performance.now();
      for (const connection of this.#connections) connection.tellUnanswered(nowMs);
      marks.done();
    };
    await tally.run(options, { ...marks, done });
    clearInterval(timer);
    this.#load.phase = 'stopped';
    for (const { connection } of this.#connections) connection.socket.destroy();
    return tally.result();
  }

  #sendEach(): undefined {
    for (const connection of this.#connections) connection.sendNow();
  }

  #sendDue(ratePerMs: number): NodeJS.Timeout {
    const startMs = performance.now();
    let sent = 0;
    return setInterval(() => {
      const due = Math.floor((performance.now() - startMs) * ratePerMs);
      for (; sent < due; sent += 1) {
        this.#connections[sent % this.#connections.length]?.add(startMs + sent / ratePerMs);
        this.#load.tally.offered();
      }
      for (const connection of this.#connections) connection.write();
    }, LOOK_MS);
  }
}

/** Shared by the connections of one load. */
interface State {
  readonly options: LoadOptions;
  readonly nextRequest: () => string;
  readonly tally: Tally;
  phase: 'opening' | 'running' | 'stopped';
}

class PacedConnection implements AnswerSink {
  readonly connection: RawConnection;
  readonly #load: State;
  /** Due times, oldest first. `#answered` and `#sent` are indexes into this list. */
  #dueMs: number[] = [];
  #answered = 0;
  #sent = 0;

  constructor(load: State, connect: (sink: AnswerSink) => RawConnection) {
    this.#load = load;
    this.connection = connect(this);
  }

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
    for (; this.#sent < until; this.#sent += 1) requests += this.#load.nextRequest();
    if (requests !== '') this.connection.socket.write(requests, 'latin1');
  }

  answered(status: string): void {
    const { tally, phase, options } = this.#load;
    if (phase === 'opening') return;
    tally.answered(status, performance.now() - (this.#dueMs[this.#answered] ?? 0));
    this.#answered += 1;
    if (this.#answered > 1024) {
      this.#dueMs = this.#dueMs.slice(this.#answered);
      this.#sent -= this.#answered;
      this.#answered = 0;
    }
    if (options.ratePerS === undefined && phase === 'running') this.sendNow();
  }

  closed(): void {
    if (this.#load.phase !== 'stopped') this.#load.tally.broken();
  }

  tellUnanswered(nowMs: number): void {
    for (const dueMs of this.#dueMs.slice(this.#answered)) this.#load.tally.unanswered(nowMs - dueMs);
  }
}
