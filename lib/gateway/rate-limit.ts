// The generic cell rate algorithm (GCRA, ITU-T I.371), with one number for each producer.
//
// A producer with rate R may send R events in one moment, and R a second after that. The limit is that of one process:
// n processes allow n times as much, and a restart forgets all use.

/** The verdict on one event. Times are in seconds, rounded up. */
export interface QuotaVerdict {
  readonly allowed: boolean;
  /** Events a second. */
  readonly rate: number;
  /** Events that may follow immediately. */
  readonly remaining: number;
  /** Until the whole quota is available again. */
  readonly resetS: number;
  /** Until the next event is allowed; 0 if this one is. */
  readonly retryAfterS: number;
}

/** One moment may use as much of a quota as one second returns. */
const WINDOW_MS = 1_000;
const SWEEP_AT = 10_000;

export class RateLimit {
  /** The times at which the producers' whole quotas are available (GCRA's theoretical arrival time). */
  readonly #fullAtMs = new Map<string, number>();
  #sweepAt = SWEEP_AT;

  /** Counts one event, unless it is over the rate. `nowMs` is that of `Clock.ms()`. */
  take(producer: string, rate: number, nowMs: number): QuotaVerdict {
    const costMs = 1_000 / rate;
    const burstMs = burstOf(costMs);
    const usedMs = this.#usedMs(producer, nowMs);
    // Half a microsecond absorbs rounding, so that the last event of a quota is allowed.
    if (usedMs + costMs > burstMs + 0.0005) {
      return {
        allowed: false,
        rate,
        remaining: 0,
        resetS: Math.ceil(usedMs / 1000),
        retryAfterS: Math.max(1, Math.ceil((usedMs + costMs - burstMs) / 1000)),
      };
    }
    return this.charge(producer, rate, 1, nowMs);
  }

  /** Counts so many events, even over the quota. */
  charge(producer: string, rate: number, events: number, nowMs: number): QuotaVerdict {
    const costMs = 1_000 / rate;
    if (!this.#fullAtMs.has(producer)) this.#sweep(nowMs);
    const usedMs = this.#usedMs(producer, nowMs) + events * costMs;
    this.#fullAtMs.set(producer, nowMs + usedMs);
    const remaining = Math.max(0, Math.floor((burstOf(costMs) - usedMs) / costMs + 1e-6));
    return { allowed: true, rate, remaining, resetS: Math.ceil(usedMs / 1000), retryAfterS: 0 };
  }

  get size(): number {
    return this.#fullAtMs.size;
  }

  #usedMs(producer: string, nowMs: number): number {
    return Math.max(0, (this.#fullAtMs.get(producer) ?? nowMs) - nowMs);
  }

  #sweep(nowMs: number): void {
    if (this.#fullAtMs.size < this.#sweepAt) return;
    for (const [producer, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(producer);
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#fullAtMs.size);
  }
}

/** The part of a quota that one moment may use: at least one event. */
const burstOf = (costMs: number): number => Math.max(WINDOW_MS, costMs);

/** The fields of an answer to a limited producer (draft-ietf-httpapi-ratelimit-headers-10). */
export function rateLimitFields({ rate, remaining, resetS }: QuotaVerdict): readonly string[] {
  // The draft allows whole numbers only. They never exceed the rate.
  const [quota, windowS] = rate < 1 ? [1, Math.ceil(1 / rate)] : [Math.floor(rate), 1];
  const policy = `"producer";q=${quota};w=${windowS}`;
  return ['RateLimit-Policy', policy, 'RateLimit', `"producer";r=${remaining};t=${resetS}`];
}
