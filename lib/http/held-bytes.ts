// Limits the memory of what connections hold: input that is not handled yet, and answers that clients do not read.
//
// Fact: a limit for each connection does not limit their sum, and thousands of connections may hold 64 KB each.
// Choice: a budget for each producer, one for all unauthenticated clients, and one in total, which includes the events
// in flight. Above a budget, the connection that holds the most of it is closed. The budgets are checked ten times a
// second.

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

/** Returns the connections to close. */
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
