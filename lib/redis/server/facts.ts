// What a Redis server says of itself: whether it is the master that it has to be, what it is, and whether it keeps what
// it is given. Evicting keys or keeping nothing on disk would break a 202's promise.
import { RedisError } from '../wire/errors.ts';
import { fieldsOf, type RedisValue } from '../wire/reply.ts';
import type { Server } from '../wire/script.ts';

/** The fields of a section of INFO; none where the server refuses to tell (managed ones). */
export async function serverInfo(server: Server, section: string): Promise<Map<string, string>> {
  const text = await server.send(['INFO', section]).catch((cause: unknown) => {
    if (cause instanceof RedisError && cause.code !== 'LOADING') return '';
    throw cause;
  });
  const fields = new Map<string, string>();
  for (const line of String(text).split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}

/**
 * The name of the history of writes that a server has: another one after each start, and where a replica becomes the
 * master. Undefined where it does not tell.
 */
export async function serverHistory(server: Server): Promise<string | undefined> {
  return (await serverInfo(server, 'replication')).get('master_replid');
}

/** Its name and version, e.g. `Redis 7.0.15`, by its section `server`. */
export function serverName(server: ReadonlyMap<string, string>): string {
  const valkey = server.get('valkey_version');
  return valkey === undefined ? `Redis ${server.get('redis_version') ?? 'of an unknown version'}` : `Valkey ${valkey}`;
}

/**
 * The error codes of a server that is not a master now: a replica, a replica without its master, one that loads its
 * data. After a fail-over behind one name it may stay so for ever, and the name leads to another server.
 */
const NOT_MASTER: ReadonlySet<string> = new Set(['READONLY', 'MASTERDOWN', 'LOADING']);

/** What a server answers that is there, and takes no writes for now. */
const REFUSING: ReadonlySet<string> = new Set(['NOREPLICAS', 'MISCONF', 'OOM', 'BUSY']);

export const isNotMaster = (cause: unknown): cause is RedisError =>
  cause instanceof RedisError && NOT_MASTER.has(cause.code);

/** The key's slot is another server's: this one is no master of it. */
export const isMoved = (cause: unknown): cause is RedisError => cause instanceof RedisError && cause.code === 'MOVED';

export const isRefusing = (cause: unknown): boolean => cause instanceof RedisError && REFUSING.has(cause.code);

/**
 * The answer to HELLO, which every user may send, whatever its rights; empty for a server that does not know it (a
 * proxy, an old server). Rejects where there is no answer, and with a refusal of a server that is not a master.
 */
export async function serverHello(server: Server): Promise<ReadonlyMap<string, RedisValue>> {
  const hello = await server.send(['HELLO']).catch((cause: unknown) => {
    if (cause instanceof RedisError && !isNotMaster(cause)) return [];
    throw cause;
  });
  return Array.isArray(hello) ? fieldsOf(hello) : new Map();
}

/** Rejects with a RedisError where the server says that it is no master. */
export async function assertMaster(server: Server): Promise<void> {
  const role = (await serverHello(server)).get('role');
  if (role !== undefined && role !== 'master')
    throw new RedisError(`READONLY the server is a ${String(role)}, and no master`);
}

/**
 * The servers that connections to one stream have met, identified by their histories of writes.
 *
 * An entry is changed by name only on the server that it was read from: a server that lacks the last writes of its
 * predecessor may give the same names to other entries (see Delivery.servers).
 */
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
