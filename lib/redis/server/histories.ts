// The servers that connections to one stream have met, told apart by their histories of writes.
//
// What was read from one of them is changed by its name only there: a server that lacks the last writes of the one
// before may give the same names to other entries (see Delivery.servers).
import type { Server } from '../wire/script.ts';
import { serverHistory } from './facts.ts';

export class Histories {
  readonly #met: string[] = [];
  readonly #now = new Map<object, number>();

  /** The number of a connection's server, in the order in which they were met; 0 where the server does not say. */
  of(connection: object): number {
    return this.#now.get(connection) ?? 0;
  }

  /** Asks the server of a connection that was just made; gives whether it had another one before. */
  async meet(server: Server, connection: object): Promise<boolean> {
    const history = (await serverHistory(server)) ?? '';
    const known = this.#met.indexOf(history);
    const number = known === -1 ? this.#met.push(history) - 1 : known;
    const before = this.#now.get(connection);
    this.#now.set(connection, number);
    return before !== undefined && before !== number;
  }
}
