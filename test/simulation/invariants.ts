// What must hold, whatever fails; looked at after each step that may break it.
//
// 1. A 202 that was given: the event is on the queue, not done, or in a row, or in quarantine.
// 2. There are never two rows of an id, and a row is an event that was sent.
// 3. A `duplicate` answer is true when it is given: the event is on the queue, or in a row, or in quarantine.
// 4. What a look-up says of an event moves forward only, and is never 404 for one that was answered 202 before.
// 5. Every submission is answered by its deadline.
// 6. What is in flight keeps to its bound, and all of it is given back.
//
// The bound of what durability does not promise: where the server comes back without its tail (everysec, or a promoted
// replica), an event may be forgotten if it was sent before that moment and its entry is not on the server that came
// back. What is sent afterwards is held to all of the above. Variants of bodies are compared where no tail was lost and
// no clock was moved.
import type { RedisServer, StoredEntry } from './redis-server.ts';
import { isErased } from '../../lib/ingest/erased.ts';
import { PRUNE_AGE_MS_MIN } from '../../lib/ingest/warehouse.ts';
import { START_EPOCH_MS } from './schedule.ts';
import type { Told } from './programs.ts';
import type { Store } from './store.ts';

/** A violation of the promise, in words. */
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
  /** The bodies that were answered 202 without `duplicate`: each of them is the row's, or in quarantine. */
  readonly accepted: Set<number>;
  /** When the latest POST that was answered 202 was sent; undefined: nothing is promised. */
  promisedMs: number | undefined;
  landed: boolean;
  /** The rank of the furthest state that a look-up said. */
  rank: number;
  /** The body that the answers so far say to be kept. */
  kept: number | undefined;
  readonly notKept: Set<number>;
  /** An operator was asked to erase it: its body may be that of an erased event. */
  erased: boolean;
  /** An operator took its row away, or may have: nothing is promised any more. */
  removed: boolean;
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
  /** Those that are promised, and have no row yet. */
  readonly #open = new Set<Event>();
  /** What of the warehouse the rows below are from. */
  #writesSeen = -1;
  #landingsSeen = -1;
  #rowsSeen = 0;
  #rows = new Map<string, { readonly producer: string; readonly body: string }>();
  #quarantined = new Set<string>();
  /** Bodies are not compared any more. */
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
        ...{
          id,
          producer,
          variants: new Set<number>(),
          accepted: new Set<number>(),
          promisedMs: undefined,
          landed: false,
        },
        ...{ rank: 0, kept: undefined, notKept: new Set<number>(), erased: false, removed: false },
      };
      this.#events.set(key, event);
    }
    return event;
  }

  /** A POST was answered. */
  async answered(sent: Sent, { status, body }: Told): Promise<void> {
    if (status !== 202) return;
    const event = this.#of(sent);
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
    const there = this.#rows.has(event.id) || this.#isQuarantined(event) || entries.some((entry) => isOf(entry, event));
    // The one that it is a duplicate of may have been lost while the answer was on its way.
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

  /** A look-up that was sent when `before` was the furthest state known, and `promised` whether a 202 had been given. */
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

  /** The server came back without its tail: gives how many promised events are gone with it. */
  async lostTail(): Promise<number> {
    this.variantsMayDiffer = true;
    this.#lostMs = this.#nowMs();
    this.#look();
    const { entries } = await this.#server.stored(this.#nowMs());
    let lost = 0;
    for (const event of this.#events.values()) {
      event.rank = 0;
      event.kept = undefined;
      event.accepted.clear();
      if (event.promisedMs === undefined || this.#isLanded(event) || entries.some((entry) => isOf(entry, event)))
        continue;
      event.promisedMs = undefined;
      lost += 1;
    }
    return lost;
  }

  /** An entry that is not done is deleted by hand, where no request of its event is on its way. False: there was none. */
  async delete(
    isAsked: (id: string) => boolean,
    which: number,
    remove: (entry: string) => Promise<boolean>,
  ): Promise<boolean> {
    const { waiting } = await this.#server.stored(this.#nowMs());
    const some = waiting.filter((entry) => !isAsked(entry.id) && this.#of(entry).promisedMs !== undefined);
    const entry = some[Math.floor(which * some.length)];
    if (entry === undefined || !(await remove(entry.entry))) return false;
    const event = this.#of(entry);
    event.promisedMs = undefined;
    event.accepted.clear();
    event.rank = 0;
    this.variantsMayDiffer = true;
    return true;
  }

  /** One of the events that are promised is to be erased: gives its id. */
  erase(which: number): string | undefined {
    const some = [...this.#events.values()].filter(({ promisedMs }) => promisedMs !== undefined);
    const id = some[Math.floor(which * some.length)]?.id;
    for (const event of this.#events.values()) if (event.id === id) event.erased = true;
    return id;
  }

  /** All quarantine rows are to be removed: gives their names. */
  drop(): readonly string[] {
    const rows = this.#store.quarantine();
    for (const { id, producer } of rows) if (id !== null) this.#of({ id, producer }).removed = true;
    return rows.map(({ entry }) => entry);
  }

  /** Rows that landed long ago are to be removed. */
  prune(wallOffMs: number): void {
    const before = START_EPOCH_MS + this.#nowMs() + wallOffMs - PRUNE_AGE_MS_MIN;
    for (const { id, producer, landed_at } of this.#store.rowsAfter(0))
      if (Date.parse(landed_at) <= before) this.#of({ id, producer }).removed = true;
  }

  /** 1 and 2; gives how many promised events have not landed, and entries that no consumer has acknowledged. */
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
    // A second body of an id that has its row, too, has to end in quarantine.
    return Math.max(open, waiting.size);
  }

  /** At the end: what is in rows and in quarantine, and why. */
  end(): void {
    this.#writesSeen = -1;
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
        // The row that it met may have been pruned since.
        [...this.#events.values()].some((event) => event.id === id && event.removed);
      if (!isExpected) throw new Violation(`${id} of ${producer} is in quarantine: ${reason}`);
    }
  }

  #isLanded(event: Event): boolean {
    return this.#rows.get(event.id)?.producer === event.producer || this.#isQuarantined(event);
  }

  #isQuarantined(event: Event): boolean {
    return this.#quarantined.has(keyOf(event));
  }

  /** Rows are read anew where they may have changed, and else only those that have landed since. */
  #look(): void {
    const { writes } = this.#store;
    if (this.#writesSeen === writes && this.#landingsSeen === this.#store.landings) return;
    const added = this.#writesSeen === writes ? this.#store.rowsAfter(this.#rowsSeen) : undefined;
    const grown = added !== undefined && this.#rows.size + added.length === this.#store.count();
    const rows = grown ? added : this.#store.rowsAfter(0);
    if (!grown) this.#rows = new Map();
    const before = this.#rows.size;
    for (const row of rows) this.#rows.set(row.id, row);
    if (this.#rows.size !== before + rows.length) throw new Violation('an id has two rows');
    this.#rowsSeen = rows.at(-1)?.rowid ?? (grown ? this.#rowsSeen : 0);
    if (this.#writesSeen !== writes)
      this.#quarantined = new Set(this.#store.quarantine().map(({ id, producer }) => `${id} of ${producer}`));
    this.#writesSeen = writes;
    this.#landingsSeen = this.#store.landings;
  }
}

/** What was known of an event when it was looked up. */
export interface LookedUp {
  readonly rank: number;
  readonly promised: boolean;
  readonly sentMs: number;
}

const isOf = (entry: StoredEntry, { id, producer }: Event): boolean => entry.id === id && entry.producer === producer;
