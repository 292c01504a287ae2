// Lands a batch of entries in transactions of limited size.
//
// Invariant: when `landSome` resolves, each entry in `done` has a warehouse row (its own, or an earlier one of the
// same event) or a quarantine row. If it rejects, some entries may have landed, and landing the batch again is safe.
//
// A batch with an event that the warehouse cannot store is halved until that event is alone: about 2·log2(n) calls.
import { isErased } from '../ingest/erased.ts';
import type { QueueReader } from '../ingest/queue.ts';
import { BatchRefused, BatchTooSlow } from '../ingest/warehouse.ts';
import type { LandingOutcome, QuarantinedEntry, Warehouse } from '../ingest/warehouse.ts';
import type { Clock } from '../process/clock.ts';
import { throttled, type Throttled, type Log } from '../process/log.ts';
import { messageOf } from '../process/message-of.ts';
import type { ConsumerMetrics } from './metrics.ts';
import type { LandingSpans } from './landing-spans.ts';
import { isRejection, quarantineName, rejected, withoutBody } from './classify.ts';
import type { Entered, EnteredEvent, Rejection } from './classify.ts';

/**
 * Limit on the weight of a transaction, and so on its memory and duration. A heavier event lands alone. The limit
 * starts at WEIGHT_FIRST, doubles after each full transaction, and is halved after one that took too long.
 */
const WEIGHT_MAX = 16 << 20;
const WEIGHT_FIRST = 1 << 20;
/** Another replica claims an entry that has not been acknowledged for this long, longer than a batch takes to land. */
export const CLAIM_IDLE_MS = 10_000;
/** A batch that lands right after its read needs no command to find erased events. `erase` waits for its entries. */
const ERASED_AGE_MS = 20;
/** Weight of a row without its body. */
const ROW_WEIGHT = 512;
const REFUSAL_LOG_INTERVAL_MS = 1_000;

const REFUSED = {
  reused: { code: 'id_reused', why: 'the id belongs to an earlier event of this producer with another body' },
  conflict: { code: 'id_conflict', why: "the id belongs to another producer's event" },
} as const;

/** Entries in `done` may be acknowledged. Entries in `left` must still land. */
export interface Landed {
  readonly done: readonly Entered[];
  readonly rest: readonly Entered[];
}

/** One batch is written while one waits and one is acknowledged, so that the warehouse is never idle. */
export const LANDINGS_AT_ONCE = 3;

/** Limits the number of simultaneous landings by all consumers of a process. Calls that wait continue in order. */
export class LandingSlots {
  #free = LANDINGS_AT_ONCE;
  readonly #waiting: (() => void)[] = [];

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** The queue did not answer while a batch was landing. */
export class QueueStepFailed extends Error {
  override readonly name = 'QueueStepFailed';
}

export interface Telemetry {
  readonly metrics: ConsumerMetrics;
  readonly log: Log;
  readonly spans?: LandingSpans | undefined;
}

interface LandingOptions {
  readonly reader: Pick<QueueReader, 'erased'>;
  readonly warehouse: Warehouse;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
}

export class Landing {
  readonly #options: LandingOptions;
  #weightMax = WEIGHT_FIRST;
  /** A constraint or trigger of an operator may refuse every event. */
  readonly #refusalLog: Throttled;

  constructor(options: LandingOptions) {
    this.#options = options;
    this.#refusalLog = throttled(options.clock, REFUSAL_LOG_INTERVAL_MS);
  }

  /** Lands as many entries of a batch as one transaction may contain. */
  async landSome(entries: readonly Entered[]): Promise<Landed> {
    const end = this.#endOfTransaction(entries);
    const some = entries.slice(0, end);
    try {
      const erased = await this.#erased(some, ERASED_AGE_MS);
      const isErasedNow = ({ id }: Entered): boolean => erased.has(id ?? '');
      const landing = erased.size === 0 ? some : some.map((one) => (isErasedNow(one) ? withoutBody(one) : one));
      const rejections = await this.#landOrHalve(landing.filter((one): one is EnteredEvent => !isRejection(one)));
      const invalid = landing.filter(isRejection);
      if (invalid.length > 0) rejections.push(...(await this.#notLanded(invalid)));
      const startMs = this.#options.clock.epochMs();
      const refused = rejections.length === 0 ? [] : await this.#quarantine(rejections);
      // A consumer with other schemas may have landed an event meanwhile, or quarantined one that it claimed from here.
      const quarantined = await this.#notLanded(refused);
      const names = new Set(quarantined.map(quarantineName));
      const claimedMs = this.#options.clock.ms() - CLAIM_IDLE_MS;
      const rows = refused.map(quarantineName);
      for (const one of some) {
        // An earlier try may have put an erased event in quarantine, with its body.
        const row = isErasedNow(one) || one.readMs <= claimedMs ? quarantineName(one) : one.replayOf;
        if (row !== undefined) rows.push(row);
      }
      const released = rows.filter((row) => !names.has(row));
      // If the process crashes before this, the entry of a row is read again, and its row is removed then.
      if (released.length > 0) await this.#options.warehouse.release(released);
      // No retry can follow from here on, so each entry is reported once.
      this.#tellQuarantined(quarantined, startMs);
      if (end < entries.length) this.#weightMax = Math.min(WEIGHT_MAX, 2 * this.#weightMax);
      return { done: some, rest: entries.slice(end) };
    } catch (cause) {
      if (cause instanceof BatchTooSlow || cause instanceof BatchRefused)
        this.#weightMax = Math.max(1, some.reduce((weight, one) => weight + weightOf(one), 0) / 2);
      throw cause;
    }
  }

  #erased(entries: readonly Entered[], ageMsMax = 0): Promise<ReadonlySet<string>> {
    return this.#options.reader.erased(entries, ageMsMax).catch((cause: unknown) => {
      throw new QueueStepFailed(messageOf(cause), { cause });
    });
  }

