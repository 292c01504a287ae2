// The accepting side of the queue on a Redis Stream.
//
// Way of a submission: pending (this turn of the event loop) → outstanding (sent, unanswered) → settled. Submissions of
// one turn travel in one script call, which Redis runs as one atomic step.
//
// Invariants: every submission is settled once, within the time-out plus one timer's lateness. `accepted` and
// `duplicate` are said only after Redis has answered so. While a call is overdue the queue counts as stalled and
// refuses at once, so a frozen server makes at most one time-out's worth of submissions wait in memory.
//
// Not done here: several partitions (partitioned-queue.ts).
import {
  RETENTION_MS,
  type Outcome,
  type Queue,
  type QueueLookup,
  type QueueState,
  type Submission,
} from '../ingest/queue.ts';
import type { Log } from '../process/log.ts';
import type { RedisConnection, Server } from './client.ts';
import { withTimeout } from './deadline.ts';
import { NoAnswer } from './errors.ts';
import { compressed, decoded, ENCODED_MEMBER, isCompressible } from './body-encoding.ts';
import { OutstandingCalls, settleAll, type Call } from './outstanding-calls.ts';
import { membersOf } from './entry-notes.ts';
import { dispatcherDialect, streamDialect, type QueueDialect } from './queue-dialect.ts';
import { queueIdentity, type QueueIdentity } from './queue-identity.ts';
import type { Reply } from './reply.ts';
import { ReplicatedSender } from './replicated-sender.ts';
import type { Argument } from './script.ts';
import { STREAM } from './stream-names.ts';
import { StreamTrimmer, UNLANDED_HOURS_MAX } from './stream-trimmer.ts';

/** How often the queue is asked whether it would take an event, and how long it may take to say so. */
const PROBE_INTERVAL_MS = 400;
const PROBE_TIMEOUT_MS = 600;
/** After this long without any answer the connection is thrown away. */
const STALL_MAX_MS = 3_000;
/** The part of the time-out that replicas are given. */
const WAIT_SHARE = 0.6;

// Fact: Redis runs one script at a time, at about 8 µs for each event, and a call's arguments are joined into
// one string. Choice: a call is bounded in events and in characters; what is over goes in the next one, at once.
const CALL_EVENTS_MAX = 256;
const CALL_CHARACTERS_MAX = 1 << 20;

const OUTCOMES: Readonly<Record<number, Outcome>> = {
  0x30: 'accepted',
  0x31: 'duplicate',
  0x32: 'conflict',
  0x33: 'differing',
  0x34: 'shed',
};
/** A duplicate whose body is to be compared here (accept.lua). */
const COMPARE = 0x36;

export interface StreamQueueOptions {
  readonly connection: RedisConnection<Reply>;
  /** How long a submission waits for the queue's answer, in milliseconds. */
  readonly enqueueTimeoutMs: number;
  readonly log: Log;
  /**
   * Whether a server that may lose accepted events is refused (`require`) or told of (`warn`, the default); asked of
   * each connection.
   */
  readonly durability?: 'warn' | 'require';
  readonly retentionMs?: number;
  /** How bodies are put on the queue (body-encoding.ts); `none` by default. What is there is read either way. */
  readonly compression?: 'none' | 'zstd';
  /** How long what has not landed stays in the queue, in milliseconds; at least `retentionMs`. */
  readonly unlandedMs?: number;
  readonly stream?: string;
  /** With it an event counts as accepted once so many replicas have it. The queue opens and closes the connections. */
  readonly replicated?: Replicated | undefined;
  /** How the queue is identified on a server that holds the stream; by the stream's own metadata by default. */
  readonly identify?: (server: Server) => Promise<QueueIdentity>;
  /**
   * What is behind the connection: a Redis server (the default), or a dispatcher, which looks after its queues itself.
   */
  readonly behind?: 'redis' | 'dispatcher';
  /** Called once for each answered call, with the time it took in seconds and how many events it carried. */
  readonly onCall?: (seconds: number, events: number) => void;
  /** Called with the number of accepted events that the queue lost before they landed. */
  readonly onLost?: (events: number) => void;
}

export interface Replicated {
  readonly replicas: number;
  readonly connections: readonly RedisConnection<Reply>[];
}

export class StreamQueue implements Queue {
  readonly #connection: RedisConnection<Reply>;
  readonly #timeoutMs: number;
  readonly #log: Log;
  readonly #onCall: (seconds: number, events: number) => void;
  readonly #dialect: QueueDialect;
  readonly #replicated: ReplicatedSender | undefined;
  readonly #compression: 'none' | 'zstd';

  #pending: Submission[] = [];
  #flushScheduled = false;
  readonly #calls: OutstandingCalls;
  #stalledSinceMs: number | undefined;

