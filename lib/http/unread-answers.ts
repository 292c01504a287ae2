// What clients have not taken yet of their answers, and who goes when that is too much.
//
// Fact: a client chooses how fast it reads, and what it does not read is memory: look-ups of one event of 4 MiB by slow
// connections took the gateway from 105 to 811 MB in 30 s. Choice: a budget for each holder and one for all; over it
// the slowest reader goes, which is the connection that has been behind for longest. Effect: see
// test/end-to-end/unread-answers.long.ts.
//
// Invariant: a holder's only connection that is behind never goes for that holder's budget, nor the only one of all.
//
// It only keeps count of connections that are behind; its owner closes them. `C` stands for a connection.
import { assert } from './assert.ts';

export interface UnreadLimits {
  /** In bytes. */
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
  /** In the order in which they fell behind. */
  readonly #behind = new Map<C, Behind<C>>();
  readonly #holdings = new Map<string, Holding<C>>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** So many bytes wait for this connection now; 0: it has caught up. Gives who has to go for it, perhaps itself. */
  waits(connection: C, holder: string, bytes: number): C | undefined {
    assert(bytes >= 0, 'no fewer than no bytes wait');
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

  #goes(oldestFirst: Iterable<C>): C | undefined {
    for (const oldest of oldestFirst) {
      const behind = this.#behind.get(oldest);
      if (behind !== undefined) this.#forget(oldest, behind);
      return oldest;
    }
    return undefined;
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
    assert(this.#bytes >= 0 && holding.bytes >= 0, 'no more is taken off than was added');
    holding.connections.delete(connection);
    if (holding.connections.size === 0) this.#holdings.delete(holder);
  }
}
