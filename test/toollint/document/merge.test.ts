import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { memorySource, mergeReports, type Report, validate } from '../../../lib/toollint/toollint.ts';
import { noFilesReport, sampleFinding, sampleReport } from '../support/samples.ts';
import { project, toollint } from '../support/verbs.ts';

describe('merging reports', () => {
  const named = (report: Report, name = 'r.json') => ({ name, report });
  const merged = (...reports: Report[]) => {
    const report = mergeReports(reports.map((one) => named(one)));
    assert.deepEqual(validate(memorySource(JSON.stringify(report), 'x')).problems, []);
    return report;
  };
  const shard = (path: string, lines: number[], change: (report: Report) => unknown = () => undefined) =>
    sampleReport(
      lines.map((line) => sampleFinding({ path, line })),
      (report) => {
        report.scan.include = [path];
        report.summary.totalFiles = 1;
        change(report);
      },
    );

  it('joins shards and lists a common finding once', () => {
    const report = merged(shard('b.ts', [1, 2]), shard('a.ts', [1]), shard('b.ts', [2, 3]));
    assert.deepEqual(
      report.findings.map(({ location, occurrence }) => `${location.path} ${location.line} ${occurrence}`),
      ['a.ts 1 1', 'b.ts 1 1', 'b.ts 2 2', 'b.ts 3 3'],
    );
    assert.deepEqual([report.summary.totalFiles, report.scan.include], [2, ['a.ts', 'b.ts']]);
    assert.equal(merged(shard('a.ts', [4, 4]), shard('a.ts', [4])).findings.length, 2);
    const told = (rules: object) => shard('a.ts', [], (r) => Object.assign(r.tool, { rules }));
    const rules = { a: 'A.', b: 'B.' };
    assert.deepEqual(merged(told({ a: 'A.' }), told({ b: 'B.' })).tool, { name: 'toollint', version: '1.0.0', rules });
  });

  it('keeps the counts of suppressed results', () => {
    const hiding = (count: number) => (report: Report) => Object.assign(report.summary, { suppressed: count });
    const { summary } = merged(shard('a.ts', [1], hiding(2)), shard('b.ts', [1], hiding(1)), shard('c.ts', [1]));
    assert.equal((summary as { suppressed?: number }).suppressed, 3);
  });

  it('returns a single report unchanged, with its gate and selection', () => {
    const one = shard('a.ts', [1], (r) => (r.gate = { status: 'passed', name: 'own' }));
    assert.deepEqual(mergeReports([named(one)]), one);
    assert.throws(() => mergeReports([]), /there is nothing to merge/u);
  });

  it('is incomplete if one report is, and without files only if all are', () => {
    const diagnostics = [{ kind: 'parse-error' as const, message: 'x', relativePath: 'a.ts' }];
    const broken = shard('a.ts', [], (r) => (r.execution = { status: 'incomplete', diagnostics }));
    const none = noFilesReport();
    assert.deepEqual(merged(shard('b.ts', [1]), broken, broken).execution, broken.execution);
    assert.equal(merged(none, shard('b.ts', [1])).execution.status, 'complete');
    assert.equal(merged(none, none).execution.status, 'no-files');
  });

  it('refuses reports that do not fit together', () => {
    const refused: [(report: Report) => unknown, RegExp][] = [
      [(r) => (r.tool.version = '2'), /is of toollint 2, not of toollint 1\.0\.0/u],
      [(r) => (r.scan.profile = 'x'), /profile/u],
      [(r) => (r.selection.quiet = true), /lists errors only/u],
      [(r) => (r.selection.baseline = { newIssues: 0, unchanged: 0, fixed: 0 }), /what was new/u],
    ];
    for (const [change, message] of refused) {
      const other = sampleReport([]);
      change(other);
      assert.throws(() => mergeReports([named(sampleReport([]), 'a'), named(other, 'b')]), message);
    }
    const delta = sampleReport([], (r) => (r.selection.baseline = { newIssues: 0, unchanged: 0, fixed: 0 }));
    const refusal = (...names: string[]) =>
      assert.throws(() => mergeReports(names.map((name) => named(delta, name))), {
        message: 'a cannot be merged: it lists only what was new against a baseline',
      });
    refusal('a');
    refusal('a', 'a');
    assert.throws(() => mergeReports([named(sampleReport([]), 'b'), named(delta, 'a')]), {
      message: 'a cannot be merged with b: it lists only what was new against a baseline',
    });
  });

  it('makes a report of toollint for different linters, unless they share a rule', () => {
    const of = (name: string, ruleId: string, version = '1') =>
      sampleReport([sampleFinding({ ruleId, path: `${name}.x` })], (r) => {
        const linter = { name, version, informationUri: `https://example.org/${name}` };
        Object.assign(r.tool, { name, version, linter, rules: { [ruleId]: 'About it.' } });
        Object.assign(r.scan, { scopeKnown: false, target: null, enabledRuleIds: [] });
      });
    const { tool, findings } = merged(of('ruff', 'E1'), of('biome', 'lint/a'), of('ruff', 'E1'));
    const { linters, rules } = tool as unknown as { linters: { name: string }[]; rules: object };
    assert.deepEqual(
      [tool.name, linters.map(({ name }) => name), Object.keys(rules)],
      ['toollint', ['biome', 'ruff'], ['E1', 'lint/a']],
    );
    assert.equal(findings.length, 2);
    const refused = (...reports: Report[]) => mergeReports(reports.map((one, index) => named(one, `${index}.json`)));
    assert.throws(() => refused(of('biome', 'x'), of('ruff', 'E1'), of('flake8', 'E1')), {
      message: '2.json cannot be merged with 1.json: ruff and flake8 both have a rule E1',
    });
    assert.throws(() => refused(of('ruff', 'E1'), of('flake8', 'E1')), {
      message: '1.json cannot be merged with 0.json: ruff and flake8 both have a rule E1',
    });
    assert.throws(
      () => refused(of('ruff', 'E1'), of('biome', 'x'), of('ruff', 'E1', '2')),
      /is of ruff 2, not of ruff 1$/u,
    );
  });

  it('is available as a verb', async (t) => {
    const cwd = await project(t, { 'eslint.config.mjs': null });
    await writeFile(join(cwd, 'a.json'), JSON.stringify(shard('a.ts', [1])));
    await writeFile(join(cwd, 'b.json'), JSON.stringify(shard('b.ts', [1])));
    const { code, stdout } = await toollint(['merge', 'a.json', 'b.json'], { cwd });
    const { summary } = JSON.parse(stdout) as Report;
    assert.deepEqual([code, summary.totalFiles, summary.totalIssues], [0, 2, 2]);
  });
});
