import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { counts, project, scanned, toollint } from '../support/verbs.ts';

const HEAD = '{"baseline":"toollint/1","linter":"ESLint 10"}';
const linesIn = async (path: string) =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path: string; ruleId: string; accepted?: { reason: string } });
const update = ['scan', '--baseline', 'b.jsonl', '--update-baseline', '--silent', '-o', '/dev/null'];

describe('an updated baseline', () => {
  const start = async (t: TestContext, files: Record<string, string>) => {
    const cwd = await project(t, files);
    assert.equal((await toollint(update, { cwd })).code, 0);
    return cwd;
  };

  it('records all findings first, and later only loses lines', async (t) => {
    const cwd = await start(t, { 'a.js': 'var a;\nvar b;\n', 'b.js': 'console.log(1);\n' });
    const first = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 3);
    await writeFile(join(cwd, 'a.js'), '// a comment\n\nvar a;\n   var b;\n');
    await toollint(update, { cwd });
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), first);
    await writeFile(join(cwd, 'a.js'), 'var b;\nvar c;\n');
    const { report, code } = await scanned(cwd, ['--baseline', 'b.jsonl', '--update-baseline']);
    assert.deepEqual([code, counts(report)], [1, [1, 2, 1]]);
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 2);
  });

  it('gains lines only by acceptances, with their reason and end', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'a.js'), 'var a;\nconsole.log(a);\n');
    const accept = [...update, '--accept', 'no-var', '--reason', 'until the rewrite', '--until', '2026-12-31'];
    assert.equal((await toollint(accept, { cwd })).code, 0);
    assert.deepEqual(
      (await linesIn(join(cwd, 'b.jsonl'))).map(({ ruleId, accepted }) => [ruleId, accepted]),
      [['no-var', { reason: 'until the rewrite', until: '2026-12-31' }]],
    );
    const at = async (day: string) =>
      counts((await scanned(cwd, ['--baseline', 'b.jsonl', '--timestamp', `${day}T12:00:00Z`])).report);
    assert.deepEqual(await at('2026-12-31'), [1, 1, 0]);
    assert.deepEqual(await at('2027-01-01'), [2, 0, 0]);
    // An expired acceptance remains in the file until its finding is gone or accepted again.
    await toollint([...update, '--timestamp', '2027-01-01T00:00:00Z'], { cwd });
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 1);
    await toollint([...update, '--timestamp', '2027-01-01T00:00:00Z', '--accept', 'no-var', '--reason', 'again'], {
      cwd,
    });
    assert.deepEqual(
      (await linesIn(join(cwd, 'b.jsonl'))).map(({ accepted }) => accepted?.reason),
      ['again'],
    );
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    await toollint(update, { cwd });
    assert.deepEqual(await linesIn(join(cwd, 'b.jsonl')), []);
  });

  it('knows a file that does not parse after its acceptance', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'broken.js'), 'let = ;\n');
    const before = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    const { code: incomplete, stderr } = await toollint(update, { cwd });
    assert.deepEqual([incomplete, /baseline is not written, because the analysis is/u.test(stderr)], [3, true]);
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), before);
    assert.equal((await toollint([...update, '--accept', 'PARSE-ERROR', '--reason', 'a fixture'], { cwd })).code, 0);
    const { report, code } = await scanned(cwd, ['--baseline', 'b.jsonl', '--gate', 'strict']);
    assert.deepEqual([code, counts(report), report.execution.status], [0, [0, 1, 0], 'complete']);
    await writeFile(join(cwd, 'other.js'), 'let = ;\n');
    assert.equal((await scanned(cwd, ['--baseline', 'b.jsonl'])).code, 3);
    await rm(join(cwd, 'other.js'));
    await writeFile(join(cwd, 'broken.js'), 'let b;\n');
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'b.jsonl'])).report), [0, 0, 1]);
  });

  it('stays as it is if the scan of another folder than its own finds none of its files', async (t) => {
    const cwd = await start(t, { 'packages/one/src/a.js': 'var a;\n', 'packages/one/src/b.js': 'let b;\n' });
    const before = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    const args = ['scan', '--baseline', '../../b.jsonl', '--update-baseline'];
    const { stderr } = await toollint(args, { cwd: join(cwd, 'packages/one') });
    assert.match(stderr, /the baseline is not written, because none of its files is under the root/u);
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), before);
    await rm(join(cwd, 'packages/one/src/a.js'));
    await toollint(update, { cwd });
    assert.deepEqual(await linesIn(join(cwd, 'b.jsonl')), []);
  });

  it('notes a baseline of another major version of the linter', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'b.jsonl'), `${HEAD.replace('10', '9')}\n`);
    const { stderr } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.match(stderr, /the baseline b\.jsonl is of ESLint 9, this is ESLint 10/u);
  });
});
