// The steps of a comparison, each by itself: matching, the choice among equal lines, what counts as fixed, and which
// reports serve as a baseline.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BaselineEntry, placeKeyOf, readBaseline, renamed } from '../../../lib/toollint/compare/baseline.ts';
import { FindingMatcher } from '../../../lib/toollint/compare/finding-match.ts';
import { fixedClaims } from '../../../lib/toollint/compare/fixed-claims.ts';
import { alignLines } from '../../../lib/toollint/compare/line-alignment.ts';
import { memorySource } from '../../../lib/toollint/document/byte-source.ts';
import { Interrupted, ReportFailure } from '../../../lib/toollint/document/failure.ts';
import { placeHalf } from '../../../lib/toollint/document/fingerprint.ts';
import type { Finding, Report } from '../../../lib/toollint/document/report-schema.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const USER = { tool: { name: 'toollint', version: '1.0.0' }, profile: null, quiet: false };
const source = (report: unknown) => memorySource(JSON.stringify(report), 'base.json');
const entriesOf = async (...findings: Finding[]) => (await readBaseline(source(sampleReport(findings)), USER)).entries;

async function matched(before: Finding[], now: readonly (Finding | undefined)[]) {
  const matcher = new FindingMatcher(await entriesOf(...before));
  for (const finding of now) {
    if (finding === undefined) matcher.skip();
    else matcher.offer(finding);
  }
  const result = matcher.finish();
  const { newIssues, unchanged, missing } = result;
  const news = now.flatMap((_, index) => (result.isNew(index) ? [index] : []));
  return { counts: [newIssues, unchanged, missing.length], news, missing: missing.map(({ index }) => index) };
}

const at = (line: number, column = 1, text = 'x') => sampleFinding({ line, column, text });

