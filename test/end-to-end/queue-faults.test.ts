// The short form of queue-faults.long.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PATIENT, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { TestRedis } from '../support/redis.ts';
import { assertAlive } from '../support/verdicts.ts';
import { describeOutages, pki, producer } from './queue-faults.ts';

describeOutages({
  killed: { begin: (redis) => redis.signal('SIGKILL'), end: (redis) => redis.start(), reason: /ECONNREFUSED|closed/ },
  frozen: {
    begin: (redis) => redis.signal('SIGSTOP'),
    end: (redis) => redis.signal('SIGCONT'),
    reason: /no answer|does not answer/,
  },
  full: {
    begin: (redis) => redis.command('CONFIG', 'SET', 'maxmemory', '1'),
    end: (redis) => redis.command('CONFIG', 'SET', 'maxmemory', '0'),
    reason: /^OOM/,
    readable: true,
  },
});

describe('a queue that', () => {
  it('forgets its scripts is told them again, and nobody notices', async () => {
    const redis = await TestRedis.start();
    const gateway = await TestGateway.start(redis, pki, PATIENT);
    const load = new Load(gateway.client(producer), 'flushed', 8, 10);
    for (let round = 0; round < 5; round += 1) {
      await load.more(40);
      await redis.command('SCRIPT', 'FLUSH');
    }
    await load.more(40);
    await load.stop();
    assert.deepEqual(load.statuses, [202]);
    assert.equal(await redis.length(), load.accepted.length);
    assert.equal((await gateway.client(producer).find(load.accepted[0] ?? '')).status, 200);
    await assertAlive(gateway);
  });
});
