// Chooses which connections to close if there are too many, or if they hold too much memory. The caller closes them.
//
// A connection is a stranger until a producer's request arrives on it; from then on, it is known. Invariant: a known
// connection is never closed to make room for a stranger. Among the connections that may be closed, the producer or
// the address with the most loses one.
import type { Connection, ServerLimits } from './connection.ts';

export type Place = Pick<
  Connection<unknown>,
  'address' | 'sinceMs' | 'hasClientHello' | 'isOpen' | 'hasOneAnswer' | 'producer' | 'isIdle'
>;

const KNOWN = 4;
const UNAUTHENTICATED_BYTES_MAX = 8 << 20;
/** What the handshakes of one address, and all of them, may hold before they are done. */
const [ADDRESS_BYTES_MAX, HANDSHAKES_BYTES_MAX] = [96 << 20, 128 << 20];
/** One in this many places is reserved for strangers, so that a new connection can always become known. */
const STRANGERS_SHARE = 20;
/** A shorter handshake does not count against its address's limit: any number of producers may share an address. */
export const HANDSHAKE_FREE_MS = 1_000;

// Hundreds of strangers can reconnect during one producer's handshake. The stranger of the lowest rank is closed first:
// unauthenticated clients, handshakes without a whole ClientHello, other handshakes, and clients that may become known.
function rankOf({ isOpen, hasOneAnswer, hasClientHello, producer }: Place): number {
  if (producer !== undefined) return KNOWN;
  if (isOpen) return hasOneAnswer ? 0 : 3;
  return hasClientHello ? 2 : 1;
}

/** Returns the connection that must close to make room for `newcomer`. `places` are ordered, the oldest first. */
export function victimOf<P extends Place>(places: readonly P[], newcomer: P, connectionsMax: number): P {
  const ranks = Map.groupBy(places, (place) => (place === newcomer ? undefined : rankOf(place)));
  const known = ranks.get(KNOWN) ?? [];
  const knownMax = Math.max(1, connectionsMax - Math.ceil(connectionsMax / STRANGERS_SHARE));
  const strangers = ranks.get(0) ?? ranks.get(1) ?? ranks.get(2) ?? ranks.get(3) ?? known;
  const candidates = known.length > knownMax ? known : strangers;
  let most: P[] = [];
  for (const group of Map.groupBy(candidates, ({ producer, address }) => producer ?? address).values())
    if (group.length > most.length) most = group;
  return most.find(({ isIdle }) => isIdle) ?? most[0] ?? newcomer;
}

/** Returns the connections to close because their addresses have more than `max` strangers; 0 means no limit. */
export function overLimit<P extends Place>(places: readonly P[], max: number, nowMs: number): P[] {
  if (max === 0) return [];
  const strangers = places
    .filter((place) => rankOf(place) < KNOWN && (place.isOpen || nowMs - place.sinceMs >= HANDSHAKE_FREE_MS))
    .sort((one, other) => rankOf(one) - rankOf(other));
  const groups = Map.groupBy(strangers, ({ address }) => address).values();
  return [...groups].flatMap((group) => group.slice(0, Math.max(0, group.length - max)));
}

// Fact: a limit for each connection does not limit their sum, and thousands of connections may hold 64 KB each.
// Choice: a budget for each producer, one for all producers, which includes the events in flight, and one for all
// unauthenticated clients, whose `holder` is empty; for handshakes, a budget for each address and one for all. Above a
// budget, the connection that holds the most of it is closed. A new connection belongs to handshakes and then counts as
// unauthenticated, so producers that use up their budget close none.
export function overBudget<C extends Pick<Connection<unknown>, 'heldBytes' | 'holder' | 'isOpen' | 'address'>>(
  connections: readonly C[],
  { producerBytesMax, totalBytesMax, bytesInFlight }: ServerLimits['held'],
): C[] {
  const held = connections
    .map((connection) => ({ connection, bytes: connection.heldBytes() }))
    .filter(({ bytes }) => bytes > 0)
    .sort((one, other) => other.bytes - one.bytes);
  const [handshakes, open] = [
    held.filter(({ connection }) => !connection.isOpen),
    held.filter(({ connection }) => connection.isOpen),
  ];
  const byAddress = Map.groupBy(handshakes, ({ connection }) => connection.address);
  const byHolder = Map.groupBy(open, ({ connection }) => connection.holder);
  const closed = new Set([
    ...[...byAddress.values()].flatMap((group) => above(group, ADDRESS_BYTES_MAX)),
    ...[...byHolder].flatMap(([holder, group]) =>
      above(group, holder === '' ? UNAUTHENTICATED_BYTES_MAX : producerBytesMax),
    ),
  ]);
  const isLeft = (one: (typeof held)[number]): boolean => !closed.has(one);
  const known = open.filter((one) => one.connection.holder !== '' && isLeft(one));
  const more = [
    ...above(handshakes.filter(isLeft), HANDSHAKES_BYTES_MAX),
    ...above(known, totalBytesMax - bytesInFlight()),
  ];
  return [...closed, ...more].map(({ connection }) => connection);
}

/** Returns the first of `group`, without which the others are within `max`. One alone may hold more. */
function above<H extends { readonly bytes: number }>(group: readonly H[], max: number): H[] {
  let sum = group.reduce((bytes, one) => bytes + one.bytes, 0);
  return group.filter(({ bytes }) => {
    const isAbove = sum > max && sum > bytes;
    if (isAbove) sum -= bytes;
    return isAbove;
  });
}
