// The queue as an operator's program sees it: what it holds, what became of single entries, and the two changes that an
// operator may make: putting a quarantined entry back, and erasing an event.
//
// Every method rejects with QueueFailed where the queue is unavailable or refuses; the same call again is then safe.

import type { EntryName } from './queue.ts';

/** The queue did not answer, or refused. The message is for people and holds no secret. */
export class QueueFailed extends Error {
  override readonly name = 'QueueFailed';
}

/** A member of the group `warehouse`. */
export interface Replica {
  readonly name: string;
  /** Entries that it took and has not acknowledged. */
  readonly holds: number;
  /** Since its last sign of life, in milliseconds; undefined where it gives none any more. */
  readonly signMs: number | undefined;
}

export interface PartitionStatus {
  /** The stream's, and where there are several queues its queue's. */
  readonly name: string;
  readonly stream: string;
  readonly events: number;
  /** Of the stream and its id index, as the server estimates it; undefined where it does not tell. */
  readonly memoryBytes: number | undefined;
  readonly unread: number;
  readonly pending: number;
  /** Age of the oldest event that has not landed, in milliseconds; 0 when there is none. */
  readonly oldestUnlandedMs: number;
  readonly replicas: readonly Replica[];
}

export interface ServerStatus {
  /** Name and version. */
  readonly name: string;
  /** Names of the partitions that it holds. */
  readonly partitions: readonly string[];
  readonly memoryBytes: number | undefined;
  /** 0: it has no limit of its own. */
  readonly memoryLimitBytes: number | undefined;
  /** Why accepted events may get lost with the server, in words. */
  readonly faults: readonly string[];
}

export interface QueueStatus {
  readonly servers: readonly ServerStatus[];
  readonly partitions: readonly PartitionStatus[];
  /** Why each of the other partitions does not answer. */
  readonly away: readonly string[];
}

/** An entry as it is on the queue. */
export interface QueuedCopy extends EntryName {
  readonly stream: string;
  /** Of its event; undefined where the entry holds none. */
  readonly id: string | undefined;
  readonly producer: string | undefined;
  readonly acceptedAtMs: number;
  readonly body: Buffer;
  /** The quarantine row that it replays. */
  readonly replayOf: string | undefined;
}

/** A quarantine row to put back: `replayOf` is its name. */
export interface Replay {
  readonly replayOf: string;
  /** The event's id; undefined where it is not known. */
  readonly id: string | undefined;
  readonly traceparent: string | undefined;
  readonly producer: string;
  readonly body: Buffer;
  readonly acceptedAtMs: number;
}

/** The entry that replays a row; `fresh` where this call put it there. */
export interface Replayed extends EntryName {
  readonly fresh: boolean;
}

/**
 * The state of an entry for the group `warehouse`: not read yet; held by a member; acknowledged; or not on the queue
 * any more without having been acknowledged.
 */
export type EntryState = 'unread' | 'held' | 'done' | 'gone';

/** What became of an attempt to erase an entry. `held`: a living consumer has it in hand, and acknowledges it soon. */
export type Erasure = 'erased' | 'held' | 'gone';

/** Entries that the group has read. */
export interface ReadEntries {
  readonly entries: number;
  landAgain(): Promise<void>;
}

/** One entry of a stream, read outside the consumer group. */
export interface StreamEntry {
  readonly stream: string;
  readonly entry: string;
  readonly producer: string | undefined;
  /** The event's id if the body does not hold it. */
  readonly noted: string | undefined;
  readonly body: Buffer;
}

/** A stream that can be read from any entry on. Every method rejects with QueueFailed. */
export interface QueuedStream {
  readonly name: string;
  /** The newest entry's name, how many entries the stream ever had, and how many it has. */
  end(): Promise<{ readonly entry: string; readonly added: number; readonly length: number }>;
  /** At most `count` entries after one. */
  after(entry: string, count: number): Promise<readonly StreamEntry[]>;
}

export interface QueueAdmin {
  /** Where entries are, for messages: the masked URI, or several. */
  readonly place: string;
  /** Its streams, one for each partition. */
  readonly streams: readonly QueuedStream[];
  /** Rejects where no partition answers. */
  status(): Promise<QueueStatus>;
  /** Unix time in milliseconds by the clock of each partition's master. Rejects if one does not answer. */
  clocks(): Promise<readonly number[]>;
  /** The entry that the id index names, of any producer. */
  find(id: string): Promise<QueuedCopy | undefined>;
  /**
   * Puts entries on the queue past the id index, those of one partition in one atomic step. A row whose last replay is
   * not landed yet is not put there again; nor is one whose last replay was acknowledged, unless `again`: its row may
   * be gone by now.
   */
  replay(rows: readonly Replay[], again: boolean): Promise<readonly Replayed[]>;
  states(entries: readonly EntryName[]): Promise<readonly EntryState[]>;
  /** How many replicas give signs of life. */
  replicasAlive(): Promise<number>;
  /**
   * The entries of an event that can be found without reading the queue: those that the id index names, those of the
   * quarantine rows `rows`, and replays. Rejects where a partition is unavailable.
   */
  copies(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]>;
  /**
   * Notes an erasure in every partition, so that a consumer that has the event in hand lands it without its body.
   * Events that are accepted under this id later land as they are. Rejects if a partition is unavailable.
   */
  noteErasure(id: string): Promise<void>;
  /**
   * Replaces an entry by one with another body, in one atomic step: the id stays taken, and what has not landed lands
   * with the new body. `id` is that of the event.
   */
  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure>;
  /**
   * Counts the entries of `sinceMs` (Unix time) or later that the group has read, in all partitions; `landAgain` moves
   * the group back, so that consumers read and land them again. `onCounted` receives how many were counted so far.
   * Rejects, and nothing is moved, where a partition is unavailable.
   */
  readSince(sinceMs: number, onCounted: (entries: number) => void): Promise<ReadEntries>;
  close(): Promise<void>;
}
