import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readlinkSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { BatchRefused, type LandingEvent, type QuarantinedEntry } from '../../lib/ingest/warehouse.ts';
import { columnsOf, landingsOf } from '../../lib/sqlite/columns.ts';
import { Database } from '../../lib/sqlite/database.ts';
import { fileFault, inspectSqlite, NO_FILE, openFile, prepareFile } from '../../lib/sqlite/file.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const event = (id: string, producer = 'shop'): LandingEvent => ({
  id,
  type: 't',
  producer,
  body: Buffer.from(`{"id":"${id}"}`),
  acceptedAtMs: 7,
});
const poison = (entry: string): QuarantinedEntry => ({
  entry,
  id: entry,
  producer: 'shop',
  reason: 'invalid_event: x',
  acceptedAtMs: 7,
  body: Buffer.of(0, 255),
});

describe('the SQLite file', () => {
  const open = async (t: TestContext): Promise<{ path: string; database: Database }> => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-database-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const database = new Database({ ...SYSTEM, path });
    t.after(() => database.close());
    assert.equal(await database.prepare(), undefined);
    return { path, database };
  };
  const other = (t: TestContext, path: string): DatabaseSync => {
    const opened = new DatabaseSync(path);
    t.after(() => opened.close());
    return opened;
  };
  const handles = (path: string): number =>
    readdirSync('/proc/self/fd').filter((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path);
      } catch {
        return false;
      }
    }).length;
  const land = (database: Database, ...events: LandingEvent[]): unknown => landingsOf(database.land(columnsOf(events)));

  it('lands batches of any length with a verdict for each event', async (t) => {
    const { path, database } = await open(t);
    for (const count of [0, 1, 7, 8, 9, 17]) {
      const ids = Array.from({ length: count }, (_, at) => `${count}-${at}`);
      assert.deepEqual(
        land(database, ...ids.map((id) => event(id))),
        ids.map(() => 'landed'),
      );
    }
    const again = ['8-1', 'new', '9-2', '17-3', '17-4', '17-5', '17-6', '17-7'];
    assert.deepEqual(land(database, ...again.map((id) => event(id, id === '9-2' ? 'thief' : 'shop'))), [
      'duplicate',
      'landed',
      'conflict',
      ...Array.from({ length: 5 }, () => 'duplicate'),
    ]);
    const rows = other(t, path).prepare(`SELECT count(*) AS n, min(accepted_at) AS at FROM events`).get();
    assert.deepEqual({ ...rows }, { n: 43, at: '1970-01-01T00:00:00.007Z' });
  });

  it('keeps its handle after a busy file or bad data, and closes it after any other failure', async (t) => {
    const { path, database } = await open(t);
    land(database, event('one'));
    const kept = handles(path);
    assert.ok(kept > 0);
    assert.throws(() => database.land(columnsOf([event('bad', 'a\0b')])), BatchRefused);
    assert.equal(handles(path), kept, 'bad data');
    const writer = other(t, path);
    writer.exec('BEGIN IMMEDIATE');
    const withWriter = handles(path);
    assert.throws(() => land(database, event('two')), /locked/);
    assert.equal(handles(path), withWriter, 'another writer');
    writer.exec('COMMIT; ALTER TABLE events RENAME TO elsewhere');
    const before = handles(path);
    assert.throws(() => land(database, event('two')), /no such table/);
    assert.ok(handles(path) < before, 'it is closed');
    assert.throws(() => database.probe(), /no such table/);
    writer.exec('ALTER TABLE elsewhere RENAME TO events');
    assert.deepEqual(land(database, event('two')), ['landed']);
    database.probe();
  });

  it('treats an error from a trigger as a refusal with its code, and writes nothing of the batch', async (t) => {
    const { path, database } = await open(t);
    const file = other(t, path);
    file.exec(`CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.id = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END`);
    const batch = ['1', '2', '3', '4', '5', '6', '7', 'bad', '9'].map((id) => event(id));
    assert.throws(
      () => database.land(columnsOf(batch)),
      (cause) => cause instanceof BatchRefused && cause.message === 'SQLITE_1811',
    );
    assert.deepEqual({ ...file.prepare('SELECT count(*) AS n FROM events').get() }, { n: 0 });
    assert.deepEqual(land(database, event('1')), ['landed']);
  });

  it('limits its wait for a lock, and leaves no open transaction', async (t) => {
    const { path, database } = await open(t);
    const writer = other(t, path);
    writer.exec('BEGIN IMMEDIATE');
    const started = performance.now();
    assert.throws(() => database.quarantine([poison('1')]), /locked/);
    assert.ok(performance.now() - started > 1_000, 'it waits for a while');
    writer.exec('COMMIT');
    database.quarantine([poison('1'), poison('2')]);
    database.quarantine([{ ...poison('1'), reason: 'another' }]);
    database.release(['2', '3']);
    const rows = writer.prepare('SELECT entry, reason FROM events_quarantine').all();
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [{ entry: '1', reason: 'invalid_event: x' }],
    );
    const found = database.find('1', 'shop');
    assert.ok(found.kind === 'rejected' && found.body.equals(Buffer.of(0, 255)));
    assert.equal(found.acceptedAtMs, 7);
  });

  it('reports the version of its schema without a change', async (t) => {
    const { path } = await open(t);
    assert.equal(inspectSqlite(path), 2);
    const empty = join(path, '..', 'empty.db');
    new DatabaseSync(empty).close();
    assert.equal(inspectSqlite(empty), 0);
    assert.throws(() => inspectSqlite(join(path, '..', 'none.db')), /unable to open/);
  });

  it('commits to disk and overwrites deleted content', async (t) => {
    const { path } = await open(t);
    const writer = openFile(path, false);
    t.after(() => writer.close());
    assert.deepEqual({ ...writer.prepare('PRAGMA synchronous').get() }, { synchronous: 2 });
    assert.deepEqual({ ...writer.prepare('PRAGMA secure_delete').get() }, { secure_delete: 1 });
    assert.deepEqual({ ...writer.prepare('PRAGMA journal_mode').get() }, { journal_mode: 'wal' });
    assert.deepEqual({ ...writer.prepare('PRAGMA busy_timeout').get() }, { timeout: 2_000 });
  });

  it('closes a file that was replaced, and continues with the new one', async (t) => {
    const { path, database } = await open(t);
    land(database, event('one'));
    const folder = mkdtempSync(join(path, '..', 'replacement-'));
    const replacement = join(folder, 'warehouse.db');
    await prepareFile(replacement, SYSTEM.clock);
    for (const end of ['-wal', '-shm']) rmSync(path + end, { force: true });
    renameSync(replacement, path);
    assert.deepEqual(land(database, event('one')), ['landed'], 'the other file has no such row');
    assert.deepEqual({ ...other(t, path).prepare('SELECT id FROM events').get() }, { id: 'one' });
    assert.equal(database.find('one', 'shop').kind, 'landed');
  });

  it('waits up to 10 s for another writer before it creates its tables', async (t) => {
    const path = join(mkdtempSync(join(tmpdir(), 'ingest-database-')), 'empty.db');
    t.after(() => rmSync(join(path, '..'), { recursive: true }));
    const writer = other(t, path);
    writer.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
    const clock = new VirtualClock();
    const sleeps: number[] = [];
    const sleep = (ms: number): Promise<void> => {
      sleeps.push(ms);
      writer.exec('COMMIT');
      return Promise.resolve();
    };
    assert.equal(await prepareFile(path, Object.assign(clock, { sleep })), undefined);
    assert.deepEqual(sleeps, [50]);
    assert.equal(inspectSqlite(path), 2);
    const empty = join(path, '..', 'busy.db');
    const holder = other(t, empty);
    holder.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
    const late = new VirtualClock();
    const giveUp = (): Promise<void> => late.advance(10_000);
    await assert.rejects(prepareFile(empty, Object.assign(late, { sleep: giveUp })), /locked/);
  });

  it('has no tables after a failed schema step, and reports faults of its path', async (t) => {
    const { path } = await open(t);
    const broken = join(path, '..', 'broken.db');
    const steps = [{ version: 1, sql: 'CREATE TABLE events (id TEXT); CREATE TABLE events (id TEXT)' }];
    await assert.rejects(prepareFile(broken, SYSTEM.clock, steps), /already exists/);
    assert.equal(inspectSqlite(broken), 0);
    assert.deepEqual(other(t, broken).prepare('SELECT name FROM sqlite_schema').all(), []);
    const folder = join(path, '..');
    assert.equal(fileFault(path), undefined);
    assert.equal(fileFault(folder), 'expected a file: this is a directory');
    assert.equal(fileFault(join(folder, 'new.db')), NO_FILE);
    assert.equal(
      fileFault(join(folder, 'none', 'new.db')),
      `no file can be created in ${join(folder, 'none')} (ENOENT)`,
    );
  });
});
