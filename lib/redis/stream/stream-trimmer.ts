// Trims a stream and its id index every few seconds, by trim.lua, which has the rules and reports how far the group is
// behind. All processes share one look, so it costs the server the same however many there are.
//
// Trimming is not a part of accepting: it runs also while the queue is idle or Redis full, from any number of
// processes. A look that fails is made again at the next interval; the accepting and the reading side report what is
// wrong with the queue.
import type { QueueReport } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { withTimeout } from '../wire/deadline.ts';
import { Script, type Server } from '../wire/script.ts';
import { GROUP } from './layout.ts';

const INTERVAL_MS = 2_000;
/** A look is shared for this long. Shorter than INTERVAL_MS: a process alone looks each time. */
const SHARED_MS = 1_500;
const ANSWER_TIMEOUT_MS = 5_000;
/** Entries that one call drops: Redis does nothing else meanwhile. */
const CALL_ENTRIES = 1_000;
/** Between the calls of one look. */
const PAUSE_MS = 10;

interface TrimmerOptions {
  readonly server: Server;
  readonly stream: string;
  /** How long an entry stays after it was acknowledged. One that was not acknowledged stays. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly onReport?: ((report: QueueReport) => void) | undefined;
}

/** The reply of trim.lua. */
type TrimReply = readonly [
  dropped: number,
  more: number,
  unlanded: number,
  oldestMs: number,
  events: number,
  memory: number,
  limit: number,
  gone: readonly string[],
  serverMs?: number,
];

export class StreamTrimmer {
  readonly #options: TrimmerOptions;
  readonly #script = new Script('trim.lua', 'group-place.lua');
  #timer: Timer | undefined;
  #trimming: Promise<void> | undefined;

  constructor(options: TrimmerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= this.#options.clock.every(INTERVAL_MS, () => void this.trim());
  }

  /** Trims the stream, unless another process did so within `sharedMs`. Never rejects. */
  trim(sharedMs = SHARED_MS): Promise<void> {
    this.#trimming ??= this.#trimAll(sharedMs).finally(() => (this.#trimming = undefined));
    return this.#trimming;
  }

  stop(): void {
    this.#timer?.close();
  }

  async #trimAll(sharedMs: number): Promise<void> {
    const { clock, log } = this.#options;
    try {
      while (await this.#call(sharedMs)) await clock.sleep(PAUSE_MS);
    } catch (cause) {
      log.debug({ err: cause }, 'the queue could not be trimmed');
    }
  }

  /** One call; true if there is more to drop. */
  async #call(sharedMs: number): Promise<boolean> {
    const { server, stream, retentionMs, clock, log, onReport } = this.#options;
    const args = [retentionMs, clock.epochMs(), GROUP, CALL_ENTRIES, sharedMs].map(String);
    const command = [...this.#script.command(stream), ...args];
    const askedMs = clock.epochMs();
    const reply = await withTimeout(clock, this.#script.run(server, command), ANSWER_TIMEOUT_MS);
    const [dropped, more, unlanded, oldestMs, events, memory, limit, gone, serverMs] = reply as TrimReply;
    // The server read its clock somewhere between both readings of this one.
    const clockSkewMs =
      serverMs === undefined ? undefined : Math.max(0, askedMs - serverMs, serverMs - clock.epochMs());
    const reported = (bytes: number): number | undefined => (bytes < 0 ? undefined : bytes);
    onReport?.({
      unlanded,
      oldestMs,
      events,
      memoryBytes: reported(memory),
      memoryLimitBytes: reported(limit),
      ...(clockSkewMs === undefined ? {} : { clockSkewMs }),
    });
    if (dropped > 0) log.debug({ dropped }, 'dropped entries past retention');
    if (gone.length > 0)
      log.error({ entries: gone }, `${gone.length} entries were deleted by hand before they were acknowledged`);
    return more === 1;
  }
}
