// Invariants, checked after each step that may break them:
// 1. An accepted event is on the queue and not acknowledged, or it has a row or a quarantine row.
// 2. An id has at most one row, and every row is an event that was sent.
// 3. An event is stored when an answer calls it a `duplicate`.
// 4. Successive lookups never return an earlier state of an event, nor 404 after a 202.
// 5. Every submission is answered by its deadline.
// 6. Admission stays within its limit and releases everything that it admitted.
// Events may be lost with the server's tail. Bodies are not compared after such a loss or a change of the clock.
import type { RedisServer, StoredEntry } from './redis-server.ts';
import { isErased } from '../../lib/ingest/erased.ts';
import { PRUNE_AGE_MS_MIN } from '../../lib/ingest/warehouse.ts';
import { START_EPOCH_MS } from './schedule.ts';
import type { Told } from './programs.ts';
import type { Store } from './store.ts';

export class Violation extends Error {
  override readonly name = 'Violation';
}

export interface Sent {
  readonly id: string;
  readonly producer: string;
  readonly variant: number;
  readonly sentMs: number;
}

export const keyOf = ({ id, producer }: Pick<Sent, 'id' | 'producer'>): string => `${id} of ${producer}`;

interface Event {
  readonly id: string;
  readonly producer: string;
  readonly variants: Set<number>;
  /**
   * Variants of the body that were answered with 202 and without `duplicate`. Each must end up in the row or in
   * quarantine.
   */
  readonly accepted: Set<number>;
  /** The time at which the latest accepted POST was sent. Undefined if nothing is promised. */
  promisedMs: number | undefined;
  landed: boolean;
  rank: number;
  /** The variant of the body that is stored according to the answers. */
  kept: number | undefined;
  readonly notKept: Set<number>;
  erased: boolean;
  /** True if an operator may have removed the row. Nothing is promised from then on. */
  removed: boolean;
  /** Its unlanded entry was deleted by hand: for 24 hours its id is a duplicate without a row (openapi/rules.md). */
  deleted: boolean;
}

const RANKS: Readonly<Record<string, number>> = { accepted: 1, rejected: 2, landed: 2, erased: 3 };

export const bodyOf = ({ id, variant }: Pick<Sent, 'id' | 'variant'>, more = ''): string =>
  `{"id":"${id}","type":"order.paid","v":${variant}${more}}`;
const variantOf = (body: string): number => Number((JSON.parse(body) as { v: number }).v);

export class Invariants {
  readonly #server: RedisServer;
  readonly #store: Store;
  readonly #nowMs: () => number;
  readonly #events = new Map<string, Event>();
  readonly #open = new Set<Event>();
  /** The version of the warehouse whose rows are below. */
  #versionSeen: unknown;
  #rows = new Map<string, { readonly producer: string; readonly body: string }>();
  #quarantined = new Set<string>();
  /** True after a fault that allows the stored body to change. Bodies are no longer compared from then on. */
  variantsMayDiffer = false;
  accepted = 0;

  constructor(server: RedisServer, store: Store, nowMs: () => number) {
    this.#server = server;
    this.#store = store;
    this.#nowMs = nowMs;
  }

  sent(sent: Sent): void {
    this.#of(sent).variants.add(sent.variant);
  }

