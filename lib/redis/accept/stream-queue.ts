// The accepting side of the queue on one Redis Stream.
//
// A submission is pending (until the client writes its call), then outstanding (no reply), then settled. The
// submissions of a turn of the event loop share script calls, which Redis runs atomically.
//
// Invariants: each submission is settled once, within the timeout plus the lateness of one timer. `accepted` and
// `duplicate` come only from Redis. A call is given up only if it was written and the sockets were read at least once
// after its deadline. From then on, the server is considered stalled until it sends anything: the queue refuses events
// immediately, so a frozen server leaves at most one timeout's worth of submissions in memory, and after STALL_MAX_MS
// the connection is replaced.
import type { Outcome, Queue, QueueLookup, QueueReport, QueueState, Submission } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { isSameProducer } from '../../process/producer-name.ts';
import { TimeLimits } from '../../process/time-limits.ts';
import type { RedisConnection } from '../server/connection.ts';
import { DurabilityCheck } from '../server/durability.ts';
import { argumentBytesMax } from '../server/server-info.ts';
import { ACCEPT, entriesOf, FIND } from '../stream/entry.ts';
import { assertAppendable, ensureGroup, warnOfOthers } from '../stream/group.ts';
import { KnownIdentity } from '../stream/queue-metadata.ts';
import { keyOf } from '../stream/layout.ts';
import type { QueuePartition } from '../stream/queue-partitions.ts';
import { assertRights } from '../stream/rights.ts';
import { StreamTrimmer } from '../stream/stream-trimmer.ts';
import { withTimeout } from '../wire/deadline.ts';
import { isOfOneCommand, NoAnswer, type QueueRefusal, refusedAs } from '../wire/errors.ts';
import type { Argument, RedisValue, Server } from '../wire/values.ts';
import { join, packEvents, settleAll, type Call } from './accept-call.ts';
import { PROBE_INTERVAL_MS, PROBE_TIMEOUT_MS, QueueProbe } from './queue-probe.ts';
import { replicatedSender } from './replicated-sender.ts';

/** Indexed by the digits of accept.lua's reply. */
const OUTCOMES: readonly Outcome[] = ['accepted', 'duplicate', 'conflict', 'differing'];

/** After this long without a reply, the connection is replaced. */
const STALL_MAX_MS = 3_000;

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
  readonly observer?: QueueObserver;
}

export class StreamQueue implements Queue {
  readonly #options: StreamQueueOptions;
  readonly #connection: RedisConnection;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  /** The enqueue timeout, but at least PROBE_TIMEOUT_MS and at most STALL_MAX_MS. */
  readonly #probeTimeoutMs: number;
  /** In milliseconds, as an argument of scripts. */
  readonly #retention: string;
  readonly #identity: KnownIdentity;
  readonly #durability: DurabilityCheck;
  readonly #replicated: Server | undefined;
  readonly #trimmer: StreamTrimmer | undefined;
  readonly #probe: QueueProbe;
  readonly #supervision: Timer;

  /** The longest body that the server takes, if it is shorter than the longest one that this program accepts. */
  bodyBytesMax = Number.POSITIVE_INFINITY;
  /** Sends accepting calls. `undefined` unless the connection is ready. */
  #sender: Server | undefined;
  /** The latest call, until the client writes it. */
  #pending: Call | undefined;
  readonly #limits: TimeLimits;
  #stalledSinceMs: number | undefined;

