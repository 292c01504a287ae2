// The queue port of ingest-admin. Every method rejects with QueueFailed if the queue is unavailable or refuses the
// call. Repeating that call is safe.
import { partitionOf } from './partition.ts';
import type { EntryName } from './queue.ts';
import type { QuarantineBody } from './warehouse-admin.ts';

export class QueueFailed extends Error {}

export interface ReplicaStatus {
  readonly name: string;
  readonly holds: number;
  /** Milliseconds since the last heartbeat, if the replica is considered alive. */
  readonly heartbeatMs: number | undefined;
}

export interface PartitionStatus {
  readonly name: string;
  readonly stream: string;
  readonly events: number;
  readonly memoryBytes: number | undefined;
  /** `undefined` until a consumer has counted: after a restart or a fail-over, Redis does not know this number. */
  readonly unread: number | undefined;
  readonly pending: number;
  /** Age of the oldest unlanded event; 0 if all events have landed. */
  readonly oldestUnlandedMs: number;
  readonly replicas: readonly ReplicaStatus[];
  /** Why gateways cannot add events. */
  readonly unavailable: string | undefined;
}

export interface ServerStatus {
  readonly name: string;
  readonly partitions: readonly string[];
  readonly memoryBytes: number | undefined;
  readonly memoryLimitBytes: number | undefined;
  /** Reasons why the server may lose accepted events. */
  readonly faults: readonly string[];
  /** Unset if the server does not report it. */
  readonly role: string | undefined;
  readonly port: number | undefined;
  /** The number of replicas that gateways require, as the latest one noted; 0 if none did. */
  readonly required: number;
  /** The connected replicas. */
  readonly copies: readonly { readonly address: string; readonly state: string; readonly lagSeconds: number }[];
}

export interface QueuedCopy extends EntryName {
  readonly stream: string;
  readonly id: string | undefined;
  readonly producer: string | undefined;
  readonly acceptedAtMs: number;
  readonly body: Buffer;
  readonly replayOf: string | undefined;
}

export type Replay = Pick<QuarantineBody, 'id' | 'traceparent' | 'producer' | 'body' | 'acceptedAtMs'> & {
  readonly replayOf: string;
};

export interface Replayed {
  readonly entry: string;
  readonly fresh: boolean;
}

/** The state of an entry for the group `warehouse`. `gone` means deleted and not pending. */
export type EntryState = 'unread' | 'held' | 'done' | 'gone';

/** `held` means that a live consumer has the entry and will acknowledge it soon. */
export type Erasure = 'erased' | 'held' | 'gone';

export type StateEntry = QueuedCopy & { readonly state: EntryState };

/** `full` means that a limit was reached. */
export interface EntryPage {
  readonly entries: readonly StateEntry[];
  readonly full: boolean;
}

/** `run` identifies the server process, so streams on one server have the same value. */
export interface StreamStatus {
  readonly partition: PartitionStatus;
  readonly server: ServerStatus;
  readonly run: string;
}

export interface QueuedStream {
  readonly name: string;
  status(): Promise<StreamStatus>;
  clock(): Promise<number>;
  /** `added` counts all entries that the stream has ever had. */
  end(): Promise<{ readonly entry: string; readonly added: number; readonly length: number }>;
  /**
   * Reads the entries after `entry`, up to `end`, which may be open, and to a limit of entries and bytes. With `end`,
   * rejects if the queue's identity, which is part of each copy's source, is unknown. An event whose entry is `done`
   * already had its row.
   */
  after(entry: string, end?: string): Promise<EntryPage>;
  /** Finds the entry through the id index, for any producer. */
  find(id: string): Promise<QueuedCopy | undefined>;
  /** Finds the entries of an id from which quarantine rows were made, and the replays of the id and of the rows. */
  copiesOfRows(id: string, rows: readonly string[]): Promise<readonly QueuedCopy[]>;
  /** Appends an entry, unless the row's last replay has not landed yet. `again` also repeats an acknowledged replay. */
  replay(row: Replay, again: boolean): Promise<Replayed>;
  states(entries: readonly string[]): Promise<readonly EntryState[]>;
  /** Records an erasure, so a consumer that already holds the event lands it without its body. */
  noteErasure(id: string): Promise<void>;
  /**
   * The time until which the server can hold the bytes of entries that this object erased, if all earlier entries land:
   * it only marks them as deleted. Infinity if it is not known, `undefined` if nothing was erased.
   */
  readonly bytesUntilMs: number | undefined;
  /** Replaces an entry with one that has another body. The id stays taken. */
  erase(copy: QueuedCopy, id: string, body: string): Promise<Erasure>;
  /** Returns up to a page of noted erasures, the newest first. `from` is the number of those to skip. */
  erasures(from: number): Promise<readonly { readonly id: string; readonly atMs: number }[]>;
  /** Makes acknowledged entries pending again. Returns the states after that. */
  landAgain(entries: readonly EntryName[]): Promise<readonly EntryState[]>;
  close(): Promise<void>;
}

export interface QueueAdmin {
  /** Without secrets. */
  readonly uri: string;
  readonly streams: readonly QueuedStream[];
}

/** Compares entries of one stream, `<milliseconds>-<number>`. */
export const isEntryBefore = (one: string, other: string): boolean =>
  one.localeCompare(other, 'en', { numeric: true }) < 0;

export const streamOf = ({ streams }: QueueAdmin, id: string): QueuedStream =>
  streams[partitionOf(id, streams.length)] as QueuedStream;
