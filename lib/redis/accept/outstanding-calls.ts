// Script calls that are waiting for a reply, their time limit, and how long the server has been stalled.
//
// Invariants: each submission is settled once. A call is given up only if it was written and the sockets were read at
// least once after its deadline. The server is considered stalled from the first call that is given up until it sends
// anything.
import assert from 'node:assert/strict';
import type { Outcome, Submission } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';

export class Call {
  readonly submissions: readonly Submission[];
  readonly sentMs: number;
  #settled = false;

  constructor(submissions: readonly Submission[], sentMs: number) {
    this.submissions = submissions;
    this.sentMs = sentMs;
  }

  get settled(): boolean {
    return this.#settled;
  }

  settle(settle: (submission: Submission, at: number) => void): void {
    if (this.#settled) return;
    this.#settled = true;
    this.submissions.forEach(settle);
  }
}

export class OutstandingCalls {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onOverdue: () => void;
  /** The oldest call is first. */
  readonly #calls: Call[] = [];
  #deadline: Timer | undefined;
  #stalledSinceMs: number | undefined;

  /** `onOverdue` is called for each call that is given up, before its submissions become unavailable. */
  constructor(clock: Clock, timeoutMs: number, onOverdue: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onOverdue = onOverdue;
  }

  get stalled(): boolean {
    return this.#stalledSinceMs !== undefined;
  }

  get silentMs(): number {
    return this.#stalledSinceMs === undefined ? 0 : this.#clock.ms() - this.#stalledSinceMs;
  }

  /** Call this when the server has sent something, or when the connection was lost and no reply is due. */
  serverSpoke(): void {
    this.#stalledSinceMs = undefined;
  }

  serverSilent(sinceMs: number): void {
    this.#stalledSinceMs ??= sinceMs;
  }

  began(submissions: readonly Submission[]): Call {
    assert(submissions.length > 0);
    const call = new Call(submissions, this.#clock.ms());
    this.#calls.push(call);
    if (this.#deadline === undefined) this.#armDeadline(this.#timeoutMs);
    return call;
  }

  remove(call: Call): void {
    // Replies arrive in the order of the calls, except for a call that was sent twice (NOSCRIPT).
    if (this.#calls[0] === call) this.#calls.shift();
    else {
      const at = this.#calls.indexOf(call);
      if (at !== -1) this.#calls.splice(at, 1);
    }
  }

  close(): void {
    this.#deadline?.close();
    for (const call of this.#calls.splice(0)) settleAll(call, 'unavailable');
  }

  // Fact: a timer per call costs more than this check. Choice: one timer for the oldest unsettled call.
  #armDeadline(inMs: number): void {
    assert(this.#deadline === undefined);
    // Fact: after a long turn (a burst of handshakes, garbage collection), timers run before sockets are read, so a
    // reply that arrived in time would seem late. Choice: sockets are read before a call is given up, and the
    // deadline is compared with the time before that read. If it were compared with the time after it, an overloaded
    // gateway would give up every call.
    this.#deadline = this.#clock.after(inMs, () => {
      const beforePollMs = this.#clock.ms();
      this.#clock.turnEnd(() => this.#expire(beforePollMs));
    });
  }

  #expire(now: number): void {
    this.#deadline = undefined;
    for (const call of this.#calls) {
      if (call.settled) continue;
      const leftMs = call.sentMs + this.#timeoutMs - now;
      if (leftMs > 0.5) {
        this.#armDeadline(leftMs);
        return;
      }
      this.serverSilent(now);
      this.#onOverdue();
      settleAll(call, 'unavailable');
    }
  }
}

export function settleAll(call: Call, outcome: Outcome): void {
  call.settle((submission) => submission.settle(outcome));
}
