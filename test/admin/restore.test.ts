import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
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

it('a queue restored by the commands of the page keeps its append-only file, and erasures hold for every administrator', async () => {
  const [redis, store] = [await TestRedis.start(), sqliteStore()];
  const [admin, other] = [new Admin(redis, store), new Admin(redis, store)];
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, env: PATIENT });
  atEnd(() => pipeline.stop());
  const land = async (count: number, ...ids: readonly string[]): Promise<void> => {
    for (const id of ids) assert.equal((await pipeline.post(event(id))).status, 202);
    await eventually(`${count} have landed`, async () => (await store.count()) === count);
  };
  const bodies = async (): Promise<number> => {
    const entries = (await redis.entries()).filter(({ fields }) => fields['body']?.includes(SECRET));
    return entries.length + (await store.events()).filter(({ body }) => body.includes(SECRET)).length;
  };
  const stopRedis = async (): Promise<void> => {
    await redis.signal('SIGTERM');
    await eventually('Redis has ended', () => !redis.running);
  };
  await land(2, 'one', 'two');
  const [, folder] = (await redis.command('CONFIG', 'GET', 'dir')) as [string, string];
  await redis.command('SAVE');
  const backup = temporaryFolder();
  copyFileSync(join(folder, 'dump.rdb'), join(backup, 'queue.rdb'));
  assert.equal((await admin.run('erase', 'one', '--yes')).code, 0);
  assert.equal(await bodies(), 2, 'the entry and the row of the other event');
  await land(3, 'three');
  await pipeline.stop();

  await stopRedis();
  execFileSync('sh', ['-c', restoringCommands(folder)], { cwd: backup });
  await redis.start();
  assert.equal(await redis.command('XLEN', 'ingest'), 2);
  assert.equal(await bodies(), 4, 'the backup has the erased body');

  assert.equal((await other.json<{ bodiesBack: number }>(1, 'reconcile')).bodiesBack, 1);
  assert.equal((await other.run('reconcile', '--land', '--yes')).code, 0);
  assert.equal(await bodies(), 3);
  await stopRedis();
  await redis.start();
  assert.equal(await bodies(), 3, 'a restart loads the append-only file, not the backup');
});
