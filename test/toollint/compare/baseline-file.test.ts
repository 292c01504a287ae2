import assert from 'node:assert/strict';
import { appendFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { baselineText, readBaselineFile } from '../../../lib/toollint/compare/baseline.ts';
import { changesSince, type SourceChanges, UNKNOWN } from '../../../lib/toollint/compare/source-changes.ts';
import { placeHalf } from '../../../lib/toollint/document/fingerprint.ts';
import { compare, Interrupted, memorySource } from '../../../lib/toollint/toollint.ts';
import { git, repository } from '../support/verbs.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

describe('the text of a baseline file', () => {
  it('is read as it was written', async () => {
    const finding = fc.record({
      path: fc.constantFrom('a.ts', 'b/c.ts'),
      ruleId: fc.constantFrom('one', 'two/three'),
      text: fc.string(),
      message: fc.string({ minLength: 1 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(finding), async (sketches) => {
        const entries = sketches.map((sketch) => ({ finding: sampleFinding(sketch) }));
        const text = baselineText(entries, 'Some Linter 1');
        const { entries: again, linter } = await readBaselineFile(memorySource(text, 'b'));
        assert.equal(baselineText(again, 'Some Linter 1'), text);
        assert.equal(linter, 'Some Linter 1');
        assert.deepEqual(
          again.map((entry) => entry.finding.fingerprint).sort(),
          entries.map((entry) => entry.finding.fingerprint).sort(),
        );
      }),
    );
  });

  it('keeps the whole of a foreign fingerprint, even if it ends with our place half', async () => {
    const place = placeHalf('file', 'src/app.ts');
    for (const fingerprint of [place, `x${place}`, `${'0'.repeat(33)}${place}`]) {
      const text = baselineText([{ finding: { ...sampleFinding(), fingerprint } }], 'x 1');
      assert.equal((await readBaselineFile(memorySource(text, 'b'))).entries[0]?.finding.fingerprint, fingerprint);
    }
  });

  it('ends a comparison with its signal while it is read', async () => {
    const text = baselineText(
      Array.from({ length: 30_000 }, () => ({ finding: sampleFinding() })),
      'x',
    );
    const report = memorySource(JSON.stringify(sampleReport([])), 'r');
    await assert.rejects(compare(memorySource(text, 'b'), report, { signal: AbortSignal.abort() }), Interrupted);
  });
});

describe('the changes since a commit', () => {
  const rangesIn = (changes: SourceChanges, path: string) =>
    changes.hunksIn(path).map((hunk) => [hunk.oldStart, hunk.oldEnd, hunk.newStart, hunk.newEnd, ...hunk.removed]);

  it('list moved, changed and deleted lines', async (t) => {
    const lines = (...numbers: number[]) => numbers.map((number) => `line ${number}\n`).join('');
    const cwd = await repository(t, {
      'a.js': lines(1, 2, 3, 4, 5, 6),
      'gone.js': 'x\n',
      'old name.js': lines(10, 11, 12, 13),
      'plus.js': 'x\n',
    });
    await writeFile(join(cwd, 'a.js'), `new\n${lines(1, 2)}changed\n${lines(4, 6)}`);
    await writeFile(join(cwd, 'plus.js'), `${'y'.repeat(2 ** 20)}\n++ b/a.js\n@@ -1 +1 @@\nx\n`);
    await rm(join(cwd, 'gone.js'));
    git(cwd, 'mv', 'old name.js', 'new name.js');
    await appendFile(join(cwd, 'new name.js'), 'more\n');
    const changes = changesSince('HEAD', cwd);
    const changed = [
      [1, 1, 1, 2],
      [3, 4, 4, 5, 'line 3'],
      [5, 6, 6, 6, 'line 5'],
    ];
    assert.deepEqual(rangesIn(changes, 'a.js'), changed);
    assert.deepEqual([[...changes.renames], [...changes.deleted]], [[['old name.js', 'new name.js']], ['gone.js']]);
    assert.deepEqual(rangesIn(changes, 'plus.js'), [[1, 1, 1, 4]]);
    assert.deepEqual(rangesIn(changes, 'new name.js'), [[5, 5, 5, 6]]);
    assert.deepEqual(changes.hunksIn('x'), [UNKNOWN]);
    assert.throws(() => changesSince('nowhere', cwd), /git diff: /u);
  });

  it("do not depend on git's configuration or on a hook's environment", async (t) => {
    const [first, second] = ['a', 'b'].map((name) => `${name}\n`.repeat(9)) as [string, string];
    const files = { 'part/\u00e4.js': 'one\ntwo\n', '.gitattributes': '*.js diff=odd\n' };
    const cwd = await repository(t, { ...files, 'first.js': first, 'second.js': second });
    for (const [key, value] of [
      ['color.ui', 'always'],
      ['core.quotePath', 'true'],
      ['diff.noprefix', 'true'],
      ['diff.renames', 'false'],
      ['diff.renameLimit', '1'],
      ['diff.external', '/bin/false'],
      ['diff.odd.textconv', 'tail -n +2'],
      ['diff.interHunkContext', '9'],
    ] as const)
      git(cwd, 'config', key, value);
    await writeFile(join(cwd, 'part/\u00e4.js'), 'new\none\ntwo\nlast\n');
    const added = [
      [1, 1, 1, 2],
      [3, 3, 4, 5],
    ];
    assert.deepEqual(rangesIn(changesSince('HEAD', cwd), 'part/\u00e4.js'), added);
    for (const name of ['first.js', 'second.js']) {
      git(cwd, 'mv', name, `new ${name}`);
      await appendFile(join(cwd, `new ${name}`), 'more\n');
    }
    assert.equal(changesSince('HEAD', cwd).renames.size, 2);
    const before = { ...process.env };
    t.after(() => void (process.env = before));
    Object.assign(process.env, { GIT_DIR: join(cwd, '.git'), GIT_DIFF_OPTS: '--unified=2' });
    assert.deepEqual(rangesIn(changesSince('HEAD', join(cwd, 'part')), '\u00e4.js'), added);
  });
});
