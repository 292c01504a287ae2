import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { Admin } from '../admin/admin.ts';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const SECRET = 'the secret of the event';
const event = (id: string): string => JSON.stringify({ id, type: 'order.paid', secret: SECRET });

it('an erased event that backups restored is erased again by the recorded ids', async () => {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  const store = sqliteStore();
  const stateDir = temporaryFolder('ingest-admin-');
  const admin = new Admin(redis, store, { INGEST_STATE_DIR: stateDir });
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
  atEnd(() => pipeline.stop());
  for (const id of ['one', 'two']) assert.equal((await pipeline.post(event(id))).status, 202);
  await eventually('both have landed', async () => (await store.count()) === 2);
  await pipeline.stop();

  const backup = temporaryFolder('ingest-backup-');
  cpSync(store.folder, backup, { recursive: true });
  const keys = (await redis.command('KEYS', '*ingest*')) as string[];
  for (const key of keys) await redis.command('COPY', key, `backup ${key}`);

  assert.equal((await admin.run('erase', 'one', '--yes')).code, 0);
  const record = join(stateDir, 'erased-ids');
  assert.equal(readFileSync(record, 'utf8'), 'one\n');
  assert.equal(statSync(record).mode & 0o777, 0o600);
  const bodies = async (): Promise<string[]> => (await store.events()).map(({ body }) => body);
  const withSecret = async (): Promise<number> => (await bodies()).filter((body) => body.includes(SECRET)).length;
  assert.equal(await withSecret(), 1);

  rmSync(store.folder, { recursive: true });
  cpSync(backup, store.folder, { recursive: true });
  for (const key of (await redis.command('KEYS', '{ingest}:*')) as string[]) await redis.command('DEL', key);
  for (const key of keys) await redis.command('COPY', `backup ${key}`, key, 'REPLACE');
  assert.equal(await withSecret(), 2, 'the backup has it');

  assert.equal((await admin.run('erase', '--file', record, '--yes')).code, 0);
  assert.equal((await admin.run('land-again', '--since', '1h', '--yes')).code, 0);
  await pipeline.startConsumer();
  await eventually('all is read again', async () => {
    const [, pending] = (await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[];
    const groups = JSON.stringify(await redis.command('XINFO', 'GROUPS', 'ingest'));
    return pending === null && /"lag",0/.test(groups);
  });
  assert.equal(await withSecret(), 1);
  assert.equal((await bodies()).length, 2);
  assert.ok(!JSON.stringify(await redis.entries()).includes('"one","type":"order.paid","secret"'));
});
