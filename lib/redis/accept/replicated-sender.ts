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
import assert from 'node:assert/strict';
import type { RedisConnection } from '../server/connection.ts';
import { replicationFaults } from '../server/durability.ts';
import { serverInfo } from '../server/facts.ts';
import { keyOf } from '../stream/layout.ts';
import type { Argument, RedisValue, Server } from '../wire/values.ts';

export const CONNECTIONS = 4;

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

  async send(command: readonly Argument[]): Promise<RedisValue> {
    const connection = this.#next();
    const [reply, , count] = await Promise.all([command, this.#mark, this.#wait].map((one) => connection.send(one)));
    const { replicas } = this.#options;
    if (Number(count) >= replicas) return reply ?? null;
    // The event is on the master, but a failover may lose it.
    const [fault] = replicationFaults(await serverInfo(connection), replicas);
    throw new Error(fault ?? `${String(count)} of ${replicas} replicas acknowledged within ${this.#waitMs} ms`);
  }

  restart(reason: string): void {
    for (const connection of this.#options.connections) connection.restart(reason);
  }

  close(): void {
    for (const connection of this.#options.connections) connection.close();
  }

  #next(): RedisConnection {
    const ready = this.#options.connections.filter((connection) => connection.ready);
    this.#turn += 1;
    const next = ready[this.#turn % ready.length];
    if (next === undefined) throw new Error(`not connected to the queue (${this.#options.connections[0]?.lastError})`);
    return next;
  }
}
