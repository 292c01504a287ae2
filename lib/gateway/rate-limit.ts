// How many events a producer may send: the generic cell rate algorithm (GCRA, ITU-T I.371), one number for each
// producer.
//
// A producer with rate R may send R events at once, and R a second after that. Limits: per process, so n processes
// behind one name allow n times as much; a restart forgets what was used. Producers that have their whole quota back
// are forgotten.

/** What the quota says of one event. Times in seconds, rounded up, so waiting that long is enough. */
export interface QuotaVerdict {
  readonly allowed: boolean;
  /** Events a second. */
  readonly rate: number;
  /** Events that may still be sent at once. */
  readonly remaining: number;
  /** Until the whole quota is back. */
  readonly resetS: number;
  /** Until the next event is allowed; 0 where this one is. */
  readonly retryAfterS: number;
}

/** So much of a quota may be used at once: what comes back in one second. */
const WINDOW_MS = 1_000;
const SWEEP_AT = 10_000;

export class RateLimit {
  /** Producer → the time at which its whole quota is back (GCRA's theoretical arrival time), as `nowMs`. */
  readonly #fullAtMs = new Map<string, number>();
  #sweepAt = SWEEP_AT;

  /** Counts one event of `producer` at `nowMs`, by `Clock.ms()`, against `rate`, unless it is over. */
  take(producer: string, rate: number, nowMs: number): QuotaVerdict {
    const costMs = 1_000 / rate;
    const burstMs = burstOf(costMs);
    const usedMs = this.#usedMs(producer, nowMs);
    // Half a microsecond: sums of fractions must not make the last event of a quota one too many.
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

  /** Counts so many events, even if that is over the quota: later ones wait until it is back. */
  charge(producer: string, rate: number, events: number, nowMs: number): QuotaVerdict {
    const costMs = 1_000 / rate;
    if (!this.#fullAtMs.has(producer)) this.#sweep(nowMs);
    const usedMs = this.#usedMs(producer, nowMs) + events * costMs;
    this.#fullAtMs.set(producer, nowMs + usedMs);
    const remaining = Math.max(0, Math.floor((burstOf(costMs) - usedMs) / costMs + 1e-6));
    return { allowed: true, rate, remaining, resetS: Math.ceil(usedMs / 1000), retryAfterS: 0 };
  }

  /** How many producers are remembered. */
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

/** The part of a quota that may be used in one moment. A rate below one event a second still allows one. */
const burstOf = (costMs: number): number => Math.max(WINDOW_MS, costMs);

/** The answer's fields for a limited producer (draft-ietf-httpapi-ratelimit-headers-10). Names and values alternate. */
export function rateLimitFields({ rate, remaining, resetS }: QuotaVerdict): readonly string[] {
  // The draft has whole numbers only. A client that keeps to these keeps to the rate.
  const [quota, windowS] = rate < 1 ? [1, Math.ceil(1 / rate)] : [Math.floor(rate), 1];
  const policy = `"producer";q=${quota};w=${windowS}`;
  return ['RateLimit-Policy', policy, 'RateLimit', `"producer";r=${remaining};t=${resetS}`];
}
