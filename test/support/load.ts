// A load that never retries.
import type { Reply, RequestFailed, TestClient } from './gateway.ts';
import { event } from './gateway.ts';
import { atEnd, eventually } from './scope.ts';

export class Load {
  readonly replies: Reply[] = [];
  readonly errors: RequestFailed[] = [];
  readonly accepted: string[] = [];
  slowestMs = 0;
  #stopped = false;
  #sent = 0;
  readonly #startMs = performance.now();
  readonly #done: Promise<unknown>;

  /** After an event, each connection pauses for `pauseMs`, or if `paced`, until `pauseMs` after it began the event. */
  constructor(client: TestClient, prefix: string, connections: number, pauseMs = 0, paced = false) {
    this.#done = Promise.all(Array.from({ length: connections }, () => this.#work(client, prefix, pauseMs, paced)));
    atEnd(async () => void (await this.stop()));
  }

  get sent(): number {
    return this.#sent;
  }

  get perSecond(): number {
    return this.#sent / ((performance.now() - this.#startMs) / 1000);
  }

  /** Answers other than 202, and requests without an answer. */
  get failures(): readonly string[] {
    const refused = this.replies.filter(({ status }) => status !== 202).map(({ status, body }) => `${status} ${body}`);
    return [...refused, ...this.errors.map(String)];
  }

  get statuses(): number[] {
    return [...new Set(this.replies.map(({ status }) => status))].sort();
  }

  more(count: number): Promise<boolean> {
    const wanted = this.replies.length + count;
    return eventually(`${count} more answers`, () => this.replies.length >= wanted, 60_000);
  }

  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  async #work(client: TestClient, prefix: string, pauseMs: number, paced: boolean): Promise<void> {
    while (!this.#stopped) {
      const id = `${prefix}-${this.#sent++}`;
      const start = performance.now();
      try {
        const reply = await client.post(event(id));
        this.slowestMs = Math.max(this.slowestMs, performance.now() - start);
        this.replies.push(reply);
        if (reply.status === 202) this.accepted.push(id);
      } catch (cause) {
        this.errors.push(cause as RequestFailed);
      }
      // The load must leave processor time for other programs.
      const leftMs = paced ? pauseMs - (performance.now() - start) : pauseMs;
      if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
      else await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
