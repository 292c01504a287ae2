// How many connections there may be, and which one goes when there are too many.
//
// A connection is a stranger until a producer's request has been seen on it. Invariants: nobody who is known is cut for a
// stranger, and in a handshake nobody is cut for a connection limit of an address: whether it is a stranger's shows at its end.
// Where there is no room, a new connection takes the place of a stranger, the oldest of the first kind that there is: those whose
// handshake is done and brought no good certificate; those that are in the handshake (of the newcomer's own address, where that
// has more strangers than it may); those with a good certificate. One address holds only so many strangers whose handshake is
// done; one more takes the place of one from there.
//
// Fact: strangers that come again as they are cut arrive by the hundred in one turn of the event loop. Choice: each has its
// handshake first, which costs them as much as us. Effect: a producer that arrives among them is not cut before its own is done.
//
// It keeps the books and closes nothing. `S` is what stands for a connection.

export interface RoomLimits {
  readonly connectionsMax: number;
  /** Of strangers whose handshake is done; 0: no limit. */
  readonly connectionsPerAddressMax: number;
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #addresses = new Map<S, string>();
  // A Set gives its members in the order in which they came: oldest first.
  readonly #nameless = new Set<S>();
  readonly #handshaking = new Set<S>();
  readonly #certified = new Set<S>();
  readonly #strangersFrom = new Map<string, Strangers<S>>();

  constructor(limits: RoomLimits) {
    this.#limits = limits;
  }

  /** Takes one in, and gives who has to go for it: another one, nobody, or the new one itself. */
  enter(connection: S, address: string): S | undefined {
    const goes = this.#addresses.size < this.#limits.connectionsMax ? undefined : this.#whoGoes(connection, address);
    if (goes === connection) return goes;
    if (goes !== undefined) this.leave(goes);
    this.#addresses.set(connection, address);
    this.#handshaking.add(connection);
    let strangers = this.#strangersFrom.get(address);
    if (strangers === undefined) {
      strangers = { handshaking: new Set(), nameless: new Set(), certified: new Set() };
      this.#strangersFrom.set(address, strangers);
    }
    strangers.handshaking.add(connection);
    return goes;
  }

  /** Its handshake is done. `certified`: it brought a certificate of our authorities. Gives who has to go for it, perhaps itself. */
  shakeHands(connection: S, certified: boolean): S | undefined {
    const strangers = this.#strangersFrom.get(this.#addresses.get(connection) ?? '');
    if (strangers === undefined || !this.#handshaking.delete(connection)) return undefined;
    strangers.handshaking.delete(connection);
    (certified ? this.#certified : this.#nameless).add(connection);
    (certified ? strangers.certified : strangers.nameless).add(connection);
    const { connectionsPerAddressMax } = this.#limits;
    if (connectionsPerAddressMax === 0) return undefined;
    if (strangers.nameless.size + strangers.certified.size <= connectionsPerAddressMax) return undefined;
    const goes = first(strangers.nameless) ?? first(strangers.certified);
    if (goes !== undefined) this.leave(goes);
    return goes;
  }

  /** It brought a producer's request. */
  know(connection: S): void {
    for (const kind of [this.#nameless, this.#handshaking, this.#certified]) kind.delete(connection);
    const address = this.#addresses.get(connection);
    if (address === undefined) return;
    const strangers = this.#strangersFrom.get(address);
    if (strangers === undefined) return;
    for (const kind of [strangers.nameless, strangers.handshaking, strangers.certified]) kind.delete(connection);
    if (sizeOf(strangers) === 0) this.#strangersFrom.delete(address);
  }

  leave(connection: S): void {
    this.know(connection);
    this.#addresses.delete(connection);
  }

  #whoGoes(newcomer: S, address: string): S {
    const { connectionsPerAddressMax } = this.#limits;
    const fromThere = this.#strangersFrom.get(address);
    const isOver =
      connectionsPerAddressMax > 0 && fromThere !== undefined && sizeOf(fromThere) >= connectionsPerAddressMax;
    return (
      first(this.#nameless) ??
      (isOver ? first(fromThere.handshaking) : undefined) ??
      first(this.#handshaking) ??
      first(this.#certified) ??
      newcomer
    );
  }
}

/** Those of one address, oldest first. */
interface Strangers<S> {
  readonly handshaking: Set<S>;
  readonly nameless: Set<S>;
  readonly certified: Set<S>;
}

const sizeOf = <S>({ handshaking, nameless, certified }: Strangers<S>): number =>
  handshaking.size + nameless.size + certified.size;

function first<S>(members: Set<S>): S | undefined {
  return members.values().next().value;
}
