// How many connections there may be, and which one is closed when there are too many.
//
// A connection is a stranger until a producer's request has arrived by it. The room does not follow requests: before it
// closes a stranger it asks for the producer. Invariant: no known connection is closed for a stranger. If there is no
// room, a new connection takes the place of a stranger, the oldest of the first kind in KINDS that has one. Known
// connections hold at most all places but one in STRANGERS_SHARE, so there is always a stranger.
//
// If one more becomes known than may be, the producer that holds most gives way: its oldest idle connection is closed,
// or if none is idle, its oldest one. A producer that holds most itself only trades an idle connection of its own for a
// new one; without an idle one the new connection stays a stranger.
//
// One address holds a limited number of strangers; one more takes the place of an older one. Connections in the
// handshake count once it has taken HANDSHAKE_FREE_MS: until then they may be producers, any number of which may share
// an address.
//
// Fact: strangers that reconnect when they are closed arrive by the hundred while a producer is in its handshake. Node
// accepts one connection in a turn of the event loop and reads its first bytes in the next turn. Choice: connections
// that have not sent a whole ClientHello go before those that have. Effect: a producer that arrives among silent
// strangers is not closed, however many there are.
//
// It only keeps count; its owner closes connections. `S` stands for a connection.
import { assert } from './assert.ts';

export interface RoomLimits {
  readonly connectionsMax: number;
  /** The maximum of strangers; 0: no limit. */
  readonly connectionsPerAddressMax: number;
}

/** The questions that a room asks about a connection. */
export interface RoomQuestions<S> {
  /** Its handshake has begun. */
  readonly hasBegun: (connection: S) => boolean;
  /** No request is under way on it, and no answer. */
  readonly isIdle: (connection: S) => boolean;
  /** The producer whose request arrived by it. */
  readonly producerOf: (connection: S) => string | undefined;
}

/** One place in so many is kept for strangers, so that a known producer's new connection can become known. */
const STRANGERS_SHARE = 20;

/** After so long a handshake counts against the limit of its address, in milliseconds. */
export const HANDSHAKE_FREE_MS = 1_000;

/**
 * Strangers, in the order in which they are closed. `nameless`: the handshake is done, without a good certificate;
 * `mute`: it has not begun (no whole ClientHello arrived) in HANDSHAKE_FREE_MS; `silent`: it has not begun; `slow`: it
 * has begun, and has taken as long; `begun`: it has begun; `certified`: it is done, with a good certificate.
 */
const KINDS = ['nameless', 'mute', 'silent', 'slow', 'begun', 'certified'] as const;
type Kind = (typeof KINDS)[number];
const HANDSHAKING: readonly Kind[] = ['mute', 'silent', 'slow', 'begun'];
/** The kinds that count against the limit of their address. */
const COUNTED: readonly Kind[] = ['nameless', 'mute', 'slow', 'certified'];

/** Each kind oldest first: a Set keeps the order of insertion. */
type Strangers<S> = Readonly<Record<Kind, Set<S>>>;

interface Place {
  readonly address: string;
  readonly sinceMs: number;
  /** `undefined` once it is known. */
  kind: Kind | undefined;
  /** Its producer, once it is known. */
  producer: string;
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #ask: RoomQuestions<S>;
  readonly #knownMax: number;
  /** Known ones, by producer, in the order in which they became known. */
  readonly #knownOf = new Map<string, Set<S>>();
  #known = 0;
  readonly #places = new Map<S, Place>();
  readonly #strangers = noStrangers<S>();
  readonly #strangersFrom = new Map<string, Strangers<S>>();

  constructor(limits: RoomLimits, ask: RoomQuestions<S>) {
    this.#limits = limits;
    this.#ask = ask;
    const { connectionsMax } = limits;
    this.#knownMax = Math.max(1, connectionsMax - Math.ceil(connectionsMax / STRANGERS_SHARE));
  }

