// Loses rows in ways that operators have met, and checks that `reconcile` fills exactly what is missing.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { startPostgres, startPrivatePostgres, type PostgresServer, type PrivatePostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

interface Report {
  readonly entries: number;
  readonly missing: number;
  readonly filled?: number;
}

const START_MS = 60_000;

async function startConsumer({ env }: Admin): Promise<Program> {
  const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
  atEnd(() => consumer.kill());
  await consumer.listening();
  return consumer;
}

async function assertFills(store: WarehouseStore, deleteRows: (sql: string) => Promise<unknown>): Promise<void> {
  const redis = await TestRedis.start(['--appendonly', 'no']);
  const admin = new Admin(redis, store);
  await Promise.all([startConsumer(admin), startConsumer(admin)]);
  const ids: string[] = [];
  const add = async (count: number): Promise<void> => {
    for (const end = ids.length + count; ids.length < end;) {
      const body = JSON.stringify({ id: `e-${ids.length}`, type: 't', text: '\u20ac "quoted"' });
      await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', body);
      ids.push(`e-${ids.length}`);
    }
  };
  const landed = (): Promise<boolean> =>
    eventually('all have landed', async () => (await store.count()) === ids.length, START_MS);

  await add(1_200);
  await landed();
  let loaded = true;
  const load = (async () => {
    while (loaded) await Promise.all([add(20), delay(100)]);
  })();
  const lost = ids.slice(400, 600).map((id) => `'${id}'`);
  await deleteRows(`DELETE FROM events WHERE id IN (${lost.join()})`);
  const found = await admin.json<Report>(1, 'reconcile');
  assert.equal(found.missing, 200);
  assert.ok(found.entries > 1_200, `${found.entries} entries`);
  const { missing, filled } = await admin.json<Report>(0, 'reconcile', '--land', '--yes', '--rate', '2000');
  assert.deepEqual([missing, filled], [200, 200]);
  loaded = false;
  await load;
  await landed();
  assert.deepEqual((await store.events()).map(({ id }) => id).toSorted(), ids.toSorted());
  assert.equal((await admin.json<Report>(0, 'reconcile')).missing, 0);
}

describe('reconcile lands 200 rows that were deleted under load', { timeout: 180_000 }, () => {
  let postgres: PostgresServer;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());

  it('with SQLite', async () => {
    const store = sqliteStore();
    await assertFills(store, async (sql) => {
      const database = new DatabaseSync(store.uri.slice('sqlite:'.length), { timeout: 10_000 });
      database.exec(sql);
      database.close();
    });
  });

  it('with PostgreSQL', async () => {
    const store = await postgresStore(postgres);
    await assertFills(store, (sql) => postgres.query(store.uri, sql));
  });
});

/** Makes an asynchronous standby of a private server, in folders of its own. */
function standbyOf({ socketFolder, programs }: PrivatePostgres) {
  const { uid, gid } = statSync(socketFolder);
  const folder = temporaryFolder('ingest-standby-');
  execFileSync('chown', [`${uid}:${gid}`, folder]);
  const data = join(folder, 'data');
  const user = process.getuid?.() === 0 ? { uid, gid } : {};
  const run = (program: string, ...args: readonly string[]): void =>
    void execFileSync(join(programs, program), args, { cwd: folder, env: { LC_ALL: 'C' }, stdio: 'ignore', ...user });
  run('pg_basebackup', '-h', socketFolder, '-U', 'ingest', '-D', data, '-R', '-X', 'stream', '-c', 'fast');
  const settings = `-k ${folder} -c listen_addresses= -c fsync=off`;
  run('pg_ctl', 'start', '-w', '-D', data, '-l', join(folder, 'log'), '-o', settings);
  atEnd(() => run('pg_ctl', 'stop', '-w', '-m', 'immediate', '-D', data));
  return {
    promote: () => run('pg_ctl', 'promote', '-w', '-D', data),
    uriOf: (uri: string) => uri.replace(/host=.*$/, `host=${encodeURIComponent(folder)}`),
  };
}

describe('reconcile', { timeout: 180_000 }, () => {
  it('lands the rows that an asynchronous standby lacked when it was promoted', async () => {
    const [primary, redis] = [await startPrivatePostgres({ durable: false }), await TestRedis.start()];
    atEnd(() => primary.stop());
    const store = await postgresStore(primary);
    const standby = standbyOf(primary);
    const uri = standby.uriOf(store.uri);
    const rows = async (): Promise<number> =>
      Number((await primary.query<{ rows: string }>(uri, 'SELECT count(*) AS rows FROM events'))[0]?.rows);
    const add = async (from: number, to: number): Promise<void> => {
      for (let at = from; at < to; at += 1)
        await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', `{"id":"e-${at}","type":"t"}`);
      await eventually('all have landed', async () => (await store.count()) === to, START_MS);
    };
    const before = await startConsumer(new Admin(redis, store));
    await add(0, 300);
    await eventually('the standby has all rows', async () => (await rows()) === 300, START_MS);
    // The standby keeps its place and receives nothing more, as after a network fault.
    await primary.query(uri, "ALTER SYSTEM SET primary_conninfo = ''");
    await primary.query(uri, 'SELECT pg_reload_conf()');
    const receivers = 'SELECT count(*) AS rows FROM pg_stat_wal_receiver';
    await eventually('it receives nothing', async () => {
      return (await primary.query<{ rows: string }>(uri, receivers))[0]?.rows === '0';
    });
    await add(300, 450);
    await eventually('all are acknowledged', async () => {
      return ((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0] === 0;
    });
    await before.kill();
    await primary.kill();
    standby.promote();
    assert.equal(await rows(), 300);
    const admin = new Admin(redis, { uri });
    assert.equal((await admin.json<Report>(1, 'reconcile')).missing, 150);
    await startConsumer(admin);
    const { missing, filled } = await admin.json<Report>(0, 'reconcile', '--land', '--yes');
    assert.deepEqual([missing, filled, await rows()], [150, 150, 450]);
    assert.equal((await admin.json<Report>(0, 'reconcile')).missing, 0);
  });
});
