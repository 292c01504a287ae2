// RFC 014's dispatcher: one queue made of two. An event goes to the queue that the hash of its id names, and to no
// other.
//
// States of an event: submitted → in flight in its queue → settled. Where its queue has no room, does not take it or
// does not answer in time, it is shed: the producer sends it again, with the same id, and it meets the same queue.
//
// Invariants: every submission is settled once. One queue's trouble never costs the other one room or time.
//
// Limits: IN_FLIGHT_MAX events and look-ups and IN_FLIGHT_BYTES_MAX of bodies in each queue. Nothing else is kept: no
// body outlives its answer. Each queue's adapter decides how long the queue may take, and when it is not asked at all.
import { partitionOf } from '../ingest/partition.ts';
import type { Outcome, Queue, QueueLookup, QueueState, Submission } from '../ingest/queue.ts';
import type { Counter } from '../telemetry/instruments.ts';
import type { SendingSpans } from './sending-spans.ts';

/** The two queues: an even hash leads to the first one, an odd one to the second. */
export const QUEUES = ['ingest-a', 'ingest-b'] as const;
export type QueueName = (typeof QUEUES)[number];

const IN_FLIGHT_MAX = 10_000;
const IN_FLIGHT_BYTES_MAX = 64 << 20;

export type DispatchedOutcome = Exclude<Outcome, 'unavailable'>;

/** What is in flight in one queue, over all dispatchers of a process, and how it ended. */
export class Traffic {
  readonly #eventsMax: number;
  readonly #bytesMax: number;
  readonly #outcomes: Readonly<Record<DispatchedOutcome, Counter>>;
  #events = 0;
  #bytes = 0;

  constructor(
    outcomes: Readonly<Record<DispatchedOutcome, Counter>>,
    eventsMax = IN_FLIGHT_MAX,
    bytesMax = IN_FLIGHT_BYTES_MAX,
  ) {
    this.#outcomes = outcomes;
    this.#eventsMax = eventsMax;
    this.#bytesMax = bytesMax;
  }

  /** Submissions and look-ups that have no outcome yet. */
  get events(): number {
    return this.#events;
  }

  /** False: there is no room. A lone event always has room, however large it is. */
  enter(bytes: number): boolean {
    if (this.#events > 0 && (this.#events >= this.#eventsMax || this.#bytes + bytes > this.#bytesMax)) return false;
    this.#events += 1;
    this.#bytes += bytes;
    return true;
  }

  leave(bytes: number): void {
    this.#events -= 1;
    this.#bytes -= bytes;
  }

  count(outcome: DispatchedOutcome): void {
    this.#outcomes[outcome].add();
  }
}

/** One of the two queues, and the traffic that it has. */
interface Lane {
  readonly name: QueueName;
  readonly queue: Queue;
  readonly traffic: Traffic;
  /** Undefined: none are made. */
  readonly spans?: SendingSpans | undefined;
}

export class Dispatcher implements Queue {
  readonly lanes: readonly [even: Lane, odd: Lane];
  #closed = false;

  constructor(lanes: readonly [even: Lane, odd: Lane]) {
    this.lanes = lanes;
  }

  submit(submission: Submission): void {
    const { id, producer, text, notes } = submission;
    const { queue, traffic, spans } = this.#laneOf(id);
    const bytes = Buffer.byteLength(text);
    if (!traffic.enter(bytes)) {
      queueMicrotask(() => submission.settle(this.#told('unavailable', traffic)));
      return;
    }
    const settle = (outcome: Outcome): void => {
      traffic.leave(bytes);
      submission.settle(this.#told(outcome, traffic));
    };
    const sent = { id, producer, text, notes, settle };
    queue.submit(spans?.traced(sent) ?? sent);
  }

  async find(id: string, producer: string): Promise<QueueLookup> {
    const { queue, traffic } = this.#laneOf(id);
    if (!traffic.enter(0)) return { kind: 'unavailable' };
    try {
      return await queue.find(id, producer);
    } finally {
      traffic.leave(0);
    }
  }

  /** Available while one queue is. */
  state(): QueueState {
    const reasons: string[] = [];
    for (const { name, queue } of this.lanes) {
      const state = queue.state();
      if (state.available) return state;
      reasons.push(`${name}: ${state.reason}`);
    }
    return { available: false, reason: reasons.join('; ') };
  }

  states(): readonly QueueState[] {
    return this.lanes.map(({ queue }) => queue.state());
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.lanes.map(({ queue }) => queue.close()));
  }

  /**
   * Counts what became of an event, and gives its sender's answer: a queue's trouble sheds, the end of this one
   * does not.
   */
  #told(outcome: Outcome, traffic: Traffic): Outcome {
    if (outcome === 'unavailable' && this.#closed) return outcome;
    const told = outcome === 'unavailable' ? 'shed' : outcome;
    traffic.count(told);
    return told;
  }

  #laneOf(id: string): Lane {
    return this.lanes[partitionOf(id, 2) === 0 ? 0 : 1];
  }
}