  /** Admits a connection. Returns the one to close for it: another one, none, or the new one itself. */
  enter(connection: S, address: string, nowMs: number): S | undefined {
    assert(!this.#places.has(connection), 'a connection enters once');
    const goes = this.#places.size < this.#limits.connectionsMax ? undefined : this.#whoGoes(address);
    if (goes === undefined && this.#places.size >= this.#limits.connectionsMax) return connection;
    if (goes !== undefined) this.leave(goes);
    const place: Place = { address, sinceMs: nowMs, kind: undefined, producer: '' };
    this.#places.set(connection, place);
    this.#become(connection, place, 'silent');
    assert(this.#places.size <= this.#limits.connectionsMax, 'there is room for every connection');
    return goes;
  }

  /**
   * The handshake of a connection is done. `certified`: it showed a certificate of an accepted authority. Returns the
   * connection to close for it, perhaps itself.
   */
  shakeHands(connection: S, certified: boolean): S | undefined {
    const place = this.#places.get(connection);
    if (place?.kind === undefined) return undefined;
    this.#become(connection, place, certified ? 'certified' : 'nameless');
    return this.#whoIsOver(place.address);
  }

  /** Returns connections to close: their handshakes take long, and their addresses have too many strangers. */
  slowOnes(nowMs: number): S[] {
    const over: S[] = [];
    for (const kind of ['silent', 'begun'] as const) {
      for (const connection of this.#strangers[kind]) {
        const place = this.#places.get(connection);
        // Handshakes may begin in another order than the connections arrived; then one counts a little later.
        if (place === undefined || nowMs - place.sinceMs < HANDSHAKE_FREE_MS) break;
        this.#become(connection, place, this.#ask.hasBegun(connection) ? 'slow' : 'mute');
        const goes = this.#whoIsOver(place.address);
        if (goes !== undefined) over.push(goes);
      }
    }
    return over;
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

  /** A stranger that a producer's request arrived by becomes known. Returns the connection to close for it. */
  #know(connection: S, place: Place, producer: string): S | undefined {
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

  /** The connection to close if `newcomer` would be one known connection too many. */
  #whoGivesWay(newcomer: S, producer: string): S {
    const own = this.#knownOf.get(producer);
    let most = own;
    for (const held of this.#knownOf.values()) if (held.size > (most?.size ?? 0)) most = held;
    // With the newcomer its producer would hold as many as any other: it takes from itself.
    const takesFromItself = (most?.size ?? 0) <= (own?.size ?? 0) + 1;
    if (takesFromItself) most = own;
    for (const one of most ?? []) if (this.#ask.isIdle(one)) return one;
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
    for (const connection of there.certified) {
      const goes = this.#ifStranger(connection);
      if (goes !== connection && goes !== undefined) return goes;
    }
    if (count(there, COUNTED) <= connectionsPerAddressMax) return undefined;
    const goes = this.#first(there, COUNTED);
    if (goes !== undefined) this.leave(goes);
    return goes;
  }

  #whoGoes(address: string): S | undefined {
    const { connectionsPerAddressMax } = this.#limits;
    const there = this.#strangersFrom.get(address);
    const isOver =
      connectionsPerAddressMax > 0 && there !== undefined && count(there, KINDS) >= connectionsPerAddressMax;
    return (
      this.#first(this.#strangers, ['nameless']) ??
      // Connections in the handshake replace each other, and none of another address.
      (isOver ? this.#first(there, HANDSHAKING) : undefined) ??
      this.#first(this.#strangers, KINDS)
    );
  }

  /** The first stranger of these kinds that still is one when asked, or a known connection that gives way. */
  #first(strangers: Strangers<S>, kinds: readonly Kind[]): S | undefined {
    for (const kind of kinds) {
      for (const connection of strangers[kind]) {
        const goes = this.#ifStranger(connection);
        if (goes !== undefined) return goes;
      }
    }
    return undefined;
  }

  /** Asks about a stranger. Returns it if it still is one of its kind, or a known connection that gives way to it. */
  #ifStranger(connection: S): S | undefined {
    const place = this.#places.get(connection);
    if (place === undefined) return undefined;
    const { kind } = place;
    if (kind === 'silent' || kind === 'mute') {
      if (!this.#ask.hasBegun(connection)) return connection;
      this.#become(connection, place, kind === 'mute' ? 'slow' : 'begun');
      return undefined;
    }
    const producer = kind === 'certified' ? this.#ask.producerOf(connection) : undefined;
    return producer === undefined ? connection : this.#know(connection, place, producer);
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
