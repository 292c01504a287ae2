// Accepting calls that replicas must acknowledge: a WAIT follows each call.
//
// Invariant: a reply is returned only after `replicas` replicas have everything that the master had written when it
// ran the call. A call that wrote nothing (all its ids were known, or it is a probe) does not show when those ids
// were written, and whether WAIT covers them depends on the server's version. So another write and a second WAIT
// follow.
//
// Fact: WAIT blocks every later command on its connection. One connection with calls of 9 events loses half of the
// throughput. Choice: CONNECTIONS take turns. Lookups use the queue's own connection.
//
// Limit: WAIT is not consensus. A failover to a replica that lacks an event loses it.
import assert from 'node:assert/strict';
import type { RedisConnection } from '../server/connection.ts';
import { replicationFaults } from '../server/durability.ts';
import { serverInfo } from '../server/facts.ts';
import { keyOf } from '../stream/layout.ts';
import { NoConnection } from '../wire/errors.ts';
import type { Argument, RedisValue, Server } from '../wire/values.ts';

export const CONNECTIONS = 4;

/** Too few replicas acknowledged in time. The event is on the master, but a failover may lose it. */
class NotReplicated extends Error {
  override readonly name = 'NotReplicated';
}

/** WAIT may use this share of a call's timeout. */
const WAIT_SHARE = 0.6;

interface ReplicatedSenderOptions {
  readonly replicas: number;
  readonly connections: readonly RedisConnection[];
  readonly stream: string;
  readonly timeoutMs: number;
}

export class ReplicatedSender implements Server {
  readonly #options: ReplicatedSenderOptions;
  readonly #waitMs: number;
  readonly #wait: readonly string[];
  readonly #mark: readonly string[];
  #turn = 0;

  constructor(options: ReplicatedSenderOptions) {
    assert(options.replicas > 0 && options.connections.length > 0);
    this.#options = options;
    this.#waitMs = Math.max(1, Math.floor(WAIT_SHARE * options.timeoutMs));
    this.#wait = ['WAIT', String(options.replicas), String(this.#waitMs)];
    this.#mark = ['SET', keyOf(options.stream, 'waited'), ''];
  }

  open(): void {
    for (const connection of this.#options.connections) connection.open();
  }

  /** `command` must call accept.lua, because the reply shows whether it wrote anything. */
  async send(command: readonly Argument[]): Promise<RedisValue> {
    const connection = this.#next();
    const answer = connection.send(command);
    const waited = this.#waited(connection);
    waited.catch(() => undefined);
    const reply = await answer;
    let count = await waited;
    if (count >= this.#options.replicas && !String(reply).includes('0')) {
      const marked = connection.send(this.#mark);
      const again = this.#waited(connection);
      again.catch(() => undefined);
      await marked;
      count = await again;
    }
    if (count >= this.#options.replicas) return reply;
    const [fault] = replicationFaults(await serverInfo(connection), this.#options.replicas);
    throw new NotReplicated(
      fault ?? `${count} of ${this.#options.replicas} replicas acknowledged within ${this.#waitMs} ms`,
    );
  }

  restart(reason: string): void {
    for (const connection of this.#options.connections) connection.restart(reason);
  }

  close(): void {
    for (const connection of this.#options.connections) connection.close();
  }

  async #waited(connection: RedisConnection): Promise<number> {
    return (await connection.send(this.#wait)) as number;
  }

  #next(): RedisConnection {
    const { connections } = this.#options;
    for (let tried = 0; tried < connections.length; tried += 1) {
      this.#turn = (this.#turn + 1) % connections.length;
      const connection = connections[this.#turn];
      if (connection?.ready === true) return connection;
    }
    throw new NoConnection(`there is no connection to the queue (${connections[0]?.lastError})`);
  }
}
