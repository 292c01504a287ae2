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

/** What is wrong, in words for an operator; nothing when all is well. A server that does not tell counts as a fault. */
export async function durabilityFaults(server: Server): Promise<readonly string[]> {
  const faults: string[] = [];
  const policy = (await serverInfo(server, 'memory')).get('maxmemory_policy');
  if (policy === undefined) {
    faults.push(
      'the server does not tell its maxmemory-policy (INFO memory): whether it drops accepted events is unknown',
    );
  } else if (policy !== 'noeviction') {
    faults.push(`maxmemory-policy is ${policy}: Redis may drop accepted events; set it to noeviction`);
  }
  const appends = (await serverInfo(server, 'persistence')).get('aof_enabled');
  if (appends === undefined) {
    faults.push(
      'the server does not tell whether it writes an append-only file (INFO persistence): ' +
        'whether it keeps accepted events is unknown',
    );
  } else if (appends === '0') {
    faults.push('the append-only file is off: accepted events are lost with the server; set appendonly yes');
  }
  return faults;
}

/** A rewrite of the append-only file, in words for an operator. */
export interface AofRewrite {
  readonly fault: string;
  /** It is the first one of a replica that was promoted: until it ends, no file has what the server accepts. */
  readonly isFirst: boolean;
}

/**
 * The rewrite of the append-only file that is running; undefined if none is.
 *
 * Fact (Redis 7.0.15): a replica after a full synchronization, and a server after CONFIG SET appendonly yes, write to
 * no file that a restart reads until their first rewrite has ended. A replica that was promoted meanwhile and then
 * killed came back empty. INFO does not distinguish such a rewrite from any other, except that no earlier one has ended
 * since the server started, and that a promoted replica has the history of its former master.
 */
export async function aofRewrite(server: Server): Promise<AofRewrite | undefined> {
  const persistence = await serverInfo(server, 'persistence');
  if (persistence.get('aof_rewrite_in_progress') !== '1') return undefined;
  const formerMaster = (await serverInfo(server, 'replication')).get('master_replid2') ?? '';
  const isFirst = persistence.get('aof_last_rewrite_time_sec') === '-1' && /[1-9a-f]/.test(formerMaster);
  return {
    isFirst,
    fault: isFirst
      ? 'the server was promoted before its first append-only file was written: until that has ended, ' +
        'accepted events are lost with it'
      : 'the append-only file is being rewritten: if the server has just begun to write one, ' +
        'accepted events are lost with it until that has ended',
  };
}

/**
 * What is wrong with a server's replicas, for a gateway that waits for so many of them: a fail-over forgets what they
 * had not received.
 */
export async function replicationFaults(server: Server, replicas: number): Promise<readonly string[]> {
  const told = (await serverInfo(server, 'replication')).get('connected_slaves');
  if (told === undefined)
    return replicas === 0 ? [] : ['the server does not tell how many replicas it has (INFO replication)'];
  const connected = Number(told);
  if (connected >= replicas && (connected === 0 || replicas > 0)) return [];
  return [
    replicas === 0
      ? `the server has replicas (${connected}) and INGEST_QUEUE_REPLICAS is 0: ` +
        'a fail-over loses accepted events that no replica has received'
      : `${connected} replicas are connected and INGEST_QUEUE_REPLICAS is ${replicas}: ` +
        'no event is accepted until there are as many',
  ];
}