  #of({ id, producer }: Pick<Sent, 'id' | 'producer'>): Event {
    const key = keyOf({ id, producer });
    let event = this.#events.get(key);
    if (event === undefined) {
      event = {
        ...{ id, producer, variants: new Set(), accepted: new Set(), notKept: new Set(), kept: undefined, rank: 0 },
        ...{ promisedMs: undefined, landed: false, erased: false, removed: false, deleted: false },
      };
      this.#events.set(key, event);
    }
    return event;
  }

  async answered(sent: Sent, { status, body }: Told): Promise<void> {
    if (status !== 202) return;
    const event = this.#of(sent);
    if (body['duplicate'] === true && event.deleted) return;
    event.deleted = false;
    if (event.promisedMs === undefined) this.accepted += 1;
    event.promisedMs = sent.sentMs;
    this.#open.add(event);
    if (body['duplicate'] === true) await this.#isThere(event);
    else event.accepted.add(sent.variant);
    this.#keeps(event, sent.variant, body['differs'] !== true);
    await this.check();
  }

  async #isThere(event: Event): Promise<void> {
    this.#look();
    const { entries } = await this.#server.stored(this.#nowMs());
    const there =
      this.#rows.has(event.id) || this.#quarantined.has(keyOf(event)) || entries.some((entry) => isOf(entry, event));
    // The event may have been lost while this answer was in transit.
    if (!there && !event.removed && (event.promisedMs ?? 0) > this.#lostMs)
      throw new Violation(`answered duplicate for ${keyOf(event)}, which is nowhere`);
  }

  #keeps(event: Event, variant: number, isKept: boolean): void {
    if (event.erased) return;
    if (isKept) {
      if (event.kept !== undefined && event.kept !== variant) this.#differ(event);
      event.kept = variant;
    } else event.notKept.add(variant);
    if (event.kept !== undefined && event.notKept.has(event.kept)) this.#differ(event);
  }

  #differ(event: Event): void {
    if (!this.variantsMayDiffer) throw new Violation(`the answers for ${keyOf(event)} name two kept bodies`);
  }

  /** Checks the answer to a lookup against `before`, the state of the event when the lookup was sent. */
  found(of: Pick<Sent, 'id' | 'producer'>, before: LookedUp, { status, body }: Told): void {
    const event = this.#of(of);
    if (event.removed) return;
    if (status === 404 && before.promised && before.sentMs > this.#lostMs)
      throw new Violation(`a look-up says 404 for ${keyOf(event)}, which was answered 202`);
    if (status !== 200) return;
    const rank = RANKS[String(body['status'])] ?? 0;
    if (rank < before.rank && before.sentMs > this.#lostMs)
      throw new Violation(`a look-up says ${String(body['status'])} for ${keyOf(event)}, and said more before`);
    event.rank = Math.max(event.rank, rank);
  }

  lookUp(of: Pick<Sent, 'id' | 'producer'>): LookedUp {
    const { rank, promisedMs } = this.#of(of);
    return { rank, promised: promisedMs !== undefined, sentMs: this.#nowMs() };
  }

  #lostMs = Number.NEGATIVE_INFINITY;

  /** Records that the server lost its tail. */
  async lostTail(): Promise<void> {
    this.variantsMayDiffer = true;
    this.#lostMs = this.#nowMs();
    this.#look();
    const { entries } = await this.#server.stored(this.#nowMs());
    for (const event of this.#events.values()) {
      event.rank = 0;
      event.kept = undefined;
      event.accepted.clear();
      if (!this.#isLanded(event) && !entries.some((entry) => isOf(entry, event))) event.promisedMs = undefined;
    }
  }

  /** Deletes an unacknowledged entry by hand, unless a request for its event is in progress. */
  async delete(
    isAsked: (id: string) => boolean,
    which: number,
    remove: (entry: string) => Promise<boolean>,
  ): Promise<void> {
    const { waiting } = await this.#server.stored(this.#nowMs());
    const some = waiting.filter((entry) => !isAsked(entry.id) && this.#of(entry).promisedMs !== undefined);
    const entry = some[Math.floor(which * some.length)];
    if (entry === undefined || !(await remove(entry.entry))) return;
    const event = this.#of(entry);
    event.promisedMs = undefined;
    event.deleted = true;
    event.accepted.clear();
    event.rank = 0;
    this.variantsMayDiffer = true;
  }

  erase(which: number): string | undefined {
    const some = [...this.#events.values()].filter(({ promisedMs }) => promisedMs !== undefined);
    const id = some[Math.floor(which * some.length)]?.id;
    for (const event of this.#events.values()) if (event.id === id) event.erased = true;
    return id;
  }

  /** Returns the names of all quarantine rows, and records that their events may be removed. */
  drop(): readonly string[] {
    const rows = this.#store.quarantine();
    for (const { id, producer } of rows) if (id !== null) this.#of({ id, producer }).removed = true;
    return rows.map(({ entry }) => entry);
  }

  /** Marks rows that are old enough to be pruned as possibly removed. */
  prune(wallOffMs: number): void {
    const before = START_EPOCH_MS + this.#nowMs() + wallOffMs - PRUNE_AGE_MS_MIN;
    for (const { id, producer, landed_at } of this.#store.rows())
      if (Date.parse(landed_at) <= before) this.#of({ id, producer }).removed = true;
  }

  /**
   * Checks invariants 1 and 2. Returns the number of promised events that have not landed, or the number of
   * unacknowledged entries if that is larger.
   */
  async check(): Promise<number> {
    this.#look();
    const { waiting: entries } = await this.#server.stored(this.#nowMs());
    const waiting = new Set(entries.map((entry) => keyOf(entry)));
    let open = 0;
    for (const event of this.#open) {
      event.landed ||= this.#rows.get(event.id)?.producer === event.producer;
      if (event.promisedMs === undefined || event.landed || event.removed) {
        this.#open.delete(event);
        continue;
      }
      const key = keyOf(event);
      if (this.#quarantined.has(key)) continue;
      open += 1;
      if (!waiting.has(key))
        throw new Violation(`answered 202 for ${key}, and it is on no queue, in no row, in no quarantine`);
    }
    // A second body for an id that already has a row must end up in quarantine, so entries are counted too.
    return Math.max(open, waiting.size);
  }

  end(): void {
    this.#look();
    for (const [id, { producer, body }] of this.#rows) {
      const event = this.#events.get(keyOf({ id, producer }));
      const isSent = event?.variants.has(variantOf(body)) === true || (event?.erased === true && isErased(body));
      if (event === undefined || !isSent) throw new Violation(`the row of ${id} is no event that was sent`);
      if (event.erased) continue;
      if (this.variantsMayDiffer || event.promisedMs === undefined) continue;
      const variant = variantOf(body);
      if ((event.kept ?? variant) !== variant || event.notKept.has(variant))
        throw new Violation(`the row of ${keyOf(event)} has body ${variant}, and the answers say another one`);
    }
    const quarantined = this.#store.quarantine();
    for (const event of this.#events.values()) {
      if (event.erased || event.removed) continue;
      const row = this.#rows.get(event.id);
      const kept = quarantined.filter((one) => one.id === event.id && one.producer === event.producer);
      const bodies = kept.map(({ body }) => variantOf(Buffer.from(body).toString()));
      if (row?.producer === event.producer) bodies.push(variantOf(row.body));
      for (const variant of event.accepted)
        if (!bodies.includes(variant))
          throw new Violation(`body ${variant} of ${keyOf(event)} was accepted, and is nowhere`);
    }
    for (const { id, producer, reason } of quarantined) {
      const owner = this.#rows.get(id ?? '')?.producer;
      const isExpected =
        (/^refused_by_warehouse/.test(reason) && id?.startsWith('poison') === true) ||
        (/^id_conflict/.test(reason) && owner !== undefined && owner !== producer) ||
        (/^id_reused/.test(reason) && owner === producer && this.variantsMayDiffer) ||
        // The row that caused the conflict may have been pruned since.
        [...this.#events.values()].some((event) => event.id === id && event.removed);
      if (!isExpected) throw new Violation(`${id} of ${producer} is in quarantine: ${reason}`);
    }
  }

  #isLanded(event: Event): boolean {
    return this.#rows.get(event.id)?.producer === event.producer || this.#quarantined.has(keyOf(event));
  }

  /** Reads all rows if some may have changed. */
  #look(): void {
    const { version } = this.#store;
    if (this.#versionSeen === version) return;
    this.#versionSeen = version;
    const rows = this.#store.rows();
    this.#rows = new Map(rows.map((row) => [row.id, row]));
    if (this.#rows.size !== rows.length) throw new Violation('an id has two rows');
    this.#quarantined = new Set(this.#store.quarantine().map(({ id, producer }) => `${id} of ${producer}`));
  }
}

export interface LookedUp {
  readonly rank: number;
  readonly promised: boolean;
  readonly sentMs: number;
}

const isOf = (entry: StoredEntry, { id, producer }: Event): boolean => entry.id === id && entry.producer === producer;
