// The queue port of ingest-admin. Every method rejects with QueueFailed if the queue is unavailable or refuses; the
// same call is then safe to repeat.
import { partitionOf } from './partition.ts';
import type { EntryName } from './queue.ts';

/** The message is for people and holds no secret. */
export class QueueFailed extends Error {
  override readonly name = 'QueueFailed';
}

/** A member of the group `warehouse`. */
export interface Replica {
  readonly name: string;
  /** Its pending entries. */
  readonly holds: number;
  /** Milliseconds since its last sign of life, if it still gives signs. */
  readonly signMs: number | undefined;
}

export interface PartitionStatus {
  /** The stream's name. */
  readonly name: string;
  readonly stream: string;
  readonly events: number;
  /** The server's estimate for the stream and its id index. */
  readonly memoryBytes: number | undefined;
  readonly unread: number;
  readonly pending: number;
  /** In milliseconds, or 0. */
  readonly oldestUnlandedMs: number;
  readonly replicas: readonly Replica[];
}

export interface ServerStatus {
  readonly name: string;
  /** Names of the partitions on this server. */
  readonly partitions: readonly string[];
  readonly memoryBytes: number | undefined;
  /** 0 if the server has no limit. */
  readonly memoryLimitBytes: number | undefined;
  /** Reasons why the server may lose accepted events. */
  readonly faults: readonly string[];
}

export interface QueueStatus {
  readonly servers: readonly ServerStatus[];
  readonly partitions: readonly PartitionStatus[];
  /** The failures of the other partitions. */
  readonly away: readonly string[];
}

/** An entry on the queue. */
export interface QueuedCopy extends EntryName {
  readonly stream: string;
  readonly id: string | undefined;
  readonly producer: string | undefined;
  readonly acceptedAtMs: number;
  readonly body: Buffer;
  readonly replayOf: string | undefined;
}

/** A quarantine row to replay: `replayOf` is its name. */
export interface Replay {
  readonly replayOf: string;
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
 * The state of an entry for the group `warehouse`: unread, pending, acknowledged, or deleted before it was
 * acknowledged.
 */
export type EntryState = 'unread' | 'held' | 'done' | 'gone';

/** The result of erasing an entry. `held`: a living consumer has it, and acknowledges it soon. */
export type Erasure = 'erased' | 'held' | 'gone';

/** One entry of a stream, read outside the consumer group. */
export interface StreamEntry {
  readonly stream: string;
  readonly entry: string;
  readonly producer: string | undefined;
  /** Set if the body does not hold the event's id. */
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
  /** The number of replicas with a recent sign of life. */
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
