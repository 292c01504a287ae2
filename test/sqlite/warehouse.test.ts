import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { describeWarehouse } from '../contract/warehouse.ts';

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
});
