import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import type { Worker } from 'node:worker_threads';
import type { SqliteWarehouseOptions } from '../../lib/sqlite/database.ts';
import { CODE, STEPS } from '../../lib/sqlite/file.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import type { LandingEvent, Warehouse } from '../../lib/ingest/warehouse.ts';
import { describeWarehouse } from '../contract/warehouse.ts';
import { describePruning } from '../contract/pruning.ts';
import { temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { describeWarehouseAdmin } from '../contract/warehouse-admin.ts';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { SYSTEM } from '../support/system.ts';

// The threads of this process, so that a test can kill the thread of its warehouse.
const threads = new Set<Worker>();
process.on('worker', (worker: Worker) => threads.add(worker));
const killThreads = (): void => {
  for (const worker of threads) void worker.terminate();
};

describeWarehouse('SQLite', async () => {
  const root = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
  const folder = join(root, 'here');
  const path = join(folder, 'warehouse.db');
  mkdirSync(folder);
  return {
    open: () => createSqliteWarehouse({ path }),
    count: async (table) => {
      const database = new DatabaseSync(path, { readOnly: true });
      const row = database.prepare(`SELECT count(*) AS rows FROM ${table}`).get();
      database.close();
      return Number(row?.['rows']);
    },
    takeAway: () => renameSync(folder, join(root, 'away')),
    bringBack: () => renameSync(join(root, 'away'), folder),
    close: async () => rmSync(root, { recursive: true }),
  };
});

describeWarehouseAdmin('SQLite', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
  const path = join(folder, 'warehouse.db');
  return {
    warehouse: createSqliteWarehouse({ path }),
    admin: createSqliteAdmin(path, SYSTEM.clock),
    rest: /^undefined$/,
    audit: async () => {
      const database = new DatabaseSync(path, { readOnly: true });
      const rows = database.prepare('SELECT actor, command, what, changed, at FROM ingest_audit').all();
      database.close();
      return rows.map((row) => ({ ...row, at: Date.parse(String(row['at'])) }));
    },
    close: async () => rmSync(folder, { recursive: true }),
  };
});

describePruning('SQLite', () => {
  const store = sqliteStore();
  const path = store.uri.slice('sqlite:'.length);
  return Promise.resolve({
    store,
    warehouse: createSqliteWarehouse({ path }),
    admin: createSqliteAdmin(path, SYSTEM.clock),
  });
});

