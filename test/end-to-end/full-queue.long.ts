import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline, readiness } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const PAD = 'x'.repeat(10_000);
const event = (id: string): string => JSON.stringify({ id, type: 'order.paid', pad: PAD });
const AT_ONCE = 20;

it('a queue that fills up while nothing lands answers 503, and every accepted event has one row afterwards', async () => {
  const redis = await TestRedis.start(['--maxmemory-policy', 'noeviction']);
  const store = sqliteStore();
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
  atEnd(() => pipeline.stop());
  const [replica] = pipeline.replicas;
  await eventually('it is ready', async () => replica !== undefined && (await readiness(replica)).status === 200);
  renameSync(store.folder, `${store.folder}-unavailable`);
  const used = Number(/^used_memory:(\d+)/m.exec(String(await redis.command('INFO', 'memory')))?.[1]);
  await redis.command('CONFIG', 'SET', 'maxmemory', String(used + 6_000_000));

  const accepted: string[] = [];
  const refused: string[] = [];
  for (let number = 0; refused.length === 0; number += AT_ONCE) {
    const ids = Array.from({ length: AT_ONCE }, (_, at) => `full-${number + at}`);
    await Promise.all(
      ids.map(async (id) => {
        const { status, body } = await pipeline.post(event(id));
        assert.ok(status === 202 || (status === 503 && body['retryable'] === true), `${status}`);
        (status === 202 ? accepted : refused).push(id);
      }),
    );
  }
  assert.ok(accepted.length > 100, `${accepted.length}`);

  renameSync(`${store.folder}-unavailable`, store.folder);
  await eventually('all have landed', async () => (await store.count()) === accepted.length, 60_000);
  await redis.command('CONFIG', 'SET', 'maxmemory', '0');
  for (const id of refused)
    await eventually('it is accepted', async () => (await pipeline.post(event(id))).status === 202);
  await eventually('these have landed, too', async () => (await store.count()) === accepted.length + refused.length);
  assert.deepEqual((await store.events()).map(({ id }) => id).toSorted(), [...accepted, ...refused].toSorted());
  assert.deepEqual(await store.quarantine(), []);
});
