// The queue port: what the gateway (accepting side) and the consumer (reading side) ask of a queue, in words.
//
// An implementation holds events for RETENTION_MS and until they have landed, and knows, for as long, which id belongs
// to which producer. It may consist of partitions (lib/ingest/partition.ts), each of which comes and goes by itself.
// There are Redis Streams, and queues made of several queues (partitioned-queue.ts). test/contract/queue.ts and
// test/contract/queue-reader.ts are the suites that every implementation runs.

/** How long the queue keeps an event that has landed, and its id, in milliseconds (openapi/rules.md, 4: 24 hours). */
export const RETENTION_MS = 24 * 60 * 60 * 1000;

/**
 * What became of one submission.
 * - `accepted`: the queue has the event, and had not known the id.
 * - `duplicate`: this producer's event of this id is there already; nothing was added and the first body stays.
 * - `differing`: a duplicate whose body is another one than the first, which stays.
 * - `conflict`: another producer's event has this id; nothing was added.
 * - `unavailable`: the queue refused or did not answer in time. It may have the event: the outcome is unknown, and the
 *   same submission again is safe.
 * - `shed`: `unavailable` of one of two queues (RFC 014).
 */
export type Outcome = 'accepted' | 'duplicate' | 'differing' | 'conflict' | 'unavailable' | 'shed';

