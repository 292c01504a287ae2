// The baseline that lives in git: its lines, what it refuses, its ratchet, and how git merges it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { BaselineEntry } from '../../../lib/toollint/compare/baseline.ts';
import { readBaseline } from '../../../lib/toollint/compare/baseline.ts';
import { baselineText, isDay, readBaselineFile } from '../../../lib/toollint/compare/baseline-file.ts';
import { changesSince } from '../../../lib/toollint/compare/source-changes.ts';
import { memorySource } from '../../../lib/toollint/document/document-source.ts';
import type { Report } from '../../../lib/toollint/document/report-schema.ts';
import { configText, project, scanned, toollint } from '../support/verbs.ts';
import { projectFinding, sampleFinding } from '../support/samples.ts';

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {
    cwd,
    stdio: 'pipe',
    encoding: 'utf8',
  });
const HEAD = '{"baseline":"toollint/1","linter":"ESLint 10"}';
const linesIn = async (path: string) =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path: string; ruleId: string; accepted?: { reason: string } });
const counts = ({ selection: { baseline } }: Report) => [baseline?.newIssues, baseline?.unchanged, baseline?.fixed];
const update = ['scan', '--baseline', 'b.jsonl', '--update-baseline', '--silent', '-o', '/dev/null'];

describe('the text of a baseline file', () => {
  it('has a line for each finding, sorted, and nothing in it that moves', () => {
    const entries: BaselineEntry[] = [
      { finding: sampleFinding({ path: 'b.ts', message: 'has 301 lines' }) },
      { finding: projectFinding() },
      { finding: sampleFinding({ path: 'a.ts' }), accepted: { reason: 'old', until: '2027-01-01', owner: 'me' } },
      { finding: { ...sampleFinding({ path: 'c.ts' }), fingerprint: 'foreign' } },
    ];
    const text = baselineText(entries, 'ESLint 10');
    const [head, ...lines] = text.split('\n');
    assert.equal(head, HEAD);
    assert.equal(lines.pop(), '');
    assert.deepEqual(
      lines.map((line) => Object.values(JSON.parse(line) as Record<string, unknown>).slice(0, 4)),
      [
        ['a.ts', 'no-console', 'warning', 'Unexpected console statement.'],
        ['b.ts', 'no-console', 'warning', 'has # lines'],
        ['c.ts', 'no-console', 'warning', 'Unexpected console statement.'],
        ['TL-README', 'info', 'Missing README with # sections', projectFinding().fingerprint.slice(0, 32)],
      ],
    );
    const moved = entries.map((entry) => ({
      ...entry,
      finding: { ...entry.finding, location: { ...entry.finding.location, line: 77, column: 9 }, codeSnippet: 'x' },
    }));
    assert.equal(baselineText(moved.reverse(), 'ESLint 10'), text);
  });

  it('is read back as it was written', () => {
    const finding = fc.record({
      path: fc.constantFrom('a.ts', 'b/c.ts'),
      ruleId: fc.constantFrom('one', 'two/three'),
      text: fc.string(),
      message: fc.string({ minLength: 1 }),
    });
    fc.assert(
      fc.property(fc.array(finding), (sketches) => {
        const entries = sketches.map((sketch) => ({ finding: sampleFinding(sketch) }));
        const text = baselineText(entries, 'Some Linter 1');
        const { entries: again, linter } = readBaselineFile(memorySource(text, 'b'));
        assert.equal(baselineText(again, 'Some Linter 1'), text);
        assert.deepEqual(linter, { name: 'Some Linter', version: '1' });
        assert.deepEqual(
          again.map((entry) => entry.finding.fingerprint).sort(),
          entries.map((entry) => entry.finding.fingerprint).sort(),
        );
      }),
    );
  });

  it('is refused where a line is none, with its number', () => {
    const line = baselineText([{ finding: sampleFinding() }], 'x').split('\n')[1] ?? '';
    const changed = (change: object) => JSON.stringify({ ...(JSON.parse(line) as object), ...change });
    for (const [text, message] of [
      [`{"baseline":"toollint/2"}\n`, /line 1: expected the format toollint\/1, found "toollint\/2"/u],
      [`{"baseline":\n`, /line 1: not a JSON object/u],
      [`${HEAD}\n<<<<<<< HEAD\n${line}\n`, /line 2: not a JSON object/u],
      [`${HEAD}\n${line}\n\n`, /line 3: not a JSON object/u],
      [`${HEAD}\n${changed({ path: '../x' })}\n`, /line 2: no report path/u],
      [`${HEAD}\n${changed({ ruleId: 1 })}\n`, /line 2: no rule id/u],
      [`${HEAD}\n${changed({ severity: 'fatal' })}\n`, /line 2: no severity/u],
      [`${HEAD}\n${changed({ message: null })}\n`, /line 2: no message/u],
      [`${HEAD}\n${changed({ content: undefined })}\n`, /line 2: no fingerprint/u],
      [`${HEAD}\n${changed({ accepted: {} })}\n`, /line 2: an acceptance without a reason/u],
      [`${HEAD}\n${changed({ accepted: { reason: 'x', until: 'soon' } })}\n`, /line 2: an acceptance until no day/u],
      [`${HEAD}\n${changed({ accepted: { reason: 'x', owner: 1 } })}\n`, /whose owner is no text/u],
    ] as const)
      assert.throws(() => readBaselineFile(memorySource(text, 'b.jsonl')), message, text);
  });

  it('counts what was accepted until a day that is over as new', () => {
    const until = (day: string | undefined) => ({ finding: sampleFinding(), accepted: { reason: 'x', until: day } });
    const text = baselineText([until('2026-06-14'), until('2026-06-15'), until(undefined)], 'ESLint 10');
    const user = { tool: { name: 'toollint', version: '1' }, quiet: false, today: '2026-06-15' };
    const { entries, expired } = readBaseline(memorySource(text, 'b'), user);
    assert.deepEqual([entries.length, expired.map(({ accepted }) => accepted?.until)], [2, ['2026-06-14']]);
  });

  it('knows the days of the calendar', () => {
    for (const day of ['2026-12-31', '2028-02-29']) assert.equal(isDay(day), true, day);
    for (const day of ['2026-02-29', '2026-13-01', '2026-1-1', 'soon', 1, '2026-01-01T00:00:00Z'])
      assert.equal(isDay(day), false);
  });
});

