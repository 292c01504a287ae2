// The SQL that both warehouses share, on SQLite.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { COUNT_EXACT_MAX } from '../../lib/ingest/warehouse-admin.ts';
import { adminOfTables, type Dialect, type SqlRow, type SqlValue } from '../../lib/ingest/warehouse-tables.ts';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { describeWarehouseAdmin } from '../contract/warehouse-admin.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { SYSTEM } from '../support/system.ts';

describeWarehouseAdmin('The SQL of both warehouses', async () => {
  const path = sqliteStore().uri.slice('sqlite:'.length);
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
    close: () => Promise.resolve(),
  };
});

describe('the SQL of both warehouses', () => {
  /** Replies to each statement with the next of `answers`. */
  const asked = (...answers: readonly (readonly SqlRow[])[]) => {
    const statements: { readonly sql: string; readonly values: readonly SqlValue[] }[] = [];
    const dialect: Dialect = {
      rows: (sql, ...values) =>
        Promise.resolve(answers[statements.push({ sql: sql.replaceAll(/\s+/g, ' '), values }) - 1] ?? []),
      change: () => Promise.resolve(0),
      code: 'CODE',
      estimate: 'ESTIMATE',
      shown: (column) => column,
      exact: (column) => column,
      time: (parameter) => `time(${parameter})`,
      afterAllTimes: 'after',
      texts: (parameter) => parameter,
    };
    return { admin: adminOfTables(dialect), statements };
  };
  const counted = (rows: number): readonly SqlRow[] => [{ rows }];

  it('counts up to a million events exactly, and returns the estimate above that', async () => {
    const exact = asked(counted(COUNT_EXACT_MAX), counted(999_999));
    assert.deepEqual(await exact.admin.counts(), { events: 999_999, estimated: false, quarantine: [] });
    const about = asked(counted(COUNT_EXACT_MAX + 1));
    assert.deepEqual(await about.admin.counts(), { events: COUNT_EXACT_MAX + 1, estimated: true, quarantine: [] });
    assert.equal(about.statements.length, 2, 'the events are not counted');
  });

  it('has only the given filters in a query, so that an index can serve it', async () => {
    const { admin, statements } = asked();
    await admin.quarantineCount({ reason: undefined, sinceMs: undefined });
    assert.match(statements[0]?.sql ?? '', /WHERE TRUE$/);
    await admin.quarantineCount({ reason: 'r', sinceMs: 7 });
    assert.match(statements[1]?.sql ?? '', /WHERE CODE = \$1 AND quarantined_at >= time\(\$2\)$/);
    assert.deepEqual(statements[1]?.values, ['r', '1970-01-01T00:00:00.007Z']);
  });

  it('treats a time before 1970 as 1970, which is before all rows', async () => {
    const { admin, statements } = asked();
    await admin.quarantineNames({ reason: undefined, sinceMs: -1 }, 'a', 9);
    assert.deepEqual(statements[0]?.values, ['a', 9, '1970-01-01T00:00:00.000Z']);
  });

  it('requests no page after an incomplete one, and no row above the limit', async () => {
    const row = { entry: 'e', at: 'then', producer: 'p', reason: 'r', accepted: 7, quarantined: 8, bytes: 9 };
    const full = Array.from({ length: 1_000 }, () => row);
    const listed = async (limit: number, ...answers: readonly (readonly SqlRow[])[]) => {
      const { admin, statements } = asked(...answers);
      for await (const page of admin.quarantineList({ reason: undefined, sinceMs: undefined }, limit))
        assert.equal(page[0]?.quarantinedAtMs, 8);
      return statements.map(({ values }) => values);
    };
    assert.deepEqual(await listed(1_000, full), [['after', '', 1_000]]);
    assert.deepEqual(await listed(1_001, full, [row]), [
      ['after', '', 1_000],
      ['then', 'e', 1],
    ]);
    assert.deepEqual(await listed(5_000, full.slice(1)), [['after', '', 1_000]]);
  });

  it('returns the events of a type in pages, each from the last row of the one before', async () => {
    const page = Array.from({ length: 100 }, (_, at) => ({ id: `${at}`, body: '{}', at: 'then' }));
    const { admin, statements } = asked(page, []);
    for await (const rows of admin.landedSince('t', 7)) assert.equal(rows.length, 100);
    assert.deepEqual(
      statements.map(({ values }) => values),
      [
        ['1970-01-01T00:00:00.007Z', '', 't'],
        ['then', '99', 't'],
      ],
    );
  });
});