describe('matching', () => {
  it('takes the same place first, whatever the order', async () => {
    // The old finding at 9 is still at 9, so the one at 5 has gone to 6 and that at 12 is new.
    assert.deepEqual(await matched([at(5), at(9)], [at(12), at(9), at(6)]), {
      counts: [1, 2, 0],
      news: [0],
      missing: [],
    });
    assert.deepEqual(await matched([at(3, 1), at(3, 9)], [at(3, 9)]), { counts: [0, 1, 1], news: [], missing: [0] });
    assert.deepEqual(await matched([at(3, 9), at(3, 1)], [at(3, 9)]), { counts: [0, 1, 1], news: [], missing: [1] });
    assert.deepEqual(await matched([at(1, 23)], [at(12, 3), at(1, 23)]), { counts: [1, 1, 0], news: [0], missing: [] });
  });

  it('counts each old finding once', async () => {
    assert.deepEqual(await matched([at(3)], [at(3), at(3)]), { counts: [1, 1, 0], news: [1], missing: [] });
    assert.deepEqual(await matched([at(3), at(3)], [at(3)]), { counts: [0, 1, 1], news: [], missing: [0] });
    assert.deepEqual(await matched([at(3), at(3)], [at(3), at(3)]), { counts: [0, 2, 0], news: [], missing: [] });
  });

  it('pairs what has moved in the order of lines and columns', async () => {
    assert.deepEqual(await matched([at(9), at(1), at(5)], [at(4), at(8)]), {
      counts: [0, 2, 1],
      news: [],
      missing: [0],
    });
    assert.deepEqual(await matched([at(5, 30), at(5, 10)], [at(6, 1)]), { counts: [0, 1, 1], news: [], missing: [0] });
    assert.deepEqual(await matched([at(10)], [at(21), at(11)]), { counts: [1, 1, 0], news: [0], missing: [] });
    assert.deepEqual(await matched([at(10)], [at(11, 9), at(11, 2)]), { counts: [1, 1, 0], news: [1], missing: [] });
  });

  it('knows a line that was edited in place, once, after everything else', async () => {
    const edited = at(3, 1, 'edited');
    assert.deepEqual(await matched([at(3)], [edited]), { counts: [0, 1, 0], news: [], missing: [] });
    assert.deepEqual(await matched([at(3)], [at(4, 1, 'edited')]), { counts: [1, 0, 1], news: [0], missing: [0] });
    assert.deepEqual(await matched([at(3)], [edited, at(8)]), { counts: [1, 1, 0], news: [0], missing: [] });
    assert.deepEqual(await matched([at(3)], [edited, at(3, 2, 'also')]), {
      counts: [1, 1, 0],
      news: [1],
      missing: [],
    });
    assert.deepEqual(await matched([at(3)], [at(3, 2, 'also'), edited]), {
      counts: [1, 1, 0],
      news: [0],
      missing: [],
    });
    assert.deepEqual(await matched([at(3, 1, 'p'), at(3, 2, 'q')], [edited, at(3, 2, 'also')]), {
      counts: [0, 2, 0],
      news: [],
      missing: [],
    });
    // A surplus of an old fingerprint looks for an edited line as well.
    assert.deepEqual(await matched([at(3), at(9, 1, 'y')], [at(3), at(9)]), {
      counts: [0, 2, 0],
      news: [],
      missing: [],
    });
  });

  it('takes the first of several that look for the same edited line at the very same place', async () => {
    // The surplus of y was offered before the edited line, which is found among others.
    const now = [at(9, 1, 'y'), at(3, 1, 'y'), at(3, 1, 'edited')];
    assert.deepEqual(await matched([at(3), at(9, 1, 'y')], now), { counts: [1, 2, 0], news: [2], missing: [] });
  });

  it('leaves out what is skipped', async () => {
    assert.deepEqual(await matched([at(3)], [undefined, at(4, 1, 'z'), undefined, at(3)]), {
      counts: [1, 1, 0],
      news: [1],
      missing: [],
    });
  });

  for (const [what, ruleId] of [
    ['a parse error', 'PARSE-ERROR'],
    ['a message of the linter itself', 'eslint/core'],
  ] as const)
    it(`takes ${what} as new, always`, async () => {
      const own = sampleFinding({ ruleId, severity: 'error' });
      const matcher = new FindingMatcher([]);
      matcher.offer(own);
      assert.equal(matcher.finish().newIssues, 1);
      // It is not consistent: a file that does not parse makes the scan incomplete.
      const { entries } = await readBaseline(source(sampleReport([own, at(1)])), USER, { lenient: true });
      assert.deepEqual(
        entries.map(({ index }) => index),
        [1],
      );
      const entry = { ...(await entriesOf(at(3)))[0], fingerprint: own.fingerprint } as BaselineEntry;
      const second = new FindingMatcher([entry]);
      second.offer(own);
      assert.deepEqual([second.finish().newIssues, second.finish().missing.length], [1, 1]);
    });

  it('keeps apart 5,000 findings of which each second is new', async () => {
    const old = Array.from({ length: 2500 }, (_, index) => at(index * 2 + 1, 1, `t${index * 2}`));
    const now = Array.from({ length: 5000 }, (_, index) => at(index + 1, 1, `t${index}`));
    const { counts, news } = await matched(old, now);
    assert.deepEqual(counts, [2500, 2500, 0]);
    assert.ok(news.every((index, place) => index === place * 2 + 1));
  });
});

