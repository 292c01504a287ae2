// The state of the queue, from periodic probes and from refused or overdue calls.
//
// Invariants: the queue is available only if a recent probe succeeded. If the server is silent for STALL_MAX_MS, the
// owner reconnects. Each change is logged once.
import { NOT_ASKED, type QueueState } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import type { RedisConnection } from '../server/client.ts';
import { withTimeout } from '../wire/deadline.ts';
import { NoAnswer } from '../wire/errors.ts';
import type { OutstandingCalls } from './outstanding-calls.ts';

const PROBE_INTERVAL_MS = 400;
const PROBE_TIMEOUT_MS = 600;
/** After this long without a reply, the connection is replaced. */
const STALL_MAX_MS = 3_000;

interface QueueProbeOptions {
  readonly call: () => Promise<unknown>;
  readonly connection: RedisConnection;
  readonly calls: OutstandingCalls;
  readonly callTimeoutMs: number;
  readonly onSilent: (reason: string) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export class QueueProbe {
  readonly #options: QueueProbeOptions;
  /** At least PROBE_TIMEOUT_MS, and up to STALL_MAX_MS as long as the enqueue timeout. */
  readonly #timeoutMs: number;
  readonly #timer: Timer;
  #asking = false;
  #answeredMs = Number.NEGATIVE_INFINITY;
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

  /** Probes with a write that changes nothing, which fails if Redis is full or read-only. Returns the new state. */
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
      // This detects a frozen server or a dead connection even if there are no events.
      if (cause instanceof NoAnswer) calls.serverSilent(clock.ms() - this.#timeoutMs);
      this.says(connection.ready ? messageOf(cause) : connection.lastError);
    } finally {
      this.#asking = false;
    }
    return this.state();
  }

  /** Sets the reason why the queue accepts no events, or `undefined`, and logs a change. */
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
