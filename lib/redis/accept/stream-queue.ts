// The accepting side of the queue on one Redis Stream.
//
// A submission is pending (this turn of the event loop), then outstanding (sent, no reply), then settled. The
// submissions of a turn share script calls, which Redis runs atomically.
//
// Invariants: each submission is settled once, within the timeout plus the lateness of one timer. `accepted` and
// `duplicate` come only from Redis. While a call is overdue, the queue refuses events immediately, so a frozen
// server leaves at most one timeout's worth of submissions in memory.
import assert from 'node:assert/strict';
import {
  type Outcome,
  type Queue,
  type QueueReport,
  type QueueLookup,
  type QueueState,
  type Submission,
} from '../../ingest/queue.ts';
import type { Clock } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import type { RedisConnection } from '../server/client.ts';
import { DurabilityCheck } from '../server/durability.ts';
import { membersOf } from '../stream/entry.ts';
import { ensureGroup } from '../stream/group.ts';
import { KnownIdentity } from '../stream/identity.ts';
import type { QueuePartition } from '../stream/queue-partitions.ts';
import { assertRights } from '../stream/rights.ts';
import { StreamTrimmer } from '../stream/stream-trimmer.ts';
import { withTimeout } from '../wire/deadline.ts';
import { RewriteRunning } from '../wire/errors.ts';
import type { Reply } from '../wire/reply.ts';
import { Script, type Argument, type Sender, type Server } from '../wire/script.ts';
import { type Call, OutstandingCalls, settleAll } from './outstanding-calls.ts';
import { QueueProbe } from './queue-probe.ts';
import { ReplicatedSender } from './replicated-sender.ts';

// Fact: Redis runs one script at a time, at about 8 µs per event, and the arguments of a call are joined into one
// string. Choice: calls are limited in events and characters. The next call carries the rest.
const CALL_EVENTS_MAX = 256;
const CALL_CHARACTERS_MAX = 1 << 20;

const ACCEPT = new Script('accept.lua', 'index-value.lua', 'retained.lua');
const FIND = new Script('find.lua', 'index-value.lua', 'retained.lua');

/** Indexed by the digits of accept.lua's reply. */
const OUTCOMES: readonly Outcome[] = ['accepted', 'duplicate', 'conflict', 'differing'];
const DIGIT_ZERO = 0x30;

export interface Durability {
  /** A server that may lose accepted events is refused with `require`, and logged with `warn`. */
  readonly level: 'warn' | 'require';
  readonly replicas: number;
  /** Accepting calls that wait for replicas take turns on these connections. The queue opens and closes them. */
  readonly connections: readonly RedisConnection[];
}

export interface QueueObserver {
  readonly onCall?: (seconds: number, events: number) => void;
  readonly onReport?: (report: QueueReport) => void;
}

interface StreamQueueOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly part: QueuePartition;
  readonly connection: RedisConnection;
  readonly enqueueTimeoutMs: number;
  readonly durability: Durability;
  /** Runs `flush` at the end of this turn; the clock's `turnEnd` by default. */
  readonly defer?: ((flush: () => void) => void) | undefined;
  readonly observer?: QueueObserver;
}

export class StreamQueue implements Queue {
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #log: Log;
  readonly #onCall: (seconds: number, events: number) => void;
  readonly #stream: string;
  readonly #retentionMs: number;
  readonly #makes: boolean;
  readonly #identity: KnownIdentity;
  readonly #durability: DurabilityCheck;
  readonly #accepting: Sender<Reply>;
  readonly #replicated: ReplicatedSender | undefined;

  #awaitsRewrite = false;
  #pending: Submission[] = [];
  readonly #defer: (flush: () => void) => void;
  readonly #calls: OutstandingCalls;
  readonly #trimmer: StreamTrimmer | undefined;
  readonly #probe: QueueProbe;

