// The queue as an operator's program sees it: what it holds, what became of single entries, and the two changes that an
// operator may make: putting a quarantined entry back, and erasing an event.
//
// Every method rejects with QueueFailed where the queue is unavailable or refuses; the same call again is then safe.
import { partitionOf } from './partition.ts';
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

/** The entry that replays a row; `fresh` if this call added it. */
export interface Replayed {
  readonly entry: string;
  readonly fresh: boolean;
}

/**
 * The state of an entry for the group `warehouse`: not read yet; held by a member; acknowledged; or not on the queue
 * any more without having been acknowledged.
 */
export type EntryState = 'unread' | 'held' | 'done' | 'gone';

/** What became of an attempt to erase an entry. `held`: a living consumer has it in hand, and acknowledges it soon. */
export type Erasure = 'erased' | 'held' | 'gone';

/** One entry of a stream, read outside the consumer group. */
export interface StreamEntry {
  readonly stream: string;
  readonly entry: string;
  readonly producer: string | undefined;
  /** The event's id if the body does not hold it. */
  readonly noted: string | undefined;
  readonly body: Buffer;
}

/** `run` is equal for two streams on one server. */
export interface StreamStatus {
  readonly partition: PartitionStatus;
  readonly server: ServerStatus;
  readonly run: string;
}

/** One stream of the queue. Every method rejects with QueueFailed. */
export interface QueuedStream {
  readonly name: string;
  status(): Promise<StreamStatus>;
  /** Unix time in milliseconds by the server's clock. */
  clock(): Promise<number>;
  /** The newest entry's name, how many entries the stream ever had, and how many it has. */
  end(): Promise<{ readonly entry: string; readonly added: number; readonly length: number }>;
  /** At most `count` entries after one. */
  after(entry: string, count: number): Promise<readonly StreamEntry[]>;
  /** The entry that the id index names, of any producer. */
  find(id: string): Promise<QueuedCopy | undefined>;
  /** The entries of an event that the quarantine rows `rows` name, and its replays. */
  noted(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]>;
  /**
   * Adds entries past the id index, in one atomic step. A row whose last replay has not landed yet is not added again;
   * nor is one whose last replay was acknowledged, unless `again`: its row may be gone by now.
   */
  replay(rows: readonly Replay[], again: boolean): Promise<readonly Replayed[]>;
  states(entries: readonly string[]): Promise<readonly EntryState[]>;
  /** How many replicas give signs of life. */
  replicasAlive(): Promise<number>;
  /**
   * Notes an erasure, so that a consumer that holds the event lands it without its body. Events that are accepted
   * under this id later land as they are.
   */
  noteErasure(id: string): Promise<void>;
  /**
   * Replaces an entry by one with another body, in one atomic step: the id stays taken, and an unlanded event lands
   * with the new body. `id` is that of the event.
   */
  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure>;
  /** Counts the entries since `sinceMs` (Unix time) that the group has read, and passes on each part of the count. */
  countRead(sinceMs: number, onCounted: (entries: number) => void): Promise<number>;
  /** Moves the group back to `sinceMs`, so that consumers land these entries again; `entries` is from `countRead`. */
  landAgain(sinceMs: number, entries: number): Promise<void>;
  close(): Promise<void>;
}

export interface QueueAdmin {
  /** The masked URI, for messages. */
  readonly place: string;
  /** One for each partition, in order. */
  readonly streams: readonly QueuedStream[];
}

/** The stream that an id belongs to. */
export const streamOf = ({ streams }: QueueAdmin, id: string): QueuedStream =>
  streams[partitionOf(id, streams.length)] as QueuedStream;
