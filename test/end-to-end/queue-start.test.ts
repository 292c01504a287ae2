// How the programs start, and go on, on a Redis that is not as it should be.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { openLink } from '../support/link.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const put = (redis: TestRedis, id: string): Promise<unknown> =>
  redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', event(id));

const pipelineOn = (redis: TestRedis): Pipeline =>
  new Pipeline({ queueUri: redis.uri, warehouseUri: sqliteStore().uri });

describe('a consumer starts', () => {
  it('while Redis is full, and lands what is there', async () => {
    const redis = await TestRedis.start();
    await put(redis, 'one');
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    const pipeline = pipelineOn(redis);
    const replica = await pipeline.startConsumer();
    await eventually('it has landed', async () => (await metricOf(replica, 'ingest_landed_total')) === 1);
    await pipeline.stop();
  });
});

describe('a URI with a bare % in its password', () => {
  for (const [program, key, value] of [
    ['ingest-gateway', 'INGEST_QUEUE_URI', 'redis://u:100%@queue'],
    ['ingest-consumer', 'INGEST_WAREHOUSE_URI', 'postgres://u:%zz@warehouse/events'],
  ] as const) {
    it(`is a configuration problem: ${key} of ${program}, started and checked`, async () => {
      const env = { INGEST_QUEUE_URI: 'redis://queue', INGEST_WAREHOUSE_URI: 'sqlite:x', [key]: value };
      for (const args of [[], ['--check']]) {
        const run = new Program(program, { env, args });
        assert.equal(await run.ended, 2, run.output);
        assert.match(run.output, new RegExp(`${key}=.*%25`));
        assert.doesNotMatch(run.output, /100%@|%zz/);
      }
    });
  }
});

describe('a required durability', () => {
  it('is looked at again when the connection is made anew: a server that keeps nothing gets no events', async () => {
    const [safe, unsafe] = [await TestRedis.start(), await TestRedis.start(['--appendonly', 'no'])];
    const link = await openLink({ port: safe.port, host: '127.0.0.1' });
    atEnd(() => link.close());
    const pipeline = await Pipeline.start({
      queueUri: `redis://127.0.0.1:${link.port}`,
      warehouseUri: '',
      replicas: 0,
      env: { ...PATIENT, INGEST_QUEUE_DURABILITY: 'require' },
    });
    assert.equal((await pipeline.post(event('one'))).status, 202);
    link.cut();
    link.retarget({ port: unsafe.port, host: '127.0.0.1' });
    link.mend();
    await eventually('it says why', () =>
      /INGEST_QUEUE_DURABILITY=require: the append-only file is off/.test(pipeline.gateway.output),
    );
    assert.equal((await pipeline.post(event('two'))).status, 503);
    assert.equal(await unsafe.length(), 0);
    link.cut();
    link.retarget({ port: safe.port, host: '127.0.0.1' });
    link.mend();
    await eventually('events are taken again', async () => (await pipeline.post(event('two'))).status === 202);
    await pipeline.stop();
  });
});
