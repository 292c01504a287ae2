import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { inspectWarehouse, openWarehouse } from '../../bin/warehouse-adapter.ts';
import type { SqliteWarehouseOptions } from '../../lib/sqlite/database.ts';
import { CODE, fileFault, inspectSqlite, openFile, prepareFile, STEPS } from '../../lib/sqlite/file.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import {
  BatchRefused,
  NO_ROW,
  TablesDiffer,
  WarehouseMisconfigured,
  type LandingEvent,
  type Warehouse,
} from '../../lib/ingest/warehouse.ts';
import { describeWarehouse } from '../contract/warehouse.ts';
import { temporaryFolder } from '../support/scope.ts';
import { describeWarehouseAdmin } from '../contract/warehouse-admin.ts';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
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

describe('the SQLite warehouse', () => {
  const event = (id: string): LandingEvent => ({
    ...{ id, type: 't', producer: 'shop', body: Buffer.from('{}'), acceptedAtMs: 1 },
  });
  const makeVersion1 = (file: DatabaseSync): void =>
    file.exec(`PRAGMA journal_mode = WAL; ${STEPS[0]}; PRAGMA user_version = 1`);
  const fileOf = (): string => join(temporaryFolder(), 'warehouse.db');
  const opened = (t: TestContext, options: SqliteWarehouseOptions): Warehouse => {
    const warehouse = createSqliteWarehouse(options);
    t.after(() => warehouse.close());
    return warehouse;
  };
  const prepared = async (t: TestContext): Promise<{ path: string; warehouse: Warehouse; file: DatabaseSync }> => {
    const path = fileOf();
    const warehouse = opened(t, { path });
    await warehouse.prepare();
    return { path, warehouse, file: connected(t, path) };
  };
  const connected = (t: TestContext, path: string): DatabaseSync => {
    const file = new DatabaseSync(path);
    t.after(() => file.close());
    return file;
  };

  it('creates files that only their owner can read, including the write-ahead log', async (t) => {
    const before = process.umask(0);
    t.after(() => process.umask(before));
    const { path, warehouse } = await prepared(t);
    await warehouse.quarantine([]);
    await warehouse.probe();
    for (const end of ['', '-wal', '-shm']) assert.equal(statSync(path + end).mode & 0o777, 0o600, path + end);
  });

  it('reads few pages for a lookup, an admin query and a batch, whatever the size of the file', async () => {
    const path = fileOf();
    const body = Buffer.from(`"${'x'.repeat(20_000)}"`);
    const row = { type: 't', producer: 'p', body, acceptedAtMs: 1 };
    const batch = (from: number, size: number): LandingEvent[] =>
      Array.from({ length: size }, (_, at) => ({ ...row, id: `id-${from + at}` }));
    const first = createSqliteWarehouse({ path });
    await first.prepare();
    for (let from = 0; from < 1_000; from += 200) await first.land(batch(from, 200));
    const entries = Array.from({ length: 500 }, (_, at) => ({
      ...row,
      entry: `q/s/${at}-0`,
      id: `no-${at}`,
      reason: 'r',
    }));
    await first.quarantine(entries);
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

  it('reads, for a gateway, a file that others write, and writes nothing itself', async (t) => {
    const path = fileOf();
    const reader = openWarehouse(`sqlite:${path}`, 'gateway');
    t.after(() => reader.close());
    assert.deepEqual(await reader.find('one', 'shop'), { kind: 'unavailable' });
    assert.equal(existsSync(path), false, 'a look-up makes no file');

    const writer = opened(t, { path });
    await writer.prepare();
    assert.deepEqual(await reader.find('one', 'shop'), { kind: 'unknown' });
    await writer.land([event('one')]);
    assert.equal((await reader.find('one', 'shop')).kind, 'landed');
    await assert.rejects(reader.land([event('two')]));
  });

  it('lands nothing in a file that replaced its own, until that file has the tables', async (t) => {
    const { path, warehouse } = await prepared(t);
    await warehouse.land([event('one')]);
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    await assert.rejects(warehouse.land([event('one')]), 'the file is gone');
    const file = connected(t, path);
    await assert.rejects(warehouse.land([event('one')]), 'another file without a schema');
    await warehouse.prepare();
    assert.deepEqual(await warehouse.land([event('one')]), ['landed']);
    file.exec('ALTER TABLE events RENAME TO elsewhere');
    const isMissing =
      /^sqlite:.*: a table is missing; a consumer that starts on an empty database creates all: no such table/;
    const admin = createSqliteAdmin(path, SYSTEM.clock);
    t.after(() => admin.close());
    for (const fail of [() => warehouse.land([event('two')]), () => warehouse.probe(), () => admin.landed('one')])
      await assert.rejects(fail(), { message: isMissing });
    file.exec('ALTER TABLE elsewhere RENAME TO events; ALTER TABLE events_quarantine RENAME TO elsewhere');
    await assert.rejects(warehouse.probe(), { message: isMissing });
    assert.deepEqual(await warehouse.land([event('two')]), ['landed']);
  });

  for (const suffix of ['-wal', '-shm'])
    it(`shows other programs what it landed before and after its ${suffix} was deleted`, async (t) => {
      const path = fileOf();
      const warehouse = opened(t, { path });
      await warehouse.prepare();
      // Connections of one process share the index of the log, so another process reads, and keeps its connection open.
      const script = `const file = new (require('node:sqlite').DatabaseSync)(${JSON.stringify(path)});
        const read = file.prepare('SELECT group_concat(id) AS ids FROM events');
        process.stdin.on('data', () => console.log(read.get().ids));`;
      const other = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
      t.after(() => other.kill());
      const ids = async (): Promise<string> => {
        other.stdin.write('read');
        return String(((await once(other.stdout, 'data')) as [Buffer])[0]).trim();
      };
      await warehouse.land([event('a')]);
      rmSync(path + suffix);
      if (suffix === '-shm') assert.equal(await ids(), 'a');
      assert.deepEqual(await warehouse.land([event('b')]), ['landed']);
      assert.equal(await ids(), 'a,b');
      assert.deepEqual(await warehouse.land([event('c')]), ['landed']);
      assert.equal(await ids(), 'a,b,c');
    });

  it('lands batches of any length with a verdict for each event', async (t) => {
    const { warehouse } = await prepared(t);
    for (const count of [0, 1, 7, 8, 9, 17]) {
      const batch = Array.from({ length: count }, (_, at) => event(`${count}-${at}`));
      assert.deepEqual(await warehouse.land(batch), Array(count).fill('landed'));
    }
    const again = ['8-1', 'new', '17-1', '17-2', '17-3', '17-4', '17-5', '17-6'].map(event);
    const verdicts = ['duplicate', 'landed', ...Array<string>(6).fill('duplicate')];
    assert.deepEqual(await warehouse.land(again), verdicts);
  });

  it('refuses a batch with its code if a trigger raises an error or inserts nothing, and writes nothing of it', async (t) => {
    for (const [raise, message] of [
      [`ABORT, 'no'`, 'SQLITE_1811'],
      ['IGNORE', NO_ROW],
    ] as const) {
      const { warehouse, file } = await prepared(t);
      file.exec(`CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.id = 'bad' BEGIN SELECT RAISE(${raise}); END`);
      const isRefusal = (cause: unknown): boolean => cause instanceof BatchRefused && cause.message === message;
      for (const ids of ['bad', '1 2 3 4 5 6 7 bad 9', '1 2 bad'])
        await assert.rejects(warehouse.land(ids.split(' ').map(event)), isRefusal);
      assert.deepEqual(await warehouse.land([event('1')]), ['landed']);
    }
  });

  it('limits its wait for another writer, and leaves no open transaction', async (t) => {
    const { warehouse, file } = await prepared(t);
    file.exec('BEGIN IMMEDIATE');
    const started = performance.now();
    await assert.rejects(warehouse.land([event('one')]), /locked/);
    assert.ok(performance.now() - started > 1_000, 'it waits for a while');
    file.exec('COMMIT');
    assert.deepEqual(await warehouse.land([event('one')]), ['landed']);
  });

  it('commits to disk and overwrites deleted content', async (t) => {
    const { path } = await prepared(t);
    const writer = openFile(path, false);
    t.after(() => writer.close());
    for (const [name, value] of Object.entries({ synchronous: 2, secure_delete: 1, journal_mode: 'wal' }))
      assert.deepEqual({ ...writer.prepare(`PRAGMA ${name}`).get() }, { [name]: value });
  });

  it('waits up to 10 s for another writer before it creates its tables', async (t) => {
    for (const commits of [true, false]) {
      const path = fileOf();
      const writer = connected(t, path);
      writer.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
      const clock = new VirtualClock();
      const sleep = async (): Promise<void> => (commits ? writer.exec('COMMIT') : clock.advance(10_000));
      const preparing = prepareFile(path, Object.assign(clock, { sleep }));
      if (commits) assert.equal(await preparing, undefined);
      else await assert.rejects(preparing, /locked/);
      assert.equal(inspectSqlite(path), commits ? 2 : 0);
    }
  });

  it('has none of its tables after a failed schema step', async (t) => {
    const path = fileOf();
    const file = connected(t, path);
    file.exec('CREATE TABLE ingest_audit (id TEXT)');
    await assert.rejects(opened(t, { path }).prepare(), /already exists/);
    assert.equal(inspectSqlite(path), 0);
    assert.deepEqual({ ...file.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() }, { tables: 1 });
  });

  it('reports a path at which no file can be created, or one that a consumer may not write, and creates none', async () => {
    const folder = temporaryFolder();
    assert.equal(fileFault(folder, true), 'expected a file: this is a directory');
    const none = /: there is no such file; the consumer creates it when it starts$/;
    assert.match(await inspectWarehouse(`sqlite:${join(folder, 'new.db')}`, 'consumer'), none);
    await assert.rejects(inspectWarehouse(`sqlite:${join(folder, 'new.db')}`, 'gateway'), { message: none });
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    assert.equal(fileFault(join(folder, 'pipe'), false), 'expected a regular file');
    const lost = join(folder, 'none');
    const wanted = 'expected a file and a folder that this user can write to';
    assert.equal(fileFault(join(lost, 'new.db'), false), `no file can be created in ${lost} (ENOENT): ${wanted}`);
    assert.throws(() => inspectSqlite(join(folder, 'new.db')), /unable to open/);
    const path = join(folder, 'read-only.db');
    writeFileSync(path, '', { mode: 0o444 });
    chmodSync(folder, 0o755);
    const isRoot = process.getuid?.() === 0;
    // Root may write to every file.
    if (isRoot) process.seteuid?.(65_534);
    const faults = [false, true].map((writes) => fileFault(path, writes));
    if (isRoot) process.seteuid?.(0);
    assert.deepEqual(faults, [undefined, `it cannot be written (EACCES): ${wanted}`]);
  });

  it('works with a schema that a newer program extended, and does not change one that it cannot use', async (t) => {
    const path = fileOf();
    const newer = connected(t, path);
    newer.exec('PRAGMA user_version = 99');
    const says = (why: RegExp) => (cause: unknown) =>
      cause instanceof WarehouseMisconfigured && why.test(cause.message);
    const before = opened(t, { path });
    await assert.rejects(before.prepare(), says(/version 99, and this program knows 2: events has no column id$/));
    newer.exec(`PRAGMA user_version = 0`);
    await before.prepare();
    newer.exec(`ALTER TABLE events ADD COLUMN region TEXT NOT NULL DEFAULT ''; PRAGMA user_version = 3`);
    assert.equal(await before.prepare(), undefined);
    const batch = Array.from({ length: 9 }, (_, at) => event(String(at)));
    assert.deepEqual(await before.land(batch), Array(9).fill('landed'));
    assert.equal((await before.find('8', 'shop')).kind, 'landed');
    assert.deepEqual({ ...newer.prepare('PRAGMA user_version').get() }, { user_version: 3 });
    newer.exec(`DROP INDEX events_quarantine_code; ALTER TABLE events_quarantine DROP COLUMN reason;
      PRAGMA user_version = 4`);
    await assert.rejects(
      before.prepare(),
      says(/4, and this program knows 2: events_quarantine has no column reason$/),
    );
    newer.exec(`DROP TABLE events; CREATE TABLE events (
      id, type, producer, accepted_at, landed_at, body, traceparent, region TEXT NOT NULL)`);
    await assert.rejects(before.prepare(), says(/4, and this program knows 2: events.region may not be null$/));
    newer.exec('PRAGMA user_version = 2');
    await assert.rejects(before.prepare(), (cause) => cause instanceof TablesDiffer);
  });

  it('finds rows by the index of reason codes, which exists since version 2', async (t) => {
    const path = fileOf();
    makeVersion1(connected(t, path));
    const before = opened(t, { path });
    assert.equal(await before.prepare(), undefined);
    const entry = { producer: 'shop', acceptedAtMs: 1, body: Buffer.of(1) };
    await before.quarantine([
      { ...entry, entry: 'q/s/1-1', reason: 'rare: x' },
      { ...entry, entry: 'q/s/1-2', reason: 'bare' },
    ]);
    const admin = createSqliteAdmin(path, SYSTEM.clock);
    t.after(() => admin.close());
    assert.equal(await admin.quarantineCount({ reason: 'rare', sinceMs: 0 }), 1);
    assert.deepEqual(await admin.quarantineNames({ reason: 'bare', sinceMs: undefined }, '', 9), ['q/s/1-2']);
    const query = `EXPLAIN QUERY PLAN SELECT count(*) FROM events_quarantine WHERE ${CODE} = 'rare'`;
    assert.match(
      JSON.stringify(connected(t, path).prepare(query).all()),
      /USING (?:COVERING )?INDEX events_quarantine_code/,
    );
  });

  it('is migrated once no other process writes, and is readable meanwhile', async (t) => {
    const path = fileOf();
    const other = connected(t, path);
    makeVersion1(other);
    other.exec('BEGIN IMMEDIATE');
    const next = opened(t, { path });
    assert.equal(await next.prepare(), 'it waits for another process that writes to the file');
    assert.equal((await next.find('one', 'shop')).kind, 'unknown');
    other.exec('COMMIT');
    assert.deepEqual(await next.land([event('on the schema before')]), ['landed']);
    assert.equal(await next.prepare(), undefined);
    assert.deepEqual(await next.land([event('on the schema after')]), ['landed']);
  });

  it('rejects pending calls if its thread dies, and continues with a new thread', async (t) => {
    const { warehouse, file: other } = await prepared(t);
    // An unexpected exception, caused here by an invalid time, fails only its own call.
    await assert.rejects(warehouse.land([{ ...event('one'), acceptedAtMs: 1e99 }]));
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
