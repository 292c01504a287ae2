// The accepting side of the queue on one Redis Stream; partitioned-queue.ts has several.
//
// Way of a submission: pending (this turn of the event loop) → outstanding (sent, unanswered) → settled. Submissions of
// one turn travel in one script call, which Redis runs as one atomic step.
//
// Invariants: every submission is settled once, within the time-out plus one timer's lateness. `accepted` and
// `duplicate` are said only after Redis has answered so. While a call is overdue the queue counts as stalled and
// refuses immediately, so a frozen server makes at most one time-out's worth of submissions wait in memory.
import assert from 'node:assert/strict';
import {
  type Queue,
  type QueueLook,
  type QueueLookup,
  type QueueState,
  RETENTION_MS,
  type Submission,
} from '../../ingest/queue.ts';
import type { Clock, ClockAndRandom, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import type { RedisConnection } from '../server/client.ts';
import { ENCODED_MEMBER, compressed, decoded, isCompressible, membersOf } from '../stream/entry.ts';
import { type Call, OutstandingCalls, settleAll } from './outstanding-calls.ts';
import { FIELDS_MAX, type Known, areOf, digestsOf, hasDigests, judged, knownOf } from '../stream/id-index.ts';
import { OUTCOMES, type QueueDialect, streamDialect } from './queue-dialect.ts';
import { type Identify, queueIdentity } from '../stream/identity.ts';
import { QueueProbe } from './queue-probe.ts';
import type { Reply } from '../wire/reply.ts';
import { type Replicated, ReplicatedSender } from './replicated-sender.ts';
import type { Argument } from '../wire/script.ts';
import { STREAM } from '../stream/layout.ts';
import { StreamTrimmer } from '../stream/stream-trimmer.ts';
import { namesIn } from '../../ingest/erased.ts';
import { withTimeout } from '../wire/deadline.ts';

// Fact: Redis runs one script at a time, at about 8 µs for each event, and a call's arguments are joined into
// one string. Choice: a call is bounded in events and in characters; the rest goes into the next call immediately.
const CALL_EVENTS_MAX = 256;
const CALL_CHARACTERS_MAX = 1 << 20;
/** How often the queue's metadata is read again, which may have been deleted by hand. */
const IDENTIFY_INTERVAL_MS = 10_000;

export interface StreamQueueOptions extends ClockAndRandom {
  readonly connection: RedisConnection<Reply>;
  /** How long a submission waits for the queue's answer, in milliseconds. */
  readonly enqueueTimeoutMs: number;
  readonly log: Log;
  /** Each connection: a server that may lose accepted events is refused (`require`) or told of (`warn`, by default). */
  readonly durability?: 'warn' | 'require';
  readonly retentionMs?: number;
  /** How bodies are put on the queue (entry.ts); `none` by default. What is there is read either way. */
  readonly compression?: 'none' | 'zstd';
  readonly stream?: string;
  /** With it an event counts as accepted once so many replicas have it. The queue opens and closes the connections. */
  readonly replicated?: Replicated | undefined;
  /** False, for a check: neither metadata nor group is made where there is none, and nothing is trimmed. */
  readonly makes?: boolean;
  /** How the queue is identified on a server that holds the stream; by the stream's own metadata by default. */
  readonly identify?: Identify;
  /** Runs a task at the end of this turn of the event loop; the clock's `turnEnd` by default. */
  readonly defer?: (task: () => void) => void;
  /** Called once for each answered call, with the time it took in seconds and how many events it carried. */
  readonly onCall?: (seconds: number, events: number) => void;
  /** Called with what each look at the stream saw, every few seconds. */
  readonly onLook?: (look: QueueLook) => void;
}

export class StreamQueue implements Queue {
  readonly #connection: RedisConnection<Reply>;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #log: Log;
  readonly #onCall: (seconds: number, events: number) => void;
  readonly #dialect: QueueDialect;
  readonly #replicated: ReplicatedSender | undefined;
  readonly #compression: 'none' | 'zstd';

  #pending: Submission[] = [];
  readonly #defer: (task: () => void) => void;
  readonly #calls: OutstandingCalls;
  readonly #trimmer: StreamTrimmer | undefined;
  readonly #probe: QueueProbe;
  readonly #identifying: Timer;

  constructor(options: StreamQueueOptions) {
    this.#connection = options.connection;
    const { clock, random } = options;
    this.#clock = clock;
    this.#timeoutMs = options.enqueueTimeoutMs;
    this.#defer = options.defer ?? ((task) => clock.turnEnd(task));
    this.#calls = new OutstandingCalls(clock, options.enqueueTimeoutMs, () =>
      this.#probe.says(`no answer within ${this.#timeoutMs} ms`),
    );
    this.#log = options.log;
    this.#onCall = options.onCall ?? (() => undefined);
    const { stream = STREAM, retentionMs = RETENTION_MS, durability = 'warn', makes = true } = options;
    this.#compression = options.compression ?? 'none';
    const { replicated, identify = (server, known) => queueIdentity(server, stream, { random, makes, known }) } =
      options;
    if (replicated !== undefined) {
      this.#replicated = new ReplicatedSender({ ...replicated, stream, timeoutMs: this.#timeoutMs });
      // In parallel with the queue's own connection, not after it: a start has five seconds for all of them.
      this.#replicated.open();
    }
    const about = { stream, retentionMs, log: this.#log };
    const asked = { ...about, durability, identify, makes, replicas: replicated?.replicas ?? 0 };
    this.#dialect = streamDialect(this.#connection, this.#replicated ?? this.#connection, asked);
    if (makes)
      this.#trimmer = new StreamTrimmer({
        ...about,
        clock,
        server: this.#connection.values,
        onLook: options.onLook,
      });
    this.#trimmer?.start();
    this.#connection.tell({
      inspect: this.#dialect.inspect,
      onReady: () => {
        void this.#probe.ask();
        void this.#trimmer?.look();
      },
      onLost: (reason) => {
        this.#calls.serverSpoke();
        this.#probe.says(reason);
      },
    });
    this.#identifying = clock.every(IDENTIFY_INTERVAL_MS, () => {
      if (makes && this.#connection.ready) void this.#dialect.identify(this.#connection.values).catch(() => undefined);
    });
    this.#probe = new QueueProbe({
      clock,
      dialect: this.#dialect,
      connection: this.#connection,
      calls: this.#calls,
      callTimeoutMs: this.#timeoutMs,
      onSilent: (reason) => {
        this.#connection.restart(reason);
        this.#replicated?.restart(reason);
      },
      log: this.#log,
    });
  }

  submit(submission: Submission): void {
    this.#pending.push(submission);
    if (this.#pending.length > 1) return;
    // Fact: sockets that became readable together are read in one poll phase, and the check phase follows it.
    // Choice: send there. The events of one turn share one call, and a lone event waits for nothing.
    this.#defer(this.#flush);
  }

  find(id: string, producer: string, timeoutMs = this.#timeoutMs): Promise<QueueLookup> {
    if (this.#calls.stalled) return Promise.resolve({ kind: 'unavailable' });
    return lookUp(this.#dialect, this.#clock, id, producer, timeoutMs, this.#log);
  }

  state(): QueueState {
    return this.#probe.state();
  }

  states(): readonly QueueState[] {
    return [this.state()];
  }

  /** Asks the queue once whether it would take an event. */
  probe(): Promise<QueueState> {
    return this.#probe.ask();
  }

  async close(): Promise<void> {
    this.#probe.close();
    this.#identifying.close();
    this.#trimmer?.stop();
    await this.#replicated?.close();
    await this.#connection.close();
    this.#calls.close();
  }

  readonly #flush = (): void => {
    const submissions = this.#pending;
    this.#pending = [];
    if (!this.#connection.ready || this.#calls.stalled) {
      for (const submission of submissions) submission.settle('unavailable');
      return;
    }
    for (let from = 0; from < submissions.length;) from = this.#send(submissions, from);
  };

  /**
   * Sends one call with the submissions from `from` on, as many as it may carry, under their n-th fields; gives where
   * the next one begins.
   */
  #send(submissions: readonly Submission[], from: number, n = 0): number {
    // Fact: an argument more costs every event. Choice: only a call with such events has it.
    const { accept, field } = this.#dialect;
    const compresses = this.#compression === 'zstd';
    const hasNotes = submissions.some(
      ({ notes, text }) => notes !== undefined || hasDigests(text, compresses && isCompressible(text)),
    );
    assert(from < submissions.length && n < FIELDS_MAX);
    const command = accept.begin(hasNotes);
    const events: Argument[] = [];
    let at = from;
    for (let characters = 0; at < submissions.length && at - from < CALL_EVENTS_MAX; at += 1) {
      const submission = submissions[at];
      if (submission === undefined) break;
      characters += submission.text.length;
      if (characters > CALL_CHARACTERS_MAX && at > from) break;
      command.push(field(submission.id, n));
      const body = compresses ? compressed(submission.text) : undefined;
      events.push(submission.producer, body ?? submission.text);
      if (!hasNotes) continue;
      const digests = hasDigests(submission.text, body !== undefined) ? `=${digestsOf(submission)}\n` : '';
      events.push(digests + membersOf(submission.notes) + (body === undefined ? '' : ENCODED_MEMBER));
    }
    command.push(...events);
    const carried = from === 0 && at === submissions.length ? submissions : submissions.slice(from, at);
    const answer = accept.run(command);
    const call = this.#calls.began(carried);
    answer.then(
      (reply) => this.#answered(call, reply, n),
      (cause: unknown) => this.#refused(call, cause),
    );
    return at;
  }

  #answered(call: Call, reply: Reply, n: number): void {
    this.#calls.serverSpoke();
    this.#calls.remove(call);
    if (call.settled) return;
    const { submissions } = call;
    this.#onCall((this.#clock.ms() - call.sentMs) / 1000, submissions.length);
    try {
      const verdicts = reply.isString ? reply.text() : '';
      const known = verdicts === '' ? knownOf(reply, submissions) : undefined;
      if (known === undefined && verdicts.length !== submissions.length) throw new Error('an answer of another length');
      call.settle((submission, at) => {
        if (known === undefined) submission.settle(OUTCOMES[verdicts.charCodeAt(at)] ?? 'unavailable');
        else this.#settleKnown(submission, known[at], n);
      });
    } catch (cause) {
      this.#log.error({ err: cause, events: submissions.length }, 'the queue gave a malformed answer');
      settleAll(call, 'unavailable');
    }
  }

  #settleKnown(submission: Submission, known: Known | 'accepted' | undefined, n: number): void {
    if (known === undefined) submission.settle('unavailable');
    else if (known === 'accepted') submission.settle('accepted');
    else {
      const outcome = judged(submission, known);
      if (outcome !== 'collision') submission.settle(outcome);
      // Another id has its field. The next one has a call, and a time-out, of its own.
      else if (n + 1 < FIELDS_MAX) this.#send([submission], 0, n + 1);
      else submission.settle('unavailable');
    }
  }

  #refused(call: Call, cause: unknown): void {
    this.#calls.remove(call);
    if (this.#connection.ready) {
      this.#calls.serverSpoke(); // A refusal is an answer, too.
      this.#probe.refused(cause);
    }
    settleAll(call, 'unavailable');
  }
}

