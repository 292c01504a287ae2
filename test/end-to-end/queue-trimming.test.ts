import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { event, TestGateway, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

const HOUR_MS = 3_600_000;
const GROUP = 'warehouse';

let pki: Pki;
let producer: ClientCertificate;
before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('one');
});

async function append(redis: TestRedis, ageHours: number, count: number, bodyBytes = 0): Promise<string[]> {
  const ms = Math.round(Date.now() - ageHours * HOUR_MS);
  const script = `local names = {}
    for n = 1, ARGV[2] do
      local body = '{"id":"' .. ARGV[1] .. '-' .. n .. '","type":"a","pad":"' .. string.rep('x', ARGV[3]) .. '"}'
      names[n] = redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'producer', 'p', 'body', body)
    end
    return names`;
  const args = [String(ms), String(count), String(bodyBytes)];
  return (await redis.command('EVAL', script, '1', 'ingest', ...args)) as string[];
}

describe('the queue', () => {
  it('accepts events again without help if it is full of landed events past retention', async () => {
    const redis = await TestRedis.start();
    const gateway = await TestGateway.start(redis, pki);
    const client = gateway.client(producer);
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    await eventually(
      'the gateway is not ready',
      async () => (await client.ask({ path: '/health/ready' })).status === 503,
    );
    await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    await append(redis, 26, 20_000, 300);
    await redis.command('XGROUP', 'CREATE', 'ingest', GROUP, '$').catch(() => redis.land());
    const info = String(await redis.command('INFO', 'memory'));
    const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
    await redis.command('CONFIG', 'SET', 'maxmemory', String(used - 1_000_000));
    await eventually('events are taken', async () => (await client.post(event('after'))).status === 202);
    await eventually('the old ones are gone', async () => (await redis.length()) === 1);
  });

  it('keeps everything before a consumer has read it, and gateways show the lag', async () => {
    const redis = await TestRedis.start();
    const old = await append(redis, 30, 300);
    const gateway = await TestGateway.start(redis, pki);
    await eventually('the lag is seen', async () => (await gateway.metric('ingest_queue_lag_events')) === 300);
    assert.ok(Math.abs((await gateway.metric('ingest_queue_oldest_unlanded_seconds')) - 30 * 3_600) < 60);
    assert.deepEqual(
      (await redis.entries()).map(({ entry }) => entry),
      old,
    );
    assert.ok((await gateway.metric('ingest_queue_memory_bytes')) > 0);
    const groups = (await redis.command('XINFO', 'GROUPS', 'ingest')) as string[][];
    assert.ok(groups[0]?.includes(GROUP));
  });

  it(
    'loses nothing while the clock of Redis is a day or ten days ahead and is set back',
    { tags: ['long'] },
    async () => {
      const redis = await TestRedis.startWithClock();
      const pipeline = await Pipeline.start({
        queueUri: redis.uri,
        warehouseUri: `sqlite:${temporaryFolder()}/warehouse.db`,
        replicas: 0,
        env: PATIENT,
      });
      const ids = Array.from({ length: 60 }, (_, at) => `clock-${at}`);
      const post = async (some: readonly string[]): Promise<void> => {
        for (const id of some) assert.equal((await pipeline.post(event(id))).status, 202);
      };
      await post(ids.slice(0, 20));
      for (const [at, hours] of [25, 240].entries()) {
        redis.setClock(hours);
        await post(ids.slice(20 + 20 * at, 40 + 20 * at));
        const looked = await redis.command('HGET', '{ingest}:looked', 'at');
        await eventually(
          'the queue was looked at',
          async () => (await redis.command('HGET', '{ingest}:looked', 'at')) !== looked,
        );
      }
      redis.setClock(0);
      assert.equal(await redis.length(), 60);
      const replica = await pipeline.startConsumer();
      await eventually('all have landed', async () => (await metricOf(replica, 'ingest_landed_total')) === 60);
      await pipeline.stop();
    },
  );
});