describe('the ratchet', () => {
  const start = async (t: TestContext, files: Record<string, string>) => {
    const cwd = await project(t, files);
    assert.equal((await toollint(update, { cwd })).code, 0);
    return cwd;
  };

  it('is made of all that there is, and then only gets lower', async (t) => {
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

  it('is raised by an acceptance alone, whose reason, end and owner stay with the finding', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'a.js'), 'var a;\nconsole.log(a);\n');
    const accept = [
      ...update,
      '--accept',
      'no-var',
      '--reason',
      'until the rewrite',
      '--until',
      '2026-12-31',
      '--owner',
      'web',
    ];
    assert.equal((await toollint(accept, { cwd })).code, 0);
    assert.deepEqual(
      (await linesIn(join(cwd, 'b.jsonl'))).map(({ ruleId, accepted }) => [ruleId, accepted]),
      [['no-var', { reason: 'until the rewrite', until: '2026-12-31', owner: 'web' }]],
    );
    const at = async (day: string) =>
      counts((await scanned(cwd, ['--baseline', 'b.jsonl', '--timestamp', `${day}T12:00:00Z`])).report);
    assert.deepEqual(
      [await at('2026-12-31'), await at('2027-01-01')],
      [
        [1, 1, 0],
        [2, 0, 0],
      ],
    );
    // What has ended stays written down until the finding is gone or accepted again.
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

  it('takes a file that does not parse as known once that was accepted', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'broken.js'), 'let = ;\n');
    const before = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    assert.equal((await toollint(update, { cwd })).code, 3);
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

  it('refuses flags that do not go together, and a rule that no scan has', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    for (const args of [
      ['--accept', 'no-var', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--accept', 'no-var', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var', '--reason', ' '],
      ['--baseline', 'b.jsonl', '--update-baseline', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var', '--reason', 'x', '--until', 'soon'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-vra', '--reason', 'x'],
      ['--baseline', 'git:HEAD', '--update-baseline'],
    ]) {
      const { code, stdout } = await toollint(['scan', ...args], { cwd });
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    }
  });

  it('notes a baseline of another major version of the linter', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'b.jsonl'), `${HEAD.replace('10', '9')}\n`);
    const { stderr } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.match(stderr, /the baseline b\.jsonl is of ESLint 9, this is ESLint 10/u);
  });
});