describe('the choice among equal lines', () => {
  const chosen = (before: number[], after: number[]) =>
    alignLines(before, after).flatMap((isChosen, index) => (isChosen ? [after[index]] : []));

  it('moves what was there together', () => {
    assert.deepEqual(chosen([10, 20], [10, 15, 21]), [10, 21]);
    assert.deepEqual(chosen([10, 20], [1010, 1015, 1021]), [1010, 1021]);
    assert.deepEqual(chosen([10, 20, 30], [5, 15, 25, 35, 100]), [15, 25, 35]);
    assert.deepEqual(chosen([10, 20, 30], [10, 50, 60, 70]), [10, 50, 60]);
    assert.deepEqual(chosen([10, 20, 30], [1, 2, 3, 30, 40, 50]), [30, 40, 50]);
    assert.deepEqual(chosen([4, 8, 10], [4, 5, 6, 10]), [4, 6, 10]);
    assert.deepEqual(chosen([3, 7, 8], [3, 4, 6, 8, 10]), [4, 8, 10]);
    assert.deepEqual(chosen([1, 5, 7], [1, 3, 5, 6, 8, 12]), [1, 6, 8]);
    assert.deepEqual(chosen([5], [1, 9]), [9]);
    assert.deepEqual(chosen([5], [4, 9]), [4]);
  });

  it('takes the first beyond 64 lines, and all where there are no more than before', () => {
    const lines = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
    assert.deepEqual(chosen([64], lines(64)), [64]);
    assert.deepEqual(chosen([65], lines(65)), [1]);
    assert.deepEqual(alignLines([1, 2], [8, 9]), [true, true]);
    assert.deepEqual(alignLines([1, 2, 3], [8]), [true]);
    assert.deepEqual(alignLines([], [8, 9]), [false, false]);
    assert.deepEqual(alignLines([1], []), []);
  });
});

describe('what may be called fixed', () => {
  const entry = (change: Partial<BaselineEntry> = {}): BaselineEntry => ({
    index: 0,
    fingerprint: 'f',
    ruleId: 'no-console',
    severity: 'warning',
    scope: 'file',
    path: 'src/a/app.ts',
    line: 1,
    column: 1,
    placeKey: 'k',
    ...change,
  });
  const full = () => sampleReport([], (report) => (report.scan.enabledRuleIds = ['no-console']));
  const claimed = (change: (report: Report) => void, old: Partial<BaselineEntry> = {}) => {
    const report = full();
    change(report);
    return fixedClaims(report)(entry(old));
  };
  const diagnosed =
    (...diagnostics: Report['execution']['diagnostics']) =>
    (report: Report) => {
      report.execution = { status: 'incomplete', diagnostics };
    };
  const nothing = () => undefined;

  it('is what the report has looked at', () => {
    assert.equal(claimed(nothing), true);
    assert.equal(claimed(nothing, { scope: 'project', path: '' }), true);
    assert.equal(
      claimed((r) => (r.scan.scopeKnown = false)),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.target = null)),
      false,
    );
    assert.equal(
      claimed((r) => (r.execution.status = 'no-files')),
      false,
    );
    assert.equal(claimed(nothing, { ruleId: 'off' }), false);
    assert.equal(
      claimed((r) => (r.selection.quiet = true)),
      false,
    );
    assert.equal(
      claimed((r) => (r.selection.quiet = true), { severity: 'error' }),
      true,
    );
  });

  it('lies in the target, is included and is not excluded', () => {
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'project', path: 'src' })),
      true,
    );
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'project', path: 'lib' })),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'file', path: 'src/a/app.ts' })),
      true,
    );
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'file', path: 'src/a' })),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'file', path: 'src/a/app.ts' }), { scope: 'project', path: '' }),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.target = { kind: 'project', path: 'src' }), { scope: 'project', path: '' }),
      true,
    );
    assert.equal(
      claimed((r) => (r.scan.include = ['src/**'])),
      true,
    );
    assert.equal(
      claimed((r) => (r.scan.include = ['lib/**'])),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.exclude = ['src/**'])),
      false,
    );
    assert.equal(
      claimed((r) => (r.scan.exclude = ['lib/**'])),
      true,
    );
  });

  it('is not in a file, or below a folder, that could not be read', () => {
    const unparsed = (relativePath: string) => diagnosed({ kind: 'parse-error', message: 'x', relativePath });
    for (const path of ['src/a/app.ts', 'src/a', 'src']) assert.equal(claimed(unparsed(path)), false, path);
    for (const path of ['src/a/app', 'src/b', 'rc', 'app.ts']) assert.equal(claimed(unparsed(path)), true, path);
    assert.equal(claimed(diagnosed({ kind: 'parse-error', message: 'x' })), true);
    assert.equal(claimed(unparsed('src/a/app.ts'), { scope: 'project', path: '' }), true);
  });

  it('is not of a rule that failed there, or somewhere unknown', () => {
    const threw = (ruleId?: string, relativePath?: string) =>
      diagnosed({
        kind: 'rule-error',
        message: 'x',
        ...(ruleId === undefined ? {} : { ruleId }),
        ...(relativePath === undefined ? {} : { relativePath }),
      });
    assert.equal(claimed(threw('no-console', 'src/a/app.ts')), false);
    assert.equal(claimed(threw('no-console')), false);
    assert.equal(claimed(threw(undefined, 'src/a/app.ts')), false);
    assert.equal(claimed(threw()), false);
    assert.equal(claimed(threw('no-console', 'src/b.ts')), true);
    assert.equal(claimed(threw('no-var', 'src/a/app.ts')), true);
    assert.equal(claimed(threw('no-var')), true);
    assert.equal(claimed(diagnosed({ kind: 'parse-error', message: 'x', ruleId: 'no-console' })), true);
  });
});

