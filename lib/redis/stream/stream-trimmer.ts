// Trims a stream and its id index every few seconds with trim.lua, which has the rules. All processes share one run,
// so the cost does not depend on their number. Trimming continues while the queue is idle or Redis is full.
import type { QueueReport } from '../../ingest/queue.ts';
import type { Clock, Timer } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { withTimeout } from '../wire/deadline.ts';
import { isForbidden } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';
import { PLACE_FILES } from './group.ts';
import { GROUP } from './layout.ts';
import { assertRights } from './rights.ts';

const INTERVAL_MS = 2_000;
/** Processes share a report for this long. It is shorter than INTERVAL_MS, so a single process trims each time. */
const SHARED_MS = 1_500;
const ANSWER_TIMEOUT_MS = 5_000;
/** Limits the entries that one call removes, because it blocks Redis. */
const CALL_ENTRIES = 1_000;
const PAUSE_MS = 10;
/** Limits of one call of count.lua, and of the time for which it is repeated before the next report. */
const COUNT_ENTRIES = 2_000;
const COUNT_BYTES = 1 << 20;
const COUNT_PAUSE_MS = 20;
const COUNT_MS = 1_000;
const NOT_TRIMMED = 'the queue could not be trimmed';

interface TrimmerOptions {
  readonly server: Server;
  readonly stream: string;
  readonly program: 'gateway' | 'consumer';
  /** The retention of acknowledged entries. Other entries are never removed. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly onReport?: ((report: QueueReport) => void) | undefined;
}

type TrimReply = readonly [readonly RedisValue[], number, number, number, readonly string[], number];

export class StreamTrimmer {
  readonly #options: TrimmerOptions;
  readonly #script = new Script('trim.lua', ...PLACE_FILES, 'accepted-at.lua', 'trim-entries.lua', 'trim-ids.lua');
  readonly #count = new Script('count.lua', ...PLACE_FILES);
  #timer: Timer | undefined;
  #trimming: Promise<void> | undefined;
  /** The server's clock minus this process's monotonic clock, which is never set. */
  serverOffsetMs = Number.NEGATIVE_INFINITY;
  /** True if Redis' counter of the entries that the group has read must be corrected. */
  #isCounterWrong = false;
  #isUncounted = false;
  /** Why the last call was forbidden. */
  #forbidden: string | undefined;

  constructor(options: TrimmerOptions) {
    this.#options = options;
  }

  /** The later one of this process's clock and the server's, in Unix milliseconds. No entry can be from after it. */
  get latestMs(): number {
    const { clock } = this.#options;
    return Math.max(clock.epochMs(), clock.ms() + this.serverOffsetMs);
  }

  start(): void {
    this.#timer ??= this.#options.clock.every(INTERVAL_MS, () => void this.trim());
  }

  /** Removes nothing if another process trimmed the stream within `sharedMs`. Never rejects. */
  trim(sharedMs = SHARED_MS): Promise<void> {
    this.#trimming ??= this.#trimAll(sharedMs).finally(() => (this.#trimming = undefined));
    return this.#trimming;
  }

  stop(): void {
    this.#timer?.close();
  }

  async #trimAll(sharedMs: number): Promise<void> {
    const { server, stream, program, clock, log } = this.#options;
    try {
      while (await this.#call(sharedMs)) await clock.sleep(PAUSE_MS);
      this.#forbidden = undefined;
      if (this.#isCounterWrong && program === 'consumer') await this.#countUnread();
    } catch (cause) {
      const forbidden = isForbidden(cause) ? cause.message : undefined;
      const isNew = forbidden !== undefined && forbidden !== this.#forbidden;
      this.#forbidden = forbidden;
      if (!isNew) return log.debug({ err: cause }, NOT_TRIMMED);
      // Events are accepted and landed without trimming, so the missing rights are only logged.
      const reason = await assertRights(server, stream, program).then(() => forbidden, messageOf);
      log.warn({ reason }, NOT_TRIMMED);
    }
  }

  /** Corrects Redis' counter of the entries that the group has read, which a restart or a fail-over makes wrong. */
  async #countUnread(): Promise<void> {
    const { server, stream, clock } = this.#options;
    const args = [GROUP, COUNT_ENTRIES, COUNT_BYTES, COUNT_PAUSE_MS].map(String);
    for (const endMs = clock.ms() + COUNT_MS; clock.ms() < endMs; await clock.sleep(COUNT_PAUSE_MS)) {
      const more = await withTimeout(clock, this.#count.run(server, stream, args), ANSWER_TIMEOUT_MS);
      if (more === 0) return void (this.#isUncounted && (await this.#call(0)));
    }
  }

  async #call(sharedMs: number): Promise<boolean> {
    const { server, stream, retentionMs, clock, log, onReport } = this.#options;
    const args = [retentionMs, clock.epochMs(), GROUP, CALL_ENTRIES, sharedMs].map(String);
    const askedMs = clock.epochMs();
    const reply = await withTimeout(clock, this.#script.run(server, stream, args), ANSWER_TIMEOUT_MS);
    const [report, atMs, dropped, more, deletions, serverMs] = reply as TrimReply;
    const fields = fieldsOf(report);
    const knownValue = (name: string): number | undefined => {
      const value = Number(fields.get(name) ?? -1);
      return value < 0 ? undefined : value;
    };
    const valueOf = (name: string): number => knownValue(name) ?? 0;
    this.serverOffsetMs = serverMs - clock.ms();
    this.#isCounterWrong = valueOf('recount') === 1;
    this.#isUncounted = valueOf('uncounted') === 1;
    onReport?.({
      unlanded: this.#isUncounted ? undefined : valueOf('unlanded'),
      oldestMs: valueOf('oldest') === 0 ? 0 : Math.max(0, atMs - valueOf('oldest')),
      events: valueOf('length'),
      // The server read its clock between this process's two readings.
      clockSkewMs: Math.max(0, askedMs - serverMs, serverMs - clock.epochMs(), valueOf('ahead')),
      memoryBytes: knownValue('memory'),
      memoryLimitBytes: knownValue('limit'),
      acknowledged: knownValue('acknowledged'),
      consumers: knownValue('consumers'),
      replicas: knownValue('replicas'),
    });
    if (dropped > 0) log.debug({ dropped }, 'dropped entries past retention');
    if (deletions.length > 0)
      log.error(
        { entries: deletions },
        `${deletions.length} entries were deleted by hand before they were acknowledged`,
      );
    return more === 1;
  }
}
