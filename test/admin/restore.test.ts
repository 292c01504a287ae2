import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

const SECRET = 'sensitive-personal-data';
const event = (id: string): string => JSON.stringify({ id, type: 'order.paid', secret: SECRET });

/** Returns the runbook's commands between stopping and starting Redis, for the folder of a test's server. */
function restoringCommands(folder: string): string {
  const page = readFileSync('deploy/RUNBOOK.md', 'utf8');
  const [, block = ''] =
    /```\nsystemctl stop redis-server\n([^`]*)systemctl start redis-server\n```/.exec(page) ??
    assert.fail('no commands');
  return `chown() { :; }\nset -e\n${block.replaceAll('/var/lib/redis', folder)}`;
}

async function system() {
  const redis = await TestRedis.start();
  const store = sqliteStore();
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
  atEnd(() => pipeline.stop());
  for (const id of ['one', 'two']) assert.equal((await pipeline.post(event(id))).status, 202);
  await eventually('both have landed', async () => (await store.count()) === 2);
  return { redis, store, pipeline, admin: new Admin(redis, store), other: new Admin(redis, store) };
}

const bodiesIn = async (redis: TestRedis, store: SqliteStore): Promise<number> => {
  const entries = (await redis.entries()).filter(({ fields }) => fields['body']?.includes(SECRET));
  const rows = (await store.events()).filter(({ body }) => body.includes(SECRET));
  return entries.length + rows.length;
};

it('a queue restored by the commands of the page keeps its append-only file, and erasures hold for every administrator', async () => {
  const { redis, store, pipeline, admin, other } = await system();
  const [, folder] = (await redis.command('CONFIG', 'GET', 'dir')) as [string, string];
  await redis.command('SAVE');
  const backup = temporaryFolder();
  copyFileSync(join(folder, 'dump.rdb'), join(backup, 'queue.rdb'));
  assert.equal((await admin.run('erase', 'one', '--yes')).code, 0);
  assert.equal(await bodiesIn(redis, store), 2, 'the entry and the row of the other event');
  assert.equal((await pipeline.post(event('three'))).status, 202);
  await eventually('it has landed', async () => (await store.count()) === 3);
  await pipeline.stop();

  await redis.signal('SIGTERM');
  await eventually('it has ended', () => !redis.running);
  execFileSync('sh', ['-c', restoringCommands(folder)], { cwd: backup });
  await redis.start();
  assert.equal(await redis.command('XLEN', 'ingest'), 2);
  assert.equal(await bodiesIn(redis, store), 4, 'the backup has the erased body');

  assert.equal((await other.json<{ bodiesBack: number }>(1, 'reconcile')).bodiesBack, 1);
  assert.equal((await other.run('reconcile', '--land', '--yes')).code, 0);
  assert.equal(await bodiesIn(redis, store), 3);
  await redis.signal('SIGTERM');
  await eventually('it has ended again', () => !redis.running);
  await redis.start();
  assert.equal(await bodiesIn(redis, store), 3, 'a restart loads the append-only file, not the backup');
});

it('a warehouse restored from a backup gets the rows that it lacks, and no erased body', async () => {
  const { redis, store, pipeline, admin, other } = await system();
  await Promise.all(pipeline.replicas.map(({ program }) => program.kill()));
  const database = new DatabaseSync(store.uri.slice('sqlite:'.length));
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
  const backup = temporaryFolder();
  cpSync(store.folder, backup, { recursive: true });
  await pipeline.startConsumer();
  assert.equal((await admin.run('erase', 'one', '--yes')).code, 0);
  for (const id of ['three', 'four']) assert.equal((await pipeline.post(event(id))).status, 202);
  await eventually('they have landed', async () => (await store.count()) === 4);
  // The entry of a killed consumer that has landed but is not acknowledged waits for a claim, so it is not missing.
  await eventually('they are acknowledged', async () => {
    const [pending] = (await redis.command('XPENDING', 'ingest', 'warehouse')) as [number];
    return pending === 0;
  });
  await Promise.all(pipeline.replicas.map(({ program }) => program.kill()));
  rmSync(store.folder, { recursive: true });
  cpSync(backup, store.folder, { recursive: true });
  assert.equal(await store.count(), 2);

  await pipeline.startConsumer();
  const { missing, bodiesBack } = await other.json<{ missing: number; bodiesBack: number }>(
    0,
    'reconcile',
    '--land',
    '--yes',
  );
  assert.deepEqual([missing, bodiesBack, await store.count()], [2, 1, 4]);
  assert.equal(await bodiesIn(redis, store), 6, 'three entries and three rows');
  assert.equal((await other.run('reconcile')).code, 0);
});
