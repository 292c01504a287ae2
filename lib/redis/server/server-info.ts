// Facts that a Redis server reports about itself: its role, version and history.
import { hasCode, RedisError, refusedAs } from '../wire/errors.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';

export type ServerInfo = ReadonlyMap<string, string>;

/** Returns no fields if the server refuses the command, as managed servers do. */
export async function serverInfo(server: Server): Promise<ServerInfo> {
  const text = await server.send(['INFO']).catch(refusedAs('', ({ code }) => code !== 'LOADING'));
  const fields = [...String(text).matchAll(/^([^:\r\n]+):(.*)$/gm)];
  return new Map(fields.map(([, name = '', value = '']) => [name, value]));
}

/** Returns the name of the server's history of writes, if reported. It changes with each start and promotion. */
export const historyIn = (info: ServerInfo): string | undefined => info.get('master_replid');

export function serverName(info: ServerInfo): string {
  const valkey = info.get('valkey_version');
  return valkey === undefined ? `Redis ${info.get('redis_version') ?? 'of an unknown version'}` : `Valkey ${valkey}`;
}

export async function clockOf(server: Server): Promise<number> {
  const [seconds, microseconds] = (await server.send(['TIME'])) as readonly string[];
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** True for an error of a replica or of a server that is loading its data. */
export const isNotMaster = (cause: unknown): cause is RedisError => hasCode(cause, 'READONLY', 'MASTERDOWN', 'LOADING');

/** Returns the reply to HELLO, which every user may send. Rejects if the server is not a master. */
export async function serverHello(server: Server): Promise<ReadonlyMap<string, RedisValue>> {
  const hello = await server.send(['HELLO']).catch(refusedAs([], (error) => !isNotMaster(error)));
  return Array.isArray(hello) ? fieldsOf(hello) : new Map();
}

export async function assertMaster(server: Server): Promise<void> {
  const role = (await serverHello(server)).get('role');
  if (role !== undefined && role !== 'master')
    throw new RedisError(`READONLY the server is a ${String(role)}, not a master`);
}

/**
 * The servers that connections to one stream have met, identified by their histories of writes. An entry is changed
 * by name only on the server that it was read from: see Delivery.servers.
 */
export class Histories {
  readonly #met: string[] = [];
  readonly #now = new Map<object, number>();

  /** Returns the number of a connection's server, in the order in which the servers were met. */
  of(connection: object): number {
    return this.#now.get(connection) ?? 0;
  }

  /** Asks a new connection's server for its history. Returns true if the connection had another server before. */
  async meet(server: Server, connection: object): Promise<boolean> {
    const history = historyIn(await serverInfo(server)) ?? '';
    const known = this.#met.indexOf(history);
    const number = known === -1 ? this.#met.push(history) - 1 : known;
    const before = this.#now.get(connection);
    this.#now.set(connection, number);
    return before !== undefined && before !== number;
  }
}
