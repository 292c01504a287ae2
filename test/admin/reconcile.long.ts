// Loses rows and entries in ways that operators have met, and checks that `reconcile` fills exactly what is missing.
import assert from 'node:assert/strict';
import { execFileSync, type ExecFileSyncOptions } from 'node:child_process';
import { readdirSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { after, describe, it } from 'node:test';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';
import { answers } from '../support/postgres-databases.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStoreAt, postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

interface Report {
  readonly entries: number;
  readonly landed: number;
  readonly waiting: number;
  readonly missing: number;
  readonly filled?: number;
}

const START_MS = 60_000;
const bodyOf = (id: string): string => JSON.stringify({ id, type: 't', text: '\u20ac "quoted"' });
const idsOf = async (store: WarehouseStore): Promise<readonly string[]> => (await store.events()).map(({ id }) => id);

class System {
  readonly redis: TestRedis;
  readonly store: WarehouseStore;
  readonly admin: Admin;
  readonly ids: string[] = [];
  consumers: Program[] = [];

  constructor(redis: TestRedis, store: WarehouseStore) {
    this.redis = redis;
    this.store = store;
    this.admin = new Admin(redis, store);
    atEnd(() => this.kill());
  }

  async consume(replicas = 2): Promise<void> {
    const env = { ...this.admin.env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' };
    this.consumers = Array.from({ length: replicas }, () => new Program('ingest-consumer', { env }));
    for (const consumer of this.consumers) await consumer.listening();
  }

  async kill(): Promise<void> {
    await Promise.all(this.consumers.map((consumer) => consumer.kill()));
    this.consumers = [];
  }

  async add(count: number): Promise<readonly string[]> {
    const added: string[] = [];
    for (let at = 0; at < count; at += 1) {
      const id = `e-${this.ids.length}`;
      this.ids.push(id);
      added.push(id);
      await this.redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', bodyOf(id));
    }
    return added;
  }

  landed(count = this.ids.length): Promise<boolean> {
    return eventually(`${count} have landed`, async () => (await this.store.count()) === count, START_MS);
  }

  async acknowledged(): Promise<void> {
    await eventually(
      'all entries are acknowledged',
      async () => {
        const [group] = (await this.redis.command('XINFO', 'GROUPS', 'ingest')) as unknown[][];
        return ['pending', 'lag'].every((name) => group?.[group.indexOf(name) + 1] === 0);
      },
      START_MS,
    );
  }

  /** Reconciles three times: shows what is missing, lands it, and finds nothing missing. */
  async assertFills(missing: number): Promise<void> {
    const before = await idsOf(this.store);
    const found = await this.admin.json<Report>(1, 'reconcile');
    assert.deepEqual([found.missing, found.entries - found.landed - found.waiting], [missing, missing]);
    assert.deepEqual(await idsOf(this.store), before, 'nothing was changed');
    const { filled } = await this.admin.json<Report>(0, 'reconcile', '--land', '--yes');
    assert.equal(filled, missing);
    await this.acknowledged();
    assert.deepEqual((await idsOf(this.store)).toSorted(), this.ids.toSorted());
    assert.equal((await this.admin.json<Report>(0, 'reconcile')).missing, 0);
  }
}

async function deleteRows(system: System, ids: readonly string[], postgres?: PrivatePostgres): Promise<void> {
  const list = ids.map((id) => `'${id}'`).join();
  const sql = `DELETE FROM events WHERE id IN (${list})`;
  if (postgres !== undefined) return void (await postgres.query(system.store.uri, sql));
  const database = new DatabaseSync(system.store.uri.slice('sqlite:'.length), { timeout: 10_000 });
  database.exec(sql);
  database.close();
}

function describeUnderLoad(name: string, open: () => Promise<readonly [WarehouseStore, PrivatePostgres?]>): void {
  it(`200 rows deleted in the middle, under load, with ${name}`, { timeout: 180_000 }, async () => {
    const [store, postgres] = await open();
    const system = new System(await TestRedis.start(['--appendonly', 'no']), store);
    await system.consume();
    await system.add(1_200);
    await system.landed();
    let loaded = true;
    const load = (async () => {
      while (loaded) await Promise.all([system.add(20), delay(100)]);
    })();
    await deleteRows(system, system.ids.slice(400, 600), postgres);
    const found = await system.admin.json<Report>(1, 'reconcile');
    assert.equal(found.missing, 200);
    assert.ok(found.entries > 1_200, `${found.entries} entries`);
    const landed = await system.admin.json<Report>(0, 'reconcile', '--land', '--yes', '--rate', '2000');
    assert.deepEqual([landed.missing, landed.filled], [200, 200]);
    loaded = false;
    await load;
    await system.landed();
    await system.acknowledged();
    assert.deepEqual((await idsOf(store)).toSorted(), system.ids.toSorted());
    assert.equal((await system.admin.json<Report>(0, 'reconcile')).missing, 0);
    await system.kill();
  });
}

/** An asynchronous standby of a private server, in folders of its own. */
function standbyOf(primary: PrivatePostgres) {
  const { uid, gid } = statSync(primary.socketFolder);
  const folder = temporaryFolder('ingest-standby-');
  const data = join(folder, 'data');
  execFileSync('chown', [`${uid}:${gid}`, folder]);
  const options: ExecFileSyncOptions = {
    cwd: folder,
    env: { LC_ALL: 'C' },
    ...(process.getuid?.() === 0 ? { uid, gid } : {}),
  };
  const run = (program: string, ...args: readonly string[]): void =>
    void execFileSync(join(primary.programs, program), args, { ...options, stdio: ['ignore', 'ignore', 'inherit'] });
  run('pg_basebackup', '-h', primary.socketFolder, '-U', 'ingest', '-D', data, '-R', '-X', 'stream', '-c', 'fast');
  const control = `-k ${folder} -c listen_addresses= -c fsync=off -c log_min_messages=fatal`;
  const start = (): void => run('pg_ctl', 'start', '-w', '-D', data, '-l', join(folder, 'log'), '-o', control);
  const stop = (): void => run('pg_ctl', 'stop', '-w', '-m', 'fast', '-D', data);
  const uriOf = (uri: string): string => uri.replace(/host=.*$/, `host=${encodeURIComponent(folder)}`);
  return { start, stop, promote: () => run('pg_ctl', 'promote', '-w', '-D', data), uriOf };
}

describe('reconcile', () => {
  let postgres: PrivatePostgres | undefined;
  after(() => postgres?.stop());

  describeUnderLoad('SQLite', () => Promise.resolve([sqliteStore()]));
  describeUnderLoad('PostgreSQL', async () => {
    postgres ??= await startPrivatePostgres({ durable: false });
    return [await postgresStore(postgres), postgres];
  });

  it('an asynchronous standby that is promoted without the last 450 rows', { timeout: 180_000 }, async () => {
    const primary = await startPrivatePostgres({ durable: false });
    const store = await postgresStore(primary);
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const system = new System(redis, store);
    await system.consume();
    await system.add(1_000);
    await system.landed();
    const standby = standbyOf(primary);
    standby.start();
    const replicated = standby.uriOf(store.uri);
    await eventually('the standby has all rows', async () => {
      const [row] = await primary.query<{ rows: string }>(replicated, 'SELECT count(*) AS rows FROM events');
      return row?.rows === '1000';
    });
    standby.stop();
    await system.add(450);
    await system.landed();
    await system.acknowledged();
    await system.kill();
    await primary.kill();
    standby.start();
    atEnd(() => standby.stop());
    standby.promote();
    assert.ok(await answers(replicated, Date.now() + START_MS));

    const promoted = new System(redis, postgresStoreAt(primary, replicated));
    promoted.ids.push(...system.ids);
    await promoted.consume();
    assert.equal(await promoted.store.count(), 1_000);
    await promoted.assertFills(450);
    await promoted.kill();
    await primary.stop();
  });

  it('XGROUP DELCONSUMER of consumers that held entries', { timeout: 120_000 }, async () => {
    const system = new System(await TestRedis.start(['--appendonly', 'no']), sqliteStore());
    await system.consume();
    await system.add(300);
    await system.landed();
    await system.acknowledged();
    const lock = new DatabaseSync(system.store.uri.slice('sqlite:'.length), { timeout: 10_000 });
    lock.exec('BEGIN IMMEDIATE');
    await system.add(120);
    const members = async (): Promise<[string, number][]> => {
      const found = (await system.redis.command('XINFO', 'CONSUMERS', 'ingest', 'warehouse')) as unknown[][];
      return found.map((one) => [String(one[1]), Number(one[3])]);
    };
    const held = async (): Promise<number> => (await members()).reduce((sum, [, pending]) => sum + pending, 0);
    await eventually('consumers hold entries', async () => (await held()) > 20);
    await system.kill();
    lock.exec('ROLLBACK');
    lock.close();
    const orphans = await held();
    for (const [name] of await members())
      await system.redis.command('XGROUP', 'DELCONSUMER', 'ingest', 'warehouse', name);
    await system.consume();
    await system.landed(420 - orphans);
    await system.acknowledged();
    await system.assertFills(orphans);
    await system.kill();
  });

  it('a queue that lost its last second, while the warehouse lost rows', { timeout: 120_000 }, async () => {
    const redis = await TestRedis.start();
    const system = new System(redis, sqliteStore());
    await system.consume();
    await system.add(600);
    await system.landed();
    await system.acknowledged();
    const [, data = ''] = (await redis.command('CONFIG', 'GET', 'dir')) as string[];
    await system.kill();
    await redis.signal('SIGKILL');
    const folder = join(data, 'appendonlydir');
    const file = join(folder, readdirSync(folder).find((name) => name.endsWith('.incr.aof')) ?? assert.fail());
    truncateSync(file, readFileSync(file).indexOf(bodyOf('e-550')));
    await redis.start();
    const kept = await redis.length();
    assert.equal(kept, 550);
    await system.consume();
    await system.acknowledged();
    const { entries, landed, missing } = await system.admin.json<Report>(0, 'reconcile');
    assert.deepEqual([entries, landed, missing], [kept, kept, 0], 'a row without an entry is not missing');
    await deleteRows(system, system.ids.slice(100, 150));
    await system.assertFills(50);
    await system.kill();
  });
});
