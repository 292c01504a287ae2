// The accepting side of a queue in memory, for tests of other components. It passes the queue's contract suite. All
// queues that open the same `MemoryQueueStore` share its contents.
import type { EventNotes, Queue, QueueLookup, QueueState, Submission } from '../../lib/ingest/queue.ts';
import { RETENTION_MS } from '../../lib/ingest/queue.ts';
import { isSameProducer } from '../../lib/process/producer-name.ts';

interface Entry {
  hasLanded: boolean;
  readonly acceptedAtMs: number;
  readonly producer: string;
  readonly body: string;
  readonly notes: EventNotes;
}

export class MemoryQueueStore {
  readonly entries: Entry[] = [];
  readonly index = new Map<string, Entry>();

  land(): void {
    for (const entry of this.entries) entry.hasLanded = true;
  }
}

export class MemoryQueue implements Queue {
  readonly #store: MemoryQueueStore;
  readonly #retentionMs: number;
  #closed = false;

  constructor(store: MemoryQueueStore, retentionMs = RETENTION_MS) {
    this.#store = store;
    this.#retentionMs = retentionMs;
  }

  submit(submission: Submission): void {
    const { id, producer, body, notes = {} } = submission;
    const text = body.toString('utf8');
    const settle: Submission['settle'] = (outcome) => submission.settle(outcome);
    queueMicrotask(() => {
      if (this.#closed) return settle('unavailable');
      const known = this.#known(id);
      if (known !== undefined) {
        if (!isSameProducer(known.producer, producer)) return settle('conflict');
        return settle(known.body === text ? 'duplicate' : 'differing');
      }
      const entry = { producer, body: text, acceptedAtMs: Date.now(), notes, hasLanded: false };
      this.#store.entries.push(entry);
      this.#store.index.set(id, entry);
      settle('accepted');
    });
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    if (this.#closed) return Promise.resolve({ kind: 'unavailable' });
    const known = this.#known(id);
    if (known === undefined || !isSameProducer(known.producer, producer)) return Promise.resolve({ kind: 'unknown' });
    const { body, acceptedAtMs, notes } = known;
    return Promise.resolve({
      kind: 'found',
      event: { body: Buffer.from(body), acceptedAtMs, traceparent: notes.traceparent },
    });
  }

  state(): QueueState {
    return this.#closed ? { available: false, reason: 'closed' } : { available: true };
  }

  states(): readonly QueueState[] {
    return [this.state()];
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #known(id: string): Entry | undefined {
    const known = this.#store.index.get(id);
    if (known === undefined || Date.now() - known.acceptedAtMs < this.#retentionMs) return known;
    return known.hasLanded ? undefined : known;
  }
}
