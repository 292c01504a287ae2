import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { openLink } from '../support/link.ts';
import { metricOf, Pipeline, readiness } from '../support/pipeline.ts';
import { TestRedis, freePort } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const put = (redis: TestRedis, id: string): Promise<unknown> =>
  redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', event(id));

const pipelineOn = (redis: TestRedis): Pipeline =>
  new Pipeline({ queueUri: redis.uri, warehouseUri: sqliteStore().uri });

describe('a consumer starts', () => {
  it('on a read-only replica, reports that, and lands once the server is a master', { tags: ['long'] }, async () => {
    const redis = await TestRedis.start();
    await put(redis, 'one');
    await redis.command('REPLICAOF', '127.0.0.1', String(await freePort()));
    const pipeline = pipelineOn(redis);
    const replica = await pipeline.startConsumer();
    const { status, body } = await readiness(replica);
    assert.equal(status, 503);
    await eventually('it says why', async () => /READONLY/.test(JSON.stringify((await readiness(replica)).body)));
    assert.doesNotMatch(replica.program.output, /as many replicas/, JSON.stringify(body));
    await redis.command('REPLICAOF', 'NO', 'ONE');
    await eventually('it has landed', async () => (await metricOf(replica, 'ingest_landed_total')) === 1);
    await eventually('it counts as a replica', async () => (await redis.command('ZCARD', '{ingest}:replicas')) === 1);
    await pipeline.stop();
  });

  it('while Redis loads its data, and lands afterwards', { tags: ['long'] }, async () => {
    const redis = await TestRedis.start();
    await put(redis, 'one');
    await redis.command('EVAL', "for n = 1, 9000 do redis.call('SET', 'filler:' .. n, n) end", '0');
    await redis.command('BGREWRITEAOF');
    await eventually('the file is rewritten', async () =>
      /aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(String(await redis.command('INFO', 'persistence'))),
    );
    await redis.signal('SIGTERM');
    redis.launch(['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024']);
    const pipeline = pipelineOn(redis);
    const replica = await pipeline.startConsumer();
    await eventually('it has landed', async () => (await metricOf(replica, 'ingest_landed_total')) === 1, 60_000);
    await pipeline.stop();
  });
});

describe('a required durability', () => {
  it('is checked again after a reconnect, so a server without persistence gets no events', async () => {
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

describe('a gateway that requires durability', () => {
  it(
    'starts during a rewrite of the append-only file and accepts events only afterwards',
    { tags: ['long'] },
    async () => {
      const redis = await TestRedis.start(['--appendonly', 'yes']);
      for (let at = 0; at < 100; at += 1) await redis.command('SET', `key-${at}`, 'x');
      await redis.command('CONFIG', 'SET', 'rdb-key-save-delay', '10000000');
      await redis.command('BGREWRITEAOF');
      const pipeline = await Pipeline.start({
        ...{ queueUri: redis.uri, warehouseUri: '', replicas: 0 },
        env: { ...PATIENT, INGEST_QUEUE_DURABILITY: 'require' },
      });
      const { status, text } = await pipeline.ready();
      assert.equal(status, 503);
      assert.match(text, /the append-only file is being rewritten/);
      assert.equal((await pipeline.post(event('early'))).status, 503);
      assert.equal(await redis.length(), 0);

      await redis.command('CONFIG', 'SET', 'rdb-key-save-delay', '0');
      // Turning the append-only file off ends the slow rewrite. Turning it on starts a fast one.
      await redis.command('CONFIG', 'SET', 'appendonly', 'no');
      await redis.command('CONFIG', 'SET', 'appendonly', 'yes');
      await eventually('it accepts events', async () => (await pipeline.post(event('late'))).status === 202);
      assert.equal((await pipeline.ready()).status, 200);
      await pipeline.stop();
    },
  );
});
