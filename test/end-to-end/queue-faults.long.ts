// The faults of the queue that queue-faults.test.ts leaves out.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { describeOutages, entriesBehind, pki, producer, readinessAfter } from './queue-faults.ts';

const LONG_LOAD = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024'];

describeOutages({
  stopped: { begin: (redis) => redis.signal('SIGTERM'), end: (redis) => redis.start(), reason: /ECONNREFUSED|closed/ },
  'a read-only replica': {
    begin: async (redis) => redis.command('REPLICAOF', '127.0.0.1', String(await freePort())),
    end: (redis) => redis.command('REPLICAOF', 'NO', 'ONE'),
    // It may lack what the new master took, so it is not asked: no false 404.
    reason: /^READONLY/,
  },
  loading: {
    begin: async (redis) => {
      await redis.command('EVAL', "for n = 1, 2000 do redis.call('SET', 'filler:' .. n, n) end", '0');
      await redis.command('BGREWRITEAOF');
      await eventually('the file is rewritten', async () =>
        /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(String(await redis.command('INFO', 'persistence'))),
      );
      await redis.signal('SIGTERM');
      redis.launch(LONG_LOAD);
    },
    end: (redis) => eventually('Redis has loaded', async () => (await redis.command('PING')) === 'PONG'),
    reason: /^LOADING/,
  },
  'back without its data': {
    begin: (redis) => redis.signal('SIGKILL'),
    end: (redis) => redis.start(['--appendonly', 'no']),
    reason: /ECONNREFUSED|closed/,
    forgets: true,
  },
});

describe('a queue that', () => {
  it('freezes while nobody sends is noticed, and gone from its network without a word it is connected to anew', async () => {
    const redis = await TestRedis.start();
    const gateway = await TestGateway.start(redis, pki);
    await redis.signal('SIGSTOP');
    await readinessAfter(gateway, 503);
    await gateway.line(/no connection to the queue.*/);
    await redis.signal('SIGCONT');
    await readinessAfter(gateway, 200);
    assert.equal((await gateway.client(producer).post(event('after'))).status, 202);
    await assertAlive(gateway);
  });

  it('is frozen while 200 clients keep sending costs a bounded amount of memory', async (t) => {
    const redis = await TestRedis.start();
    // As many handshakes at once take a busy machine longer than a connection has by default.
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_HANDSHAKE_TIMEOUT_MS: '120000',
      INGEST_HEADERS_TIMEOUT_MS: '120000',
      INGEST_REQUEST_TIMEOUT_MS: '120000',
      INGEST_DRAIN_TIMEOUT_MS: '120000',
    });
    const load = new Load(gateway.client(producer), 'many', 200);
    const residentMiB = async (): Promise<number> => (await gateway.metric('process_resident_memory_bytes')) / 2 ** 20;
    await load.more(4_000);
    const before = await residentMiB();
    await redis.signal('SIGSTOP');
    await readinessAfter(gateway, 503);
    await load.more(4_000);
    const early = await residentMiB();
    await load.more(8_000);
    const late = await residentMiB();
    await redis.signal('SIGCONT');
    await readinessAfter(gateway, 200);
    await load.more(1_000);
    await load.stop();
    t.diagnostic(
      `resident: ${Math.round(before)} MiB before, ${Math.round(early)} early and ${Math.round(late)} late in the outage; slowest answer ${Math.round(load.slowestMs)} ms`,
    );
    assert.ok(late < before + 100, `${before} MiB before, ${late} MiB late`);
    assert.deepEqual(load.errors, []);
    assert.deepEqual(load.statuses, [202, 503]);
    await entriesBehind(redis, load);
    assert.equal(await gateway.metric('ingest_events_in_flight'), 0);
    await assertAlive(gateway);
  });
});
