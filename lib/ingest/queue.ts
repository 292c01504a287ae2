// The queue port of the gateway (the accepting side) and the consumer (the reading side).
//
// A queue keeps each event, and the producer of its id, for RETENTION_MS and until the event has landed. Each
// partition of a queue (partition.ts) can be unavailable on its own. Every implementation of the accepting side runs
// test/contract/queue.ts.

/** The queue's retention of a landed event and its id (openapi/rules.md, 4). */
export const RETENTION_MS = 24 * 60 * 60 * 1000;

/**
 * The outcome of a submission:
 * - `duplicate`: the queue already has this producer's event with this id.
 * - `differing`: a duplicate with a different body. The queue keeps the first body.
 * - `conflict`: the id belongs to another producer's event.
 * - `unavailable`: the queue refused or did not reply in time. It may have the event, and a retry is safe.
 * - `too large`: the queue never takes a body of this length.
 * - `shed`: `unavailable` from one of two queues (RFC 014).
 */
export type Outcome = 'accepted' | 'duplicate' | 'differing' | 'conflict' | 'too large' | 'unavailable' | 'shed';

/** Further members of an event's entry. No value is empty or contains a line break. */
export interface EventNotes {
  /** The event's id, if it differs from the `id` in the body. */
  readonly id?: string;
  readonly traceparent?: string;
  readonly tracestate?: string;
}

export interface Submission {
  readonly id: string;
  readonly producer: string;
  /** The bytes that the producer sent, valid UTF-8. */
  readonly body: Buffer;
  readonly notes?: EventNotes | undefined;
  /** Called exactly once, after `submit` has returned and within the queue's timeout. Must not throw. */
  settle(outcome: Outcome): void;
}

export interface FoundEvent {
  readonly acceptedAtMs: number;
  readonly traceparent: string | undefined;
}

/** Another producer's id is `unknown`, so callers learn nothing about other producers' events. */
export type QueueLookup =
  | { readonly kind: 'found'; readonly event: FoundEvent & { readonly body: Buffer } }
  | { readonly kind: 'unknown' | 'unavailable' };

export type QueueState = { readonly available: true } | { readonly available: false; readonly reason: string };

export interface Queue {
  /** Enqueues one event and records its id in one atomic step. No submission waits for a timer. */
  submit(submission: Submission): void;
  find(id: string, producer: string): Promise<QueueLookup>;
  /** Returns the result of the last probe. A queue with partitions is available if at least one of them is. */
  state(): QueueState;
  states(): readonly QueueState[];
  close(): Promise<void>;
}

/** One entry, as the reading side receives it. Other writers may have added entries with any content. */
export interface Delivery {
  readonly entry: string;
  /** `<queue id>/<stream>`. Together with `entry`, it is unique across all queues. */
  readonly source: string;
  readonly producer: string | undefined;
  readonly body: Buffer | undefined;
  readonly notes: EventNotes;
  /** Time of the first acceptance, in Unix milliseconds by the queue's clock, 0 to TIME_MS_MAX. */
  readonly acceptedAtMs: number;
  /** The quarantine row that this entry replays. The row is removed once the event has landed. */
  readonly replayOf?: string;
  /**
   * The number of the server that the entry was read from; unset for 0. After a failover, a server that lacks the
   * last writes may give the names of their entries to other events, so an entry is changed by name only on the
   * server that it was read from.
   */
  readonly servers?: number;
}

export interface AcceptedEvent extends Pick<Delivery, 'source' | 'acceptedAtMs'> {
  readonly id?: string | undefined;
}

export type EntryName = Pick<Delivery, 'source' | 'entry' | 'servers'>;

export interface QueueReport {
  /** `undefined` until a consumer has counted: after a restart or a fail-over, Redis does not know this number. */
  readonly unlanded: number | undefined;
  /** The age of the oldest unlanded event, or 0 if there is none. Known even if their number is not. */
  readonly oldestMs: number;
  readonly events: number;
  /** A lower bound of the difference between this process's clock and the queue's. */
  readonly clockSkewMs?: number;
  readonly memoryBytes: number | undefined;
  readonly memoryLimitBytes: number | undefined;
  /** Entries that the group has acknowledged since the stream was created; unknown if `unlanded` is. */
  readonly acknowledged?: number | undefined;
  /** Consumers with a recent heartbeat. */
  readonly consumers?: number | undefined;
  /** Connected replicas of the server. */
  readonly replicas?: number | undefined;
}

/** One member of the consumer group `warehouse`, also called a replica. Every method has a time limit. */
export interface QueueReader {
  /** Replicas with a recent heartbeat, including this one; 0 until it has registered. */
  readonly replicas: number;
  /** True for one of the replicas with a recent heartbeat, and until this one has registered. */
  readonly isFirst: boolean;
  /** The longest body that any gateway accepts, in bytes, if known. */
  readonly bodyBytesMax: number | undefined;
  /** Registers this process until `close`. Resolves with false if `replicasMax` others have a recent heartbeat. */
  register(replicasMax: number): Promise<boolean>;
  /** Resolves with true if the group was missing and was created at the beginning of the queue. */
  join(): Promise<boolean>;
  /**
   * Returns up to `max` entries: first those that another member has held for at least `idleMs`, then new ones. If the
   * queue has neither, waits up to `waitMs`. Rejects with GroupVanished if the queue or the group was deleted. After a
   * lost reply, it may return unacknowledged entries again. Entries from one source are in order.
   */
  read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]>;
  /** Returns how many entries were still pending. Another member may have claimed and acknowledged the rest. */
  acknowledge(entries: readonly EntryName[]): Promise<number>;
  /**
   * Returns the ids of events that an operator erased after they were accepted. The answer may be as old as `ageMsMax`,
   * but not older than the read that returned the events.
   */
  erased(events: readonly AcceptedEvent[], ageMsMax?: number): Promise<ReadonlySet<string>>;
  state(): QueueState;
  /** Leaves the group and closes the connections. Other members may claim the pending entries. */
  close(): Promise<void>;
}

/** A replica is considered alive for this long after its last heartbeat. */
export const REPLICA_LEASE_MS = 5_000;

export class GroupVanished extends Error {}
