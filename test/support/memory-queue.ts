// The accepting side of a queue in memory, for tests of other components. It passes the queue's contract suite. All
// queues that open the same `MemoryQueueStore` share its contents.
import type { EventNotes, Queue, QueueLookup, QueueState, Submission } from '../../lib/ingest/queue.ts';
import { RETENTION_MS } from '../../lib/ingest/queue.ts';
import { isSameProducer } from '../../lib/process/producer-name.ts';

interface Entry {
  readonly acceptedAtMs: number;
  readonly producer: string;
  readonly body: string;
  readonly notes: EventNotes;
}

export class MemoryQueueStore {
  readonly entries: Entry[] = [];
  readonly index = new Map<string, Entry>();
  readonly #landed = new Set<Entry>();

  add(id: string, entry: Entry): void {
    this.entries.push(entry);
    this.index.set(id, entry);
  }

  land(): void {
    for (const entry of this.entries) this.#landed.add(entry);
  }

  hasLanded(entry: Entry): boolean {
    return this.#landed.has(entry);
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
      this.#store.add(id, { producer, body: text, acceptedAtMs: Date.now(), notes });
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
    return this.#store.hasLanded(known) ? undefined : known;
  }
}
