// Lands one batch of entries, so that afterwards every one of them may be acknowledged.
//
// Invariant: when `land` resolves, each entry has a warehouse row (its own, or an earlier one of the same event) or
// a quarantine row. When it rejects, the warehouse is away, some may have landed, and the same batch again is safe.
//
// A batch that the warehouse refuses for what it holds is halved until the bad event is alone: its neighbours land,
// and n events with one bad one take about 2·log2(n) calls.
import { BatchRefused, type Warehouse } from '../ingest/warehouse.ts';
import type { Log } from '../process/log.ts';
import type { ConsumerMetrics } from './metrics.ts';
import { rejected, type EnteredEvent, type Rejection, type Sorted } from './quarantine.ts';

/** Bytes of bodies in one transaction: what both sides hold in memory at a time. A larger single event goes alone. */
const TRANSACTION_BYTES_MAX = 16 << 20;

export class Landing {
  readonly #warehouse: Warehouse;
  readonly #metrics: ConsumerMetrics;
  readonly #log: Log;

  constructor(warehouse: Warehouse, metrics: ConsumerMetrics, log: Log) {
    this.#warehouse = warehouse;
    this.#metrics = metrics;
    this.#log = log;
  }

  async land({ events, rejections }: Sorted): Promise<void> {
    const all = [...rejections];
    for (const transaction of transactions(events)) all.push(...(await this.#landOrHalve(transaction)));
    await this.#quarantine(all);
  }

  /** Gives the events that cannot land. */
  async #landOrHalve(events: readonly EnteredEvent[]): Promise<readonly Rejection[]> {
    try {
      return await this.#landAll(events);
    } catch (cause) {
      if (!(cause instanceof BatchRefused)) throw cause;
      const [only] = events;
      if (events.length === 1 && only !== undefined) {
        this.#log.error({ entry: only.entry, err: cause.cause }, 'the warehouse refuses an event');
        return [rejected(only, 'refused_by_warehouse', `the warehouse cannot store this event (${cause.message})`)];
      }
      const middle = events.length >> 1;
      const first = await this.#landOrHalve(events.slice(0, middle));
      return [...first, ...(await this.#landOrHalve(events.slice(middle)))];
    }
  }

  async #landAll(events: readonly EnteredEvent[]): Promise<readonly Rejection[]> {
    const verdicts = await this.#warehouse.land(events);
    const now = Date.now();
    const conflicts: Rejection[] = [];
    for (const [at, event] of events.entries()) {
      const verdict = verdicts[at];
      if (verdict === 'landed') {
        this.#metrics.landed.add();
        this.#metrics.delay.observe(Math.max(0, now - event.acceptedAtMs) / 1000);
      } else if (verdict === 'duplicate') {
        this.#metrics.duplicates.add();
      } else {
        conflicts.push(rejected(event, 'id_conflict', "the id belongs to another producer's event"));
      }
    }
    return conflicts;
  }

  async #quarantine(rejections: readonly Rejection[]): Promise<void> {
    if (rejections.length === 0) return;
    await this.#warehouse.quarantine(rejections);
    for (const { code } of rejections) this.#metrics.quarantined.counter({ reason: code }).add();
    const [first] = rejections;
    this.#log.error(
      { entries: rejections.length, entry: first?.entry, reason: first?.reason },
      'entries put in quarantine',
    );
  }
}

/** Cuts a batch where its bodies pass TRANSACTION_BYTES_MAX. */
function* transactions(events: readonly EnteredEvent[]): Generator<readonly EnteredEvent[]> {
  let from = 0;
  let bytes = 0;
  for (const [at, event] of events.entries()) {
    if (at > from && bytes + event.body.length > TRANSACTION_BYTES_MAX) {
      yield events.slice(from, at);
      from = at;
      bytes = 0;
    }
    bytes += event.body.length;
  }
  if (from < events.length) yield events.slice(from);
}
