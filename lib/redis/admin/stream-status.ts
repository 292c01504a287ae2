// The status of one stream and of its server, for ingest-admin.
import type { ReplicaStatus, ServerStatus, StreamStatus } from '../../ingest/queue-admin.ts';
import { REPLICA_LEASE_MS, RETENTION_MS } from '../../ingest/queue.ts';
import { durabilityFaults, replicationFaults } from '../server/durability.ts';
import { clockOf, serverInfo, serverName, type ServerInfo } from '../server/server-info.ts';
import { assertAppendable, PLACE_FILES, xinfo } from '../stream/group.ts';
import { ACCEPT } from '../stream/entry.ts';
import { GROUP, keyOf } from '../stream/layout.ts';
import { otherTypes } from '../stream/rights.ts';
import { QueueRefusal, RedisError, refusedAs } from '../wire/errors.ts';
import { Script } from '../wire/script.ts';
import { fieldsOf, type RedisValue, type Server } from '../wire/values.ts';

const LAG = new Script('lag.lua', ...PLACE_FILES, 'accepted-at.lua');

export async function streamStatus(server: Server, stream: string): Promise<StreamStatus> {
  const info = await serverInfo(server);
  const required = Number(await server.send(['HGET', keyOf(stream, 'looked'), 'required']));
  const [events, replicas, memoryBytes, lag, unavailable] = await Promise.all([
    server.send(['XLEN', stream]),
    replicasOf(server, stream),
    memoryOf(server, stream).catch(refusedAs(undefined)),
    LAG.run(server, stream, [GROUP]),
    refusalOf(server, stream, info, required),
  ]);
  const [unread, pending, oldestUnlandedMs] = lag as readonly [number, number, number];
  const bytes = (name: string): number | undefined => (info.has(name) ? Number(info.get(name)) : undefined);
  return {
    run: info.get('run_id') ?? stream,
    server: {
      name: serverName(info),
      partitions: [stream],
      memoryBytes: bytes('used_memory'),
      memoryLimitBytes: bytes('maxmemory'),
      faults: durabilityFaults(info),
      role: info.get('role'),
      port: info.has('tcp_port') ? Number(info.get('tcp_port')) : undefined,
      required,
      copies: copiesIn(info),
    },
    partition: {
      name: stream,
      stream,
      events: Number(events),
      memoryBytes,
      unread: unread < 0 ? undefined : unread,
      pending,
      oldestUnlandedMs,
      replicas,
      unavailable,
    },
  };
}

/** The fields `slave0`, `slave1` and so on have the form `ip=10.0.0.2,port=6379,state=online,offset=7,lag=0`. */
function copiesIn(info: ServerInfo): ServerStatus['copies'] {
  const copies = [...info].filter(([name]) => /^slave\d+$/.test(name));
  return copies.map(([, text]) => {
    const fields = new URLSearchParams(text.replaceAll(',', '&'));
    const address = `${fields.get('ip')}:${fields.get('port')}`;
    return { address, state: fields.get('state') ?? '', lagSeconds: Number(fields.get('lag') ?? Number.NaN) };
  });
}

async function replicasOf(server: Server, stream: string): Promise<readonly ReplicaStatus[]> {
  const [members, heartbeats, nowMs] = await Promise.all([
    xinfo(server, 'CONSUMERS', stream, GROUP),
    server.send(['ZRANGE', keyOf(stream, 'replicas'), '0', '-1', 'WITHSCORES']),
    clockOf(server),
  ]);
  const replicas = new Map<string, ReplicaStatus>();
  for (const member of (members as readonly RedisValue[][]).map(fieldsOf)) {
    const [name, holds] = [String(member.get('name')), Number(member.get('pending'))];
    if (holds > 0) replicas.set(name, { name, holds, heartbeatMs: undefined });
  }
  for (const [name, atMs] of fieldsOf(heartbeats as readonly RedisValue[])) {
    const heartbeatMs = Math.max(0, nowMs - Number(atMs));
    if (heartbeatMs <= REPLICA_LEASE_MS)
      replicas.set(name, { name, holds: replicas.get(name)?.holds ?? 0, heartbeatMs });
  }
  return [...replicas.keys()].toSorted().flatMap((name) => replicas.get(name) ?? []);
}

async function memoryOf(server: Server, stream: string): Promise<number> {
  const ids = keyOf(stream, 'ids');
  const starts = String((await server.send(['GET', ids])) ?? '').split(' ');
  const keys = [stream, ...starts.filter((start) => start !== '').map((start) => `${ids}:${start}`)];
  const sizes = await Promise.all(keys.map((key) => server.send(['MEMORY', 'USAGE', key])));
  return sizes.reduce<number>((sum, size) => sum + Number(size ?? 0), 0);
}

/** Returns why gateways add no events, in the words of their probe, or `undefined`. */
async function refusalOf(
  server: Server,
  stream: string,
  info: ServerInfo,
  replicas: number,
): Promise<string | undefined> {
  const [fault] = replicas > 0 && info.has('connected_slaves') ? replicationFaults(info, replicas) : [];
  if (fault !== undefined) return `${fault}, at the gateway that connected last`;
  const others = await otherTypes(server, stream);
  if (others !== undefined) return others;
  try {
    await assertAppendable(server, stream);
    await ACCEPT.run(server, stream, [String(RETENTION_MS)]);
    return undefined;
  } catch (cause) {
    if (cause instanceof QueueRefusal || (cause instanceof RedisError && cause.code !== 'NOPERM')) return cause.message;
    throw cause;
  }
}
