// The queue port of the gateway (accepting side) and the consumer (reading side).
//
// A queue keeps an event, and the producer of its id, for RETENTION_MS and until it has landed. It may have partitions
// (lib/ingest/partition.ts), each of which may be unavailable by itself. test/contract/queue.ts and
// test/contract/queue-reader.ts are the suites that every implementation runs.

/** How long the queue keeps a landed event and its id (openapi/rules.md, 4: 24 hours). */
export const RETENTION_MS = 24 * 60 * 60 * 1000;

/**
 * The outcome of a submission:
 * - `accepted`: the queue has the event, and did not know the id.
 * - `duplicate`: the queue already has this producer's event of this id.
 * - `differing`: a duplicate with another body. The first body stays.
 * - `conflict`: another producer's event has this id.
 * - `unavailable`: the queue refused or did not reply in time. It may have the event, and the same submission is safe
 *   to
 *   repeat.
 * - `shed`: `unavailable`, from one of two queues (RFC 014).
 */
export type Outcome = 'accepted' | 'duplicate' | 'differing' | 'conflict' | 'unavailable' | 'shed';

/** Further members of an event's entry. No value is empty or holds a line end. */
export interface EventNotes {
  /** The event's id, if the body's `id` differs. */
  readonly id?: string;
  /** The producer's trace context (trace-context.ts), or the span of the gateway. */
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** One event to enqueue. The queue keeps the reference until it calls `settle`. */
export interface Submission {
  readonly id: string;
  readonly producer: string;
  /** The body. Its UTF-8 form is the bytes that were sent. */
  readonly text: string;
  readonly notes?: EventNotes | undefined;
  /** Called exactly once, after `submit` has returned and within the queue's time-out. Must not throw. */
  settle(outcome: Outcome): void;
}

/** `acceptedAtMs` is Unix time in milliseconds, by the queue's clock. */
export interface QueuedEvent {
  readonly body: Buffer;
  readonly acceptedAtMs: number;
  readonly traceparent: string | undefined;
}

/** `unknown` covers another producer's id, so that the caller learns nothing about it. */
export type QueueLookup =
  | { readonly kind: 'found'; readonly event: QueuedEvent }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' };

/** `reason` is for people (health answers, logs) and holds no secret. */
export type QueueState = { readonly available: true } | { readonly available: false; readonly reason: string };

/** The reason before the first probe. */
export const NOT_ASKED = 'not asked yet';

export interface Queue {
  /**
   * Enqueues one event: noting the id and appending the event is one atomic step. Submissions of one turn of the event
   * loop may share a call; none waits for a timer.
   */
  submit(submission: Submission): void;
  /** Finds an event by its id, for the producer that sent it. Never rejects. */
  find(id: string, producer: string): Promise<QueueLookup>;
  /**
   * The result of the last probe; an old one is a failure. A queue with several partitions is available while one is.
   */
  state(): QueueState;
  /** The state of each partition, in order. */
  states(): readonly QueueState[];
  /** Closes the connection after the outstanding replies. Idempotent. */
  close(): Promise<void>;
}

/** One entry for the reading side. An entry from other writers may hold anything or nothing, and is delivered too. */
export interface Delivery {
  /** Unique in its source, and ascending. */
  readonly entry: string;
  /** `<queue id>/<stream>`. Together with the entry's name it is unique among all queues. */
  readonly source: string;
  /** `undefined` if the entry has none, or one that is not UTF-8. */
  readonly producer: string | undefined;
  readonly body: Buffer | undefined;
  readonly notes: EventNotes;
  /** Unix time in milliseconds of the first acceptance, by the queue's clock, 0 to TIME_MS_MAX. */
  readonly acceptedAtMs: number;
  /** The quarantine row that this entry replays. The row is removed when the event has landed. */
  readonly replayOf?: string;
  /**
   * The number of the server that the entry was read from; unset for 0. A server that lacks the last writes of its
   * predecessor (after a fail-over or crash) may give their entries' names to other events. So an entry is changed by
   * name only on the server that it was read from.
   */
  readonly servers?: number;
}

/** An event as erasures identify it. */
export interface AcceptedEvent extends Pick<Delivery, 'source' | 'acceptedAtMs'> {
  readonly id?: string | undefined;
}

/** An entry as `read` delivered it. */
export type EntryName = Pick<Delivery, 'source' | 'entry' | 'servers'>;

/** A report on a queue or one of its partitions. */
export interface QueueReport {
  /** Unread or pending events. An upper bound after deletions by hand. */
  readonly unlanded: number;
  /** In milliseconds, by the queue's clock, or 0. */
  readonly oldestMs: number;
  /** Landed and unlanded events. */
  readonly events: number;
  /** The minimum difference between this process's clock and the queue's. */
  readonly clockSkewMs?: number;
  /** Memory that the queue's server uses, if it reports it. */
  readonly memoryBytes: number | undefined;
  /** The memory at which the server refuses events, if it reports it; 0 if it has no limit. */
  readonly memoryLimitBytes: number | undefined;
}

/**
 * The reading side: one member of the consumer group `warehouse`, also called a replica. Every method rejects within a
 * time-out if the queue is unavailable.
 */
export interface QueueReader {
  /** The longest body that any gateway accepts, in bytes, if known. */
  readonly bodyBytesMax: number | undefined;
  /**
   * Registers this process as a replica until `close`, and renews its sign of life. Resolves with false if
   * `replicasMax` others are registered. Atomic. A replica without a sign of life for REPLICA_LEASE_MS is not counted
   * meanwhile.
   */
  register(replicasMax: number): Promise<boolean>;
  /**
   * Joins the group. Resolves with true if the group was missing and had to be created at the queue's beginning. Safe
   * for several replicas at the same time.
   */
  join(): Promise<boolean>;
  /**
   * Returns up to `max` entries: first those that another member has held for `idleMs` or longer, then new ones. Waits
   * up to `waitMs` for one. Rejects with GroupVanished if the queue or the group was deleted. After a lost reply it may
   * return unacknowledged entries again. Entries of one source are in order.
   */
  read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]>;
  /**
   * Acknowledges entries, and returns how many were still pending. Others were acknowledged by another member that
   * considered this one dead.
   */
  acknowledge(entries: readonly EntryName[]): Promise<number>;
  /** The ids of the events that an operator erased after they were accepted: they land without their bodies. */
  erased(events: readonly AcceptedEvent[]): Promise<ReadonlySet<string>>;
  /** Available if the connection for reading is. */
  state(): QueueState;
  /** Leaves the group and closes the connections. Others may claim the pending entries. Idempotent. */
  close(): Promise<void>;
}

/** A replica counts for this long without a sign of life. */
export const REPLICA_LEASE_MS = 5_000;

/** The stream or its group was deleted; `join` creates it again. */
export class GroupVanished extends Error {
  override readonly name = 'GroupVanished';
}
