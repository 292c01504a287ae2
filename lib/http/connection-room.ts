// How many connections there may be, and which one goes when there are too many.
//
// A connection is a stranger until a producer's request has been seen on it. Invariant: nobody who is known is cut for a
// stranger. A new connection takes the place of a stranger, the oldest of the first kind that there is: those whose handshake is done
// and brought no good certificate; those that are in the handshake; those with a good certificate. One address holds only so many
// strangers; past that the next one takes the place of one from there.
//
// It keeps the books and closes nothing. `S` is what stands for a connection.

export interface RoomLimits {
  readonly connectionsMax: number;
  /** Of strangers; 0: no limit. */
  readonly connectionsPerAddressMax: number;
}

export class ConnectionRoom<S> {
  readonly #limits: RoomLimits;
  readonly #addresses = new Map<S, string>();
  // A Set gives its members in the order in which they came: oldest first.
  readonly #nameless = new Set<S>();
  readonly #handshaking = new Set<S>();
  readonly #certified = new Set<S>();
  readonly #strangersFrom = new Map<string, Set<S>>();

  constructor(limits: RoomLimits) {
    this.#limits = limits;
  }

  /** Takes one in, and gives who has to go for it: another one, nobody, or the new one itself. */
  enter(connection: S, address: string): S | undefined {
    const goes =
      this.#whoGoes(address) ?? (this.#addresses.size < this.#limits.connectionsMax ? undefined : connection);
    if (goes === connection) return goes;
    if (goes !== undefined) this.leave(goes);
    this.#addresses.set(connection, address);
    this.#handshaking.add(connection);
    const strangers = this.#strangersFrom.get(address);
    if (strangers === undefined) this.#strangersFrom.set(address, new Set([connection]));
    else strangers.add(connection);
    return goes;
  }

  /** Its handshake is done. `certified`: it brought a certificate of our authorities. */
  shakeHands(connection: S, certified: boolean): void {
    if (this.#handshaking.delete(connection)) (certified ? this.#certified : this.#nameless).add(connection);
  }

  /** It brought a producer's request. */
  know(connection: S): void {
    for (const kind of [this.#nameless, this.#handshaking, this.#certified]) kind.delete(connection);
    const address = this.#addresses.get(connection);
    if (address === undefined) return;
    const strangers = this.#strangersFrom.get(address);
    strangers?.delete(connection);
    if (strangers?.size === 0) this.#strangersFrom.delete(address);
  }

  leave(connection: S): void {
    this.know(connection);
    this.#addresses.delete(connection);
  }

  #whoGoes(address: string): S | undefined {
    const { connectionsMax, connectionsPerAddressMax } = this.#limits;
    const fromThere = this.#strangersFrom.get(address);
    if (connectionsPerAddressMax > 0 && fromThere !== undefined && fromThere.size >= connectionsPerAddressMax) {
      for (const kind of [this.#nameless, this.#handshaking])
        for (const stranger of fromThere) if (kind.has(stranger)) return stranger;
      return first(fromThere);
    }
    if (this.#addresses.size < connectionsMax) return undefined;
    return first(this.#nameless) ?? first(this.#handshaking) ?? first(this.#certified);
  }
}

function first<S>(members: Set<S>): S | undefined {
  return members.values().next().value;
}
