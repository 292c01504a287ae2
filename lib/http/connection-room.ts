// How many connections there may be, and which one goes when there are too many.
//
// A connection is a stranger until a producer's request has been seen on it. Invariant: nobody who is known is cut for
// a stranger. Where there is no room, a new connection takes the place of a stranger, the oldest of the first kind in
// KINDS that there is.
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

export interface RoomLimits {
  readonly connectionsMax: number;
  /** Of strangers; 0: no limit. */
  readonly connectionsPerAddressMax: number;
}

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
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #hasBegun: (connection: S) => boolean;
  readonly #places = new Map<S, Place>();
  readonly #strangers = noStrangers<S>();
  readonly #strangersFrom = new Map<string, Strangers<S>>();

  /** `hasBegun`: whether its handshake has. */
  constructor(limits: RoomLimits, hasBegun: (connection: S) => boolean) {
    this.#limits = limits;
    this.#hasBegun = hasBegun;
  }

  /** Takes one in, and gives who has to go for it: another one, nobody, or the new one itself. */
  enter(connection: S, address: string, nowMs: number): S | undefined {
    const goes = this.#places.size < this.#limits.connectionsMax ? undefined : this.#whoGoes(connection, address);
    if (goes === connection) return goes;
    if (goes !== undefined) this.leave(goes);
    const place: Place = { address, sinceMs: nowMs, kind: undefined };
    this.#places.set(connection, place);
    this.#become(connection, place, 'silent');
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

  /** It brought a producer's request. */
  know(connection: S): void {
    const place = this.#places.get(connection);
    if (place !== undefined) this.#become(connection, place, undefined);
  }

  leave(connection: S): void {
    this.know(connection);
    this.#places.delete(connection);
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
      // Those in the handshake cut each other, and nobody of another address.
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