describe('a baseline and git', () => {
  const repository = async (t: TestContext, files: Record<string, string>) => {
    const cwd = await project(t, files);
    git(cwd, 'init', '-q', '-b', 'main');
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'one');
    return cwd;
  };

  it('merges without conflict when two branches fix and accept different findings', async (t) => {
    const files = Object.fromEntries(
      ['a', 'b', 'c', 'd', 'e'].map((name) => [`${name}.js`, 'var x;\nvar y;\nvar z;\n']),
    );
    const cwd = await repository(t, files);
    await toollint(update, { cwd });
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    git(cwd, 'checkout', '-qb', 'side');
    await writeFile(join(cwd, 'b.js'), 'let x;\nvar y;\nvar z;\n');
    await toollint(update, { cwd });
    git(cwd, 'commit', '-qam', 'fix in b');
    git(cwd, 'checkout', '-q', 'main');
    await writeFile(join(cwd, 'e.js'), '// moved\nvar x;\nlet y;\nvar z;\nconsole.log(x);\n');
    await toollint([...update, '--accept', 'no-console', '--reason', 'x'], { cwd });
    git(cwd, 'commit', '-qam', 'fix in e');
    git(cwd, 'merge', '-q', '--no-edit', 'side');
    const { report } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.deepEqual(counts(report), [0, 14, 0]);
  });

  it('merges neighbouring lines with merge=union into a superset, which the next update lowers', async (t) => {
    const names = ['a', 'b', 'c', 'd'];
    const cwd = await repository(t, Object.fromEntries(names.map((name) => [`${name}.js`, 'var x;\n'])));
    await writeFile(join(cwd, '.gitattributes'), 'b.jsonl merge=union\n');
    await toollint(update, { cwd });
    const known = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    const fixed = async (name: string) => {
      await writeFile(join(cwd, `${name}.js`), 'let x;\n');
      await toollint(update, { cwd });
      git(cwd, 'commit', '-qam', `fix in ${name}`);
    };
    git(cwd, 'checkout', '-qb', 'side');
    await fixed('b');
    git(cwd, 'checkout', '-q', 'main');
    await fixed('c');
    git(cwd, 'merge', '-q', '--no-edit', 'side');
    const merged = (await readFile(join(cwd, 'b.jsonl'), 'utf8')).split('\n');
    const lines = known.split('\n');
    const left = lines.filter((line) => !/"path":"[bc]\.js"/u.test(line));
    assert.deepEqual(
      left.filter((line) => !merged.includes(line)),
      [],
    );
    assert.deepEqual(
      merged.filter((line) => !lines.includes(line)),
      [],
    );
    assert.equal((await scanned(cwd, ['--baseline', 'b.jsonl'])).report.selection.baseline?.newIssues, 0);
    await toollint(update, { cwd });
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), left.join('\n'));
  });

  it('tells equal lines apart by the history of the file', async (t) => {
    const block = 'console.log(1);\n';
    const cwd = await repository(t, { 'a.js': `let a;\n${block}let b;\n${block}` });
    await toollint(update, { cwd });
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    await writeFile(join(cwd, 'a.js'), `${block}let a;\n${block}let b;\n${block}`);
    const { report } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.deepEqual(
      report.findings.map(({ location }) => location.line),
      [1],
    );
  });

  it('can be a commit, whose tree is scanned once, or whose own baseline is read', async (t) => {
    const cwd = await repository(t, { 'a.js': 'var a;\n', 'part/b.js': 'var b;\n' });
    git(cwd, 'checkout', '-qb', 'work');
    await mkdir(join(cwd, 'moved'));
    await rename(join(cwd, 'part/b.js'), join(cwd, 'moved/b.js'));
    await appendFile(join(cwd, 'a.js'), 'var c;\n');
    git(cwd, 'add', '-A');
    git(cwd, 'commit', '-qm', 'two');
    for (let pass = 0; pass < 2; pass += 1)
      for (const baseline of ['git:main', 'git:merge-base(main)', 'git:HEAD~1']) {
        const { report } = await scanned(cwd, ['--baseline', baseline, '--gate', 'new-code']);
        assert.deepEqual([counts(report), report.findings[0]?.location.line], [[1, 2, 0], 2], baseline);
      }
    assert.equal(git(cwd, 'status', '--porcelain'), '');
    for (const path of ['a.js', 'moved/b.js', join(cwd, 'moved/b.js')]) {
      const { report } = await scanned(cwd, [path, '--baseline', 'git:HEAD']);
      assert.equal(report.selection.baseline?.newIssues, 0, path);
    }
    const part = await scanned(join(cwd, 'moved'), ['--baseline', 'git:HEAD', '-c', '../eslint.config.mjs']);
    assert.deepEqual(counts(part.report), [0, 1, 0]);
    await writeFile(join(cwd, 'toollint-baseline.jsonl'), `${HEAD}\n`);
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'nothing is known');
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'git:HEAD'])).report), [3, 0, 0]);
    for (const bad of ['git:', 'git:nowhere', 'git:--output=x', 'git:merge-base(nowhere)']) {
      const { code, stdout, stderr } = await toollint(['scan', '--baseline', bad], { cwd });
      assert.deepEqual([code, stdout], [2, ''], bad);
      assert.match(stderr, /^toollint: [^\n]+\n$/u);
    }
  });

  it('of a commit that is not sound is used with a note, and each scan has the whole of it', async (t) => {
    const cwd = await repository(t, { 'a.js': 'var a;\n', 'b.js': 'var b;\n', 'broken.js': 'var = 1;\n' });
    for (const paths of [['a.js'], ['b.js'], ['a.js', 'b.js']]) {
      const { report, stderr } = await scanned(cwd, [...paths, '--baseline', 'git:HEAD']);
      assert.deepEqual(counts(report).slice(0, 2), [0, paths.length]);
      assert.match(stderr, /the baseline git:HEAD is incomplete: findings in the files that it missed may look new/u);
    }
  });

  it('knows which lines a diff moved, changed and deleted', async (t) => {
    const lines = (...numbers: number[]) => numbers.map((number) => `line ${number}\n`).join('');
    const cwd = await repository(t, {
      'a.js': lines(1, 2, 3, 4, 5, 6),
      'gone.js': 'x\n',
      'old name.js': lines(10, 11, 12, 13),
      'plus.js': 'x\n',
    });
    await writeFile(join(cwd, 'a.js'), `new\n${lines(1, 2)}changed\n${lines(4, 6)}`);
    await writeFile(join(cwd, 'plus.js'), '++ b/a.js\n@@ -1 +1 @@\nx\n');
    await rm(join(cwd, 'gone.js'));
    git(cwd, 'mv', 'old name.js', 'new name.js');
    const changes = await changesSince('HEAD', cwd);
    assert.deepEqual(
      [1, 2, 3, 4, 5, 6].map((line) => changes.lineNow('a.js', line)),
      [2, 3, undefined, 5, undefined, 6],
    );
    assert.deepEqual(
      [1, 2, 3, 4, 5, 6].map((line) => changes.isTouched('a.js', line)),
      [true, false, false, true, false, false],
    );
    assert.deepEqual([[...changes.renames], [...changes.deleted]], [[['old name.js', 'new name.js']], ['gone.js']]);
    assert.deepEqual(
      [changes.lineNow('plus.js', 1), changes.lineNow('new name.js', 3), changes.isTouched('x', 1)],
      [3, 3, false],
    );
    await assert.rejects(changesSince('nowhere', cwd), /git diff: /u);
  });
});

