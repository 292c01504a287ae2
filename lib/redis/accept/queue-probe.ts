// The queue's state: asked by a probe at intervals, and learned from calls that are refused or overdue.
//
// Invariants: the queue is available only while a probe was answered lately. A server that stays silent for
// STALL_MAX_MS is reported to the owner, who makes new connections. Each change is logged once.
import { NOT_ASKED, type QueueState } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import type { RedisConnection } from '../server/client.ts';
import { withTimeout } from '../wire/deadline.ts';
import { NoAnswer } from '../wire/errors.ts';
import type { OutstandingCalls } from './outstanding-calls.ts';

/**
 * Interval and time limit of the probe. If a call may take longer than that, the queue is not available meanwhile, and
 * events are refused only once a call's time is over.
 */
const PROBE_INTERVAL_MS = 400;
const PROBE_TIMEOUT_MS = 600;
/** After this long without any answer the connection is thrown away. */
const STALL_MAX_MS = 3_000;

interface QueueProbeOptions {
  /** An accepting call without events. */
  readonly call: () => Promise<unknown>;
  readonly connection: RedisConnection;
  readonly calls: OutstandingCalls;
  /** How long a call may take. */
  readonly callTimeoutMs: number;
  /** The server has been silent for too long. */
  readonly onSilent: (reason: string) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export class QueueProbe {
  readonly #options: QueueProbeOptions;
  /** After this long without an answer events are refused. */
  readonly #timeoutMs: number;
  readonly #timer: Timer;
  #asking = false;
  #answeredMs = Number.NEGATIVE_INFINITY;
  /** Why the queue takes no events; undefined if it does. */
  #reason: string | undefined = NOT_ASKED;

  constructor(options: QueueProbeOptions) {
    this.#options = options;
    this.#timeoutMs = Math.min(Math.max(PROBE_TIMEOUT_MS, options.callTimeoutMs), STALL_MAX_MS);
    this.#timer = options.clock.every(PROBE_INTERVAL_MS, () => this.#supervise());
  }

  state(): QueueState {
    if (this.#reason !== undefined) return { available: false, reason: this.#reason };
    if (this.#options.clock.ms() - this.#answeredMs > PROBE_INTERVAL_MS + PROBE_TIMEOUT_MS) {
      return { available: false, reason: 'the queue has not answered lately' };
    }
    return { available: true };
  }

  /** Asks once, by a no-op write, which also fails when Redis is full or read-only; returns the new state. */
  async ask(): Promise<QueueState> {
    if (this.#asking) return this.state();
    this.#asking = true;
    const { call, calls, connection, clock } = this.#options;
    try {
      await withTimeout(clock, call(), this.#timeoutMs);
      this.#answeredMs = clock.ms();
      calls.serverSpoke();
      this.says(undefined);
    } catch (cause) {
      // A frozen server must be noticed even when no event is sent: its connection may be dead for good.
      if (cause instanceof NoAnswer) calls.serverSilent(clock.ms() - this.#timeoutMs);
      this.says(connection.ready ? messageOf(cause) : connection.lastError);
    } finally {
      this.#asking = false;
    }
    return this.state();
  }

  /** A call was refused. */
  refused(cause: unknown): void {
    this.says(messageOf(cause));
  }

  /** Sets the reason, `undefined` if the queue takes events, and logs a change. */
  says(reason: string | undefined): void {
    if (reason === this.#reason) return;
    const before = this.#reason;
    this.#reason = reason;
    const { log } = this.#options;
    if (reason === undefined) log.info('the queue takes events');
    else if (before === undefined) log.error({ reason }, 'the queue takes no events');
  }

  close(): void {
    this.#timer.close();
  }

  #supervise(): void {
    const { calls, onSilent } = this.#options;
    if (calls.silentMs > STALL_MAX_MS) onSilent('the server does not answer');
    void this.ask();
  }
}
