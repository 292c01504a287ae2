// Chooses which connection to close when there are too many. The caller closes it.
//
// A connection is a stranger until a producer's request arrives on it; from then on, it is known. Invariant: a known
// connection is never closed to make room for a stranger. A new connection replaces the oldest stranger of the lowest
// rank. If too few places are left for strangers, the producer with the most connections loses one, preferably an idle
// one. The number of strangers per address is limited.
//
// `S` is the type of a connection.

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

/**
 * The order in which strangers are closed. `OWN_HANDSHAKE` is one from the address of the new connection, if that
 * address is at its limit: it must not replace handshakes of other addresses.
 *
 * Fact: hundreds of strangers can reconnect during one producer's handshake. Choice: among handshakes, those without a
 * whole ClientHello are closed first. Effect: no number of silent strangers can keep a producer out.
 */
const RANKS = {
  UNAUTHENTICATED: 0,
  OWN_HANDSHAKE: 1,
  SILENT_AND_SLOW: 2,
  SILENT: 3,
  SLOW: 4,
  HANDSHAKE: 5,
  AUTHENTICATED: 6,
} as const;

interface Place {
  readonly address: string;
  readonly sinceMs: number;
  /** `undefined` during the handshake. */
  isAuthenticated: boolean | undefined;
}

// Fact: a scan of 2,500 places takes 50 µs, and a handshake 1 to 2 ms. Choice: one map, scanned for each new connection
// while the room is full.
export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #ask: RoomQuestions<S>;
  readonly #knownMax: number;
  /** Oldest first. */
  readonly #places = new Map<S, Place>();

  constructor(limits: RoomLimits, ask: RoomQuestions<S>) {
    this.#limits = limits;
    this.#ask = ask;
    const { connectionsMax } = limits;
    this.#knownMax = Math.max(1, connectionsMax - Math.ceil(connectionsMax / STRANGERS_SHARE));
  }

  /** Adds a connection. Returns the connection that must close to make room, if any; it may be the new one itself. */
  enter(connection: S, address: string, nowMs: number): S | undefined {
    this.#places.set(connection, { address, sinceMs: nowMs, isAuthenticated: undefined });
    if (this.#places.size <= this.#limits.connectionsMax) return undefined;
    const victim = this.#victim(connection, address, nowMs) ?? connection;
    this.#places.delete(victim);
    return victim;
  }

  /** Records that a handshake is done. */
  handshakeDone(connection: S, isAuthenticated: boolean): void {
    const place = this.#places.get(connection);
    if (place !== undefined) place.isAuthenticated = isAuthenticated;
  }

  leave(connection: S): void {
    this.#places.delete(connection);
  }

  /** Returns the connections to close because their addresses have too many strangers. Call it a few times a second. */
  over(nowMs: number): S[] {
    const { connectionsPerAddressMax: max } = this.#limits;
    if (max === 0) return [];
    const strangers = new Map<string, { readonly connection: S; readonly rank: number }[]>();
    for (const [connection, place] of this.#places) {
      const rank = this.#rank(connection, place, nowMs);
      if (rank === undefined || rank === RANKS.SILENT || rank === RANKS.HANDSHAKE) continue;
      const found = strangers.get(place.address);
      if (found === undefined) strangers.set(place.address, [{ connection, rank }]);
      else found.push({ connection, rank });
    }
    const closed = [...strangers.values()].flatMap((found) =>
      found.length <= max ? [] : found.sort((one, other) => one.rank - other.rank).slice(0, found.length - max),
    );
    for (const { connection } of closed) this.#places.delete(connection);
    return closed.map(({ connection }) => connection);
  }

  #victim(newcomer: S, address: string, nowMs: number): S | undefined {
    const isOver = this.#isAtLimit(newcomer, address);
    const knownOf = new Map<string, S[]>();
    let known = 0;
    let stranger: S | undefined;
    let lowest = Infinity;
    for (const [connection, place] of this.#places) {
      if (connection === newcomer) continue;
      let rank: number | undefined = this.#rank(connection, place, nowMs);
      if (rank === undefined) {
        known += 1;
        const producer = this.#ask.producerOf(connection) ?? '';
        const held = knownOf.get(producer);
        if (held === undefined) knownOf.set(producer, [connection]);
        else held.push(connection);
        continue;
      }
      if (isOver && place.address === address && place.isAuthenticated === undefined) rank = RANKS.OWN_HANDSHAKE;
      if (rank < lowest) [stranger, lowest] = [connection, rank];
    }
    if (known <= this.#knownMax && stranger !== undefined) return stranger;
    let most: S[] = [];
    for (const held of knownOf.values()) if (held.length > most.length) most = held;
    return most.find((connection) => this.#ask.isIdle(connection)) ?? most[0] ?? stranger;
  }

  /** True if the address had as many strangers as it may have before the new one. */
  #isAtLimit(newcomer: S, address: string): boolean {
    const { connectionsPerAddressMax: max } = this.#limits;
    let strangers = 0;
    for (const [connection, place] of this.#places)
      if (place.address === address && connection !== newcomer && !this.#isKnown(connection, place)) strangers += 1;
    return max > 0 && strangers >= max;
  }

  #isKnown(connection: S, { isAuthenticated }: Place): boolean {
    return isAuthenticated === true && this.#ask.producerOf(connection) !== undefined;
  }

  /** `undefined` for a known connection. */
  #rank(connection: S, place: Place, nowMs: number): number | undefined {
    if (this.#isKnown(connection, place)) return undefined;
    if (place.isAuthenticated !== undefined) return RANKS[place.isAuthenticated ? 'AUTHENTICATED' : 'UNAUTHENTICATED'];
    const isSlow = nowMs - place.sinceMs >= HANDSHAKE_FREE_MS;
    if (this.#ask.hasClientHello(connection)) return isSlow ? RANKS.SLOW : RANKS.HANDSHAKE;
    return isSlow ? RANKS.SILENT_AND_SLOW : RANKS.SILENT;
  }
}