describe('a baseline that is read', () => {
  const refuses = (report: unknown, message: string, user = USER) =>
    assert.rejects(readBaseline(source(report), user), (error) => {
      assert.ok(error instanceof ReportFailure);
      assert.deepEqual([error.code, error.message], ['baseline', message]);
      return true;
    });

  it('has an entry for each finding, with its place in the list', async () => {
    const finding = sampleFinding({ severity: 'error', line: 7, column: 5 });
    const bare = sampleFinding({ line: undefined, column: undefined, path: 'b.ts' });
    const project = projectFinding();
    const { entries, name, errorsOnly, notes } = await readBaseline(
      source(sampleReport([finding, bare, project])),
      USER,
    );
    assert.deepEqual([name, errorsOnly, notes], ['base.json', false, []]);
    assert.deepEqual(entries, [
      {
        index: 0,
        fingerprint: finding.fingerprint,
        ruleId: 'no-console',
        severity: 'error',
        scope: 'file',
        path: 'src/app.ts',
        line: 7,
        column: 5,
        placeKey: placeKeyOf(finding),
      },
      {
        index: 1,
        fingerprint: bare.fingerprint,
        ruleId: 'no-console',
        severity: 'warning',
        scope: 'file',
        path: 'b.ts',
        line: 0,
        column: 0,
        placeKey: placeKeyOf(bare),
      },
      {
        index: 2,
        fingerprint: project.fingerprint,
        ruleId: 'TL-README',
        severity: 'info',
        scope: 'project',
        path: '',
        line: 0,
        column: 0,
        placeKey: placeKeyOf(project),
      },
    ]);
  });

  it('is refused with its reason', async () => {
    const cannot = 'the baseline base.json cannot be used:';
    const report = (change: (report: Report) => void) => sampleReport([], change);
    await refuses(
      report((r) => (r.tool.name = 'other')),
      `${cannot} it was written by other, not by toollint`,
    );
    await refuses(
      report((r) => {
        r.execution = { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'none' }] };
        r.summary.totalFiles = 0;
      }),
      `${cannot} its scan found no files`,
    );
    await refuses(
      report((r) => (r.selection.baseline = { newIssues: 0, unchanged: 0, fixed: 0 })),
      `${cannot} it lists only what was new against another baseline`,
    );
    await refuses(
      report((r) => (r.selection.quiet = true)),
      `${cannot} it lists errors only; compare with --quiet or make a full one`,
    );
    await refuses([], 'the baseline cannot be used: base.json is not a valid report: a report is one JSON object');
  });

  it('is taken with notes when it is incomplete, of another version, or of another profile', async () => {
    const noted = async (change: (report: Report) => void, user = USER) =>
      (await readBaseline(source(sampleReport([], change)), user)).notes;
    assert.deepEqual(
      await noted((r) => {
        r.execution = { status: 'incomplete', diagnostics: [{ kind: 'parse-error', message: 'x', relativePath: 'a' }] };
      }),
      ['the baseline base.json is incomplete: findings in the files that it missed may look new'],
    );
    assert.deepEqual(await noted((r) => (r.tool.version = '0.1')), [
      'the baseline base.json was written by version 0.1, this is 1.0.0',
    ]);
    assert.deepEqual(await noted((r) => (r.scan.profile = 'strict')), [
      'the baseline base.json was made with the profile strict',
    ]);
    assert.deepEqual(await noted(() => undefined, { ...USER, profile: 'strict' } as never), [
      'the baseline base.json was made with the profile (own configuration)',
    ]);
    assert.deepEqual(
      await noted((r) => Object.assign(r.scan, { scopeKnown: false, target: null }), {
        ...USER,
        profile: 'strict',
      } as never),
      [],
    );
  });

  it('with errors only has no entry of another severity', async () => {
    const quiet = sampleReport([sampleFinding({ severity: 'error' })], (r) => (r.selection.quiet = true));
    const { entries, errorsOnly } = await readBaseline(source(quiet), { ...USER, quiet: true });
    assert.deepEqual([entries.length, errorsOnly], [1, true]);
    const foreign = { ...quiet, findings: [...quiet.findings, { ...at(5), occurrence: 1 }] };
    const lenient = await readBaseline(source(foreign), { ...USER, quiet: true }, { lenient: true });
    assert.deepEqual(
      lenient.entries.map(({ index }) => index),
      [0],
    );
  });

  it('need not be consistent when it is read leniently', async () => {
    const odd = sampleReport([at(1)]);
    odd.summary.totalIssues = 2;
    await assert.rejects(readBaseline(source(odd), USER), /is not consistent/u);
    assert.equal((await readBaseline(source(odd), USER, { lenient: true })).entries.length, 1);
  });

  it('ends when the work is cancelled, which is no fault of the baseline', async () => {
    await assert.rejects(readBaseline(source(sampleReport([])), USER, { signal: AbortSignal.abort() }), Interrupted);
  });
});

