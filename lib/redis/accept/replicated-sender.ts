// Accepting calls that replicas must acknowledge: a write and a WAIT follow each call.
//
// Invariant: a reply is returned only after `replicas` replicas have everything that the master had written when it
// ran the call. The write is necessary, because WAIT covers the last write of its connection, and a call whose ids are
// all known writes nothing.
//
// Fact: WAIT blocks every later command on its connection. One connection with calls of 9 events loses half of the
// throughput. Choice: CONNECTIONS take turns. Lookups use the queue's own connection.
//
// Limit: WAIT is not consensus. A failover to a replica that lacks an event loses it.
import type { RedisConnection } from '../server/connection.ts';
import { replicationFaults } from '../server/durability.ts';
import { serverInfo } from '../server/facts.ts';
import { keyOf } from '../stream/layout.ts';
import type { Command, RedisValue, Server } from '../wire/values.ts';

export const CONNECTIONS = 4;

/** WAIT may use this share of a call's timeout. */
const WAIT_SHARE = 0.6;

export class ReplicatedSender implements Server {
  readonly #replicas: number;
  readonly #connections: readonly RedisConnection[];
  readonly #waitMs: number;
  readonly #wait: readonly string[];
  readonly #mark: readonly string[];
  #turn = 0;

  constructor(replicas: number, connections: readonly RedisConnection[], stream: string, timeoutMs: number) {
    this.#replicas = replicas;
    this.#connections = connections;
    this.#waitMs = Math.max(1, Math.floor(WAIT_SHARE * timeoutMs));
    this.#wait = ['WAIT', String(replicas), String(this.#waitMs)];
    this.#mark = ['SET', keyOf(stream, 'waited'), ''];
  }

  open(): void {
    for (const connection of this.#connections) connection.open();
  }

  async send(command: Command): Promise<RedisValue> {
    const ready = this.#connections.filter((one) => one.ready);
    this.#turn += 1;
    const connection = ready[this.#turn % ready.length];
    if (connection === undefined) throw new Error(`not connected to the queue (${this.#connections[0]?.lastError})`);
    const [reply, , count] = await Promise.all([command, this.#mark, this.#wait].map((one) => connection.send(one)));
    if (Number(count) >= this.#replicas) return reply ?? null;
    // The event is on the master, but a failover may lose it.
    const [fault] = replicationFaults(await serverInfo(connection), this.#replicas);
    throw new Error(fault ?? `${String(count)} of ${this.#replicas} replicas acknowledged within ${this.#waitMs} ms`);
  }

  restart(reason: string): void {
    for (const connection of this.#connections) connection.restart(reason);
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}
