// Types the runbook's commands, and searches the memory and the files of a master and its replica for an erased body.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { GROUP } from '../../lib/redis/stream/layout.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { openQueue } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { Admin } from './admin.ts';

const SECRET = 'sensitive-personal-data';
/** A compressed file does not contain the text. */
const OPTIONS = ['--rdbcompression', 'no', '--repl-diskless-sync-delay', '0'];

/** Returns the places that have the text: `memory`, and names of files. */
async function placesOf(redis: TestRedis): Promise<readonly string[]> {
  const [, folder] = (await redis.command('CONFIG', 'GET', 'dir')) as [string, string];
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const found = files.filter((one) => readFileSync(join(one.parentPath, one.name)).includes(SECRET));
  return [...found.map(({ name }) => name.replace(/\d+/g, 'N')), ...(isInMemory(redis.pid) ? ['memory'] : [])].sort();
}

function isInMemory(pid: number): boolean {
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const ranges = readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw.*$/gm);
  return [...ranges].some(([, from = '', to = '']) => {
    const start = Number.parseInt(from, 16);
    const bytes = Buffer.alloc(Number.parseInt(to, 16) - start);
    return bytes.subarray(0, readSync(memory, bytes, 0, bytes.length, start)).includes(SECRET);
  });
}

const [, chapter = ''] = readFileSync('deploy/RUNBOOK.md', 'utf8').split('### Bytes in Redis\n');
const [onMaster = '', onReplica = ''] = Array.from(
  (chapter.split('\n### ')[0] ?? '').matchAll(/^```\n([^]*?)^```$/gm),
  ([, block = '']) => block,
);

const saved = (redis: TestRedis): Promise<unknown> =>
  eventually('nothing is being saved', async () => {
    const info = String(await redis.command('INFO', 'persistence'));
    return ['rdb_bgsave_in_progress', 'aof_rewrite_in_progress', 'aof_rewrite_scheduled'].every((name) =>
      info.includes(`${name}:0\r\n`),
    );
  });

/** Types commands of the page. A restart is one of the test's server. */
async function type(commands: string, redis: TestRedis): Promise<void> {
  const [before = '', after = '', ...more] = commands.split(/(?: && )?systemctl restart redis-server\n/);
  assert.ok(after !== '' && more.length === 0, commands);
  const shell = (lines: string): Promise<unknown> =>
    promisify(execFile)('bash', ['-c', `set -e\nredis-cli() { command redis-cli -p ${redis.port} "$@"; }\n${lines}`]);
  await shell(before);
  await redis.signal('SIGTERM');
  await redis.start();
  await shell(after);
  await saved(redis);
}

it('the commands of the page remove an erased body from memory and files, which the usual ones do not', async () => {
  const [redis, store] = [await TestRedis.start(OPTIONS), sqliteStore()];
  const admin = new Admin(redis, store);
  const warehouse = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  await warehouse.prepare();
  await warehouse.close();
  const replica = await TestRedis.start([...OPTIONS, '--replicaof', '127.0.0.1', String(redis.port)]);
  const synchronized = (): Promise<unknown> =>
    eventually('the replica has all', async () =>
      /master_link_status:up/.test(String(await replica.command('INFO', 'replication'))),
    );
  const queue = await openQueue(redis.uri);
  const events = ['one', 'two', 'three'].map(
    (id) => new Recorded(id, 'shop', { id, type: 't', secret: id === 'two' ? SECRET : '' }),
  );
  assert.deepEqual(await submitAll(queue, events), ['accepted', 'accepted', 'accepted']);
  await redis.command('XGROUP', 'SETID', 'ingest', GROUP, '$');
  await queue.close();
  await synchronized();
  const { code, out } = await admin.run('erase', 'two', '--yes');
  assert.equal(code, 0);
  assert.match(out, /the bytes stay in Redis' memory until/);

  for (const server of [redis, replica]) {
    for (const command of ['BGREWRITEAOF', 'BGSAVE']) {
      await server.command(command);
      await saved(server);
    }
    assert.deepEqual(await placesOf(server), ['appendonly.aof.N.base.rdb', 'dump.rdb', 'memory']);
  }
  await type(onMaster, redis);
  assert.deepEqual(await placesOf(redis), []);
  await type(onReplica, replica);
  await synchronized();
  assert.deepEqual(await placesOf(replica), []);
  assert.deepEqual([await redis.length(), await replica.length()], [3, 3]);
});
