// Accepting calls that replicas must acknowledge: a write and a WAIT follow each call.
//
// Invariant: a reply is returned only after `replicas` replicas have everything that the master had written when it
// ran the call. The write is necessary, because WAIT covers the last write of its connection, and a call whose ids are
// all known writes nothing.
//
// Fact: WAIT blocks every later command on its connection. One connection with calls of 9 events loses half of the
// throughput. Choice: CONNECTIONS take turns. Lookups use the queue's own connection.
//
// Limit: WAIT is not consensus. A failover to a replica that lacks an event loses it.
import type { RedisConnection } from '../server/connection.ts';
import { replicationFaults } from '../server/durability.ts';
import { serverInfo } from '../server/server-info.ts';
import { keyOf } from '../stream/layout.ts';
import type { Command, RedisValue, Server } from '../wire/values.ts';

export const CONNECTIONS = 4;

/** WAIT may use this share of a call's timeout. */
const WAIT_SHARE = 0.6;

export function replicatedSender(
  replicas: number,
  connections: readonly RedisConnection[],
  stream: string,
  timeoutMs: number,
): Server {
  const waitMs = Math.max(1, Math.floor(WAIT_SHARE * timeoutMs));
  const afterwards: readonly Command[] = [
    ['SET', keyOf(stream, 'waited'), ''],
    ['WAIT', String(replicas), String(waitMs)],
  ];
  let turn = 0;
  const send = async (command: Command): Promise<RedisValue> => {
    const ready = connections.filter((one) => one.ready);
    turn += 1;
    const connection = ready[turn % ready.length];
    if (connection === undefined) throw new Error(`not connected to the queue (${connections[0]?.lastError})`);
    const [reply, , count] = await Promise.all([command, ...afterwards].map((one) => connection.send(one)));
    if (Number(count) >= replicas) return reply ?? null;
    // The event is on the master, but a failover may lose it.
    const [fault] = replicationFaults(await serverInfo(connection), replicas);
    throw new Error(fault ?? `${String(count)} of ${replicas} replicas acknowledged within ${waitMs} ms`);
  };
  return { send };
}