describe('--list', () => {
  it('lists one side of a comparison, with counts that add up, as text and as JSON', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\nvar b;\nconsole.log(a);\n',
      'eslint.config.mjs': configText(`{ 'no-var': 2, 'no-console': 1 }`),
    });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), 'var b;\nvar c;\n');
    await writeFile(join(cwd, 'eslint.config.mjs'), configText(`{ 'no-var': 2 }`));
    await toollint(['scan', '-o', 'now.json'], { cwd });
    const list = async (...args: string[]) =>
      await toollint(['compare', 'base.json', 'now.json', '--silent', '--list', ...args], { cwd });
    const { code, stdout } = await list('fixed');
    assert.equal(code, 1);
    assert.equal(
      stdout,
      'a.js:1:1 no-var Unexpected var, use let or const instead.\nbaseline: 1 new, 1 unchanged, 1 fixed, 1 not verifiable\n',
    );
    assert.match((await list('not-verifiable')).stdout, /^a\.js:3:1 no-console /u);
    assert.match((await list('new')).stdout, /^a\.js:2:1 no-var /u);
    assert.match((await list('unchanged')).stdout, /^a\.js:1:1 no-var /u);
    const json = JSON.parse((await list('fixed', '--format', 'json')).stdout) as { counts: object; findings: object[] };
    assert.deepEqual(
      [json.counts, json.findings.length],
      [{ newIssues: 1, unchanged: 1, fixed: 1, notVerifiable: 1 }, 1],
    );
    for (const args of [['all'], ['fixed', '--format', 'sarif'], ['fixed', '-o', 'x'], ['fixed', '--to', 'json']])
      assert.equal((await list(...args)).code, 2, args.join(' '));
  });
});
