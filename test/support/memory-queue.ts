// A queue in memory, for tests of other components. The contract suites run against it too. All queues that open the
// same `MemoryQueueStore` share its contents.
import { randomUUID } from 'node:crypto';
import { isSameProducer } from '../../lib/process/producer-name.ts';
import { EventEmitter, once } from 'node:events';
import {
  GroupVanished,
  RETENTION_MS,
  type Delivery,
  type EntryName,
  type EventNotes,
  type Queue,
  type QueueLookup,
  type QueueReader,
  type QueueState,
  type Submission,
} from '../../lib/ingest/queue.ts';

interface Entry {
  readonly entry: string;
  readonly acceptedAtMs: number;
  readonly producer: string | undefined;
  readonly body: string | undefined;
  readonly notes: EventNotes;
}

interface Taken {
  readonly acceptedAtMs: number;
  takenAtMs: number;
  holder: QueueReader;
}

interface Group {
  next: number;
  readonly pending: Map<string, Taken>;
}

export class MemoryQueueStore {
  entries: Entry[] = [];
  group: Group | undefined;
  id = randomUUID();
  readonly index = new Map<string, Entry>();
  readonly replicas = new Set<QueueReader>();
  readonly changes = new EventEmitter().setMaxListeners(0);
  #last = { ms: 0, number: 0 };

  add(
    producer: string | undefined,
    body: string | undefined,
    acceptedAtMs = Date.now(),
    notes: EventNotes = {},
  ): Entry {
    const number = acceptedAtMs === this.#last.ms ? this.#last.number + 1 : 0;
    this.#last = { ms: acceptedAtMs, number };
    const entry = { entry: `${acceptedAtMs}-${number}`, acceptedAtMs, producer, body, notes };
    this.entries.push(entry);
    this.changes.emit('change');
    return entry;
  }

  drop(name: string): void {
    const at = this.entries.findIndex(({ entry }) => entry === name);
    if (at === -1) return;
    this.entries.splice(at, 1);
    if (this.group !== undefined && at < this.group.next) this.group.next -= 1;
  }

  land(): void {
    this.group = { next: this.entries.length, pending: new Map() };
  }

  hasLanded(entry: Entry): boolean {
    const at = this.entries.indexOf(entry);
    return at < (this.group?.next ?? 0) && this.group?.pending.has(entry.entry) !== true;
  }

  wipe(): void {
    this.entries = [];
    this.group = undefined;
    this.id = randomUUID();
    this.index.clear();
    this.replicas.clear();
    this.changes.emit('change');
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
    queueMicrotask(() => {
      if (this.#closed) return submission.settle('unavailable');
      const known = this.#known(submission.id);
      if (known !== undefined) {
        if (!isSameProducer(known.producer ?? '', submission.producer)) return submission.settle('conflict');
        return submission.settle(known.body === submission.text ? 'duplicate' : 'differing');
      }
      const { id, producer, text, notes } = submission;
      this.#store.index.set(id, this.#store.add(producer, text, Date.now(), notes));
      submission.settle('accepted');
    });
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    if (this.#closed) return Promise.resolve({ kind: 'unavailable' });
    const known = this.#known(id);
    if (known?.body === undefined || !isSameProducer(known.producer ?? '', producer))
      return Promise.resolve({ kind: 'unknown' });
    return Promise.resolve({
      kind: 'found',
      event: { body: Buffer.from(known.body), acceptedAtMs: known.acceptedAtMs, traceparent: known.notes.traceparent },
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

export class MemoryQueueReader implements QueueReader {
  readonly bodyBytesMax = undefined;
  readonly #store: MemoryQueueStore;

  constructor(store: MemoryQueueStore) {
    this.#store = store;
  }

  get replicas(): number {
    return this.#store.replicas.size;
  }

  register(replicasMax: number): Promise<boolean> {
    const { replicas } = this.#store;
    if (!replicas.has(this) && replicas.size >= replicasMax) return Promise.resolve(false);
    replicas.add(this);
    return Promise.resolve(true);
  }

  join(): Promise<boolean> {
    const made = this.#store.group === undefined;
    this.#store.group ??= { next: 0, pending: new Map() };
    return Promise.resolve(made);
  }

  async read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]> {
    const patience = AbortSignal.timeout(waitMs);
    for (;;) {
      const found = this.#take(max, idleMs);
      if (found.length > 0 || waitMs === 0 || patience.aborted) return found;
      await once(this.#store.changes, 'change', { signal: patience }).catch(() => undefined);
    }
  }

  acknowledge(entries: readonly EntryName[]): Promise<number> {
    return Promise.resolve(entries.filter(({ entry }) => this.#store.group?.pending.delete(entry)).length);
  }

  erased(): Promise<ReadonlySet<string>> {
    return Promise.resolve(new Set());
  }

  state(): QueueState {
    return { available: true };
  }

  close(): Promise<void> {
    this.#store.replicas.delete(this);
    return Promise.resolve();
  }

  #group(): Group {
    const { group } = this.#store;
    if (group === undefined) throw new GroupVanished();
    return group;
  }

  #take(max: number, idleMs: number): Delivery[] {
    const group = this.#group();
    const now = Date.now();
    const deliveries: Delivery[] = [];
    for (const [name, taken] of group.pending) {
      if (deliveries.length === max) return deliveries;
      if (taken.holder === this || now - taken.takenAtMs < idleMs) continue;
      const entry = this.#store.entries.find((candidate) => candidate.entry === name);
      if (entry === undefined) continue;
      taken.takenAtMs = now;
      taken.holder = this;
      deliveries.push(this.#delivery(name, taken.acceptedAtMs, entry));
    }
    const fresh = this.#store.entries.slice(group.next, group.next + max - deliveries.length);
    group.next += fresh.length;
    for (const entry of fresh) {
      group.pending.set(entry.entry, { acceptedAtMs: entry.acceptedAtMs, takenAtMs: now, holder: this });
      deliveries.push(this.#delivery(entry.entry, entry.acceptedAtMs, entry));
    }
    return deliveries;
  }

  #delivery(name: string, acceptedAtMs: number, entry: Entry | undefined): Delivery {
    return {
      entry: name,
      source: `${this.#store.id}/memory`,
      producer: entry?.producer,
      body: entry?.body === undefined ? undefined : Buffer.from(entry.body),
      notes: entry?.notes ?? {},
      acceptedAtMs,
    };
  }
}
