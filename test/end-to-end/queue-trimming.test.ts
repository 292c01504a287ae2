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

async function land(redis: TestRedis, { acknowledge = true } = {}): Promise<void> {
  await redis.command('XGROUP', 'CREATE', 'ingest', GROUP, '0', 'MKSTREAM').catch(() => undefined);
  const script = `local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'hand', 'COUNT', 1000000, 'STREAMS', KEYS[1], '>')
    if ARGV[2] == 'no' or not read then return end
    for _, entry in ipairs(read[1][2]) do redis.call('XACK', KEYS[1], ARGV[1], entry[1]) end`;
  await redis.command('EVAL', script, '1', 'ingest', GROUP, acknowledge ? 'yes' : 'no');
}

const names = async (redis: TestRedis): Promise<string[]> => (await redis.entries()).map(({ entry }) => entry);

const becomes = (gateway: TestGateway, name: string, value: number): Promise<unknown> =>
  eventually(`${name} is ${value}`, async () => (await gateway.metric(name)) === value);

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
    await land(redis);
    const info = String(await redis.command('INFO', 'memory'));
    const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
    await redis.command('CONFIG', 'SET', 'maxmemory', String(used - 1_000_000));
    await eventually('events are taken', async () => (await client.post(event('after'))).status === 202);
    await eventually('the old ones are gone', async () => (await redis.length()) === 1);
  });

  it('is trimmed by a consumer if no gateway runs', { tags: ['long'] }, async () => {
    const redis = await TestRedis.start();
    await append(redis, 25, 500);
    const young = await append(redis, 23, 5);
    const pipeline = new Pipeline({ queueUri: redis.uri, warehouseUri: `sqlite:${temporaryFolder()}/warehouse.db` });
    await pipeline.startConsumer();
    await eventually('the old ones are gone', async () => (await redis.length()) <= 5);
    assert.deepEqual(await names(redis), young);
    await pipeline.stop();
  });

  it('keeps everything before a consumer has read it, and gateways show the lag', async () => {
    const redis = await TestRedis.start();
    const old = await append(redis, 30, 300);
    const gateway = await TestGateway.start(redis, pki);
    await becomes(gateway, 'ingest_queue_lag_events', 300);
    assert.ok(Math.abs((await gateway.metric('ingest_queue_oldest_unlanded_seconds')) - 30 * 3_600) < 60);
    assert.deepEqual(await names(redis), old);
    assert.ok((await gateway.metric('ingest_queue_memory_bytes')) > 0);
    const groups = (await redis.command('XINFO', 'GROUPS', 'ingest')) as string[][];
    assert.ok(groups[0]?.includes(GROUP));
  });

  it(
    'tells its lag where the warehouse was never there, and that the consumer is not ready',
    { tags: ['long'] },
    async () => {
      const redis = await TestRedis.start();
      const pipeline = new Pipeline({ queueUri: redis.uri, warehouseUri: 'postgres://u@127.0.0.1:1/nowhere' });
      const replica = await pipeline.startConsumer();
      await append(redis, 30, 40);
      await eventually('the lag is known', async () => (await metricOf(replica, 'ingest_queue_lag_events')) === 40);
      assert.ok((await metricOf(replica, 'ingest_queue_oldest_unlanded_seconds')) > 29 * 3_600);
      assert.equal(await metricOf(replica, 'ingest_consumer_ready'), 0);
      assert.equal(await metricOf(replica, 'ingest_warehouse_available'), 0);
      await pipeline.stop();
    },
  );

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
