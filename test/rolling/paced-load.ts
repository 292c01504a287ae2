// A producer with an even rate and kept connections that never retries.
import { event, type TestClient } from '../support/gateway.ts';

const TICK_MS = 5;
/** With more unanswered requests the machine cannot carry the rate: the load slows down, and `perSecond` shows it. */
const UNDER_WAY_MAX = 500;

export class PacedLoad {
  readonly accepted: string[] = [];
  /** Every other answer, and every request without one. */
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

  /** Resolves when every request has ended. */
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
