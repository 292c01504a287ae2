// The time limits of one connection, the same for both readers.

/** In milliseconds: from a head's first byte to its last, from there to the request's last byte, between requests. */
export interface TimeLimits {
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
}

/** The progress of a connection. All times are of `Clock.ms()`. */
export interface Progress {
  /** When the first byte of an unfinished head arrived. */
  readonly headSinceMs: number | undefined;
  /** When the request began whose body is arriving. */
  readonly bodySinceMs: number | undefined;
  /** The client waits for an answer that is not made yet. */
  readonly owing: boolean;
  /** Bytes of answers that the client has not read yet. */
  readonly unreadBytes: number;
  /** Requests that have arrived so far. */
  readonly requests: number;
  /** The client showed a certificate of an accepted authority. */
  readonly certified: boolean;
}

/** The part of a connection that is late; `request`: the first or the next request. */
export type Overdue = 'head' | 'body' | 'request';

/**
 * Extra time of an idle connection beyond what it was told, so that a request in flight does not hit a closed
 * connection (as in node).
 */
const IDLE_SLACK_MS = 1_000;

export class IdleWatch {
  #requests = 0;
  #unreadBytes = 0;
  /** The last check that found a new request, a change of the unread bytes, or an answer that was owed. */
  #quietSinceMs: number;

  constructor(nowMs: number) {
    this.#quietSinceMs = nowMs;
  }

  /** To be called a few times a second. A client that does not read its answers is idle. */
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
    // A stranger gets less time for its first request, and no answer: a client would take it for the answer to the
    // request that it sends next.
    const isStranger = requests === 0 && !certified;
    return idle || (isStranger && quietMs >= limits.headersTimeoutMs) ? 'request' : undefined;
  }
}
