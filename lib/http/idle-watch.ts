// Since when a connection has been quiet, and what of it takes too long (limits.ts has the verdict).
import { whatIsOverdue, type Overdue, type TimeLimits } from './limits.ts';
import type { Side } from './side.ts';

export class IdleWatch {
  /** How much had come and was unread when that was last found to have changed, and when that was. */
  #requests = 0;
  #unreadBytes = 0;
  #quietSinceMs: number;

  constructor(nowMs: number) {
    this.#quietSinceMs = nowMs;
  }

  /** To be called a few times a second. `unreadBytes`: of answers that the client has not taken. */
  overdue(side: Side, unreadBytes: number, certified: boolean, nowMs: number, limits: TimeLimits): Overdue | undefined {
    const { requests, owing, headSinceMs, bodySinceMs } = side;
    if (requests !== this.#requests || unreadBytes !== this.#unreadBytes || owing) {
      this.#requests = requests;
      this.#unreadBytes = unreadBytes;
      this.#quietSinceMs = nowMs;
    }
    const quietSinceMs = this.#quietSinceMs;
    const snapshot = { headSinceMs, bodySinceMs, owing, unreadBytes, quietSinceMs, requests, certified };
    return whatIsOverdue(snapshot, nowMs, limits);
  }
}
