import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { it } from 'node:test';
import { PartitionedQueue } from '../../lib/ingest/partitioned-queue.ts';
import { acceptingStreams, inspectGatewayQueue, startQueue } from '../../lib/redis/accept/open-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { QUIET_LOG } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { partitionOf } from '../../lib/ingest/partition.ts';

it('a check names the shortest body that one of two servers refuses', async () => {
  const [one, other] = [await TestRedis.start(), await TestRedis.start()];
  await other.command('CONFIG', 'SET', 'proto-max-bulk-len', '1048576');
  const uri = `dispatcher://127.0.0.1:${one.port},127.0.0.1:${other.port}`;
  const limits = { enqueueTimeoutMs: 10_000, bodyBytesMax: 2 << 20 };
  const durability = { level: 'warn', replicas: 0 } as const;
  const options = { ...SYSTEM, log: QUIET_LOG, uri, partitions: 2, limits, durability };
  assert.match(await inspectGatewayQueue(options, 10_000), /, takes events, but no bodies over 1048576 bytes \(/);
});

it('each event is added to the partition of its id, in one write if the partitions share a server', async (t) => {
  const redis = await TestRedis.start();
  const uri = `dispatcher://127.0.0.1:${redis.port},127.0.0.1:${redis.port}`;
  const limits = { enqueueTimeoutMs: 10_000, bodyBytesMax: 1_000 };
  const durability = { level: 'warn', replicas: 0 } as const;
  const parts = acceptingStreams({ ...SYSTEM, log: QUIET_LOG, uri, partitions: 2, limits, durability });
  atEnd(async () => void (await Promise.all(parts.map((part) => part.close()))));
  await startQueue(uri, parts, SYSTEM.clock, 10_000);
  const queue = new PartitionedQueue(parts, 'unavailable');
  const events = Array.from({ length: 20 }, (_, at) => new Recorded(`turn-${at}`));
  assert.equal(new Set(events.map(({ id }) => partitionOf(id, 2))).size, 2);
  // The client corks the socket while it writes the commands of a turn.
  const { mock } = t.mock.method(Socket.prototype as Required<Writable>, '_writev');
  const turnWrites = () =>
    mock.calls.filter((call) => call.arguments[0].some(({ chunk }) => /turn-\d/.test(String(chunk))));
  const outcomes = submitAll(queue, events);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(turnWrites().length, 1);
  assert.deepEqual(new Set(await outcomes), new Set(['accepted']));
  for (const [at, stream] of ['ingest-a', 'ingest-b'].entries()) {
    const own = events.filter(({ id }) => partitionOf(id, 2) === at);
    const stored = (await redis.entries(stream)).map(({ fields }) => fields['body']);
    assert.deepEqual(
      stored,
      own.map(({ text }) => text),
    );
    const kinds = await Promise.all(own.map(async ({ id }) => (await queue.find(id, 'p')).kind));
    assert.deepEqual(new Set(kinds), new Set(['found']));
  }
});
