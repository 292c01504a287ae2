// Chooses which connection to close when there are too many. The caller closes it.
//
// A connection is a stranger until a producer's request arrives on it; from then on, it is known. Invariant: a known
// connection is never closed to make room for a stranger. A new connection replaces the oldest stranger of the first
// kind in KINDS. If too many connections become known, the producer with the most connections loses one, preferably
// an idle one; that producer itself can only exchange an idle connection for a new one. The number of strangers per
// address is limited.
//
// `S` is the type of a connection.
import { assert } from './assert.ts';

export interface RoomLimits {
  readonly connectionsMax: number;
  /** Maximum number of strangers from one address; 0 means no limit. */
  readonly connectionsPerAddressMax: number;
}

export interface RoomQuestions<S> {
  /** True if the whole ClientHello has arrived. */
  readonly hasClientHello: (connection: S) => boolean;
  /** True if no request or answer is in progress on the connection. */
  readonly isIdle: (connection: S) => boolean;
  readonly producerOf: (connection: S) => string | undefined;
}

/** One in this many places is reserved for strangers, so that a new connection can always become known. */
const STRANGERS_SHARE = 20;

/**
 * A handshake that takes longer than this counts against the limit of its address. A shorter one does not, because it
 * may belong to a producer, and any number of producers may share an address.
 */
export const HANDSHAKE_FREE_MS = 1_000;

// Fact: hundreds of strangers can reconnect during one producer's handshake, and node reads the first bytes of a
// connection one turn of the event loop after accepting it. Choice: among handshakes, those without a whole
// ClientHello are closed first. Effect: no number of silent strangers can keep a producer out.
/**
 * The kinds of strangers, in the order in which they are closed:
 * - `unauthenticated`: the handshake is done, without an accepted certificate.
 * - `mute`: no ClientHello has arrived within HANDSHAKE_FREE_MS.
 * - `silent`: no ClientHello has arrived yet.
 * - `slow`: a ClientHello has arrived, but the handshake was not done within HANDSHAKE_FREE_MS.
 * - `begun`: a ClientHello has arrived.
 * - `certified`: the handshake is done, with an accepted certificate.
 */
const KINDS = ['unauthenticated', 'mute', 'silent', 'slow', 'begun', 'certified'] as const;
type Kind = (typeof KINDS)[number];
const HANDSHAKING: readonly Kind[] = ['mute', 'silent', 'slow', 'begun'];
const COUNTED: readonly Kind[] = ['unauthenticated', 'mute', 'slow', 'certified'];

/** The strangers of each kind, oldest first. */
type Strangers<S> = Readonly<Record<Kind, Set<S>>>;

interface Place {
  readonly address: string;
  readonly sinceMs: number;
  /** `undefined` once the connection is known. */
  kind: Kind | undefined;
  producer: string;
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #ask: RoomQuestions<S>;
  readonly #knownMax: number;
  /** Known connections by producer, in the order in which they became known. */
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

  /** Adds a connection. Returns the connection that must close to make room, if any; it may be the new one itself. */
  enter(connection: S, address: string, nowMs: number): S | undefined {
    assert(!this.#places.has(connection), 'a connection enters once');
    const goes = this.#places.size < this.#limits.connectionsMax ? undefined : this.#victimFor(address);
    if (goes === undefined && this.#places.size >= this.#limits.connectionsMax) return connection;
    if (goes !== undefined) this.leave(goes);
    const place: Place = { address, sinceMs: nowMs, kind: undefined, producer: '' };
    this.#places.set(connection, place);
    this.#become(connection, place, 'silent');
    assert(this.#places.size <= this.#limits.connectionsMax, 'there is room for every connection');
    return goes;
  }

  /**
   * Records that a handshake is done. `certified`: an accepted authority signed the client's certificate. Returns the
   * connection that must close because its address has too many strangers, if any; it may be the same one.
   */
  handshakeDone(connection: S, certified: boolean): S | undefined {
    const place = this.#places.get(connection);
    if (place?.kind === undefined) return undefined;
    this.#become(connection, place, certified ? 'certified' : 'unauthenticated');
    return this.#victimAt(place.address);
  }

  /** Marks slow handshakes. Returns the connections to close because their addresses have too many strangers. */
  slowOnes(nowMs: number): S[] {
    const over: S[] = [];
    for (const kind of ['silent', 'begun'] as const) {
      for (const connection of this.#strangers[kind]) {
        const place = this.#places.get(connection);
        // Handshakes may begin in a different order than connections arrive, so some are marked a little late.
        if (place === undefined || nowMs - place.sinceMs < HANDSHAKE_FREE_MS) break;
        this.#become(connection, place, this.#ask.hasClientHello(connection) ? 'slow' : 'mute');
        const goes = this.#victimAt(place.address);
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

  #know(connection: S, place: Place, producer: string): S | undefined {
    const goes = this.#known < this.#knownMax ? undefined : this.#victimOfNewcomer(connection, producer);
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

  /** Returns the connection to close if `newcomer` would exceed the limit on known connections. */
  #victimOfNewcomer(newcomer: S, producer: string): S {
    const own = this.#knownOf.get(producer);
    let most = own;
    for (const held of this.#knownOf.values()) if (held.size > (most?.size ?? 0)) most = held;
    // With the newcomer, this producer would have as many connections as any other, so it gives up one of its own.
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

  #victimAt(address: string): S | undefined {
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

  #victimFor(address: string): S | undefined {
    const { connectionsPerAddressMax } = this.#limits;
    const there = this.#strangersFrom.get(address);
    const isOver =
      connectionsPerAddressMax > 0 && there !== undefined && count(there, KINDS) >= connectionsPerAddressMax;
    return (
      this.#first(this.#strangers, ['unauthenticated']) ??
      // An address at its limit replaces its own handshakes, not those of other addresses.
      (isOver ? this.#first(there, HANDSHAKING) : undefined) ??
      this.#first(this.#strangers, KINDS)
    );
  }

  /** Returns a connection that is still a stranger of these kinds, or a known one that gives way to another. */
  #first(strangers: Strangers<S>, kinds: readonly Kind[]): S | undefined {
    for (const kind of kinds) {
      for (const connection of strangers[kind]) {
        const goes = this.#ifStranger(connection);
        if (goes !== undefined) return goes;
      }
    }
    return undefined;
  }

  /** Returns the connection if it is still a stranger of its kind, or the known connection that gives way to it. */
  #ifStranger(connection: S): S | undefined {
    const place = this.#places.get(connection);
    if (place === undefined) return undefined;
    const { kind } = place;
    if (kind === 'silent' || kind === 'mute') {
      if (!this.#ask.hasClientHello(connection)) return connection;
      this.#become(connection, place, kind === 'mute' ? 'slow' : 'begun');
      return undefined;
    }
    const producer = kind === 'certified' ? this.#ask.producerOf(connection) : undefined;
    return producer === undefined ? connection : this.#know(connection, place, producer);
  }
}

const noStrangers = <S>(): Strangers<S> =>
  Object.fromEntries(KINDS.map((kind) => [kind, new Set<S>()])) as Strangers<S>;

const count = <S>(strangers: Strangers<S>, kinds: readonly Kind[]): number =>
  kinds.reduce((sum, kind) => sum + strangers[kind].size, 0);
