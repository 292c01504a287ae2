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
      isIn: (column, parameter) => `${column} IN ${parameter}`,
      digest: (column) => column,
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
});
