// How many connections there may be, and which one goes when there are too many.
//
// A connection is a stranger until a producer's request has been seen on it. Invariant: no known connection is cut for
// a stranger. Where there is no room, a new connection takes the place of a stranger, the oldest of the first kind in
// KINDS that there is. Known ones hold at most all places but one in STRANGERS_SHARE, so there always is one.
//
// Where a further one becomes known, the producer that holds most gives way: an idle connection of its goes, the oldest
// first, or where none is idle the oldest one. A producer that holds most itself only trades an idle connection of its
// own for a new one.
//
// One address holds only so many strangers; one more takes the place of one from there. Those that are in the handshake
// count when it has taken HANDSHAKE_FREE_MS: until then they may be producers, any number of which may share an
// address.
//
// Fact: strangers that come again as they are cut arrive by the hundred while a producer is in its handshake. Node
// accepts one connection in a turn of the event loop and reads in the next one what the client sent behind it. Choice:
// those that have not sent a whole ClientHello go before those that have. Effect: a producer that arrives among silent
// strangers is not cut, however many.
//
// It only keeps count; its owner closes connections. `S` stands for a connection.
import { assert } from './assert.ts';

export interface RoomLimits {
  readonly connectionsMax: number;
  /** Of strangers; 0: no limit. */
  readonly connectionsPerAddressMax: number;
}

/** One place in so many is kept for strangers, so that a known producer's new connection can become known. */
const STRANGERS_SHARE = 20;

/** How long a handshake may take before its connection counts as a stranger's of its address, in milliseconds. */
export const HANDSHAKE_FREE_MS = 1_000;

/**
 * Strangers, in the order in which they go. `nameless`: the handshake is done, and brought no good certificate; `mute`:
 * it has not begun in HANDSHAKE_FREE_MS (no whole ClientHello has come); `silent`: it has not begun; `slow`: it has,
 * and has taken as long; `begun`: it has; `certified`: it is done, and brought a good certificate.
 */
const KINDS = ['nameless', 'mute', 'silent', 'slow', 'begun', 'certified'] as const;
type Kind = (typeof KINDS)[number];
const HANDSHAKING: readonly Kind[] = ['mute', 'silent', 'slow', 'begun'];
/** Those that count for their address. */
const COUNTED: readonly Kind[] = ['nameless', 'mute', 'slow', 'certified'];

/** Of each kind, oldest first: a Set gives its members in the order in which they came. */
type Strangers<S> = Readonly<Record<Kind, Set<S>>>;

interface Place {
  readonly address: string;
  readonly sinceMs: number;
  /** Undefined: it is known. */
  kind: Kind | undefined;
  /** Whose it is, once it is known. */
  producer: string;
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #hasBegun: (connection: S) => boolean;
  readonly #isIdle: (connection: S) => boolean;
  readonly #knownMax: number;
  /** Known ones, by producer, in the order in which they became known. */
  readonly #knownOf = new Map<string, Set<S>>();
  #known = 0;
  readonly #places = new Map<S, Place>();
  readonly #strangers = noStrangers<S>();
  readonly #strangersFrom = new Map<string, Strangers<S>>();

  /** `hasBegun`: whether its handshake has; `isIdle`: whether no request is under way on it, nor an answer. */
  constructor(limits: RoomLimits, hasBegun: (connection: S) => boolean, isIdle: (connection: S) => boolean) {
    this.#limits = limits;
    this.#hasBegun = hasBegun;
    this.#isIdle = isIdle;
    const { connectionsMax } = limits;
    this.#knownMax = Math.max(1, connectionsMax - Math.ceil(connectionsMax / STRANGERS_SHARE));
  }