  constructor(options: StreamQueueOptions) {
    this.#connection = options.connection;
    const { clock, part, durability, observer = {} } = options;
    this.#clock = clock;
    this.#defer = options.defer ?? ((flush) => clock.turnEnd(flush));
    this.#timeoutMs = options.enqueueTimeoutMs;
    this.#calls = new OutstandingCalls(clock, options.enqueueTimeoutMs, () =>
      this.#probe.says(`no answer within ${this.#timeoutMs} ms`),
    );
    this.#log = options.log;
    this.#onCall = observer.onCall ?? (() => undefined);
    const { stream, retentionMs, makes } = part;
    this.#stream = stream;
    this.#retentionMs = retentionMs;
    this.#makes = makes;
    this.#identity = new KnownIdentity(stream, clock, part.identify);
    this.#durability = new DurabilityCheck({ ...durability, log: this.#log });
    if (durability.replicas > 0) {
      this.#replicated = new ReplicatedSender({ ...durability, stream, timeoutMs: this.#timeoutMs });
      // Opens in parallel with the queue's own connection, because startup has five seconds for all of them.
      this.#replicated.open();
    }
    this.#accepting = this.#replicated ?? this.#connection;
    const server = this.#connection.values;
    if (makes)
      this.#trimmer = new StreamTrimmer({
        stream,
        retentionMs,
        clock,
        server,
        log: this.#log,
        onReport: observer.onReport,
      });
    this.#trimmer?.start();
    this.#connection.tell({
      inspect: (server) => this.#inspect(server, durability.replicas > 0),
      onReady: () => {
        void this.#probe.ask();
        void this.#trimmer?.trim();
        if (makes) this.#identity.keepAsking(this.#connection.values);
      },
      onLost: (reason) => {
        this.#calls.serverSpoke();
        this.#probe.says(reason);
      },
    });
    this.#probe = new QueueProbe({
      clock,
      call: () => this.#accept([...ACCEPT.command(stream), String(retentionMs)]),
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
    // Sockets that become readable together are read in one poll phase. The calls are sent in the check phase after
    // it, so the events of a turn share one call, and a single event waits for no timer.
    this.#defer(this.#flush);
  }

  async find(id: string, producer: string): Promise<QueueLookup> {
    if (this.#calls.stalled) return { kind: 'unavailable' };
    const args = [String(this.#retentionMs), producer, this.#identity.index.field(id)];
    try {
      const found = FIND.run(this.#connection, [...FIND.command(this.#stream), ...args]);
      const reply = await withTimeout(this.#clock, found, this.#timeoutMs);
      if ((reply.array() ?? 0) === 0) return { kind: 'unknown' };
      const [acceptedAtMs, body, traceparent] = [Number.parseInt(reply.text(), 10), reply.bytes(), reply.text()];
      const event = { acceptedAtMs, body, traceparent: traceparent === '' ? undefined : traceparent };
      return { kind: 'found', event };
    } catch (cause) {
      this.#log.debug({ err: cause }, 'look-up failed');
      return { kind: 'unavailable' };
    }
  }

  state(): QueueState {
    return this.#probe.state();
  }

  states(): readonly QueueState[] {
    return [this.state()];
  }

  /** True if the connection waits for the server to finish rewriting its append-only file. */
  get awaitsRewrite(): boolean {
    return !this.#connection.ready && this.#awaitsRewrite;
  }

  probe(): Promise<QueueState> {
    return this.#probe.ask();
  }

  async close(): Promise<void> {
    this.#probe.close();
    this.#identity.stop();
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

  #accept(command: readonly Argument[]): Promise<Reply> {
    return ACCEPT.run(this.#accepting, command);
  }

  /** Sends one call with as many submissions, from index `from`, as fit. Returns the index of the next one. */
  #send(submissions: readonly Submission[], from: number): number {
    assert(from < submissions.length);
    // Fact: an additional argument costs every event. Choice: only calls with notes have one.
    const hasNotes = submissions.some(({ notes }) => notes !== undefined);
    const retention = hasNotes ? `${this.#retentionMs} notes` : String(this.#retentionMs);
    const command: Argument[] = [...ACCEPT.command(this.#stream), retention];
    const events: Argument[] = [];
    const { index } = this.#identity;
    let at = from;
    for (let characters = 0; at < submissions.length && at - from < CALL_EVENTS_MAX; at += 1) {
      const submission = submissions[at];
      if (submission === undefined) break;
      const { id, producer, text, notes } = submission;
      characters += text.length;
      if (characters > CALL_CHARACTERS_MAX && at > from) break;
      command.push(index.field(id));
      events.push(index.digests(producer, text) + producer, text);
      if (hasNotes) events.push(membersOf(notes));
    }
    command.push(...events);
    const carried = from === 0 && at === submissions.length ? submissions : submissions.slice(from, at);
    const answer = this.#accept(command);
    const call = this.#calls.began(carried);
    answer.then(
      (reply) => this.#answered(call, reply),
      (cause: unknown) => this.#refused(call, cause),
    );
    return at;
  }

  #answered(call: Call, reply: Reply): void {
    this.#calls.serverSpoke();
    this.#calls.remove(call);
    if (call.settled) return;
    const { submissions } = call;
    this.#onCall((this.#clock.ms() - call.sentMs) / 1000, submissions.length);
    const digits = reply.isString ? reply.text() : '';
    if (digits.length !== submissions.length)
      this.#log.error({ events: submissions.length }, 'the queue sent a malformed answer');
    call.settle((submission, at) => submission.settle(OUTCOMES[digits.charCodeAt(at) - DIGIT_ZERO] ?? 'unavailable'));
  }

  #refused(call: Call, cause: unknown): void {
    this.#calls.remove(call);
    if (this.#connection.ready) {
      this.#calls.serverSpoke(); // A refusal is also a reply.
      this.#probe.says(messageOf(cause));
    }
    settleAll(call, 'unavailable');
  }

  async #inspect(server: Server, waits: boolean): Promise<void> {
    await assertRights(server, this.#stream, 'gateway', waits ? [['wait', '', '1 1']] : []);
    await this.#identity.ask(server);
    if (this.#makes) await ensureGroup(server, this.#stream);
    this.#awaitsRewrite = false;
    await this.#durability.check(server).catch((cause: unknown) => {
      this.#awaitsRewrite = cause instanceof RewriteRunning;
      throw cause;
    });
  }
}
