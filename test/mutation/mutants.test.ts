import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { luaMutants, typescriptMutants } from './mutants.ts';

describe('the mutants of a Lua script', () => {
  const SCRIPT = "#!lua flags=no-writes\nlocal a = 5\nif a < 3 and not b then\n  call('DEL', a)\nend\n";
  const { mutants } = luaMutants('lib/x.lua', SCRIPT, 7);
  const changes = mutants.map(({ change }) => change);

  it('change comparisons, connectives and constants, and drop statements', () => {
    assert.deepEqual(changes.sort(), [
      "'DEL' → ''",
      '3 → 4',
      '5 → 6',
      '< → <=',
      'and → or',
      "call('DEL', a) → (nothing)",
      'not → (nothing)',
    ]);
  });

  it('keep the first line, and each differs from the script in one place', () => {
    for (const { text = '' } of mutants) {
      assert.ok(text.startsWith('#!lua flags=no-writes\n'));
      assert.notEqual(text, SCRIPT);
    }
  });

  it('are numbered from the number that is given, and name their lines', () => {
    assert.equal(mutants.find(({ change }) => change === '5 → 6')?.line, 2);
    assert.deepEqual(
      mutants.map(({ id }) => Number(id)).sort((a, b) => a - b),
      [7, 8, 9, 10, 11, 12, 13],
    );
  });
});

describe('the mutants of a TypeScript source', () => {
  it('are switches in one text, numbered from the number that is given', async () => {
    const { text, mutants } = await typescriptMutants('lib/x.ts', 'export const older = (a: number) => a > 3;\n', 100);
    assert.ok(mutants.some(({ change }) => change.includes('a > 3 → a >= 3')));
    for (const { id } of mutants) {
      assert.ok(Number(id) >= 100);
      assert.ok(text.includes(`stryMutAct_9fa48("${id}")`), id);
    }
  });
});
