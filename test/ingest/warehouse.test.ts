// How the quarantine spells names that a text column would refuse, how its reasons begin, and what errors are called.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { reasonCode, WarehouseFailed } from '../../lib/ingest/warehouse-admin.ts';
import {
  BatchRefused,
  BatchTooSlow,
  originalText,
  storableText,
  WarehouseMisconfigured,
} from '../../lib/ingest/warehouse.ts';

describe('a name in the quarantine', () => {
  const cases: readonly (readonly [name: string, stored: string])[] = [
    ['shop', 'shop'],
    ['', ''],
    ['a\0b', 'a\\0b'],
    ['a\\0b', 'a\\\\0b'],
    ['\\', '\\\\'],
    ['\\\\\0\0', '\\\\\\\\\\0\\0'],
    ['a\\n', 'a\\\\n'],
  ];
  for (const [name, stored] of cases)
    it(`is kept as ${JSON.stringify(stored)} where it is ${JSON.stringify(name)}`, () => {
      assert.equal(storableText(name), stored);
      assert.equal(originalText(stored), name);
    });

  it('holds no NUL, and gives back what it was made of, whatever that is', () => {
    const name = fc.string({ unit: fc.constantFrom('a', '0', '\\', '\0', 'é'), maxLength: 12 });
    fc.assert(
      fc.property(name, (text) => {
        assert.equal(storableText(text).includes('\0'), false);
        assert.equal(originalText(storableText(text)), text);
      }),
      { numRuns: 1_000 },
    );
  });
});

it('the code of a quarantine reason is what stands before its first colon', () => {
  assert.equal(reasonCode('invalid_event: /id must be a string: 1 to 256'), 'invalid_event');
  assert.equal(reasonCode('id_conflict'), 'id_conflict');
  assert.equal(reasonCode(''), '');
});

it('an error of the warehouse carries its own name into a log', () => {
  for (const [error, text] of [
    [new BatchRefused('words'), 'BatchRefused: words'],
    [new BatchTooSlow('words'), 'BatchTooSlow: words'],
    [new WarehouseMisconfigured('words'), 'WarehouseMisconfigured: words'],
    [new WarehouseFailed('words'), 'WarehouseFailed: words'],
  ] as const)
    assert.equal(String(error), text);
});
