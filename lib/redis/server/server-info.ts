// Facts that a Redis server reports about itself: its role, version, history and limits.
import type { Clock } from '../../process/clock.ts';
import { hasCode, RedisError, refusedAs } from '../wire/errors.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';
import { askOnce } from './ask-once.ts';

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
 * The longest argument that a server takes. It refuses a longer one by closing the connection, and with it the commands
 * of all others, so the limit is known before an event is sent. Two settings limit it.
 *
 * Fact (Redis 7.0, `readQueryFromClient`): the buffer of a connection holds an argument with the commands before it,
 * and after a long argument it has up to 1.25 times its length. Choice: an argument may fill half of the buffer.
 */
const [BULK, BUFFER] = ['proto-max-bulk-len', 'client-query-buffer-limit'];
const BUFFER_SHARE = 2;
/** Every server takes an argument of this length: both settings are at least 1 MiB. */
const LEAST = (1 << 20) / BUFFER_SHARE;

/** Returns the limit, or `wanted` if that is lower. Without the right to read the settings, it may return LEAST. */
export async function argumentBytesMax(server: Server, uri: string, wanted: number, clock: Clock): Promise<number> {
  if (wanted <= LEAST) return wanted;
  const settings = await server.send(['CONFIG', 'GET', BULK, BUFFER]).catch(refusedAs([]));
  const limits = fieldsOf(settings as readonly RedisValue[]);
  if (limits.size > 0) {
    const bufferShare = Math.floor(Number(limits.get(BUFFER) ?? Number.POSITIVE_INFINITY) / BUFFER_SHARE);
    return Math.min(wanted, Number(limits.get(BULK) ?? wanted), bufferShare);
  }
  if (await takes(uri, BUFFER_SHARE * wanted, clock)) return wanted;
  // Either the argument is too long, or the server has become unavailable.
  if (await takes(uri, LEAST, clock)) return LEAST;
  throw new Error('the server does not answer');
}

/** The server reads a command before it refuses the number of its arguments. */
const takes = (uri: string, bytes: number, clock: Clock): Promise<boolean> =>
  askOnce({ clock }, uri, (server) => server.send(['TIME', Buffer.alloc(bytes)])).then(
    () => true,
    (cause: unknown) => cause instanceof RedisError && cause.message.includes('wrong number of arguments'),
  );

/**
 * The servers that connections to one stream have met, numbered by their histories of writes. An entry is changed by
 * name only on the server that it was read from: see Delivery.servers. Example: both connections meet server 0, which
 * dies. A replica that lacks its last entry is promoted: server 1. It may give that entry's name to another event, so
 * the acknowledgment of the entry that was read from server 0 must not be sent to server 1.
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
    const index = this.#met.indexOf(history);
    const number = index === -1 ? this.#met.push(history) - 1 : index;
    const before = this.#now.get(connection);
    this.#now.set(connection, number);
    return before !== undefined && before !== number;
  }
}
