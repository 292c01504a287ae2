// A closed loop to one server that can be switched on and off. It runs in the measuring process.
//
// Invariant: when `run` resolves, every request has been answered, so all the CPU time that the server used during
// the run belongs to the counted answers.
import type { ClientFiles, LoadOptions } from './options.ts';
import { clientContext, openAll, RawConnection, type AnswerSink } from './raw-connection.ts';
import { requestSource } from './workload.ts';

interface Options extends ClientFiles, Pick<LoadOptions, 'port' | 'connections' | 'bodyBytes'> {
  /** The number of requests in flight on each connection. */
  readonly depth: number;
}

export class SwitchedLoad {
  readonly #loops: SwitchedLoop[];

  private constructor(loops: SwitchedLoop[]) {
    this.#loops = loops;
  }

  static async open(options: Options): Promise<SwitchedLoad> {
    const [context, nextRequest] = [clientContext(options), requestSource(options)];
    const open = (): SwitchedLoop =>
      new SwitchedLoop((sink) => new RawConnection(options.port, context, sink), nextRequest, options.depth);
    return new SwitchedLoad(await openAll(options.connections, open, nextRequest));
  }

  /**
   * Sends requests for `ms` milliseconds, waits for the last answer and returns the number of answers. Rejects if an
   * answer is not 202 or a connection breaks.
   */
  async run(ms: number): Promise<number> {
    const untilMs = performance.now() + ms;
    const counts = await Promise.all(this.#loops.map((loop) => loop.run(untilMs)));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** The number of connections that the server has closed. */
  get broken(): number {
    return this.#loops.filter(({ connection }) => connection.socket.destroyed).length;
  }

  close(): void {
    for (const { connection } of this.#loops) connection.socket.destroy();
  }
}

class SwitchedLoop implements AnswerSink {
  readonly connection: RawConnection;
  readonly #nextRequest: () => string;
  readonly #depth: number;
  #open = 0;
  #outgoing = '';
  #untilMs = 0;
  #count = 0;
  #done: (count: number) => void = () => undefined;
  #failed: (cause: Error) => void = () => undefined;

  constructor(connect: (sink: AnswerSink) => RawConnection, nextRequest: () => string, depth: number) {
    this.connection = connect(this);
    this.#nextRequest = nextRequest;
    this.#depth = depth;
  }

  run(untilMs: number): Promise<number> {
    this.#untilMs = untilMs;
    this.#count = 0;
    // `openAll` sends a request that is not counted here, so its answer leaves this count negative.
    this.#open = 0;
    return new Promise((resolve, reject) => {
      this.#done = resolve;
      this.#failed = reject;
      // The connection may have broken since the last slice.
      if (this.connection.socket.destroyed) this.closed();
      else for (let at = 0; at < this.#depth; at += 1) this.#send();
    });
  }

  answered(status: string): void {
    this.#count += 1;
    this.#open -= 1;
    if (status !== '202') this.#failed(new Error(`an answer ${status}`));
    else if (performance.now() < this.#untilMs) this.#send();
    else if (this.#open === 0) this.#done(this.#count);
  }

  closed(): void {
    this.#failed(new Error('a broken connection'));
  }

  #send(): void {
    this.#open += 1;
    // All requests of one turn of the event loop are sent in one write, as by a pipelining producer.
    if (this.#outgoing === '')
      process.nextTick(() => {
        this.connection.socket.write(this.#outgoing, 'latin1');
        this.#outgoing = '';
      });
    this.#outgoing += this.#nextRequest();
  }
}
