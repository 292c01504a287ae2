// A producer that sends at a constant rate over keep-alive connections and never retries.
import { event, type TestClient } from '../support/gateway.ts';

const TICK_MS = 5;
/** The most requests in flight. A machine that cannot sustain the rate reaches it, and `perSecond` then falls short. */
const UNDER_WAY_MAX = 500;

export class PacedLoad {
  readonly accepted: string[] = [];
  /** Answers other than 202, and requests without an answer. */
  readonly failures: string[] = [];
  slowestMs = 0;
  readonly #client: TestClient;
  readonly #underWay = new Set<Promise<void>>();
  readonly #startMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #stoppedMs: number | undefined;
  #sent = 0;

  constructor(client: TestClient, perSecond: number) {
    this.#client = client;
    this.#timer = setInterval(() => {
      const due = Math.floor(((performance.now() - this.#startMs) / 1000) * perSecond);
      while (this.#sent < due && this.#underWay.size < UNDER_WAY_MAX) this.#post(`event-${this.#sent++}`);
    }, TICK_MS);
  }

  get sent(): number {
    return this.#sent;
  }

  get perSecond(): number {
    return this.#sent / (((this.#stoppedMs ?? performance.now()) - this.#startMs) / 1000);
  }

  async stop(): Promise<this> {
    clearInterval(this.#timer);
    this.#stoppedMs ??= performance.now();
    await Promise.all(this.#underWay);
    return this;
  }

  #post(id: string): void {
    const start = performance.now();
    const done = this.#client
      .post(event(id))
      .then(
        ({ status, body }) => {
          if (status === 202) this.accepted.push(id);
          else this.failures.push(`${id}: ${status} ${body}`);
        },
        (cause: unknown) => void this.failures.push(`${id}: ${String(cause)}`),
      )
      .finally(() => {
        this.slowestMs = Math.max(this.slowestMs, performance.now() - start);
        this.#underWay.delete(done);
      });
    this.#underWay.add(done);
  }
}
