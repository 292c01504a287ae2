// Limits the memory used by answers that clients have not read.
//
// Fact: slow connections that looked up one event of 4 MiB increased the gateway's memory from 105 to 811 MB in 30 s.
// Choice: one budget for each holder and one in total. Above a budget, the owner of this object closes the connection
// that has been behind the longest. Effect: see test/end-to-end/unread-answers.long.ts.
//
// Invariant: a connection is never closed for a budget if no other connection is behind. `C` is the type of a
// connection.
import { assert } from './assert.ts';

export interface UnreadLimits {
  /** Both limits are in bytes. */
  readonly holderMax: number;
  readonly totalMax: number;
}

interface Behind<C> {
  readonly holder: string;
  readonly holding: Holding<C>;
  bytes: number;
}

interface Holding<C> {
  bytes: number;
  /** In the order in which they fell behind. */
  readonly connections: Set<C>;
}

export class UnreadAnswers<C> {
  readonly #limits: UnreadLimits;
  /** Connections that are behind, in the order in which they fell behind. */
  readonly #behind = new Map<C, Behind<C>>();
  readonly #holdings = new Map<string, Holding<C>>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  /** Records how many bytes wait for a connection. Returns the connection to close if a budget is exceeded. */
  waits(connection: C, holder: string, bytes: number): C | undefined {
    assert(bytes >= 0, 'the number of waiting bytes is not negative');
    const known = this.#behind.get(connection);
    if (bytes === 0) {
      if (known !== undefined) this.#forget(connection, known);
      return undefined;
    }
    const behind = known ?? this.#fallBehind(connection, holder);
    const { holding } = behind;
    const more = bytes - behind.bytes;
    behind.bytes = bytes;
    holding.bytes += more;
    this.#bytes += more;
    if (more <= 0) return undefined;
    if (holding.bytes > this.#limits.holderMax && holding.connections.size > 1) return this.#goes(holding.connections);
    if (this.#bytes > this.#limits.totalMax && this.#behind.size > 1) return this.#goes(this.#behind.keys());
    return undefined;
  }

  #goes([oldest]: Iterable<C>): C | undefined {
    const behind = oldest && this.#behind.get(oldest);
    if (oldest !== undefined && behind !== undefined) this.#forget(oldest, behind);
    return oldest;
  }

  #fallBehind(connection: C, holder: string): Behind<C> {
    const holding = this.#holdings.get(holder) ?? { bytes: 0, connections: new Set() };
    this.#holdings.set(holder, holding);
    holding.connections.add(connection);
    const behind = { holder, holding, bytes: 0 };
    this.#behind.set(connection, behind);
    return behind;
  }

  #forget(connection: C, { holder, holding, bytes }: Behind<C>): void {
    this.#behind.delete(connection);
    this.#bytes -= bytes;
    holding.bytes -= bytes;
    assert(this.#bytes >= 0 && holding.bytes >= 0, 'a count of waiting bytes is not negative');
    holding.connections.delete(connection);
    if (holding.connections.size === 0) this.#holdings.delete(holder);
  }
}
