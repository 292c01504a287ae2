// What an operator sees of one stream: how much it holds, how far its group is, and its members.
import type { PartitionStatus, Replica } from '../../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import type { Server } from '../server/client.ts';
import { isNoGroup, RedisError } from '../wire/errors.ts';
import { fieldsOf, type RedisValue } from '../wire/reply.ts';
import { Script } from '../wire/script.ts';
import { GROUP, keyOf } from '../stream/layout.ts';

const lag = new Script('lag.lua', 'group-place.lua');

export async function partitionStatus(server: Server, stream: string): Promise<Omit<PartitionStatus, 'name'>> {
  const [events, replicas, memoryBytes, behind] = await Promise.all([
    server.send(['XLEN', stream]),
    replicasOf(server, stream),
    memoryOf(server, stream),
    lag.run(server, [...lag.command(stream), GROUP]),
  ]);
  const [unread, pending, oldestUnlandedMs] = behind as readonly [number, number, number];
  return { stream, events: Number(events), memoryBytes, unread, pending, oldestUnlandedMs, replicas };
}

/** Members that hold something, and those that give signs of life. */
async function replicasOf(server: Server, stream: string): Promise<readonly Replica[]> {
  const [members, signs, time] = await Promise.all([
    server.send(['XINFO', 'CONSUMERS', stream, GROUP]).catch((cause: unknown) => {
      if (isNoGroup(cause) || (cause instanceof RedisError && /no such key/.test(cause.message))) return [];
      throw cause;
    }),
    server.send(['ZRANGE', keyOf(stream, 'replicas'), '0', '-1', 'WITHSCORES']),
    server.send(['TIME']),
  ]);
  const [seconds, microseconds] = time as readonly string[];
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  const held = new Map(
    (members as readonly RedisValue[][]).map((list) => {
      const member = fieldsOf(list);
      return [String(member.get('name')), Number(member.get('pending'))];
    }),
  );
  const sign = new Map<string, number>();
  for (const [name, signMs] of fieldsOf(signs as readonly RedisValue[])) {
    const ageMs = Math.max(0, nowMs - Number(signMs));
    if (ageMs <= REPLICA_LEASE_MS) sign.set(name, ageMs);
  }
  const names = [...new Set([...sign.keys(), ...held.keys()])].toSorted();
  return names
    .map((name) => ({ name, holds: held.get(name) ?? 0, signMs: sign.get(name) }))
    .filter(({ holds, signMs }) => holds > 0 || signMs !== undefined);
}

/** The server's estimate, of the stream, and of the slices of its id index. */
async function memoryOf(server: Server, stream: string): Promise<number | undefined> {
  const ids = keyOf(stream, 'ids');
  try {
    const starts = String((await server.send(['GET', ids])) ?? '').split(' ');
    const keys = [stream, ...starts.filter((start) => start !== '').map((start) => `${ids}:${start}`)];
    const sizes = await Promise.all(keys.map((key) => server.send(['MEMORY', 'USAGE', key])));
    return sizes.reduce<number>((sum, size) => sum + Number(size ?? 0), 0);
  } catch (cause) {
    if (cause instanceof RedisError) return undefined;
    throw cause;
  }
}
