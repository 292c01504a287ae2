// The generic cell rate algorithm (GCRA, ITU-T I.371), with one number per producer.
//
// A producer with rate R may send R events at once, and R per second after that. The limit applies to one process: n
// processes allow n times as much, and a restart resets it.

/** The verdict on one event. Times are in seconds, rounded up. */
export interface QuotaVerdict {
  readonly allowed: boolean;
  /** Events per second. */
  readonly rate: number;
  /** Events that may follow immediately. */
  readonly remaining: number;
  /** Time until the whole quota is available again. */
  readonly resetS: number;
  /** Time until the next event is allowed; 0 if this one is. */
  readonly retryAfterS: number;
}

/** A burst may use as much of a quota as one second restores. */
const WINDOW_MS = 1_000;
const SWEEP_AT = 10_000;

export class RateLimit {
  /** When each producer's whole quota is available again (GCRA's theoretical arrival time). */
  readonly #fullAtMs = new Map<string, number>();
  #sweepAt = SWEEP_AT;

  /** Charges one event, unless it is over the rate. `nowMs` is from `Clock.ms()`. */
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

  /** Charges `events` events, even beyond the quota. */
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

/** The part of a quota that a burst may use, in milliseconds. It is enough for at least one event. */
const burstOf = (costMs: number): number => Math.max(WINDOW_MS, costMs);

/** Returns header fields for an answer to a rate-limited producer (draft-ietf-httpapi-ratelimit-headers-10). */
export function rateLimitFields({ rate, remaining, resetS }: QuotaVerdict): readonly string[] {
  // The draft allows only whole numbers, so the announced rate is rounded down.
  const [quota, windowS] = rate < 1 ? [1, Math.ceil(1 / rate)] : [Math.floor(rate), 1];
  const policy = `"producer";q=${quota};w=${windowS}`;
  return ['RateLimit-Policy', policy, 'RateLimit', `"producer";r=${remaining};t=${resetS}`];
}
