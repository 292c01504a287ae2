import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { renamed, type BaselineEntry } from '../../../lib/toollint/compare/baseline.ts';
import { doubtsIn } from '../../../lib/toollint/compare/comparison.ts';
import { matchFindings } from '../../../lib/toollint/compare/finding-match.ts';
import type { Hunk, SourceChanges } from '../../../lib/toollint/compare/source-changes.ts';
import { anchorOf } from '../../../lib/toollint/document/fingerprint.ts';
import type { Diagnostic, Finding, Report } from '../../../lib/toollint/document/report-schema.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const entriesOf = (...findings: Finding[]) => findings.map((finding): BaselineEntry => ({ finding }));

function matched(before: Finding[], now: readonly Finding[], changes?: SourceChanges) {
  const entries = entriesOf(...before);
  const { known, missing } = matchFindings(entries, now, changes);
  const news = now.flatMap((finding, index) => (known.has(finding) ? [] : [index]));
  return {
    counts: [news.length, now.length - news.length, missing.length],
    news,
    missing: missing.map((entry) => entries.indexOf(entry)),
  };
}

const at = (line: number, column = 1, text = 'x') => sampleFinding({ line, column, text });

describe('matching', () => {
  const PAIRED: readonly (readonly [
    name: string,
    before: Finding[],
    now: Finding[],
    news: number[],
    missing: number[],
  ])[] = [
    // The old finding at line 9 is still there, so the one at line 5 moved to line 6, and the one at line 12 is new.
    ['the same place first', [at(5), at(9)], [at(12), at(9), at(6)], [0], []],
    ['the same column first', [at(3, 1), at(3, 9)], [at(3, 9)], [], [0]],
    ['the same column first, in any order', [at(3, 9), at(3, 1)], [at(3, 9)], [], [1]],
    ['the same line first', [at(1, 23)], [at(12, 3), at(1, 23)], [0], []],
    ['each old finding once', [at(3)], [at(3), at(3)], [1], []],
    ['one of two equal findings', [at(3), at(3)], [at(3)], [], [1]],
    ['two equal findings', [at(3), at(3)], [at(3), at(3)], [], []],
    ['the nearest lines', [at(9), at(1), at(5)], [at(4), at(8)], [], [1]],
    ['the nearest column', [at(5, 30), at(5, 10)], [at(6, 1)], [], [0]],
    ['the nearest of two new lines', [at(10)], [at(21), at(11)], [0], []],
    ['the nearest of two new columns', [at(10)], [at(11, 9), at(11, 2)], [0], []],
    ['no edited line without git', [at(3)], [at(3, 1, 'edited')], [0], [0]],
  ];
  for (const [name, before, now, news, missing] of PAIRED)
    it(`pairs ${name}`, () => {
      const found = matched(before, now);
      assert.deepEqual([found.news, found.missing], [news, missing]);
    });

  it('knows a finding if only a number in the message changed', () => {
    const counting = (count: number, text: string, line: number, path = 'src/app.ts') =>
      sampleFinding({ ruleId: 'max-lines', message: `too many lines (${count})`, text, line, path });
    const known = { counts: [0, 1, 0], news: [], missing: [] };
    assert.deepEqual(matched([counting(301, 'a', 300)], [counting(305, 'b', 301)]), known);
    assert.deepEqual(matched([counting(301, 'a', 300)], [counting(305, 'b', 301, 'src/b.ts')]).counts, [1, 0, 1]);
    const other = sampleFinding({ ruleId: 'max-lines', message: 'too many words (3)', text: 'b' });
    assert.deepEqual(matched([counting(301, 'a', 300)], [other]).counts, [1, 0, 1]);
    const two = [counting(305, 'b', 301), counting(306, 'c', 302)];
    assert.deepEqual(matched([counting(301, 'a', 300)], two).news, [1]);
    assert.deepEqual(matched([counting(301, 'a', 302)], two).news, [0]);
    const old = Array.from({ length: 1000 }, (_, index) => counting(index, `old ${index}`, index + 1));
    const now = Array.from({ length: 1001 }, (_, index) => counting(index, `now ${index}`, index + 1));
    assert.deepEqual(matched(old, now).counts, [1, 1000, 0]);
    assert.deepEqual(matched(two, [counting(301, 'a', 300)]).missing, [1]);
  });

  const hunk = (oldStart: number, oldCount: number, newStart: number, newCount: number, removed: string[] = []) => ({
    oldStart,
    oldEnd: oldStart + oldCount,
    newStart,
    newEnd: newStart + newCount,
    removed,
  });
  const changed = (...hunks: Hunk[]): SourceChanges => ({
    renames: new Map(),
    deleted: new Set(),
    tracked: new Set(),
    hunksIn: (path) => (path === 'src/app.ts' ? hunks : []),
  });

  it('follows lines that git moved, and no changed lines', () => {
    const now = [at(10), at(20)];
    assert.deepEqual(matched([at(10)], now).news, [1], 'without git the one at the old place');
    const moved = changed(hunk(5, 0, 5, 10));
    assert.deepEqual(matched([at(10)], now, moved).news, [0]);
    assert.deepEqual(matched([at(10, 7)], [at(20, 1), at(20, 7)], moved).news, [0]);
    assert.deepEqual(matched([at(10)], now, changed(hunk(10, 1, 10, 1))).news, [0]);
    const bare = sampleFinding({ line: undefined, column: undefined, text: 'x' });
    const touched = changed(hunk(9, 0, 10, 1), hunk(28, 0, 30, 1));
    assert.deepEqual(matched([bare], [at(10), at(20), at(30)], touched).news, [0, 2]);
    assert.deepEqual(matched([bare, bare], [at(10), at(20), at(30)], touched).news, [2]);
  });

  const on = (
    text: string,
    line: number | undefined,
    column = 1,
    end?: number,
    ruleId = 'r',
    message = 'm',
  ): Finding => {
    const range = { line: 1, column, endLine: 1, endColumn: end ?? text.length + 1 };
    const one = sampleFinding({ ruleId, message, text: `${text} ${column}`, line, column });
    return Object.assign(one, { anchor: anchorOf([text], range) });
  };

  it('knows a finding of the same kind in the same hunk, each once, the same text first', () => {
    const bare = (finding: Finding) => ({ ...finding, location: { scope: 'file' as const, path: 'src/app.ts' } });
    const before = on('console.log(1); alert(1);', 3, 1, 12);
    const hunks = [hunk(3, 1, 3, 4, ['console.log(1); alert(1);']), hunk(30, 0, 33, 1)];
    const same = (line: number) => on('console.log(2); // why', line, 1, 12);
    const other = (line: number) => on('console.warn(1); // why', line, 1, 13);
    for (const old of [before, bare(before)]) {
      const newsOf = (...now: Finding[]) => matched([old], now, changed(...hunks)).news;
      assert.deepEqual(newsOf(other(3)), []);
      assert.deepEqual(newsOf(other(3), same(5)), [0]);
      assert.deepEqual(newsOf(other(5), other(4)), [0]);
      assert.deepEqual(newsOf(on('console.log(1);', 3, 1, 12, 'other')), [0]);
      assert.deepEqual(newsOf(on('console.log(1);', 3, 1, 12, 'r', 'other')), [0]);
    }
    assert.deepEqual(matched([before], [same(3), same(4)]).news, [1], 'without git');
    assert.deepEqual(matched([before], [other(3)]).news, [0], 'without git');
  });

  it('does not match findings in another hunk or on an unchanged line', () => {
    const before = on('var a; x();', 3, 1, 6);
    const hunks = [hunk(3, 1, 3, 0, ['var a; x();']), hunk(30, 0, 29, 1)];
    assert.deepEqual(matched([before], [on('var a; y();', 29, 1, 6)], changed(...hunks)).counts, [1, 0, 1]);
    assert.deepEqual(matched([before], [on('var a; y();', 50, 1, 6)], changed(...hunks)).counts, [1, 0, 1]);
    const bare = { ...before, location: { scope: 'file' as const, path: 'src/app.ts' } };
    assert.deepEqual(matched([bare], [on('var a; y();', 29, 1, 6)], changed(...hunks)).counts, [1, 0, 1]);
    const uncommitted = [hunk(3, 1, 3, 1, ['what the commit has'])];
    assert.deepEqual(matched([bare], [on('var a; y();', 3, 1, 6)], changed(...uncommitted)).counts, [0, 1, 0]);
  });

  it('knows a finding whose line moved to another hunk and was edited, but no copy and no other line', () => {
    const OLD = 'var method = req.method.toLowerCase();';
    const lineOf = (text: string, line: number) => Object.assign(on(text, line), { codeSnippet: text });
    const hunks = [hunk(3, 1, 3, 0, [OLD]), hunk(30, 0, 29, 9)];
    const bare = { ...on(OLD, 3), location: { scope: 'file' as const, path: 'src/app.ts' } };
    for (const before of [on(OLD, 3), bare]) {
      const countsOf = (...now: Finding[]) => matched([before], now, changed(...hunks)).counts;
      assert.deepEqual(countsOf(lineOf('var method = req.method;', 31)), [0, 1, 0]);
      assert.deepEqual(countsOf(lineOf('var method = req.method;', 31), lineOf(OLD, 32)), [1, 1, 0]);
      assert.deepEqual(countsOf(lineOf('var method = req.method;', 50)), [1, 0, 1], 'an unchanged line');
      assert.deepEqual(countsOf(lineOf('method(req);', 31)), [1, 0, 1], 'two thirds of the words');
    }
  });

  it('knows the most similar of several lines in a hunk', () => {
    const texts = ['var first = one(1);', 'var second = two(2);'];
    const before = texts.map((text, index) => on(text, index + 3));
    const now = Object.assign(on('var second = three(2);', 3), { codeSnippet: 'var second = three(2);' });
    assert.deepEqual(matched(before, [now], changed(hunk(3, 2, 3, 1, texts))).missing, [0]);
  });

  it('takes linear time for 100,000 equal findings', { tags: ['long'] }, () => {
    const many = (count: number, shift: number) =>
      Array.from({ length: count }, (_, index) => sampleFinding({ line: index + 1 + shift }));
    const costOf = (count: number) => {
      const [before, now] = [many(count, 0), many(count + 1, count / 2)];
      const start = process.cpuUsage();
      assert.deepEqual(matched(before, now).counts, [1, count, 0]);
      const { user, system } = process.cpuUsage(start);
      return user + system;
    };
    costOf(1000);
    // Ten times as many findings need about ten times the work. Comparing all pairs would need a hundred times.
    const [small, large] = [costOf(10_000), costOf(100_000)];
    assert.ok(large < small * 30, `${small} ${large}`);
  });

  it('makes a parse error new unless it was accepted', () => {
    const own = sampleFinding({ ruleId: 'PARSE-ERROR', severity: 'error' });
    assert.deepEqual(matched([own], [own]).counts, [1, 0, 1]);
    const accepted = [{ finding: own, accepted: { reason: 'a fixture' } }];
    assert.equal(matchFindings(accepted, [own]).known.get(own)?.entry, accepted[0]);
    assert.deepEqual(matchFindings([...accepted, { finding: own }], [own, { ...own }]).missing, []);
  });
});

