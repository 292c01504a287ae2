import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { join } from 'node:path';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { watchOf } from '../../lib/consumer/health.ts';
import { createLog } from '../../lib/process/log.ts';
import { logged } from '../support/partition.ts';
import { metricOf } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

it('the queue of a consumer is in gauges, and in a warning if its clock differs', async () => {
  const redis = await TestRedis.startWithClock();
  redis.setClock(2);
  const program = new Program('ingest-consumer', {
    env: {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
    },
  });
  const replica = { program, url: await program.listening() };
  const metric = (name: string): Promise<number> => metricOf(replica, `ingest_${name}`);
  const line = await program.line(/"level":"warn".*the clock differs from the queue's by 7\d{3} s/);
  for (const seconds of [(JSON.parse(line) as { skewS: number }).skewS, await metric('clock_skew_seconds')])
    assert.ok(seconds > 7_190 && seconds < 7_210, `${seconds} s`);
  assert.equal(await metric('queue_memory_limit_bytes'), 0);
  for (const id of ['a', 'b', 'c'])
    await redis.command('XADD', 'ingest', '*', 'producer', 'p', 'body', `{"id":"${id}","type":"t"}`);
  await redis.command('CONFIG', 'SET', 'maxmemory', '100000000');
  await eventually('all are counted', async () => (await metric('queue_events')) === 3);
  await eventually('it has a limit', async () => (await metric('queue_memory_limit_bytes')) === 100_000_000);
});

it('a queue that fills 80 % of its limit, or whose clock differs by more than a minute, is in a warning once a minute', async (t) => {
  const clock = new VirtualClock();
  const { log, lines } = logged(t, 'warn');
  const telemetry = { metrics: consumerMetrics(clock), log };
  watchOf({ clock, telemetry, warehouse: { probe: () => Promise.resolve() } }).start(() => true);
  const size = { events: 1, memoryLimitBytes: 1_000, unlanded: 0, oldestMs: 0 };
  const warnings = async (seconds: number, clockSkewMs: number, memoryBytes: number): Promise<unknown> => {
    lines.length = 0;
    for (let second = 0; second < seconds; second += 1) {
      telemetry.metrics.queue.reported('0', { ...size, memoryBytes, clockSkewMs });
      await clock.advance(1_000);
    }
    return lines.map(({ msg, percent }) => [/clock|nearly full/.exec(msg)?.[0], percent]);
  };
  assert.deepEqual(await warnings(5, 60_000, 799), []);
  const both = [
    ['clock', undefined],
    ['nearly full', 80],
  ];
  for (const seconds of [60, 60, 59]) assert.deepEqual(await warnings(seconds, 60_500, 800), both);
  assert.deepEqual(await warnings(1, 60_500, 800), []);
});

describe('the warehouse of a consumer', () => {
  it('is not ready until a probe succeeds, also while events land', async () => {
    const clock = new VirtualClock();
    const telemetry = { metrics: consumerMetrics(clock), log: createLog('test', 'error') };
    let fault: Error | undefined;
    const probe = (): Promise<void> => (fault === undefined ? Promise.resolve() : Promise.reject(fault));
    const watch = watchOf({ clock, telemetry, warehouse: { probe } });
    watch.start(() => true);
    const land = async (): Promise<string | undefined> => {
      telemetry.metrics.landed.add();
      await clock.advance(1_000);
      return watch.warehouseTrouble;
    };
    assert.equal(await land(), undefined);
    fault = new Error('a table is missing');
    while ((await land()) === undefined);
    for (let second = 0; second < 6; second += 1) assert.match((await land()) ?? '', /a table is missing$/);
    fault = undefined;
    assert.equal(await land(), undefined);
  });

  it('is available while events land during a slow probe, and unavailable if none does, until one ends', async () => {
    const clock = new VirtualClock();
    const telemetry = { metrics: consumerMetrics(clock), log: createLog('test', 'error') };
    let probing = Promise.withResolvers<undefined>();
    probing.resolve(undefined);
    const watch = watchOf({ clock, telemetry, warehouse: { probe: () => probing.promise } });
    watch.start(() => true);
    for (let step = 0; step < 60; step += 1) {
      await clock.advance(100);
      assert.equal(watch.warehouseTrouble, undefined, 'each probe has ended');
    }
    probing = Promise.withResolvers();
    await clock.advance(3_000);
    telemetry.metrics.landed.add();
    await clock.advance(10_000);
    assert.equal(watch.warehouseTrouble, undefined);
    probing.resolve(undefined);
    await clock.advance(0);
    probing = Promise.withResolvers();
    await clock.advance(10_000);
    assert.match(watch.warehouseTrouble ?? '', /does not answer/);
    probing.resolve(undefined);
    await clock.advance(1_000);
    assert.equal(watch.warehouseTrouble, undefined);
  });
});
