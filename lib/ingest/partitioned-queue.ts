// A queue made of several queues. The hash of an event's id selects one of them.
//
// Invariant: a repeated id always reaches the same queue, even if that queue is unavailable, so the retry of an
// accepted event is detected as a duplicate. Limit: events are in order only within each queue.
import { partitionOf } from './partition.ts';
import type { Outcome, Queue, QueueLookup, QueueState, Submission } from './queue.ts';

export class PartitionedQueue implements Queue {
  readonly #queues: readonly Queue[];
  readonly #whenUnavailable: 'shed' | 'unavailable';

  constructor(queues: readonly Queue[], whenUnavailable: 'shed' | 'unavailable') {
    this.#queues = queues;
    this.#whenUnavailable = whenUnavailable;
  }

  submit(submission: Submission): void {
    const queue = this.#queueOf(submission.id);
    if (this.#whenUnavailable === 'unavailable') return queue.submit(submission);
    const settle = (outcome: Outcome): void => submission.settle(outcome === 'unavailable' ? 'shed' : outcome);
    queue.submit({ ...submission, settle });
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    return this.#queueOf(id).find(id, producer);
  }

  state(): QueueState {
    return this.states().find(({ available }) => available) ?? (this.#queues[0] as Queue).state();
  }

  states(): readonly QueueState[] {
    return this.#queues.map((queue) => queue.state());
  }

  async close(): Promise<void> {
    await Promise.all(this.#queues.map((queue) => queue.close()));
  }

  #queueOf(id: string): Queue {
    return this.#queues[partitionOf(id, this.#queues.length)] as Queue;
  }
}
