// Chooses which connections to close if there are too many, or if they hold too much memory. The caller closes them.
//
// A connection is a stranger until a producer's request arrives on it; from then on, it is known. Invariant: a known
// connection is never closed to make room for a stranger. A new connection replaces the oldest stranger of the lowest
// rank. If too few places are left for strangers, the producer with the most connections loses one, preferably an idle
// one. The number of strangers per address is limited.
import type { BlockList } from 'node:net';

export interface ServerLimits {
  readonly connectionsMax: number;
  /** Maximum number of strangers from one address; 0 means no limit. */
  readonly connectionsPerAddressMax: number;
  readonly held: HeldLimits;
  readonly headerBytesMax: number;
  readonly handshakeTimeoutMs: number;
  /** Times for the first or next request to begin. node:http limits the rest of a request. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** `node` switches the fast path off. */
  readonly httpReader: 'own' | 'node';
  /**
   * Addresses of the load balancers. Only their connections are accepted, and each must begin with a PROXY protocol
   * header. `undefined` if clients connect directly.
   */
  readonly proxyFrom: BlockList | undefined;
}

export type RoomLimits = Pick<ServerLimits, 'connectionsMax' | 'connectionsPerAddressMax'>;

/** The place of a connection in the room. */
export interface Place {
  readonly address: string;
  readonly sinceMs: number;
  /** True if the whole ClientHello has arrived. */
  readonly hasClientHello: boolean;
  /** True after the handshake. */
  readonly isOpen: boolean;
  /** True if the client is not authenticated. */
  readonly hasOneAnswer: boolean;
  /** The producer that has sent a request on the connection; `undefined` if none has. */
  readonly producer: string | undefined;
  /** True if no request or answer is in progress on the connection. */
  readonly isIdle: boolean;
}

/** One in this many places is reserved for strangers, so that a new connection can always become known. */
const STRANGERS_SHARE = 20;

/**
 * A handshake that takes longer than this counts against the limit of its address. A shorter one does not, because it
 * may belong to a producer, and any number of producers may share an address.
 */
export const HANDSHAKE_FREE_MS = 1_000;

const isInHandshake = ({ isOpen, sinceMs }: Place, nowMs: number): boolean =>
  !isOpen && nowMs - sinceMs < HANDSHAKE_FREE_MS;

/**
 * Returns a stranger's rank; the lowest is closed first: 0 is an unauthenticated client, 2 to 5 are handshakes, and 6
 * is a client that may become known. Rank 1 is a handshake from the address of the new connection, if that address is
 * at its limit: it must not replace handshakes of other addresses.
 *
 * Fact: hundreds of strangers can reconnect during one producer's handshake. Choice: among handshakes, those without a
 * whole ClientHello are closed first, and slow ones before others. Effect: no number of silent strangers can keep a
 * producer out.
 */
function rankOf(place: Place, nowMs: number): number {
  if (place.isOpen) return place.hasOneAnswer ? 0 : 6;
  return (place.hasClientHello ? 4 : 2) + (isInHandshake(place, nowMs) ? 1 : 0);
}

const isKnown = ({ producer }: Place): boolean => producer !== undefined;

/** Returns the connection that must close to make room for `newcomer`; it may be `newcomer` itself. */
export function victimOf<P extends Place>(
  places: Iterable<P>,
  newcomer: P,
  { connectionsMax, connectionsPerAddressMax }: RoomLimits,
  nowMs: number,
): P {
  const others = [...places].filter((place) => place !== newcomer);
  const strangers = others.filter((place) => !isKnown(place));
  const isNeighbor = ({ address }: P): boolean => address === newcomer.address;
  const isOver = connectionsPerAddressMax > 0 && strangers.filter(isNeighbor).length >= connectionsPerAddressMax;
  let stranger: P | undefined;
  let lowest = Infinity;
  for (const place of strangers) {
    const isOwn = isOver && !place.isOpen && isNeighbor(place);
    const rank = isOwn ? 1 : rankOf(place, nowMs);
    if (rank < lowest) [stranger, lowest] = [place, rank];
  }
  const knownMax = Math.max(1, connectionsMax - Math.ceil(connectionsMax / STRANGERS_SHARE));
  if (others.length - strangers.length <= knownMax && stranger !== undefined) return stranger;
  let most: P[] = [];
  for (const held of Map.groupBy(others.filter(isKnown), ({ producer }) => producer).values())
    if (held.length > most.length) most = held;
  return most.find(({ isIdle }) => isIdle) ?? most[0] ?? stranger ?? newcomer;
}

/** Returns the connections to close because their addresses have too many strangers. */
export function overLimit<P extends Place>(
  places: Iterable<P>,
  { connectionsPerAddressMax }: RoomLimits,
  nowMs: number,
): P[] {
  if (connectionsPerAddressMax === 0) return [];
  const rank = (place: P): number => rankOf(place, nowMs);
  const counted = [...places].filter((place) => !isKnown(place) && !isInHandshake(place, nowMs));
  return [...Map.groupBy(counted, ({ address }) => address).values()].flatMap((found) =>
    found
      .toSorted((one, other) => rank(one) - rank(other))
      .slice(0, Math.max(0, found.length - connectionsPerAddressMax)),
  );
}

export interface HeldLimits {
  /** For each producer, and in total, together with the bytes in flight. */
  readonly producerBytesMax: number;
  readonly totalBytesMax: number;
  readonly bytesInFlight: () => number;
}

export interface Holder {
  heldBytes(): number;
  /** The producer; empty for an unauthenticated client. */
  readonly holder: string;
}

const UNAUTHENTICATED_BYTES_MAX = 8 << 20;

// Fact: a limit for each connection does not limit their sum, and thousands of connections may hold 64 KB each.
// Choice: a budget for each producer, one for all unauthenticated clients, and one in total, which includes the events
// in flight. Above a budget, the connection that holds the most of it is closed.
/** Returns the connections to close because they hold too much unhandled input and unread answers. */
export function overBudget<C extends Holder>(connections: Iterable<C>, limits: HeldLimits): C[] {
  const held: { readonly connection: C; readonly bytes: number; readonly holder: string }[] = [];
  const sums = new Map<string, number>();
  let total = limits.bytesInFlight();
  for (const connection of connections) {
    const bytes = connection.heldBytes();
    if (bytes === 0) continue;
    const { holder } = connection;
    held.push({ connection, bytes, holder });
    sums.set(holder, (sums.get(holder) ?? 0) + bytes);
    total += bytes;
  }
  if (held.length === 1) return [];
  const { producerBytesMax, totalBytesMax } = limits;
  const closed: C[] = [];
  held.sort((one, other) => other.bytes - one.bytes);
  for (const { connection, bytes, holder } of held) {
    const sum = sums.get(holder) ?? 0;
    const max = holder === '' ? UNAUTHENTICATED_BYTES_MAX : producerBytesMax;
    // The only connection of a holder that holds anything may exceed its budget, as a single event may.
    if ((sum <= max || sum === bytes) && total <= totalBytesMax) continue;
    sums.set(holder, sum - bytes);
    total -= bytes;
    closed.push(connection);
  }
  return closed;
}
