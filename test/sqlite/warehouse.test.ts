import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import type { LandingEvent } from '../../lib/ingest/warehouse.ts';
import { describeWarehouse } from '../contract/warehouse.ts';

// Every thread that this process starts, so that a test can end one as a fault of its own would.
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

describe('the SQLite warehouse', () => {
  it('looks up in a file that others write, and writes nothing itself', async (t) => {
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

  it('lands nothing in a file that took the place of its own', async (t) => {
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

  it('does not touch a schema that is newer than itself', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const newer = new DatabaseSync(path);
    newer.exec('PRAGMA user_version = 99');
    newer.close();
    await assert.rejects(createSqliteWarehouse({ path }).prepare(), /version 99/);
  });

  it('keeps what an older one has in quarantine, under the name of the stream that it came from', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'warehouse.db');
    const older = new DatabaseSync(path);
    older.exec(VERSION_1);
    older.close();
    const warehouse = createSqliteWarehouse({ path });
    t.after(() => warehouse.close());
    await warehouse.prepare();
    await warehouse.prepare();
    const found = await warehouse.find('one', 'shop');
    assert.ok(found.kind === 'rejected' && found.reason === 'invalid_event: old');
    assert.equal((await warehouse.find('landed', 'shop')).kind, 'landed');
    const body = Buffer.from('{');
    await warehouse.quarantine([
      { entry: 'q/ingest/1-1', producer: 'shop', reason: 'invalid_event: new', acceptedAtMs: 1, body },
    ]);
    const read = new DatabaseSync(path, { readOnly: true });
    t.after(() => read.close());
    assert.deepEqual(
      read
        .prepare('SELECT entry FROM events_quarantine ORDER BY entry')
        .all()
        .map((row) => row['entry']),
      ['q/ingest/1-1', 'unknown/ingest/1-1', 'unknown/ingest/1-2'],
    );
  });

  it('rejects what was asked when its thread dies, and goes on with another one', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'ingest-sqlite-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const warehouse = createSqliteWarehouse({ path: join(folder, 'warehouse.db') });
    t.after(() => warehouse.close());
    await warehouse.prepare();
    const event = (id: string): LandingEvent => ({
      id,
      type: 't',
      producer: 'shop',
      body: Buffer.from('{}'),
      acceptedAtMs: 1,
    });
    // What no caller sends: a time that no Date holds is a bug's worth, and ends nothing but its own call.
    await assert.rejects(warehouse.land([{ ...event('one'), acceptedAtMs: Number.NaN }]));
    const dying = [warehouse.land([event('one')]), warehouse.probe(), warehouse.quarantine([])];
    killThreads();
    for (const outcome of await Promise.allSettled(dying)) assert.equal(outcome.status, 'rejected');
    assert.equal((await warehouse.land([event('one')])).length, 1);
    await warehouse.probe();
  });
});

/** What version 1 of the program left behind. */
const VERSION_1 = `
  CREATE TABLE events (
    id TEXT NOT NULL PRIMARY KEY, type TEXT NOT NULL, producer TEXT NOT NULL CHECK (instr(producer, char(0)) = 0),
    accepted_at TEXT NOT NULL, landed_at TEXT NOT NULL, body TEXT NOT NULL) STRICT;
  CREATE TABLE events_quarantine (
    entry TEXT NOT NULL PRIMARY KEY, id TEXT, producer TEXT NOT NULL, reason TEXT NOT NULL, accepted_at TEXT NOT NULL,
    quarantined_at TEXT NOT NULL, body BLOB NOT NULL) STRICT;
  CREATE INDEX events_quarantine_id ON events_quarantine (id);
  PRAGMA user_version = 1;
  INSERT INTO events VALUES ('landed', 't', 'shop', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '{}');
  INSERT INTO events_quarantine VALUES
    ('1-1', 'one', 'shop', 'invalid_event: old', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', X'7B'),
    ('1-2', NULL, '', 'dropped_by_queue: old', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', X'');`;
