// The generic cell rate algorithm (GCRA, ITU-T I.371), with one number per producer.
//
// A producer with rate R may send R events at once, and R per second after that. The limit applies to one process: n
// processes allow n times as much, and a restart resets it.

export interface QuotaVerdict {
  /** Seconds until the next event is allowed, rounded up; 0 if this one is. */
  readonly retryAfterS: number;
  /** Header fields for the answer (draft-ietf-httpapi-ratelimit-headers-10). */
  readonly fields: readonly string[];
}

/** A burst may use as much of a quota as one second restores. */
const WINDOW_MS = 1_000;
const SWEEP_AT = 10_000;

export class RateLimit {
  /** When each producer's whole quota is available again (GCRA's theoretical arrival time). */
  readonly #fullAtMs = new Map<string, number>();
  #sweepAt = SWEEP_AT;

  /** Charges events, unless they are over the rate and `isForced` is false. `nowMs` is from `Clock.ms()`. */
  charge(producer: string, rate: number, nowMs: number, events = 1, isForced = false): QuotaVerdict {
    const costMs = 1_000 / rate;
    // A burst may use at least one event.
    const burstMs = Math.max(WINDOW_MS, costMs);
    const fullAtMs = this.#fullAtMs.get(producer);
    const usedMs = Math.max(0, (fullAtMs ?? nowMs) - nowMs);
    const neededMs = usedMs + events * costMs;
    // Half a microsecond absorbs rounding, so that the last event of a quota is allowed.
    const allowed = isForced || neededMs <= burstMs + 0.0005;
    if (allowed) {
      if (fullAtMs === undefined) this.#sweep(nowMs);
      this.#fullAtMs.set(producer, nowMs + neededMs);
    }
    const chargedMs = allowed ? neededMs : usedMs;
    const remaining = Math.max(0, Math.floor((burstMs - chargedMs) / costMs + 1e-6));
    // The draft allows only whole numbers, so the announced rate is rounded down.
    const [quota, windowS] = rate < 1 ? [1, Math.ceil(1 / rate)] : [Math.floor(rate), 1];
    const policy = `"producer";q=${quota};w=${windowS}`;
    const state = `"producer";r=${remaining};t=${Math.ceil(chargedMs / 1000)}`;
    return {
      retryAfterS: allowed ? 0 : Math.max(1, Math.ceil((neededMs - burstMs) / 1000)),
      fields: ['RateLimit-Policy', policy, 'RateLimit', state],
    };
  }

  get size(): number {
    return this.#fullAtMs.size;
  }

  #sweep(nowMs: number): void {
    if (this.#fullAtMs.size < this.#sweepAt) return;
    for (const [producer, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(producer);
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#fullAtMs.size);
  }
}