  readonly #trimmer: StreamTrimmer | undefined;
  readonly #prober: NodeJS.Timeout;
  #probing = false;
  #probedMs = Number.NEGATIVE_INFINITY;
  #reason: string | undefined = 'not asked yet';

  constructor(options: StreamQueueOptions) {
    this.#connection = options.connection;
    this.#timeoutMs = options.enqueueTimeoutMs;
    this.#calls = new OutstandingCalls(options.enqueueTimeoutMs, (sinceMs) => this.#overdue(sinceMs));
    this.#log = options.log;
    this.#onCall = options.onCall ?? (() => undefined);
    const { stream = STREAM, retentionMs = RETENTION_MS, durability = 'warn', compression = 'none' } = options;
    this.#compression = compression;
    if (options.behind === 'dispatcher') this.#dialect = dispatcherDialect(this.#connection);
    else {
      const { replicated, identify = (server) => queueIdentity(server, stream) } = options;
      if (replicated !== undefined) {
        const waitMs = Math.max(1, Math.floor(WAIT_SHARE * this.#timeoutMs));
        this.#replicated = new ReplicatedSender({ ...replicated, stream, waitMs });
        // Beside the queue's own connection, not behind it: a start has five seconds for all of them.
        this.#replicated.open();
      }
      const replicas = replicated?.replicas ?? 0;
      const about = { stream, retentionMs, durability, log: this.#log, identify, replicas };
      this.#dialect = streamDialect(this.#connection, this.#replicated ?? this.#connection, about);
      this.#trimmer = new StreamTrimmer({
        server: this.#connection.values,
        stream,
        retentionMs,
        unlandedMs: options.unlandedMs ?? Math.max(retentionMs, UNLANDED_HOURS_MAX * 3_600_000),
        log: this.#log,
        onLost: options.onLost ?? (() => undefined),
      });
      this.#trimmer.start();
    }
    this.#connection.inspect = (server) => this.#dialect.inspect(server);
    this.#connection.onReady = () => {
      if (this.#compression !== 'none' && !this.#dialect.takesCompressed())
        this.#log.warn(
          'the queue was made before compression: bodies stand on it as they are; a new queue takes them compressed',
        );
      void this.probe();
      void this.#trimmer?.look();
    };
    this.#connection.onLost = (reason) => {
      this.#stalledSinceMs = undefined;
      this.#says(reason);
    };
    this.#prober = setInterval(() => this.#supervise(), PROBE_INTERVAL_MS);
  }

  submit(submission: Submission): void {
    this.#pending.push(submission);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    // Fact: sockets that became readable together are read in one poll phase, and the check phase follows it.
    // Choice: send there. The events of one turn share one call, and a lone event waits for nothing.
    setImmediate(this.#flush);
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    return this.#find(id, producer, this.#timeoutMs);
  }

  async #find(id: string, producer: string, timeoutMs: number): Promise<QueueLookup> {
    if (this.#stalledSinceMs !== undefined) return { kind: 'unavailable' };
    const { find, field } = this.#dialect;
    const command = find.begin();
    command.push(field(id), producer);
    try {
      const reply = await withTimeout(find.run(command), timeoutMs);
      const parts = reply.array();
      if (parts === undefined) return { kind: 'unknown' };
      const acceptedAtMs = Number.parseInt(reply.text(), 10);
      const bytes = reply.bytes();
      const traceparent = parts > 2 ? reply.text() : '';
      const body = decoded(bytes, parts > 3 ? reply.text() : undefined);
      return {
        kind: 'found',
        event: { body, acceptedAtMs, traceparent: traceparent === '' ? undefined : traceparent },
      };
    } catch (cause) {
      this.#log.debug({ err: cause }, 'look-up failed');
      return { kind: 'unavailable' };
    }
  }

  /** How the queue's id index has an id; known once there was a connection. */
  indexField(id: string): string {
    return this.#dialect.field(id);
  }

  state(): QueueState {
    if (this.#reason !== undefined) return { available: false, reason: this.#reason };
    if (performance.now() - this.#probedMs > PROBE_INTERVAL_MS + PROBE_TIMEOUT_MS) {
      return { available: false, reason: 'the queue has not answered lately' };
    }
    return { available: true };
  }

  states(): readonly QueueState[] {
    return [this.state()];
  }

  /**
   * Asks the queue once whether it would take an event, by a no-op write, which also fails when Redis is full or
   * read-only.
   */
  async probe(): Promise<QueueState> {
    if (this.#probing) return this.state();
    this.#probing = true;
    try {
      const { accept } = this.#dialect;
      await withTimeout(accept.run(accept.begin(false)), PROBE_TIMEOUT_MS);
      this.#probedMs = performance.now();
      this.#stalledSinceMs = undefined;
      this.#says(undefined);
    } catch (cause) {
      // A server that froze while nobody sends has to be noticed too: its connection may be dead for good.
      if (cause instanceof NoAnswer) this.#stalledSinceMs ??= performance.now() - PROBE_TIMEOUT_MS;
      this.#says(this.#connection.ready ? reasonOf(cause) : this.#connection.lastError);
    } finally {
      this.#probing = false;
    }
    return this.state();
  }

  async close(): Promise<void> {
    clearInterval(this.#prober);
    this.#trimmer?.stop();
    await this.#replicated?.close();
    await this.#connection.close();
    this.#calls.close();
  }

  readonly #flush = (): void => {
    this.#flushScheduled = false;
    const submissions = this.#pending;
    this.#pending = [];
    if (!this.#connection.ready || this.#stalledSinceMs !== undefined) {
      for (const submission of submissions) submission.settle('unavailable');
      return;
    }
    for (let from = 0; from < submissions.length;) from = this.#send(submissions, from);
  };

  /** Sends one call with the submissions from `from` on, as many as it may carry; gives where the next one begins. */
  #send(submissions: readonly Submission[], from: number): number {
    // Fact: an argument more costs every event. Choice: only a call with such events has it.
    const { accept, field, takesCompressed } = this.#dialect;
    const compresses = this.#compression === 'zstd' && takesCompressed();
    const wide = submissions.some(({ notes, text }) => notes !== undefined || (compresses && isCompressible(text)));
    const command = accept.begin(wide);
    const events: Argument[] = [];
    let at = from;
    for (let characters = 0; at < submissions.length && at - from < CALL_EVENTS_MAX; at += 1) {
      const submission = submissions[at];
      if (submission === undefined) break;
      characters += submission.text.length;
      if (characters > CALL_CHARACTERS_MAX && at > from) break;
      command.push(field(submission.id));
      const body = compresses ? compressed(submission.text) : undefined;
      events.push(submission.producer, body ?? submission.text);
      if (wide) events.push(membersOf(submission.notes) + (body === undefined ? '' : ENCODED_MEMBER));
    }
    command.push(...events);
    const carried = from === 0 && at === submissions.length ? submissions : submissions.slice(from, at);
    const answer = accept.run(command);
    const call = this.#calls.began(carried);
    answer.then(
      (reply) => this.#answered(call, reply),
      (cause: unknown) => this.#refused(call, cause),
    );
    return at;
  }

  #answered(call: Call, reply: Reply): void {
    this.#stalledSinceMs = undefined;
    this.#calls.remove(call);
    if (call.settled) return;
    this.#onCall((performance.now() - call.sentMs) / 1000, call.submissions.length);
    const verdicts = reply.isString ? reply.text() : undefined;
    if (verdicts?.length !== call.submissions.length) {
      this.#log.error({ events: call.submissions.length }, 'the queue gave an answer that is none');
      settleAll(call, 'unavailable');
      return;
    }
    call.settled = true;
    for (let at = 0; at < call.submissions.length; at += 1) {
      const submission = call.submissions[at];
      const verdict = verdicts.charCodeAt(at);
      if (verdict === COMPARE && submission !== undefined) void this.#compare(submission, call.sentMs);
      else submission?.settle(OUTCOMES[verdict] ?? 'unavailable');
    }
  }

  /** Settles a duplicate by the body that the queue has; in what is left of its time. */
  async #compare(submission: Submission, sentMs: number): Promise<void> {
    const { id, producer, text } = submission;
    const found = await this.#find(id, producer, Math.max(1, sentMs + this.#timeoutMs - performance.now()));
    if (found.kind === 'found')
      submission.settle(found.event.body.equals(Buffer.from(text)) ? 'duplicate' : 'differing');
    else submission.settle('unavailable');
  }

  #refused(call: Call, cause: unknown): void {
    this.#calls.remove(call);
    if (this.#connection.ready) {
      this.#stalledSinceMs = undefined; // No is an answer, too.
      this.#says(reasonOf(cause));
    }
    settleAll(call, 'unavailable');
  }

  /** A call got no answer in time. */
  #overdue(sinceMs: number): void {
    this.#stalledSinceMs ??= sinceMs;
    this.#says(`no answer within ${this.#timeoutMs} ms`);
  }

  #supervise(): void {
    if (this.#stalledSinceMs !== undefined && performance.now() - this.#stalledSinceMs > STALL_MAX_MS) {
      this.#connection.restart('the server does not answer');
      this.#replicated?.restart('the server does not answer');
    }
    void this.probe();
  }

  /** Notes what the queue is like now, and logs a change. `undefined` is good. */
  #says(reason: string | undefined): void {
    if (reason === this.#reason) return;
    const before = this.#reason;
    this.#reason = reason;
    if (reason === undefined) this.#log.info('the queue takes events');
    else if (before === undefined) this.#log.error({ reason }, 'the queue takes no events');
  }
}

/** Redis' own words: they name no secret. A client's error for a lost connection says that. */
function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : 'unknown error';
}