  constructor(options: StreamQueueOptions) {
    const { clock, log, part, connection, durability, observer } = options;
    const { stream, retentionMs, makes } = part;
    this.#options = options;
    this.#connection = connection;
    this.#clock = clock;
    this.#timeoutMs = options.enqueueTimeoutMs;
    this.#probeTimeoutMs = Math.min(Math.max(PROBE_TIMEOUT_MS, this.#timeoutMs), STALL_MAX_MS);
    this.#retention = String(retentionMs);
    this.#identity = new KnownIdentity(stream, clock, part.identify);
    this.#durability = new DurabilityCheck(durability.level, durability.replicas, log);
    if (durability.replicas > 0) {
      this.#replicated = replicatedSender(durability.replicas, durability.connections, stream, this.#timeoutMs);
      // They open in parallel with the queue's own connection, because startup has five seconds for all of them.
      for (const one of durability.connections) one.open();
    }
    if (makes) {
      const server = connection;
      this.#trimmer = new StreamTrimmer({ ...observer, stream, program: 'gateway', retentionMs, clock, server, log });
      this.#trimmer.start();
    }
    this.#probe = new QueueProbe(() => this.#callEmpty(), clock, log);
    this.#limits = new TimeLimits(clock);
    this.#supervision = clock.every(PROBE_INTERVAL_MS, () => this.#supervise());
    connection.tell({
      inspect: (server, uri) => this.#inspect(server, uri, durability.replicas),
      onReady: () => {
        this.#sender = this.#replicated ?? connection;
        void this.#probe.ask();
        void this.#trimmer?.trim();
        if (makes) this.#identity.keepAsking(connection);
      },
      onLost: (reason) => {
        this.#sender = undefined;
        // No reply can arrive on a lost connection.
        this.#stalledSinceMs = undefined;
        this.#probe.says(reason);
      },
    });
  }

  open(onRefused: (refusal: QueueRefusal) => void): void {
    this.#connection.tell({ onRefused });
    this.#connection.open();
  }

  submit(submission: Submission): void {
    const sender = this.#sender;
    if (submission.body.length > this.bodyBytesMax) return this.#clock.turnEnd(() => submission.settle('too large'));
    if (sender === undefined || this.#stalledSinceMs !== undefined)
      return this.#clock.turnEnd(() => submission.settle('unavailable'));
    // Sockets that become readable together are read in one poll phase, and the client writes in the check phase after
    // it. So the events of a turn share one call, and a single event waits for no timer.
    if (this.#pending === undefined || !join(this.#pending, submission)) this.#send(sender, submission);
  }

  #send(sender: Server, first: Submission): void {
    const limit = this.#limits.add(this.#timeoutMs, () => this.#late(call));
    const sinceMs = this.#clock.ms();
    const call: Call = { submissions: [first], bytes: first.body.length, sinceMs, limit, settled: false };
    this.#pending = call;
    ACCEPT.runLate(sender, this.#options.part.stream, () => this.#argumentsOf(call)).then(
      (reply) => this.#answered(call, reply),
      (cause: unknown) => this.#refused(call, cause),
    );
  }

  /** Called when the client writes the call. No submission joins it from now on. */
  #argumentsOf(call: Call): (readonly Argument[])[] {
    if (this.#pending === call) this.#pending = undefined;
    call.sinceMs = this.#clock.ms();
    this.#limits.restart(call.limit, this.#timeoutMs);
    const { submissions } = call;
    return [[this.#retention, packEvents(this.#identity.index, submissions)], submissions.map(({ body }) => body)];
  }

  #late(call: Call): void {
    this.#stalledSinceMs ??= this.#clock.ms();
    this.#probe.says(`no answer within ${this.#timeoutMs} ms`);
    settleAll(call, 'unavailable');
  }

  #answered(call: Call, reply: RedisValue): void {
    this.#stalledSinceMs = undefined;
    this.#limits.remove(call.limit);
    if (call.settled) return;
    call.settled = true;
    const { submissions } = call;
    this.#options.observer?.onCall?.((this.#clock.ms() - call.sinceMs) / 1000, submissions.length);
    const digits = typeof reply === 'string' ? reply : '';
    if (digits.length !== submissions.length)
      this.#options.log.error({ events: submissions.length }, 'the queue sent a malformed answer');
    submissions.forEach((one, at) => one.settle(OUTCOMES[digits.charCodeAt(at) - 0x30] ?? 'unavailable'));
  }

  #refused(call: Call, cause: unknown): void {
    this.#limits.remove(call.limit);
    if (this.#sender !== undefined) {
      this.#stalledSinceMs = undefined; // A refusal is also a reply.
      // The next probe decides whether others are refused, too.
      if (isOfOneCommand(cause)) void this.#probe.ask();
      else this.#probe.says(messageOf(cause));
    }
    this.#connection.recheck(cause);
    settleAll(call, 'unavailable');
  }

