// Checks the time limits of one connection, which are the same for both readers.

/** Time limits for the head of a request, for the rest of the request, and for the pause before the next one. */
export interface TimeLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** The progress of a connection. Times are from `Clock.ms()`. */
export interface Progress {
  readonly headSinceMs: number | undefined;
  readonly bodySinceMs: number | undefined;
  readonly owing: boolean;
  readonly unreadBytes: number;
  readonly requests: number;
  /** True if an accepted authority signed the client's certificate. */
  readonly certified: boolean;
}

/** The part that is overdue. `request` means that the first or next request has not begun. */
export type Overdue = 'head' | 'body' | 'request';

/** Added to the announced idle timeout, as node does, because a request may already be on its way. */
const IDLE_SLACK_MS = 1_000;

export class IdleWatch {
  #requests = 0;
  #unreadBytes = 0;
  /** Time of the last check that found progress. */
  #quietSinceMs: number;

  constructor(nowMs: number) {
    this.#quietSinceMs = nowMs;
  }

  /**
   * Returns the overdue part, if any. Call this a few times a second. A client that does not read its answers is
   * idle.
   */
  overdue(progress: Progress, nowMs: number, limits: TimeLimits): Overdue | undefined {
    const { headSinceMs, bodySinceMs, owing, unreadBytes, requests, certified } = progress;
    if (requests !== this.#requests || unreadBytes !== this.#unreadBytes || owing) {
      this.#requests = requests;
      this.#unreadBytes = unreadBytes;
      this.#quietSinceMs = nowMs;
    }
    if (bodySinceMs !== undefined) return nowMs - bodySinceMs >= limits.requestTimeoutMs ? 'body' : undefined;
    if (owing) return undefined;
    const quietMs = nowMs - this.#quietSinceMs;
    const idle = quietMs >= limits.idleTimeoutMs + IDLE_SLACK_MS;
    if (unreadBytes > 0) return idle ? 'request' : undefined;
    if (headSinceMs !== undefined) return nowMs - headSinceMs >= limits.headersTimeoutMs ? 'head' : undefined;
    // A stranger has less time for its first request. It gets no answer, because it could mistake that answer for the
    // response to the request that it sends next.
    const isStranger = requests === 0 && !certified;
    return idle || (isStranger && quietMs >= limits.headersTimeoutMs) ? 'request' : undefined;
  }
}
