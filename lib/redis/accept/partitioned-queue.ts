// The accepting side of a queue of several partitions: each event goes to the partition of its id.
//
// Invariant: a repeated id always meets the index that knows it. Partitions know nothing of each other, so one that is
// away refuses its events immediately once that is known, else after its time-out; the others keep accepting.
//
// Limits: the order of events of different partitions is not kept.
import assert from 'node:assert/strict';
import { partitionOf } from '../../ingest/partition.ts';
import type { Queue, QueueLookup, QueueState, Submission } from '../../ingest/queue.ts';

export class PartitionedQueue implements Queue {
  readonly #partitions: readonly Queue[];

  /** `partitions` by number. */
  constructor(partitions: readonly Queue[]) {
    assert(partitions.length > 0);
    this.#partitions = partitions;
  }

  submit(submission: Submission): void {
    this.#of(submission.id).submit(submission);
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    return this.#of(id).find(id, producer);
  }

  state(): QueueState {
    const states = this.states();
    return states.find(({ available }) => available) ?? (states[0] as QueueState);
  }

  states(): readonly QueueState[] {
    return this.#partitions.map((partition) => partition.state());
  }

  async close(): Promise<void> {
    await Promise.all(this.#partitions.map((partition) => partition.close()));
  }

  #of(id: string): Queue {
    return this.#partitions[partitionOf(id, this.#partitions.length)] as Queue;
  }
}
