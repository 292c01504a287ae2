// Accepting calls that are answered only once replicas have acknowledged what the call relies on: a WAIT follows each
// call.
//
// Invariant: an answer is given only after `replicas` replicas have acknowledged everything that the master had written
// when it ran the call. A call that wrote nothing itself (every id was known, or a probe) does not show when those ids
// were written, and it depends on the server's version if WAIT covers them; so another write follows the call, and the
// second WAIT is for that one.
//
// Fact: WAIT holds up every later command of its connection; with one connection and calls of 9 events half of the
// throughput is lost. Choice: CONNECTIONS of them take turns; look-ups use the queue's own connection.
//
// Limits: WAIT is not consensus. A fail-over that promotes a replica which had not acknowledged loses what it lacks.
import assert from 'node:assert/strict';
import type { RedisConnection } from '../server/client.ts';
import { NoConnection } from '../wire/errors.ts';
import { keyOf } from '../stream/layout.ts';
import type { Reply } from '../wire/reply.ts';
import type { Argument, Sender } from '../wire/script.ts';

/** How many connections one stream's accepting calls take turns on. */
export const CONNECTIONS = 4;

/** Too few replicas acknowledged in time: the event is in the master, and may be lost in a fail-over. */
class NotReplicated extends Error {
  override readonly name = 'NotReplicated';
}

/** The part of a call's time that replicas are given. */
const WAIT_SHARE = 0.6;

interface ReplicatedSenderOptions {
  readonly replicas: number;
  readonly connections: readonly RedisConnection[];
  readonly stream: string;
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
}

export class ReplicatedSender implements Sender<Reply> {
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

  /** An accepting call (accept.lua). */
  async send(command: readonly Argument[]): Promise<Reply> {
    const connection = this.#next();
    const answer = connection.send(command);
    let replicas = this.#waited(connection);
    replicas.catch(() => undefined);
    const reply = await answer;
    if (!reply.again().text().includes('0')) {
      await replicas;
      const marked = connection.send(this.#mark);
      replicas = this.#waited(connection);
      replicas.catch(() => undefined);
      await marked;
    }
    const count = await replicas;
    if (count >= this.#options.replicas) return reply;
    throw new NotReplicated(`${count} of ${this.#options.replicas} replicas acknowledged within ${this.#waitMs} ms`);
  }

  restart(reason: string): void {
    for (const connection of this.#options.connections) connection.restart(reason);
  }

  async close(): Promise<void> {
    await Promise.all(this.#options.connections.map((connection) => connection.close()));
  }

  async #waited(connection: RedisConnection): Promise<number> {
    return (await connection.send(this.#wait)).integer();
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
