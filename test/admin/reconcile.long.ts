// Deletes rows under load, and checks that `reconcile` finds and lands exactly those.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { startPostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { postgresStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

interface Report {
  readonly entries: number;
  readonly missing: number;
  readonly filled?: number;
}

it('reconcile lands 200 rows that were deleted under load', { timeout: 180_000 }, async () => {
  const [redis, postgres] = await Promise.all([TestRedis.start(['--appendonly', 'no']), startPostgres()]);
  atEnd(() => postgres.stop());
  const store = await postgresStore(postgres);
  const admin = new Admin(redis, store);
  const env = { ...admin.env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' };
  await Promise.all([1, 2].map(() => new Program('ingest-consumer', { env }).listening()));
  const ids: string[] = [];
  const add = async (count: number): Promise<void> => {
    for (const end = ids.length + count; ids.length < end;) {
      const body = JSON.stringify({ id: `e-${ids.length}`, type: 't', text: '\u20ac "quoted"' });
      await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', body);
      ids.push(`e-${ids.length}`);
    }
  };
  const landed = (): Promise<boolean> =>
    eventually('all have landed', async () => (await store.count()) === ids.length, 60_000);

  await add(1_200);
  await landed();
  let loaded = true;
  const load = (async () => {
    while (loaded) await Promise.all([add(20), delay(100)]);
  })();
  const lost = ids.slice(400, 600).map((id) => `'${id}'`);
  await postgres.query(store.uri, `DELETE FROM events WHERE id IN (${lost.join()})`);
  const found = await admin.json<Report>(1, 'reconcile');
  assert.equal(found.missing, 200);
  assert.ok(found.entries > 1_200, `${found.entries} entries`);
  const { missing, filled } = await admin.json<Report>(0, 'reconcile', '--land', '--rate', '2000');
  assert.deepEqual([missing, filled], [200, 200]);
  loaded = false;
  await load;
  await landed();
  assert.deepEqual((await store.events()).map(({ id }) => id).toSorted(), ids.toSorted());
  assert.equal((await admin.json<Report>(0, 'reconcile')).missing, 0);
});