  /** Takes one in, and gives who has to go for it: another one, none, or the new one itself. */
  enter(connection: S, address: string, nowMs: number): S | undefined {
    assert(!this.#places.has(connection), 'a connection enters once');
    const goes = this.#places.size < this.#limits.connectionsMax ? undefined : this.#whoGoes(connection, address);
    if (goes === connection) return goes;
    if (goes !== undefined) this.leave(goes);
    const place: Place = { address, sinceMs: nowMs, kind: undefined, producer: '' };
    this.#places.set(connection, place);
    this.#become(connection, place, 'silent');
    assert(this.#places.size <= this.#limits.connectionsMax, 'there is room for every connection');
    return goes;
  }

  /**
   * Its handshake is done. `certified`: it brought a certificate of our authorities. Gives who has to go for it,
   * perhaps itself.
   */
  shakeHands(connection: S, certified: boolean): S | undefined {
    const place = this.#places.get(connection);
    if (place?.kind === undefined) return undefined;
    this.#become(connection, place, certified ? 'certified' : 'nameless');
    return this.#whoIsOver(place.address);
  }

  /** Those that have to go because their handshake has taken long, and their address has more strangers than it may. */
  slowOnes(nowMs: number): S[] {
    const over: S[] = [];
    for (const kind of ['silent', 'begun'] as const) {
      for (const connection of this.#strangers[kind]) {
        const place = this.#places.get(connection);
        // They may have begun in another order than they came in; then one counts a little later.
        if (place === undefined || nowMs - place.sinceMs < HANDSHAKE_FREE_MS) break;
        this.#become(connection, place, this.#hasBegun(connection) ? 'slow' : 'mute');
        const goes = this.#whoIsOver(place.address);
        if (goes !== undefined) over.push(goes);
      }
    }
    return over;
  }

  /** It brought a request of this producer's. Gives who has to go for it; itself: it stays, as a stranger. */
  know(connection: S, producer: string): S | undefined {
    const place = this.#places.get(connection);
    if (place?.kind === undefined) return undefined;
    const goes = this.#known < this.#knownMax ? undefined : this.#whoGivesWay(connection, producer);
    if (goes === connection) return goes;
    if (goes !== undefined) this.leave(goes);
    this.#become(connection, place, undefined);
    place.producer = producer;
    const held = this.#knownOf.get(producer);
    if (held === undefined) this.#knownOf.set(producer, new Set([connection]));
    else held.add(connection);
    this.#known += 1;
    assert(this.#known <= this.#knownMax, 'a place is left for strangers');
    return goes;
  }

  leave(connection: S): void {
    const place = this.#places.get(connection);
    if (place === undefined) return;
    this.#places.delete(connection);
    if (place.kind !== undefined) {
      this.#become(connection, place, undefined);
      return;
    }
    this.#known -= 1;
    const held = this.#knownOf.get(place.producer);
    assert(held?.delete(connection) === true, 'a known connection is one of its producer');
    if (held.size === 0) this.#knownOf.delete(place.producer);
  }

  /** Who goes where `newcomer` would be one known connection too many. */
  #whoGivesWay(newcomer: S, producer: string): S {
    const own = this.#knownOf.get(producer);
    let most = own;
    for (const held of this.#knownOf.values()) if (held.size > (most?.size ?? 0)) most = held;
    // With the newcomer its producer would hold as many as any other: it takes from itself.
    const takesFromItself = (most?.size ?? 0) <= (own?.size ?? 0) + 1;
    if (takesFromItself) most = own;
    for (const one of most ?? []) if (this.#isIdle(one)) return one;
    if (takesFromItself) return newcomer;
    for (const oldest of most ?? []) return oldest;
    return newcomer;
  }

  #become(connection: S, place: Place, kind: Kind | undefined): void {
    let there = this.#strangersFrom.get(place.address);
    if (place.kind !== undefined) {
      this.#strangers[place.kind].delete(connection);
      there?.[place.kind].delete(connection);
    }
    place.kind = kind;
    if (kind !== undefined) {
      if (there === undefined) this.#strangersFrom.set(place.address, (there = noStrangers()));
      this.#strangers[kind].add(connection);
      there[kind].add(connection);
    } else if (there !== undefined && count(there, KINDS) === 0) this.#strangersFrom.delete(place.address);
  }

  #whoIsOver(address: string): S | undefined {
    const { connectionsPerAddressMax } = this.#limits;
    const there = this.#strangersFrom.get(address);
    if (connectionsPerAddressMax === 0 || there === undefined) return undefined;
    if (count(there, COUNTED) <= connectionsPerAddressMax) return undefined;
    const goes = this.#first(there, COUNTED);
    if (goes !== undefined) this.leave(goes);
    return goes;
  }

  #whoGoes(newcomer: S, address: string): S {
    const { connectionsPerAddressMax } = this.#limits;
    const there = this.#strangersFrom.get(address);
    const isOver =
      connectionsPerAddressMax > 0 && there !== undefined && count(there, KINDS) >= connectionsPerAddressMax;
    return (
      this.#first(this.#strangers, ['nameless']) ??
      // Those in the handshake cut each other, and none of another address.
      (isOver ? this.#first(there, HANDSHAKING) : undefined) ??
      this.#first(this.#strangers, KINDS) ??
      newcomer
    );
  }

  #first(strangers: Strangers<S>, kinds: readonly Kind[]): S | undefined {
    for (const kind of kinds) {
      for (const connection of strangers[kind]) {
        if ((kind !== 'silent' && kind !== 'mute') || !this.#hasBegun(connection)) return connection;
        const place = this.#places.get(connection);
        if (place !== undefined) this.#become(connection, place, kind === 'mute' ? 'slow' : 'begun');
      }
    }
    return undefined;
  }
}

const noStrangers = <S>(): Strangers<S> => ({
  nameless: new Set(),
  mute: new Set(),
  silent: new Set(),
  slow: new Set(),
  begun: new Set(),
  certified: new Set(),
});

const count = <S>(strangers: Strangers<S>, kinds: readonly Kind[]): number =>
  kinds.reduce((sum, kind) => sum + strangers[kind].size, 0);
