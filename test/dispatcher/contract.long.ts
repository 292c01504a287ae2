// The contract of a queue's reading side over the two queues behind a dispatcher; contract.test.ts has the other side.
import assert from 'node:assert/strict';
import { createLog } from '../../lib/process/log.ts';
import { readingQueue } from '../../lib/redis/read/open-reader.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { describeQueueReader } from '../contract/queue-reader.ts';
import { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

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