describe('a missing finding', () => {
  type Sketch = { ruleId?: string; severity?: 'error'; scope?: 'project'; path?: string };
  type Changes = Partial<Report['scan']> & {
    diagnostics?: Partial<Diagnostic>[];
    quiet?: boolean;
    status?: 'no-files';
  };

  const doubtOf = (
    { diagnostics, quiet = false, status, ...scan }: Changes,
    { scope, ...old }: Sketch = {},
    gone = '',
  ) => {
    const finding =
      scope === 'project'
        ? { ...projectFinding(), ruleId: 'no-console' }
        : sampleFinding({ path: 'src/a/app.ts', ...old });
    const report = sampleReport([], (one) => {
      Object.assign(one.scan, { enabledRuleIds: ['no-console'] }, scan);
      Object.assign(one.execution, { diagnostics: diagnostics ?? [], ...(status && { status }) });
      one.selection.quiet = quiet;
    });
    return doubtsIn(report, new Set([gone]))({ finding });
  };

  const ROOT = { scope: 'project' } as const;
  const target = (kind: 'project' | 'file', path: string) => ({ target: { kind, path } });
  const unparsed = (relativePath?: string) => ({ diagnostics: [{ kind: 'parse-error', relativePath }] }) as Changes;
  const threw = (ruleId?: string, relativePath?: string) =>
    ({ diagnostics: [{ kind: 'rule-error', ruleId, relativePath }] }) as Changes;
  const odd = { include: ['src/\\[a\\]/x\\(1\\).ts'] };
  const OUTSIDE = 'the file was not analyzed';
  const BROKEN = 'the file does not parse';
  const UNKNOWN_FILES = 'the report does not list the files and rules that were checked';
  const THREW = 'the rule no-console failed';

  const CASES: Record<string, [doubt: string | undefined, changes: Changes, old?: Sketch, gone?: string][]> = {
    'is fixed if the report checked its file and rule': [
      [undefined, {}],
      [undefined, {}, ROOT],
      [UNKNOWN_FILES, { scopeKnown: false }],
      [UNKNOWN_FILES, { target: null }],
      ['no files were analyzed', { status: 'no-files' }],
      ['the rule off is off', {}, { ruleId: 'off' }],
      ['the report lists errors only', { quiet: true }],
      [undefined, { quiet: true }, { severity: 'error' }],
    ],
    'is fixed only inside the target and the patterns, or if git lists its file as deleted': [
      [undefined, target('project', 'src')],
      [OUTSIDE, target('project', 'lib')],
      [undefined, target('file', 'src/a/app.ts')],
      [OUTSIDE, target('file', 'src/a')],
      ['only one file was analyzed', target('file', 'src/a/app.ts'), ROOT],
      [undefined, target('project', 'src'), ROOT],
      [undefined, { include: ['src/**'] }],
      [OUTSIDE, { include: ['lib/**'] }],
      [OUTSIDE, { exclude: ['src/**'] }],
      [undefined, { exclude: ['lib/**'] }],
      [undefined, { include: ['src/a/app.ts'] }],
      [OUTSIDE, { include: ['src/a/app\\.ts', 'src/a/App.ts'] }],
      [undefined, odd, { path: 'src/[a]/x(1).ts' }],
      [OUTSIDE, { include: ['src/b.ts'] }],
      [undefined, { include: ['src/b.ts'] }, {}, 'src/a/app.ts'],
      ['the rule off is off', { include: ['src/b.ts'] }, { ruleId: 'off' }, 'src/a/app.ts'],
    ],
    'is not fixed in an unreadable file or folder': [
      ...['src/a/app.ts', 'src/a', 'src'].map((path) => [BROKEN, unparsed(path)] as [string, Changes]),
      ...['src/a/app', 'src/b', 'rc', 'app.ts'].map((path) => [undefined, unparsed(path)] as [undefined, Changes]),
      [undefined, unparsed()],
      [undefined, unparsed('src/a/app.ts'), ROOT],
      [undefined, { diagnostics: [{ kind: 'parse-error', ruleId: 'no-console' }] }],
    ],
    'is not fixed if its rule failed in the file or at an unknown place': [
      [THREW, threw('no-console', 'src/a/app.ts')],
      [THREW, threw('no-console')],
      [THREW, threw(undefined, 'src/a/app.ts')],
      [THREW, threw()],
      [undefined, threw('no-console', 'src/b.ts')],
      [undefined, threw('no-var', 'src/a/app.ts')],
      [undefined, threw('no-var')],
    ],
  };
  for (const [name, rows] of Object.entries(CASES))
    it(name, () => {
      for (const [doubt, ...given] of rows) assert.equal(doubtOf(...given), doubt, JSON.stringify(given));
    });
});

describe('the place of a finding', () => {
  it('follows its file to a new path', () => {
    const finding = sampleFinding({ path: 'old.ts' });
    const renames = new Map([['old.ts', 'new.ts']]);
    assert.deepEqual(renamed(finding, renames), sampleFinding({ path: 'new.ts' }));
    // A fingerprint of another recipe stays as it is.
    for (const fingerprint of ['abc', `x${finding.fingerprint}`, 'f'.repeat(64)]) {
      const moved = renamed({ ...finding, fingerprint }, renames);
      assert.deepEqual([moved.fingerprint, moved.location.path], [fingerprint, 'new.ts']);
    }
    const project = { ...projectFinding(), location: { scope: 'project' as const, path: 'old.ts' } };
    for (const other of [sampleFinding({ path: 'other.ts' }), project, projectFinding()])
      assert.equal(renamed(other, renames), other);
  });
});
