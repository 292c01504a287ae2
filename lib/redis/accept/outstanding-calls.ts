// The script calls without an answer, with their time limit, and the server's silence.
//
// Invariants: every submission is settled once. None is given up before its call was written and the sockets were read
// at least once after its time was over. The server is stalled from the first call that is given up until it answers
// anything.
import assert from 'node:assert/strict';
import type { Outcome, Submission } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';

/** One script call in flight. */
export class Call {
  readonly submissions: readonly Submission[];
  /** When it was written, by the clock's `ms`. */
  readonly sentMs: number;
  #settled = false;

  constructor(submissions: readonly Submission[], sentMs: number) {
    this.submissions = submissions;
    this.sentMs = sentMs;
  }

  /** Its submissions have their outcome, answered or not. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Settles each of its submissions by `settle`, once. */
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
  /** Oldest first. */
  readonly #calls: Call[] = [];
  #deadline: Timer | undefined;
  /** When the server was first found to be silent; undefined if it is not. */
  #stalledSinceMs: number | undefined;

  /** `onOverdue` is called for each call that is given up, before its submissions are settled as unavailable. */
  constructor(clock: Clock, timeoutMs: number, onOverdue: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onOverdue = onOverdue;
  }

  /** The server owes an answer that is overdue. */
  get stalled(): boolean {
    return this.#stalledSinceMs !== undefined;
  }

  /** For how long it has been so, in milliseconds. */
  get silentMs(): number {
    return this.#stalledSinceMs === undefined ? 0 : this.#clock.ms() - this.#stalledSinceMs;
  }

  /** The server answered something, or its connection was lost and nothing is owed any more. */
  serverSpoke(): void {
    this.#stalledSinceMs = undefined;
  }

  serverSilent(sinceMs: number): void {
    this.#stalledSinceMs ??= sinceMs;
  }

  /** Notes a call that was just written. */
  began(submissions: readonly Submission[]): Call {
    assert(submissions.length > 0);
    const call = new Call(submissions, this.#clock.ms());
    this.#calls.push(call);
    if (this.#deadline === undefined) this.#armDeadline(this.#timeoutMs);
    return call;
  }

  /** It has its answer. */
  remove(call: Call): void {
    // Answers come in the order of the calls, so this is the first one, but for a call that went twice (NOSCRIPT).
    if (this.#calls[0] === call) this.#calls.shift();
    else {
      const at = this.#calls.indexOf(call);
      if (at !== -1) this.#calls.splice(at, 1);
    }
  }

  /** Gives up all of them. */
  close(): void {
    this.#deadline?.close();
    for (const call of this.#calls.splice(0)) settleAll(call, 'unavailable');
  }

  // Fact: a timer for each request costs more than the check it makes. Choice: one timer, set for the oldest
  // call that still has its outcome to come.
  #armDeadline(inMs: number): void {
    assert(this.#deadline === undefined);
    // Fact: after a turn that was held up (a burst of handshakes, a collection), timers run before sockets are read,
    // and an answer that came in time would count as late. Choice: what has arrived is read before a call is given up,
    // and the calls to give up are chosen by the time before that reading. By the time after it, an overloaded gateway
    // whose turns take longer than the time-out gave up every call that it had sent the turn before, and accepted
    // nothing.
    this.#deadline = this.#clock.after(inMs, () => {
      const beforePollMs = this.#clock.ms();
      this.#clock.turnEnd(() => this.#expire(beforePollMs));
    });
  }

  /** Gives up the calls that were overdue at `now`, and no others: sockets were read since then. */
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

/** Settles all submissions of a call with one outcome. */
export function settleAll(call: Call, outcome: Outcome): void {
  call.settle((submission) => submission.settle(outcome));
}