describe('the place of a finding', () => {
  it('is rule, path, line and message without its numbers', () => {
    const key = (change: Parameters<typeof sampleFinding>[0]) => placeKeyOf(sampleFinding(change));
    assert.equal(key({ message: 'too long (301)' }), key({ message: 'too long (9)' }));
    assert.notEqual(key({ message: 'too long (301)' }), key({ message: 'too long ()' }));
    for (const change of [{ ruleId: 'x' }, { path: 'x' }, { line: 4 }, { message: 'x' }])
      assert.notEqual(key(change), key({}), JSON.stringify(change));
    assert.equal(
      key({ line: undefined }),
      placeKeyOf({ ...at(1), location: { scope: 'file', path: 'src/app.ts', line: 0 } }),
    );
    assert.equal(placeKeyOf(projectFinding('1')), placeKeyOf(projectFinding('2')));
  });

  it('follows its file to a new path', () => {
    const finding = sampleFinding({ path: 'old.ts' });
    const renames = new Map([['old.ts', 'new.ts']]);
    const moved = renamed(finding, renames);
    assert.deepEqual(moved, sampleFinding({ path: 'new.ts' }));
    assert.equal(moved.fingerprint.slice(32), placeHalf('file', 'new.ts'));
    assert.equal(renamed(sampleFinding({ path: 'other.ts' }), renames).location.path, 'other.ts');
    const foreign = { ...finding, fingerprint: 'abc' };
    assert.deepEqual(renamed(foreign, renames), { ...foreign, location: { ...finding.location, path: 'new.ts' } });
    const long = { ...finding, fingerprint: `x${finding.fingerprint}` };
    assert.equal(renamed(long, renames).fingerprint, long.fingerprint);
    const other = { ...finding, fingerprint: 'f'.repeat(64) };
    assert.equal(renamed(other, renames).fingerprint, other.fingerprint);
    const project = { ...projectFinding(), location: { scope: 'project' as const, path: 'old.ts' } };
    assert.deepEqual(renamed(project, renames), project);
    assert.deepEqual(renamed(projectFinding(), renames), projectFinding());
  });
});
