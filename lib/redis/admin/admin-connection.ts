// A connection of ingest-admin, opened on first use. `telling` converts every failure to a QueueFailed.
import { QueueFailed } from '../../ingest/queue-admin.ts';
import type { Clock, ClockAndRandom } from '../../process/clock.ts';
import type { Log } from '../../process/log.ts';
import { messageOf } from '../../process/message-of.ts';
import { type Client, type MasterLookup, RedisConnection } from '../server/client.ts';
import { withTimeout } from '../wire/deadline.ts';
import { queueIsAway } from '../wire/errors.ts';
import { clusterRefusal } from '../stream/identity.ts';
import type { Reply } from '../wire/reply.ts';
import { type Argument, type Script, type Server, valuesOf } from '../wire/script.ts';

const CONNECT_MS = 5_000;
const ANSWER_TIMEOUT_MS = 10_000;

export interface AdminConnectionOptions extends ClockAndRandom {
  readonly uri: string | MasterLookup;
  readonly log: Log;
  readonly name?: string | undefined;
  readonly inspect: (server: Server) => Promise<void>;
  readonly client?: ((uri: string, name: string) => Client) | undefined;
}

export class AdminConnection {
  readonly #clock: Clock;
  readonly #connection: RedisConnection;
  readonly #name: string | undefined;
  /** If true, an error reports that the server belongs to a Redis Cluster. */
  readonly #plain: boolean;
  #opening: Promise<void> | undefined;

  constructor({ uri, log, clock, random, name, inspect, client }: AdminConnectionOptions) {
    this.#clock = clock;
    this.#connection = new RedisConnection({ uri, name: 'ingest-admin', log, clock, random }, client);
    this.#name = name;
    this.#plain = typeof uri === 'string';
    this.#connection.tell({ inspect });
  }

  /** Parses replies. Failures are not QueueFailed, so use it within `telling`. */
  readonly values: Server = valuesOf(this);

  send(command: readonly Argument[]): Promise<Reply> {
    return withTimeout(this.#clock, this.#connection.send(command), ANSWER_TIMEOUT_MS);
  }

  run(script: Script, stream: string, args: readonly Argument[]): Promise<Reply> {
    return withTimeout(this.#clock, script.run(this.#connection, stream, args), ANSWER_TIMEOUT_MS);
  }

  async telling<T>(work: () => Promise<T>): Promise<T> {
    try {
      await (this.#opening ??= this.#open());
      return await work();
    } catch (cause) {
      if (cause instanceof QueueFailed) throw cause;
      const refusal = this.#plain ? clusterRefusal(cause) : cause;
      const message = messageOf(refusal);
      throw new QueueFailed(this.#name === undefined ? message : `${this.#name}: ${message}`, { cause });
    }
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  async #open(): Promise<void> {
    if (await this.#connection.opened(CONNECT_MS)) return;
    this.#opening = undefined;
    throw new Error(queueIsAway(this.#connection.lastError));
  }
}
