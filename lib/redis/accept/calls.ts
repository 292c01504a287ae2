// The accepting calls that wait to be written or for a reply, oldest first, and the time limit of each.
//
// Fact: a timer per call costs more than a scan. Choice: one timer, for the oldest unsettled call.
import type { Outcome, Submission } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';

// Fact: Redis runs one script at a time, at about 8 µs per event, and a long call delays the others.
// Choice: calls are limited in events and bytes. A single event may exceed the limit of bytes.
const CALL_EVENTS_MAX = 256;
const CALL_BYTES_MAX = 1 << 20;

export interface Call {
  readonly submissions: Submission[];
  /** Length of the bodies. */
  bytes: number;
  /** When the client wrote the call; before that, when its first submission arrived. */
  sinceMs: number;
  settled: boolean;
}

export class CallDeadlines {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onLate: (nowMs: number) => void;
  // Fact: V8 replaces the table of a Set after a few additions, and each old table refers to the next one. Once one
  // table is among the old objects, it keeps all later calls and their events until a full collection. Choice: an
  // array. Effect: a collection of young objects finds 40 kB in use at saturation instead of 200 to 450 kB.
  readonly #calls: Call[] = [];
  #timer: Timer | undefined;

  /** Each call that is not answered within `timeoutMs` is settled as `unavailable`, and `onLate` is called. */
  constructor(clock: Clock, timeoutMs: number, onLate: (nowMs: number) => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onLate = onLate;
  }

  add(first: Submission): Call {
    const call = { submissions: [first], bytes: first.body.length, sinceMs: this.#clock.ms(), settled: false };
    this.#calls.push(call);
    if (this.#timer === undefined) this.#arm(this.#timeoutMs);
    return call;
  }

  remove(call: Call): void {
    const at = this.#calls.indexOf(call);
    if (at !== -1) this.#calls.splice(at, 1);
  }

  close(): void {
    this.#timer?.close();
    for (const call of this.#calls) settleAll(call, 'unavailable');
  }

  #arm(inMs: number): void {
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
      const leftMs = call.sinceMs + this.#timeoutMs - now;
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

/** Adds a submission to a call that is not written yet. Returns false if the call may not carry it. */
export function join(call: Call, submission: Submission): boolean {
  const bytes = call.bytes + submission.body.length;
  if (call.settled || call.submissions.length === CALL_EVENTS_MAX || bytes > CALL_BYTES_MAX) return false;
  call.submissions.push(submission);
  call.bytes = bytes;
  return true;
}
