// Both contracts of a queue over the dispatcher: a gateway's side through real sockets and servers, a consumer's side
// of both queues.
import assert from 'node:assert/strict';
import { Dispatcher, QUEUES, Traffic, type DispatchedOutcome } from '../../lib/dispatcher/dispatcher.ts';
import { createLog } from '../../lib/process/log.ts';
import { byteConnection } from '../../lib/redis/byte-client.ts';
import { readingQueue } from '../../lib/redis/open-reader.ts';
import { PartitionedQueue } from '../../lib/redis/partitioned-queue.ts';
import { QueueServer } from '../../lib/redis/queue-server.ts';
import { STREAM } from '../../lib/redis/stream-names.ts';
import { StreamQueue } from '../../lib/redis/stream-queue.ts';
import { Counter } from '../../lib/telemetry/instruments.ts';
import { queueContract } from '../contract/queue.ts';
import { describeQueueReader } from '../contract/queue-reader.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';
/** Long: a busy machine must not turn an answer into a time-out here. */
const TIMEOUT_MS = 10_000;

function traffic(): Traffic {
  const outcomes = ['accepted', 'duplicate', 'differing', 'conflict', 'shed'] as const;
  return new Traffic(
    Object.fromEntries(outcomes.map((name) => [name, new Counter()])) as Record<DispatchedOutcome, Counter>,
  );
}

function queueAt(uri: string, behind: 'redis' | 'dispatcher', retentionMs?: number): StreamQueue {
  const connection = byteConnection({ uri, name: 'test', log: LOG });
  const retention = retentionMs === undefined ? {} : { retentionMs };
  const queue = new StreamQueue({ connection, enqueueTimeoutMs: TIMEOUT_MS, log: LOG, behind, ...retention });
  atEnd(() => queue.close());
  connection.open();
  return queue;
}

/** A dispatcher over these servers, and a gateway's queue that reaches it over TCP. */
async function open(servers: readonly TestRedis[], retentionMs?: number): Promise<PartitionedQueue> {
  const lane = (at: 0 | 1) => ({
    name: QUEUES[at],
    queue: queueAt(servers[at]?.uri ?? '', 'redis', retentionMs),
    traffic: traffic(),
  });
  const dispatcher = new Dispatcher([lane(0), lane(1)]);
  await eventually('both queues are there', () => dispatcher.states().every(({ available }) => available));
  const server = new QueueServer({
    anonymous: { queue: dispatcher, release: () => undefined },
    authenticate: () => Promise.resolve('not here'),
    tls: undefined,
    log: LOG,
  });
  const { port } = await server.listen('127.0.0.1', 0);
  atEnd(() => server.drain());
  const queue = new PartitionedQueue([0, 1].map(() => queueAt(`redis://127.0.0.1:${port}`, 'dispatcher')));
  await eventually('the dispatcher is there', () => queue.states().every(({ available }) => available));
  return queue;
}

queueContract('a dispatcher', async () => {
  const servers = await Promise.all([TestRedis.start(), TestRedis.start()]);
  return {
    open: (retentionMs) => open(servers, retentionMs),
    bodies: () =>
      Promise.all(servers.map(async (server) => (await server.entries()).map(({ fields }) => fields['body'] ?? ''))),
  };
});

// The contract speaks of one source; each test uses the other queue.
let used = 0;
let servers: readonly TestRedis[] = [];
const server = (): TestRedis => servers[used % 2] ?? assert.fail();
describeQueueReader('two queues', async () => {
  const args = ['--appendonly', 'no'];
  servers = await Promise.all([TestRedis.start(args), TestRedis.start(args)]);
  return {
    open: async () => {
      const reader = readingQueue({ uris: servers.map(({ uri }) => uri), log: LOG });
      assert.equal(await reader.open(5_000), true, reader.lastError);
      return reader;
    },
    put: async (members, acceptedAtMs) =>
      String(
        await server().command(
          'XADD',
          STREAM,
          acceptedAtMs === undefined ? '*' : String(acceptedAtMs),
          ...Object.entries(members).flat(),
        ),
      ),
    drop: async (entry) => void (await server().command('XDEL', STREAM, entry)),
    next: () => (used += 1),
    wipe: async () => void (await Promise.all(servers.map((one) => one.command('FLUSHALL')))),
    close: async () => undefined,
  };
});
