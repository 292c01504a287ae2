// The contract of a queue over the dispatcher, a gateway's side, through real sockets and servers.
import assert from 'node:assert/strict';
import { Dispatcher, QUEUES, Traffic, type DispatchedOutcome } from '../../lib/dispatcher/dispatcher.ts';
import { SystemClock } from '../../lib/process/clock.ts';
import { createLog } from '../../lib/process/log.ts';
import { byteConnection } from '../../lib/redis/server/client.ts';
import { PartitionedQueue } from '../../lib/redis/accept/partitioned-queue.ts';
import { QueueServer } from '../../lib/dispatcher/queue-server.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { Counter } from '../../lib/telemetry/instruments.ts';
import { queueContract } from '../contract/queue.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { readingQueue } from '../../lib/redis/read/open-reader.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { describe } from 'node:test';
import { describeQueueReader } from '../contract/queue-reader.ts';

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
  const connection = byteConnection({ ...SYSTEM, uri, name: 'test', log: LOG });
  const retention = retentionMs === undefined ? {} : { retentionMs };
  const queue = new StreamQueue({
    ...SYSTEM,
    connection,
    enqueueTimeoutMs: TIMEOUT_MS,
    log: LOG,
    behind,
    ...retention,
  });
  atEnd(() => queue.close());
  connection.open();
  return queue;
}

/** A gateway's queue that ends its dispatcher too, which would trim the stream by its own retention. */
class Gateway extends PartitionedQueue {
  readonly #dispatcher: Dispatcher;

  constructor(queues: readonly StreamQueue[], dispatcher: Dispatcher) {
    super(queues);
    this.#dispatcher = dispatcher;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#dispatcher.close();
  }
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
    clock: new SystemClock(),
    log: LOG,
  });
  const { port } = await server.listen('127.0.0.1', 0);
  atEnd(() => server.drain());
  const queue = new Gateway(
    [0, 1].map(() => queueAt(`redis://127.0.0.1:${port}`, 'dispatcher')),
    dispatcher,
  );
  await eventually('the dispatcher is there', () => queue.states().every(({ available }) => available));
  return queue;
}

queueContract('a dispatcher', async () => {
  const servers = await Promise.all([TestRedis.start(), TestRedis.start()]);
  return {
    open: (retentionMs) => open(servers, retentionMs),
    land: async () => void (await Promise.all(servers.map((server) => server.land()))),
    bodies: () =>
      Promise.all(servers.map(async (server) => (await server.entries()).map(({ fields }) => fields['body'] ?? ''))),
  };
});

describe('the reading side behind a dispatcher', { tags: ['long'] }, () => {
  // The contract speaks of one source; each test uses the other queue.
  let used = 0;
  let servers: readonly TestRedis[] = [];
  const server = (): TestRedis => servers[used % 2] ?? assert.fail();
  describeQueueReader('two queues', async () => {
    const args = ['--appendonly', 'no'];
    servers = await Promise.all([TestRedis.start(args), TestRedis.start(args)]);
    return {
      open: async () => {
        const reader = readingQueue({ ...SYSTEM, uris: servers.map(({ uri }) => uri), log: LOG });
        assert.equal(await reader.open(20_000), true, reader.lastError);
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
      pending: async () => Number(((await server().command('XPENDING', STREAM, GROUP)) as unknown[])[0]),
      next: () => (used += 1),
      wipe: async () => void (await Promise.all(servers.map((one) => one.command('FLUSHALL')))),
      close: async () => undefined,
    };
  });
});
