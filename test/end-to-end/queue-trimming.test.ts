// test/redis/stream-trimmer.test.ts has the rules; here a gateway runs.
import { it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { eventually } from '../support/scope.ts';

const OLD_MS = 26 * 3_600_000;
const FILL = `for n = 1, 20000 do
  redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'producer', 'p', 'body', string.rep('x', 300))
end`;

it('a queue full of landed events past retention accepts events again without help', async () => {
  const { redis, pki, producer } = await queueAndProducer();
  const gateway = await TestGateway.start(redis, pki);
  const client = gateway.client(producer);
  await redis.command('CONFIG', 'SET', 'maxmemory', '1');
  const ready = async (): Promise<number> => (await client.ask({ path: '/health/ready' })).status;
  await eventually('the gateway is not ready', async () => (await ready()) === 503);
  await redis.command('CONFIG', 'SET', 'maxmemory', '0');
  await redis.command('EVAL', FILL, '1', 'ingest', String(Date.now() - OLD_MS));
  await redis.land();
  const info = String(await redis.command('INFO', 'memory'));
  const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
  await redis.command('CONFIG', 'SET', 'maxmemory', String(used - 1_000_000));
  await eventually('events are taken', async () => (await client.post(event('after'))).status === 202);
  await eventually('the old ones are gone', async () => (await redis.length()) === 1);
});
