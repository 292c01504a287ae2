// The time limits of one connection, the same for both readers.

/** In milliseconds: for a head, for the rest of its request, and between requests. */
export interface TimeLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** The progress of a connection. Times are those of `Clock.ms()`. */
export interface Progress {
  readonly headSinceMs: number | undefined;
  readonly bodySinceMs: number | undefined;
  readonly owing: boolean;
  /** Bytes of answers that the client has not read yet. */
  readonly unreadBytes: number;
  readonly requests: number;
  /** The client presented a certificate of an accepted authority. */
  readonly certified: boolean;
}

/** The late part; `request` is the first or the next request. */
export type Overdue = 'head' | 'body' | 'request';

/** Added to the announced idle time, as node does, so that a request in flight does not meet a closed connection. */
const IDLE_SLACK_MS = 1_000;

export class IdleWatch {
  #requests = 0;
  #unreadBytes = 0;
  /** The last check that found progress. */
  #quietSinceMs: number;

  constructor(nowMs: number) {
    this.#quietSinceMs = nowMs;
  }

  /** Call it a few times a second. A client that does not read its answers is idle. */
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
    // A stranger gets less time for its first request, and no answer, which it could mistake for the answer to the
    // request that it sends next.
    const isStranger = requests === 0 && !certified;
    return idle || (isStranger && quietMs >= limits.headersTimeoutMs) ? 'request' : undefined;
  }
}