describe('the SQLite warehouse', () => {
  it('creates files that only their owner can read, including the write-ahead log', async (t) => {
    const path = join(temporaryFolder(), 'warehouse.db');
    const before = process.umask(0);
    const warehouse = createSqliteWarehouse({ path });
    t.after(async () => {
      process.umask(before);
      await warehouse.close();
    });
    await warehouse.prepare();
    await warehouse.quarantine([]);
    await warehouse.probe();
    for (const end of ['', '-wal', '-shm']) assert.equal(statSync(path + end).mode & 0o777, 0o600, path + end);
  });

  it('reads a few pages for a look-up, an operator and a batch, whatever its size', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const body = Buffer.from(`"${'x'.repeat(20_000)}"`);
    const row = { type: 't', producer: 'p', body, acceptedAtMs: 1 };
    const batch = (from: number, size: number): LandingEvent[] =>
      Array.from({ length: size }, (_, at) => ({ ...row, id: `id-${from + at}` }));
    const first = createSqliteWarehouse({ path });
    await first.prepare();
    for (let from = 0; from < 1_000; from += 200) await first.land(batch(from, 200));
    const rejected = Array.from({ length: 500 }, (_, at) => ({
      ...row,
      entry: `q/s/${at}-0`,
      id: `no-${at}`,
      reason: 'r',
    }));
    await first.quarantine(rejected);
    await first.close();

    const [warehouse, admin] = [createSqliteWarehouse({ path }), createSqliteAdmin(path, SYSTEM.clock)];
    await warehouse.prepare();
    await warehouse.find('unknown', 'p');
    const readBytes = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
    const before = readBytes();
    await warehouse.land(batch(990, 20));
    for (const id of ['id-7', 'no-7', 'unknown']) {
      await warehouse.find(id, 'p');
      await Promise.all([admin.landed(id), admin.quarantineOf(id)]);
    }
    const read = readBytes() - before;
    await Promise.all([warehouse.close(), admin.close()]);
    assert.ok(read < 2_000_000, `${read} bytes of 30 MB`);
  });

  it('reads a file that others write, and writes nothing itself', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const reader = createSqliteWarehouse({ path, readOnly: true });
    t.after(() => reader.close());
    assert.deepEqual(await reader.find('one', 'shop'), { kind: 'unavailable' });
    assert.equal(existsSync(path), false, 'a look-up makes no file');

    const writer = createSqliteWarehouse({ path });
    t.after(() => writer.close());
    await writer.prepare();
    assert.deepEqual(await reader.find('one', 'shop'), { kind: 'unknown' });
    const body = Buffer.from('{"id":"one","type":"t"}');
    await writer.land([{ id: 'one', type: 't', producer: 'shop', body, acceptedAtMs: 1 }]);
    assert.equal((await reader.find('one', 'shop')).kind, 'landed');
    await assert.rejects(reader.land([{ id: 'two', type: 't', producer: 'shop', body, acceptedAtMs: 1 }]));
  });

  it('lands nothing in a file that replaced its own', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const writer = createSqliteWarehouse({ path });
    t.after(() => writer.close());
    await writer.prepare();
    const body = Buffer.from('{"id":"one","type":"t"}');
    const batch = [{ id: 'one', type: 't', producer: 'shop', body, acceptedAtMs: 1 }];
    await writer.land(batch);
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    await assert.rejects(writer.land(batch), 'the file is gone');
    new DatabaseSync(path).close();
    await assert.rejects(writer.land(batch), 'another file without a schema');
    await writer.prepare();
    assert.deepEqual(await writer.land(batch), ['landed']);
  });

  const EVENT = { type: 't', producer: 'shop', body: Buffer.from('{}'), acceptedAtMs: 1 };
  const NEXT = [...STEPS, { version: 3, sql: 'ALTER TABLE events ADD COLUMN region TEXT' }];
  const fileOf = (t: TestContext): string => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    return join(folder, 'warehouse.db');
  };
  const opened = (t: TestContext, options: SqliteWarehouseOptions): Warehouse => {
    const warehouse = createSqliteWarehouse(options);
    t.after(() => warehouse.close());
    return warehouse;
  };

  it('does not change a schema that it cannot use', async (t) => {
    const path = fileOf(t);
    const newer = new DatabaseSync(path);
    t.after(() => newer.close());
    newer.exec('PRAGMA user_version = 99');
    const says = (why: RegExp) => ({ name: 'WarehouseMisconfigured', message: why });
    const before = opened(t, { path });
    await assert.rejects(before.prepare(), says(/version 99, and this program knows 2: events has no column id$/));
    newer.exec(`PRAGMA user_version = 0`);
    await before.prepare();
    newer.exec(`ALTER TABLE events ADD COLUMN region TEXT NOT NULL DEFAULT ''; PRAGMA user_version = 3`);
    assert.equal(await before.prepare(), undefined);
    newer.exec(`DROP INDEX events_quarantine_code; ALTER TABLE events_quarantine DROP COLUMN reason;
      PRAGMA user_version = 4`);
    await assert.rejects(
      before.prepare(),
      says(/4, and this program knows 2: events_quarantine has no column reason$/),
    );
    newer.exec(`DROP TABLE events; CREATE TABLE events (
      id, type, producer, accepted_at, landed_at, body, traceparent, region TEXT NOT NULL)`);
    await assert.rejects(before.prepare(), says(/4, and this program knows 2: events.region may not be null$/));
  });

  it('works with a file that a newer program extended', async (t) => {
    const path = fileOf(t);
    assert.equal(await opened(t, { path, steps: NEXT }).prepare(), undefined);
    const before = opened(t, { path });
    assert.equal(await before.prepare(), undefined);
    const batch = Array.from({ length: 9 }, (_, at) => ({ ...EVENT, id: String(at) }));
    assert.deepEqual(
      await before.land(batch),
      batch.map(() => 'landed'),
    );
    assert.equal((await before.find('8', 'shop')).kind, 'landed');
    const file = new DatabaseSync(path, { readOnly: true });
    t.after(() => file.close());
    assert.deepEqual({ ...file.prepare('PRAGMA user_version').get() }, { user_version: 3 });
  });

  it('finds rows by the index of reason codes, which exists since version 2', async (t) => {
    const path = fileOf(t);
    const before = opened(t, { path, steps: STEPS.slice(0, 1) });
    await before.prepare();
    assert.equal(await opened(t, { path }).prepare(), undefined);
    assert.equal(await before.prepare(), undefined, 'the program of version 1 works with it');
    const entry = { producer: 'shop', acceptedAtMs: 1, body: Buffer.of(1) };
    await before.quarantine([
      { ...entry, entry: 'q/s/1-1', reason: 'rare: x' },
      { ...entry, entry: 'q/s/1-2', reason: 'bare' },
    ]);
    const admin = createSqliteAdmin(path, SYSTEM.clock);
    t.after(() => admin.close());
    assert.equal(await admin.quarantineCount({ reason: 'rare', sinceMs: 0 }), 1);
    assert.deepEqual(await admin.quarantineNames({ reason: 'bare', sinceMs: undefined }, '', 9), ['q/s/1-2']);
    const file = new DatabaseSync(path, { readOnly: true });
    t.after(() => file.close());
    const plan = file.prepare(`EXPLAIN QUERY PLAN SELECT count(*) FROM events_quarantine WHERE ${CODE} = 'rare'`);
    assert.match(JSON.stringify(plan.all()), /USING (?:COVERING )?INDEX events_quarantine_code/);
  });

  it('is migrated once no other process writes, and is readable meanwhile', async (t) => {
    const path = fileOf(t);
    await opened(t, { path }).prepare();
    const other = new DatabaseSync(path);
    t.after(() => other.close());
    other.exec('BEGIN IMMEDIATE');
    const next = opened(t, { path, steps: NEXT });
    assert.equal(await next.prepare(), 'it waits for another process that writes to the file');
    assert.equal((await next.find('one', 'shop')).kind, 'unknown');
    other.exec('COMMIT');
    assert.deepEqual(await next.land([{ ...EVENT, id: 'on the schema before' }]), ['landed']);
    assert.equal(await next.prepare(), undefined);
    assert.deepEqual(await next.land([{ ...EVENT, id: 'on the schema after' }]), ['landed']);
  });

  it('rejects pending calls if its thread dies, and continues with a new thread', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const warehouse = createSqliteWarehouse({ path });
    t.after(() => warehouse.close());
    await warehouse.prepare();
    const other = new DatabaseSync(path);
    t.after(() => other.close());
    const event = (id: string): LandingEvent => ({
      id,
      type: 't',
      producer: 'shop',
      body: Buffer.from('{}'),
      acceptedAtMs: 1,
    });
    // An unexpected exception, caused here by an invalid time, fails only its own call.
    await assert.rejects(warehouse.land([{ ...event('one'), acceptedAtMs: Number.NaN }]));
    // The thread is waiting for the locked file, so it is killed before it can answer any call.
    other.exec('BEGIN IMMEDIATE');
    const dying = [warehouse.land([event('one')]), warehouse.probe(), warehouse.quarantine([])];
    killThreads();
    other.exec('COMMIT');
    const ended = /^Error: the thread of the SQLite warehouse has ended$/;
    await Promise.all(dying.map((call) => assert.rejects(call, ended)));
    assert.equal((await warehouse.land([event('one')])).length, 1);
    await warehouse.probe();
  });
});
