import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RETENTION_MS } from '../../lib/ingest/queue.ts';
import { reasonCode } from '../../lib/ingest/warehouse-admin.ts';
import {
  originalText,
  quarantineRowName,
  PRUNE_AGE_MS_MIN,
  storableText,
  unfitness,
  type Column,
  type QuarantinedEvent,
} from '../../lib/ingest/warehouse.ts';

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

it('the code of a quarantine reason is the text before its first colon', () => {
  assert.equal(reasonCode('invalid_event: /id must be a string: 1 to 256'), 'invalid_event');
  assert.equal(reasonCode('id_conflict'), 'id_conflict');
  assert.equal(reasonCode(''), '');
});

describe('tables of a later program', () => {
  const TABLES = {
    events: ['id', 'type', 'producer', 'accepted_at', 'landed_at', 'body', 'traceparent'],
    events_quarantine: ['entry', 'id', 'producer', 'reason', 'accepted_at', 'quarantined_at', 'body', 'traceparent'],
  };
  const COLUMNS: readonly Column[] = Object.entries(TABLES).flatMap(([table, names]) =>
    names.map((name) => ({ table, name, required: true })),
  );

  it('fit if they have the columns of this one, in any order, and optional others', () => {
    assert.equal(unfitness(COLUMNS), undefined);
    const more = ['events', 'events_quarantine', 'other'].map((table) => ({ table, name: 'more', required: false }));
    assert.equal(unfitness([...COLUMNS, ...more].reverse()), undefined);
    assert.equal(unfitness([...COLUMNS, { table: 'other', name: 'more', required: true }]), undefined);
  });

  for (const { table, name } of COLUMNS)
    it(`do not fit without ${table}.${name}, whatever other tables have`, () => {
      const others = COLUMNS.filter((column) => column.table !== table || column.name !== name);
      assert.equal(unfitness(others), `${table} has no column ${name}`);
      assert.equal(unfitness([...others, { table: 'other', name, required: false }]), `${table} has no column ${name}`);
    });

  it('do not fit if they require a value that this one does not know', () => {
    for (const table of Object.keys(TABLES))
      assert.equal(unfitness([...COLUMNS, { table, name: 'more', required: true }]), `${table}.more may not be null`);
  });
});

it('the warehouse keeps an event at least twice as long as the queue', () =>
  assert.equal(PRUNE_AGE_MS_MIN, 2 * RETENTION_MS));
