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
  readonly #done: Promise<unknown>;

  constructor(client: TestClient, prefix: string, connections: number, pauseMs = 0) {
    this.#done = Promise.all(Array.from({ length: connections }, () => this.#work(client, prefix, pauseMs)));
    atEnd(async () => void (await this.stop()));
  }

  get sent(): number {
    return this.#sent;
  }

  get statuses(): number[] {
    return [...new Set(this.replies.map(({ status }) => status))].sort();
  }

  more(count: number): Promise<boolean> {
    const wanted = this.replies.length + count;
    return eventually(`${count} more answers`, () => this.replies.length >= wanted);
  }

  async stop(): Promise<this> {
    this.#stopped = true;
    await this.#done;
    return this;
  }

  async #work(client: TestClient, prefix: string, pauseMs: number): Promise<void> {
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
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      else await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
