import assert from 'node:assert/strict';
import { it } from 'node:test';
import { COUNT_EXACT_MAX } from '../../lib/ingest/warehouse-admin.ts';
import { adminOfTables, type Dialect } from '../../lib/ingest/warehouse-tables.ts';

it('up to a million events are counted exactly, and above that the estimate is returned', async () => {
  const counts = (...answers: readonly number[]) => {
    const left = [...answers];
    const rows: Dialect['rows'] = (sql) =>
      Promise.resolve(sql.includes('GROUP BY') ? [] : [{ rows: left.shift() ?? assert.fail(sql) }]);
    const dialect = { rows, estimate: 'an estimate', timeValue: String, exactTime: String };
    return adminOfTables(dialect as unknown as Dialect).counts();
  };
  const events = { estimated: false, quarantine: [] };
  assert.deepEqual(await counts(COUNT_EXACT_MAX, 999_999), { ...events, events: 999_999 });
  const above = COUNT_EXACT_MAX + 1;
  assert.deepEqual(await counts(above), { ...events, events: above, estimated: true });
});
