// The accepting calls that wait for a reply, oldest first, and the time limit of each.
//
// Fact: a timer per call costs more than a scan. Choice: one timer, for the oldest unsettled call.
import assert from 'node:assert/strict';
import type { Outcome, Submission } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';

// Fact: Redis runs one script at a time, at about 8 µs per event, and a long call delays the others.
// Choice: calls are limited in events and bytes. The next call carries the rest.
const CALL_EVENTS_MAX = 256;
const CALL_BYTES_MAX = 1 << 20;

export interface Call {
  readonly submissions: readonly Submission[];
  readonly sentMs: number;
  /** Infinite until the client has written the call. */
  writtenMs: number;
  settled: boolean;
}

export class CallDeadlines {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onLate: (nowMs: number) => void;
  readonly #calls: Call[] = [];
  #timer: Timer | undefined;

  /** Each call that is not answered within `timeoutMs` is settled as `unavailable`, and `onLate` is called. */
  constructor(clock: Clock, timeoutMs: number, onLate: (nowMs: number) => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onLate = onLate;
  }

  add(submissions: readonly Submission[]): Call {
    const call = { submissions, sentMs: this.#clock.ms(), writtenMs: Number.POSITIVE_INFINITY, settled: false };
    this.#calls.push(call);
    if (this.#timer === undefined) this.#arm(this.#timeoutMs);
    return call;
  }

  /** Must be called after the client has written the calls. */
  readonly written = (): void => {
    const nowMs = this.#clock.ms();
    for (const call of this.#calls) if (call.writtenMs === Number.POSITIVE_INFINITY) call.writtenMs = nowMs;
  };

  remove(call: Call): void {
    // Replies arrive in the order of the calls, except for a call that was sent twice (NOSCRIPT).
    if (this.#calls[0] === call) this.#calls.shift();
    else {
      const at = this.#calls.indexOf(call);
      if (at !== -1) this.#calls.splice(at, 1);
    }
  }

  close(): void {
    this.#timer?.close();
    for (const call of this.#calls.splice(0)) settleAll(call, 'unavailable');
  }

  #arm(inMs: number): void {
    assert(this.#timer === undefined);
    // Fact: after a long turn (a burst of handshakes, garbage collection), timers run before sockets are read, so a
    // reply that arrived in time would seem late. Choice: sockets are read before a call is given up, and the
    // deadline is compared with the time before that read. If it were compared with the time after it, an overloaded
    // gateway would give up every call.
    this.#timer = this.#clock.after(inMs, () => {
      const beforePollMs = this.#clock.ms();
      this.#clock.turnEnd(() => this.#expire(beforePollMs));
    });
  }

  #expire(now: number): void {
    this.#timer = undefined;
    for (const call of this.#calls) {
      if (call.settled) continue;
      const leftMs = call.writtenMs + this.#timeoutMs - now;
      if (leftMs > 0.5) {
        this.#arm(Math.min(leftMs, this.#timeoutMs));
        return;
      }
      this.#onLate(now);
      settleAll(call, 'unavailable');
    }
  }
}

export function settleAll(call: Call, outcome: Outcome): void {
  if (call.settled) return;
  call.settled = true;
  for (const submission of call.submissions) submission.settle(outcome);
}

/** Returns the index after the last submission that fits into a call with the one at `from`. */
export function endOfCall(submissions: readonly Submission[], from: number): number {
  let bytes = 0;
  for (let at = from; at < submissions.length; at += 1) {
    bytes += submissions[at]?.body.length ?? 0;
    if (at - from === CALL_EVENTS_MAX || (bytes > CALL_BYTES_MAX && at > from)) return at;
  }
  return submissions.length;
}
