// Limits the memory of what connections hold: input that is not handled yet, and answers that clients do not read.
//
// Fact: a limit for each connection does not limit their sum, and thousands of connections may hold 64 KB each.
// Choice: a budget for each producer, one for all unauthenticated clients, and one in total, which includes the events
// in flight. Above a budget, the connection that holds the most of it is closed. The budgets are checked ten times a
// second.
import type { Socket } from 'node:net';

export interface HeldLimits {
  /** For each producer, and in total, together with the bytes in flight. */
  readonly producerBytesMax: number;
  readonly totalBytesMax: number;
  readonly bytesInFlight: () => number;
}

export interface Holder {
  readonly socket: Socket;
  /** The TCP connection below a TLS connection. */
  readonly tcp: Socket;
  readonly heldBytes: number;
  /** The producer; empty for an unauthenticated client. */
  readonly holder: string;
}

const UNAUTHENTICATED_BYTES_MAX = 8 << 20;

/** A piece of input is a separate Buffer, and the client chooses its length: one for each TLS record. */
const PIECE_BYTES = 256;
/** Length of a TLS record without its content. */
const RECORD_BYTES = 22;

interface Seen {
  readonly tcpBytes: number;
  readonly tlsBytes: number;
  /** Memory for each byte of input, by the length of the latest records. */
  readonly bytesForByte: number;
}

export class HeldBytes<C extends Holder> {
  readonly #limits: HeldLimits;
  readonly #seen = new WeakMap<C, Seen>();

  constructor(limits: HeldLimits) {
    this.#limits = limits;
  }

  /** Returns the connections to close. */
  over(connections: Iterable<C>): C[] {
    const held: { readonly connection: C; readonly bytes: number }[] = [];
    const sums = new Map<string, number>();
    let total = this.#limits.bytesInFlight();
    for (const connection of connections) {
      const { heldBytes, holder } = connection;
      if (heldBytes === 0) continue;
      const bytes = heldBytes + this.#inputMemory(connection);
      held.push({ connection, bytes });
      sums.set(holder, (sums.get(holder) ?? 0) + bytes);
      total += bytes;
    }
    const { producerBytesMax, totalBytesMax } = this.#limits;
    const closed: C[] = [];
    held.sort((one, other) => other.bytes - one.bytes);
    for (const { connection, bytes } of held) {
      const sum = sums.get(connection.holder) ?? 0;
      const max = connection.holder === '' ? UNAUTHENTICATED_BYTES_MAX : producerBytesMax;
      // The only connection of a holder that holds anything may exceed its budget, as a single event may.
      if ((sum <= max || sum === bytes) && total <= totalBytesMax) continue;
      if (held.length === 1) break;
      sums.set(connection.holder, sum - bytes);
      total -= bytes;
      closed.push(connection);
    }
    return closed;
  }

  #inputMemory(connection: C): number {
    const { socket, tcp } = connection;
    if (tcp === socket) return 0;
    const { bytesRead: tcpBytes } = tcp;
    const { bytesRead: tlsBytes, readableLength } = socket;
    const seen = this.#seen.get(connection) ?? { tcpBytes: 0, tlsBytes: 0, bytesForByte: 0 };
    let { bytesForByte } = seen;
    const bytes = tlsBytes - seen.tlsBytes;
    if (bytes > 0) {
      const records = (tcpBytes - seen.tcpBytes - bytes) / RECORD_BYTES;
      bytesForByte = PIECE_BYTES * Math.min(1, records / bytes);
      this.#seen.set(connection, { tcpBytes, tlsBytes, bytesForByte });
    }
    return readableLength * bytesForByte;
  }
}