  #endOfTransaction(entries: readonly Entered[]): number {
    let weight = 0;
    for (const [at, entry] of entries.entries()) {
      weight += weightOf(entry);
      if (at > 0 && weight > this.#weightMax) return at;
    }
    return entries.length;
  }

  /** Lands events and returns those that cannot land. */
  async #landOrHalve(events: readonly EnteredEvent[]): Promise<Rejection[]> {
    const [first] = events;
    if (first === undefined) return [];
    const startMs = this.#options.clock.epochMs();
    try {
      return this.#tally(events, await this.#options.warehouse.land(events), startMs);
    } catch (cause) {
      if (!(cause instanceof BatchRefused)) throw cause;
      if (events.length === 1) {
        const { entry } = first;
        this.#refusalLog((heldBack) =>
          this.#options.telemetry.log.error({ entry, err: cause.cause, heldBack }, 'the warehouse refuses an event'),
        );
        return [rejected(first, 'refused_by_warehouse', `the warehouse cannot store this event (${cause.message})`)];
      }
      const middle = events.length >> 1;
      const refused = await this.#landOrHalve(events.slice(0, middle));
      return [...refused, ...(await this.#landOrHalve(events.slice(middle)))];
    }
  }

  #tally(events: readonly EnteredEvent[], outcomes: readonly LandingOutcome[], startMs: number): Rejection[] {
    const now = this.#options.clock.epochMs();
    const isLanded = (_: unknown, at: number): boolean => outcomes[at] === 'landed' || outcomes[at] === 'duplicate';
    this.#options.telemetry.spans?.(events.filter(isLanded), startMs, now);
    const refused: Rejection[] = [];
    events.forEach((event, at) => {
      const outcome = outcomes[at];
      if (outcome === 'landed') this.#countLanded(event, now);
      else if (outcome === 'duplicate') this.#options.telemetry.metrics.duplicates.add();
      else if (outcome !== undefined) refused.push(rejected(event, REFUSED[outcome].code, REFUSED[outcome].why));
    });
    return refused;
  }

  #countLanded({ acceptedAtMs, replayOf }: EnteredEvent, nowMs: number): void {
    const { metrics, log } = this.#options.telemetry;
    const delayMs = Math.max(0, nowMs - acceptedAtMs);
    if (metrics.landed.value === 0) log.info(`first event landed after ${delayMs} ms`);
    metrics.landed.add();
    // A replayed event waited for an operator, so its delay is not included.
    if (replayOf === undefined) metrics.delay.observe(delayMs / 1000);
  }

  /** Leaves out events that have landed before: an entry may be read again after a newer schema refuses its event. */
  async #notLanded(rejections: readonly Rejection[]): Promise<readonly Rejection[]> {
    const candidates = rejections.flatMap((one) => (one.code === 'schema' && one.id !== undefined ? [one] : []));
    if (candidates.length === 0) return rejections;
    const answers = await this.#options.warehouse.haveLanded(
      candidates.map(({ id = '', producer, body }) => ({ id, producer, body })),
    );
    const landed = new Set(candidates.filter((_, at) => answers[at]));
    this.#options.telemetry.metrics.duplicates.add(landed.size);
    return rejections.filter((one) => !landed.has(one));
  }

  /**
   * Writes quarantine rows, then replaces those of events that were erased meanwhile, because an `erase` that ran
   * while this process was frozen found no row to overwrite. Returns the rejections that have a row.
   */
  async #quarantine(rejections: readonly Rejection[]): Promise<readonly Rejection[]> {
    await this.#options.warehouse.quarantine(rejections.map(rowOf));
    const erased = await this.#erased(rejections);
    const stale = rejections.filter(({ id = '', body }) => erased.has(id) && !isErased(body));
    if (stale.length === 0) return rejections;
    const rest = await this.#notLanded(stale.map(withoutBody));
    if (rest.length > 0) await this.#options.warehouse.quarantine(rest.map(rowOf));
    const names = new Set(rest.map(quarantineName));
    const landed = stale.filter((one) => !names.has(quarantineName(one)));
    if (landed.length > 0) await this.#options.warehouse.release(landed.map(quarantineName));
    return rejections.filter((one) => !landed.includes(one));
  }

  #tellQuarantined(rejections: readonly Rejection[], startMs: number): void {
    if (rejections.length === 0) return;
    this.#options.telemetry.spans?.(rejections, startMs, this.#options.clock.epochMs());
    for (const { code } of rejections) this.#options.telemetry.metrics.quarantined.inc({ reason: code });
    const [first] = rejections;
    this.#options.telemetry.log.error(
      { entries: rejections.length, entry: first?.entry, reason: first?.reason, traceparent: first?.traceparent },
      'entries put in quarantine',
    );
  }
}

const rowOf = (rejection: Rejection): QuarantinedEntry => ({ ...rejection, entry: quarantineName(rejection) });

const weightOf = ({ body }: Entered): number => ROW_WEIGHT + body.length;
