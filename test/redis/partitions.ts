// Both contracts of a queue, over queues of any number of partitions on one Redis.
import assert from 'node:assert/strict';
import { createLog } from '../../lib/process/log.ts';
import { ByteClient } from '../../lib/redis/wire/byte-client.ts';
import { type Server, byteConnection } from '../../lib/redis/server/client.ts';
import { PartitionedQueue } from '../../lib/redis/accept/partitioned-queue.ts';
import { PartitionedReader } from '../../lib/redis/read/partitioned-reader.ts';
import { queueIdentity, type QueueIdentity } from '../../lib/redis/stream/identity.ts';
import { SharedClients, TurnEnd } from '../../lib/redis/server/shared-clients.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { memberName } from '../../lib/redis/read/membership.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { queueContract } from '../contract/queue.ts';
import { describeQueueReader } from '../contract/queue-reader.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

export const LOG = createLog('test', 'error');
LOG.level = 'silent';

export const streams = (partitions: number): string[] =>
  Array.from({ length: partitions }, (_, at) => `${STREAM}-${at}`);

const identifiedBy =
  (partitions: number) =>
  (server: Server): Promise<QueueIdentity> =>
    queueIdentity(server, STREAM, { ...SYSTEM, partitions });

/** `uris` by partition, where they differ. */
export async function openQueue(uris: readonly string[], retentionMs?: number): Promise<PartitionedQueue> {
  const { defer, afterwards } = new TurnEnd(SYSTEM.clock);
  const shared = new SharedClients(
    (server) => new ByteClient({ ...SYSTEM, uri: server, name: 'test', gather: afterwards }),
  );
  const parts = uris.map((uri, at) => {
    const connection = byteConnection({ ...SYSTEM, uri, name: 'test', log: LOG }, (server) => shared.open(server));
    const queue = new StreamQueue({
      ...SYSTEM,
      connection,
      enqueueTimeoutMs: 10_000,
      log: LOG,
      defer,
      stream: `${STREAM}-${at}`,
      identify: identifiedBy(uris.length),
      ...(retentionMs === undefined ? {} : { retentionMs }),
    });
    connection.open();
    return queue;
  });
  const queue = new PartitionedQueue(parts);
  atEnd(() => queue.close());
  await eventually('every partition is there', () => queue.states().every(({ available }) => available));
  return queue;
}

export async function openReader(uris: readonly string[]): Promise<PartitionedReader> {
  const name = memberName(SYSTEM.random);
  const identify = identifiedBy(uris.length);
  const readers = new Map(
    uris.map((uri, at) => [
      String(at),
      new StreamReader({ ...SYSTEM, uri, log: LOG, stream: `${STREAM}-${at}`, name, identify }),
    ]),
  );
  const reader = new PartitionedReader(readers, { ...SYSTEM, log: LOG });
  assert.equal(await reader.open(20_000), true, reader.lastError);
  return reader;
}

export function describePartitions(partitions: number): void {
  queueContract(`a queue of ${partitions} partitions`, async () => {
    const own = await TestRedis.start();
    const uris = streams(partitions).map(() => own.uri);
    return {
      open: (retentionMs) => openQueue(uris, retentionMs),
      land: async () => void (await Promise.all(streams(partitions).map((stream) => own.land(stream)))),
      bodies: () =>
        Promise.all(
          streams(partitions).map(async (stream) =>
            (await own.entries(stream)).map(({ fields }) => fields['body'] ?? ''),
          ),
        ),
    };
  });

  // The contract speaks of one source; each test uses another partition.
  let used = 0;
  let own: TestRedis;
  const stream = (): string => `${STREAM}-${used % partitions}`;
  describeQueueReader(`a queue of ${partitions} partitions`, async () => {
    own = await TestRedis.start(['--appendonly', 'no']);
    return {
      open: () => openReader(streams(partitions).map(() => own.uri)),
      put: async (members, acceptedAtMs) =>
        String(
          await own.command(
            'XADD',
            stream(),
            acceptedAtMs === undefined ? '*' : String(acceptedAtMs),
            ...Object.entries(members).flat(),
          ),
        ),
      drop: async (entry) => void (await own.command('XDEL', stream(), entry)),
      pending: async () => Number(((await own.command('XPENDING', stream(), GROUP)) as unknown[])[0]),
      next: () => (used += 1),
      wipe: async () => void (await own.command('FLUSHALL')),
      close: async () => undefined,
    };
  });
}
