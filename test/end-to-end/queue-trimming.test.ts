// test/redis/stream-trimmer.test.ts has the rules; these cases have a running gateway.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

const HOUR_MS = 3_600_000;
const GROUP = 'warehouse';
const { redis: full, pki, producer } = await queueAndProducer();

const APPEND = `local names = {}
  for n = 1, ARGV[2] do
    local body = '{"id":"' .. ARGV[1] .. '-' .. n .. '","type":"a","pad":"' .. string.rep('x', ARGV[3]) .. '"}'
    names[n] = redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'producer', 'p', 'body', body)
  end
  return names`;

function append(redis: TestRedis, ageHours: number, count: number, bodyBytes = 0): Promise<unknown> {
  const ms = Math.round(Date.now() - ageHours * HOUR_MS);
  return redis.command('EVAL', APPEND, '1', 'ingest', String(ms), String(count), String(bodyBytes));
}

it('a queue full of landed events past retention accepts events again without help', async () => {
  const gateway = await TestGateway.start(full, pki);
  const client = gateway.client(producer);
  await full.command('CONFIG', 'SET', 'maxmemory', '1');
  const ready = async (): Promise<number> => (await client.ask({ path: '/health/ready' })).status;
  await eventually('the gateway is not ready', async () => (await ready()) === 503);
  await full.command('CONFIG', 'SET', 'maxmemory', '0');
  await append(full, 26, 20_000, 300);
  await full.command('XGROUP', 'CREATE', 'ingest', GROUP, '$').catch(() => full.land());
  const info = String(await full.command('INFO', 'memory'));
  const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
  await full.command('CONFIG', 'SET', 'maxmemory', String(used - 1_000_000));
  await eventually('events are taken', async () => (await client.post(event('after'))).status === 202);
  await eventually('the old ones are gone', async () => (await full.length()) === 1);
});

it('a queue keeps everything before a consumer has read it, and gateways show the lag', async () => {
  const redis = await TestRedis.start();
  const old = await append(redis, 30, 300);
  const gateway = await TestGateway.start(redis, pki);
  await eventually('the lag is seen', async () => (await gateway.metric('ingest_queue_lag_events')) === 300);
  assert.ok(Math.abs((await gateway.metric('ingest_queue_oldest_unlanded_seconds')) - 30 * 3_600) < 60);
  const entries = (await redis.entries()).map(({ entry }) => entry);
  assert.deepEqual(entries, old);
  assert.ok((await gateway.metric('ingest_queue_memory_bytes')) > 0);
  assert.match(JSON.stringify(await redis.command('XINFO', 'GROUPS', 'ingest')), new RegExp(`"${GROUP}"`));
});
