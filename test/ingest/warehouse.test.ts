import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { COUNT_EXACT_MAX } from '../../lib/ingest/warehouse-admin.ts';
import { adminOfTables, type Dialect } from '../../lib/ingest/warehouse-tables.ts';
import { originalText, quarantineRowName, storableText, type QuarantinedEvent } from '../../lib/ingest/warehouse.ts';

describe('the name of a quarantine row', () => {
  const named = (more: Partial<QuarantinedEvent>): string =>
    quarantineRowName({ source: 'q/ingest', entry: '1-0', producer: 'shop', body: Buffer.from('{"v":1}'), ...more });

  it("consists of the entry's name and a digest of the id, or of the body if there is no id", () => {
    assert.match(named({ id: 'a' }), /^q\/ingest\/1-0~[0-9a-f]{16}$/);
    assert.equal(named({ id: 'a' }), named({ id: 'a', body: Buffer.from('other') }));
    const names = [
      ...[{ id: 'a' }, { id: 'b' }, { id: 'a', producer: 'till' }, { id: 'a', source: 'r/ingest' }],
      ...[{}, { body: Buffer.from('{"v":2}') }],
    ].map((more) => named(more).replace(/^.*~/, ''));
    assert.equal(new Set(names).size, names.length);
  });
});

it('a name in the quarantine holds no NUL, and is restored exactly', () => {
  assert.equal(storableText('a\\b\0'), 'a\\\\b\\0');
  const name = fc.string({ unit: fc.constantFrom('a', '0', '\\', '\0', 'é'), maxLength: 12 });
  fc.assert(
    fc.property(name, (text) => {
      assert.equal(storableText(text).includes('\0'), false);
      assert.equal(originalText(storableText(text)), text);
    }),
    { numRuns: 1_000 },
  );
});

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