  async find(id: string, producer: string): Promise<QueueLookup> {
    if (this.#stalledSinceMs !== undefined) return { kind: 'unavailable' };
    const args = [this.#identity.index.field(id), this.#retention];
    try {
      const search = FIND.run(this.#connection.bytes, this.#options.part.stream, args);
      const reply = await withTimeout(this.#clock, search, this.#timeoutMs);
      const latestMs = this.#trimmer?.latestMs ?? this.#clock.epochMs();
      const [event] = entriesOf(reply, this.#identity.source, latestMs).deliveries;
      if (event?.body === undefined || event.producer === undefined) return { kind: 'unknown' };
      if (!isSameProducer(event.producer, producer)) return { kind: 'unknown' };
      const { body, acceptedAtMs, notes } = event;
      return { kind: 'found', event: { body, acceptedAtMs, traceparent: notes.traceparent } };
    } catch (cause) {
      this.#options.log.debug({ err: cause }, 'look-up failed');
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
    return !this.#connection.ready && this.#durability.awaitsRewrite;
  }

  probe(): Promise<QueueState> {
    return this.#probe.ask();
  }

  close(): Promise<void> {
    this.#sender = undefined;
    this.#supervision.close();
    this.#identity.stop();
    this.#trimmer?.stop();
    for (const one of this.#connections) one.close();
    return Promise.resolve();
  }

  get #connections(): readonly RedisConnection[] {
    return [this.#connection, ...this.#options.durability.connections];
  }

  #supervise(): void {
    const sinceMs = this.#stalledSinceMs;
    if (sinceMs !== undefined && this.#clock.ms() - sinceMs > STALL_MAX_MS)
      for (const one of this.#connections) one.restart('the server does not answer');
    void this.#probe.ask();
  }

  /** Calls the script without events. This detects a frozen server or a dead connection even if there are no events. */
  async #callEmpty(): Promise<void> {
    const answer = ACCEPT.run(this.#replicated ?? this.#connection, this.#options.part.stream, [this.#retention]);
    try {
      await withTimeout(this.#clock, answer, this.#probeTimeoutMs);
      this.#stalledSinceMs = undefined;
    } catch (cause) {
      if (cause instanceof NoAnswer) this.#stalledSinceMs ??= this.#clock.ms() - this.#probeTimeoutMs;
      this.#connection.recheck(cause);
      throw this.#connection.ready ? cause : new Error(this.#connection.lastError);
    }
  }

  async #inspect(server: Server, uri: string, replicas: number): Promise<void> {
    const { clock, log, part } = this.#options;
    const { stream, makes, bodyBytesMax: accepts = 0 } = part;
    await assertRights(server, stream, 'gateway', replicas > 0 ? ['wait 1 1'] : []);
    await this.#identity.ask(server);
    await assertAppendable(server, stream);
    const bodyBytesMax = await argumentBytesMax(server, uri, accepts, clock);
    this.bodyBytesMax = bodyBytesMax < accepts ? bodyBytesMax : Number.POSITIVE_INFINITY;
    const limits = 'proto-max-bulk-len or client-query-buffer-limit of Redis';
    const text = `longer bodies are refused (413): ${limits} is too low for INGEST_BODY_BYTES_MAX`;
    if (bodyBytesMax < accepts) log.warn({ bodyBytesMax }, text);
    if (makes) {
      await ensureGroup(server, stream);
      await warnOfOthers(server, stream, log);
      const key = keyOf(stream, 'looked');
      const [required] = (await server.send(['HMGET', key, 'required'])) as readonly (string | null)[];
      const others = `another gateway uses or used INGEST_QUEUE_REPLICAS=${required}: each answers by its own value`;
      if (required !== null && Number(required) !== replicas) log.warn({ replicas }, others);
      // A server that refuses writes keeps its last note.
      await server.send(['HSET', key, 'required', String(replicas)]).catch(refusedAs(null));
    }
    await this.#durability.check(server);
  }
}