/** Parts of find.lua's answer for each entry. */
const PARTS = 6;

/** Never rejects: without an answer in time the look-up is `unavailable`. */
export async function lookUp(
  dialect: QueueDialect,
  clock: Clock,
  id: string,
  producer: string,
  timeoutMs: number,
  log: Log,
): Promise<QueueLookup> {
  try {
    const reply = await withTimeout(clock, dialect.find(id, producer), timeoutMs);
    for (let parts = reply.array() ?? 0; parts > 0; parts -= PARTS) {
      const acceptedAtMs = Number.parseInt(reply.text(), 10);
      const bytes = reply.bytes();
      const traceparent = reply.text();
      const event = { acceptedAtMs, traceparent: traceparent === '' ? undefined : traceparent };
      const body = decoded(bytes, reply.text(), dialect.bodyBytesMax());
      const [noted, digests] = [reply.utf8(), reply.text()];
      if (body === undefined) return { kind: 'unavailable' };
      const isThis = digests === '' ? (noted === '' ? namesIn(body).id : noted) === id : areOf(digests, id);
      if (isThis) return { kind: 'found', event: { ...event, body } };
    }
    return { kind: 'unknown' };
  } catch (cause) {
    log.debug({ err: cause }, 'look-up failed');
    return { kind: 'unavailable' };
  }
}
