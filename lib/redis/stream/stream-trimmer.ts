// Trims a stream and its id index every few seconds, by trim.lua, which has the rules, notices losses and says how far
// the group is behind. All processes share one look: it costs the server the same however many there are.
//
// It is no part of accepting: it runs also while the queue is idle or Redis full, from any number of processes. A look
// that fails is made again at the next interval: the accepting and the reading side report what is wrong with the
// queue.
import assert from 'node:assert/strict';
import type { QueueLook } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import type { Server } from '../server/client.ts';
import { withTimeout } from '../wire/deadline.ts';
import { Script } from '../wire/script.ts';
import { GROUP } from './layout.ts';

const INTERVAL_MS = 2_000;
/**
 * A look that any process made so lately is given again. Shorter than INTERVAL_MS: one process alone looks each time.
 */
const SHARED_MS = 1_500;
const ANSWER_TIMEOUT_MS = 5_000;
/** Entries that one call drops: Redis does nothing else meanwhile. */
const CALL_ENTRIES = 1_000;
/** Between the calls of one look. */
const PAUSE_MS = 10;

/** How long what has not landed stays: the default of INGEST_QUEUE_UNLANDED_HOURS_MAX. */
export const UNLANDED_HOURS_MAX = 168;

interface TrimmerOptions {
  readonly server: Server;
  readonly stream: string;
  /** How long an entry stays that has landed. */
  readonly retentionMs: number;
  /** How long an entry stays that has not landed, at least `retentionMs`. */
  readonly unlandedMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called with what each look saw. */
  readonly onLook?: ((look: QueueLook) => void) | undefined;
  /** Called with the number of events that the queue lost before they landed, where there are some. */
  readonly onLost: (events: number) => void;
}

/** The reply of trim.lua. */
type Look = readonly [
  dropped: number,
  lost: number,
  more: number,
  unlanded: number,
  oldestMs: number,
  events: number,
  memory: number,
  limit: number,
];

export class StreamTrimmer {
  readonly #options: TrimmerOptions;
  readonly #script = new Script('trim.lua', 'group-place.lua');
  #timer: Timer | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: TrimmerOptions) {
    assert(options.unlandedMs >= options.retentionMs);
    this.#options = options;
  }

  start(): void {
    this.#timer ??= this.#options.clock.every(INTERVAL_MS, () => void this.look());
  }

  /** Trims what is to be trimmed now, unless another process did so within `sharedMs`. Never rejects. */
  look(sharedMs = SHARED_MS): Promise<void> {
    this.#looking ??= this.#look(sharedMs).finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  stop(): void {
    this.#timer?.close();
  }

  async #look(sharedMs: number): Promise<void> {
    const { clock, log } = this.#options;
    try {
      while (await this.#trim(sharedMs)) await clock.sleep(PAUSE_MS);
    } catch (cause) {
      log.debug({ err: cause }, 'the queue could not be trimmed');
    }
  }

  /** One call; true when there is more to drop. */
  async #trim(sharedMs: number): Promise<boolean> {
    const { server, stream, retentionMs, unlandedMs, clock, log, onLost, onLook } = this.#options;
    const args = [retentionMs, unlandedMs, clock.epochMs(), GROUP, CALL_ENTRIES, sharedMs].map(String);
    const command = [...this.#script.command(stream), ...args];
    const reply = await withTimeout(clock, this.#script.run(server, command), ANSWER_TIMEOUT_MS);
    const [dropped, lost, more, unlanded, oldestMs, events, memory, limit] = reply as Look;
    const told = (bytes: number): number | undefined => (bytes < 0 ? undefined : bytes);
    onLook?.({ unlanded, oldestMs, events, memoryBytes: told(memory), memoryLimitBytes: told(limit) });
    if (dropped > 0) log.debug({ dropped }, 'dropped entries past retention');
    if (lost > 0) {
      onLost(lost);
      log.error(
        { events: lost },
        `the queue lost ${lost} accepted events before they landed: past INGEST_QUEUE_UNLANDED_HOURS_MAX, ` +
          'or deleted by hand',
      );
    }
    return more === 1;
  }
}
