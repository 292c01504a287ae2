// Whether a server is the master that it has to be, by its greeting and by what it refuses with.
import { RedisError } from '../wire/errors.ts';
import type { RedisValue } from '../wire/reply.ts';
import type { Sender } from '../wire/script.ts';

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
 * Rejects with a RedisError where the server says that it is no master. HELLO is asked because every user may send it,
 * whatever its rights. What knows no HELLO (a proxy, an old server) tells by its answers to the other commands.
 */
export async function assertMaster(server: Sender<RedisValue>): Promise<void> {
  const hello = await server.send(['HELLO']).catch((cause: unknown) => {
    if (cause instanceof RedisError && !isNotMaster(cause)) return [];
    throw cause;
  });
  const members = Array.isArray(hello) ? (hello as readonly RedisValue[]) : [];
  const role = members[members.indexOf('role') + 1];
  if (members.includes('role') && role !== 'master')
    throw new RedisError(`READONLY the server is a ${String(role)}, and no master`);
}