/** What is kept with an event in addition to its body. No value is empty or holds a line end. */
export interface EventNotes {
  /** The event's id, where the body's own `id` is not it. */
  readonly id?: string;
  /** The trace context that its producer sent (trace-context.ts), or of the span of the program that sent it on. */
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** One event to be enqueued. The queue keeps the reference until it has called `settle`. */
export interface Submission {
  readonly id: string;
  readonly producer: string;
  /** The body as it came: text whose UTF-8 form is the bytes that were sent. */
  readonly text: string;
  readonly notes?: EventNotes | undefined;
  /** Called exactly once, never before `submit` has returned, and within the queue's time-out. Must not throw. */
  settle(outcome: Outcome): void;
}

/** An event that the queue knows. `acceptedAtMs` is Unix time in milliseconds, by the queue's clock. */
export interface QueuedEvent {
  readonly body: Buffer;
  readonly acceptedAtMs: number;
  readonly traceparent: string | undefined;
}

/** `unknown` covers another producer's id: the caller learns nothing of it. */
export type QueueLookup =
  | { readonly kind: 'found'; readonly event: QueuedEvent }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable' };

/** Whether the queue can take events now; `reason` is for people (health answers, logs) and holds no secret. */
export type QueueState = { readonly available: true } | { readonly available: false; readonly reason: string };

/** The reason of a queue that has said nothing yet. */
export const NOT_ASKED = 'not asked yet';

/** The accepting side. */
export interface Queue {
  /**
   * Takes one event. Noting the id and appending the event is one atomic step. Submissions made in one turn of the
   * event loop may travel together; none waits on a timer for company. Keeps no submission past its time-out.
   */
  submit(submission: Submission): void;
  /** Looks one event up by id, for the producer that sent it. Rejects never. */
  find(id: string, producer: string): Promise<QueueLookup>;
  /**
   * What the last probe said. A probe older than its interval plus its time-out counts as a failed one. A queue of
   * several partitions is available while one of them is.
   */
  state(): QueueState;
  /** The same for each partition (lib/ingest/partition.ts), in order; there is always one at least. */
  states(): readonly QueueState[];
  /** Lets go of the connection once nothing is outstanding. Idempotent. */
  close(): Promise<void>;
}

/**
 * One entry as the reading side delivers it, whatever it holds: an entry put on the queue by other writers can hold
 * anything, or nothing, and must still be delivered.
 */
export interface Delivery {
  /** The queue's own name of the entry; unique in its source and ascending. */
  readonly entry: string;
  /**
   * `<queue id>/<stream>`: where the entry is. With the entry's name it is unique among all queues that ever were.
   */
  readonly source: string;
  /** `undefined`: the entry names none, or one that is not UTF-8. */
  readonly producer: string | undefined;
  /** `undefined`: the entry has none. */
  readonly body: Buffer | undefined;
  readonly notes: EventNotes;
  /**
   * Unix time in milliseconds of the first acceptance, by the queue's clock, 0 to TIME_MS_MAX: when the entry was
   * appended, or what a replayed or erased one says.
   */
  readonly acceptedAtMs: number;
  /**
   * The quarantine row that this entry replays: its name stays the row's, and the row goes when the event has landed.
   */
  readonly replayOf?: string;
  /**
   * Which of the servers that the reader has met the entry was read from, by its number; left out for 0. A server that
   * lacks the last writes of the one before (a fail-over, a crash) may give their entries' names to other events once
   * its clock goes back, so what is done to an entry by its name is done only where it was read.
   */
  readonly servers?: number;
}

/** An event as the erasures of its queue identify it. */
export interface AcceptedEvent extends Pick<Delivery, 'source' | 'acceptedAtMs'> {
  readonly id?: string | undefined;
}

/** An entry as `read` named it. */
export type EntryName = Pick<Delivery, 'source' | 'entry' | 'servers'>;

/** What a look at a queue, or at one partition of it, saw. */
export interface QueueReport {
  /** Events that have not landed: not yet read, or read and pending. An upper bound after deletions by hand. */
  readonly unlanded: number;
  /** Age of the oldest of them in milliseconds, by the queue's clock; 0 when there is none. */
  readonly oldestMs: number;
  /** All events, landed or not. */
  readonly events: number;
  /** How far this process's clock and the queue's are apart, at least. */
  readonly clockSkewMs?: number;
  /** What the queue's server has in memory, in bytes; undefined where it does not tell. */
  readonly memoryBytes: number | undefined;
  /**
   * Where the server begins to refuse events, in bytes; 0: it has no limit of its own. Undefined where it does not
   * tell.
   */
  readonly memoryLimitBytes: number | undefined;
}

/**
 * The reading side: one member of the consumer group `warehouse`, a replica. Every method rejects when the queue is not
 * there, within a time-out of the implementation's own; none waits for it to come back.
 */
export interface QueueReader {
  /**
   * The longest body that gateways were set to accept so far, in bytes, as far as is known; undefined where one may not
   * have said it.
   */
  readonly bodyBytesMax: number | undefined;
  /**
   * Counts this process as a replica, from now until `close` (its sign of life is renewed by itself). False, and not
   * counted, where `replicasMax` others are counted. Atomic. One that gives no sign of life for REPLICA_LEASE_MS is
   * not counted any more, and is again when it comes back.
   */
  register(replicasMax: number): Promise<boolean>;
  /**
   * Joins the group, making it (from the queue's beginning) where it is missing. Gives true when it had to be made.
   * Safe when several replicas start at once.
   */
  join(): Promise<boolean>;
  /**
   * Up to `max` entries: those that a member took at least `idleMs` ago and never acknowledged come first, then new
   * ones. Waits up to `waitMs` when there is nothing. Rejects with GroupVanished when the queue or group is gone. After
   * a lost answer it may give entries again that were given before and are not acknowledged yet. Entries of one source
   * come in order.
   */
  read(max: number, idleMs: number, waitMs: number): Promise<readonly Delivery[]>;
  /**
   * Marks entries as done, for good, and gives how many were not done yet: fewer than `entries` where another member,
   * which had taken this one for dead, was faster.
   */
  acknowledge(entries: readonly EntryName[]): Promise<number>;
  /**
   * The ids of those of these events that an operator erased after they were accepted: they land without their bodies.
   */
  erased(events: readonly AcceptedEvent[]): Promise<ReadonlySet<string>>;
  /** Whether there is a connection on which it can be read. */
  state(): QueueState;
  /** Leaves the group (pending entries stay for the others to claim) and lets go of the connection. Idempotent. */
  close(): Promise<void>;
}

/** How long a replica counts without a sign of life, in milliseconds. */
export const REPLICA_LEASE_MS = 5_000;

/** The stream or its group is not there any more; `join` makes it again. */
export class GroupVanished extends Error {
  override readonly name = 'GroupVanished';
}
