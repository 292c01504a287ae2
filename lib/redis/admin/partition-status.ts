// What an operator sees of one stream: how much it holds, how far its group is, and its members.
import type { PartitionStatus, Replica } from '../../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS } from '../../ingest/queue.ts';
import { RedisError } from '../wire/errors.ts';
import type { RedisValue } from '../wire/reply.ts';
import { Script, type Sender } from '../wire/script.ts';
import { GROUP } from '../stream/stream-names.ts';

const lag = new Script('lag.lua', 'group-place.lua');

type Fields = Readonly<Record<string, RedisValue>>;

export async function partitionStatus(
  server: Sender<RedisValue>,
  stream: string,
): Promise<Omit<PartitionStatus, 'name'>> {
  const lagCommand = lag.command(stream);
  lagCommand.push(GROUP);
  const [events, replicas, memoryBytes, behind] = await Promise.all([
    server.send(['XLEN', stream]),
    replicasOf(server, stream),
    memoryOf(server, stream),
    lag.run(server, lagCommand),
  ]);
  const [unread, pending, oldestUnlandedMs] = behind as readonly [number, number, number];
  return { stream, events: Number(events), memoryBytes, unread, pending, oldestUnlandedMs, replicas };
}

/** Members that hold something, and those that give signs of life. */
async function replicasOf(server: Sender<RedisValue>, stream: string): Promise<readonly Replica[]> {
  const [members, signs, time] = await Promise.all([
    orNoGroup(server.send(['XINFO', 'CONSUMERS', stream, GROUP]), []),
    server.send(['ZRANGE', `{${stream}}:replicas`, '0', '-1', 'WITHSCORES']),
    server.send(['TIME']),
  ]);
  const [seconds, microseconds] = time as readonly string[];
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  const held = new Map(
    (members as readonly RedisValue[][]).map((list) => {
      const { name, pending } = fieldsOf(list);
      return [String(name), Number(pending)];
    }),
  );
  const sign = new Map<string, number>();
  const scores = signs as readonly string[];
  for (let at = 0; at + 1 < scores.length; at += 2) {
    const ageMs = Math.max(0, nowMs - Number(scores[at + 1]));
    if (ageMs <= REPLICA_LEASE_MS) sign.set(scores[at] ?? '', ageMs);
  }
  const names = [...new Set([...sign.keys(), ...held.keys()])].toSorted();
  return names
    .map((name) => ({ name, holds: held.get(name) ?? 0, signMs: sign.get(name) }))
    .filter(({ holds, signMs }) => holds > 0 || signMs !== undefined);
}

/** The server's estimate, of the stream, and of the slices of its id index. */
async function memoryOf(server: Sender<RedisValue>, stream: string): Promise<number | undefined> {
  const ids = `{${stream}}:ids`;
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

/** `other` where the stream or the group is not there yet. */
async function orNoGroup<T>(answer: Promise<RedisValue>, other: T): Promise<RedisValue | T> {
  try {
    return await answer;
  } catch (cause) {
    if (cause instanceof RedisError && (cause.code === 'NOGROUP' || /no such key/.test(cause.message))) return other;
    throw cause;
  }
}

function fieldsOf(list: readonly RedisValue[]): Fields {
  const fields: Record<string, RedisValue> = {};
  for (let at = 0; at + 1 < list.length; at += 2) fields[String(list[at])] = list[at + 1] ?? null;
  return fields;
}
