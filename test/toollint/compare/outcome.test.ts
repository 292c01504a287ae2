// What a comparison hands back: header, counts, listed findings, notes, verdict.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compare, type CompareOptions } from '../../../lib/toollint/command/compare.ts';
import { memorySource } from '../../../lib/toollint/document/document-source.ts';
import { ReportFailure } from '../../../lib/toollint/document/failure.ts';
import type { Finding, Report } from '../../../lib/toollint/document/report-schema.ts';
import { recounted, sampleFinding, sampleReport } from '../support/samples.ts';

const source = (report: unknown, name: string) => memorySource(JSON.stringify(report), name);
const at = (line: number, text = 'x', severity: Finding['severity'] = 'warning') =>
  sampleFinding({ line, text, severity });
const gate = (metric: string) => ({
  name: 'own',
  conditions: [{ metric, op: '>' as const, threshold: 0, level: 'fail' as const }],
});

async function compared(base: Report, current: Report, options?: CompareOptions) {
  const outcome = await compare(source(base, 'base.json'), source(current, 'now.json'), options);
  const { findings, ...header } = outcome.report;
  const news = outcome.current.findings.map((finding) => outcome.comparison.news.includes(finding));
  return { outcome, header, findings, news };
}

describe('the outcome of a comparison', () => {
  const before = () => sampleReport([at(1), at(5, 'gone')]);
  const now = () => sampleReport([at(2), at(7, 'new', 'error'), at(8, 'same'), at(9, 'same'), at(10, 'i', 'info')]);

  it('is the current report with the three counts, and only its new findings, counted and numbered', async () => {
    const current = now();
    const { outcome, header, findings } = await compared(before(), current);
    const { findings: all, ...expected } = current;
    assert.equal(all.length, 5);
    assert.deepEqual(header, {
      ...expected,
      selection: { quiet: false, baseline: { newIssues: 4, unchanged: 1, fixed: 1 } },
      gate: { status: 'not-evaluated' },
      summary: { ...expected.summary, totalIssues: 4, bySeverity: { error: 1, warning: 2, info: 1 } },
    });
    assert.deepEqual(
      findings.map(({ location, occurrence }) => [location.line, occurrence]),
      [
        [7, 1],
        [8, 1],
        [9, 2],
        [10, 1],
      ],
    );
    assert.deepEqual([outcome.errors, outcome.notes], [1, []]);
  });

  it('numbers what is listed, not what is there', async () => {
    const { findings } = await compared(sampleReport([at(8)]), sampleReport([at(8), at(9)]));
    assert.deepEqual(
      findings.map(({ location, occurrence }) => [location.line, occurrence]),
      [[9, 1]],
    );
  });

  it('has the whole current report beside it, and says which of its findings are new', async () => {
    const { outcome, news } = await compared(before(), now());
    assert.deepEqual(outcome.current.summary, now().summary);
    assert.deepEqual(outcome.current.selection.baseline, { newIssues: 4, unchanged: 1, fixed: 1 });
    assert.deepEqual(outcome.current.findings, now().findings);
    assert.deepEqual(news, [false, true, true, true, true]);
  });

  it('lists errors only when asked, and counts all the same', async () => {
    const { header, findings, outcome } = await compared(before(), now(), { quiet: true, gate: gate('newIssues') });
    assert.deepEqual(header.selection, { quiet: true, baseline: { newIssues: 4, unchanged: 1, fixed: 1 } });
    assert.deepEqual([header.summary.totalIssues, header.summary.bySeverity], [1, { error: 1, warning: 0, info: 0 }]);
    assert.deepEqual(
      findings.map(({ location }) => location.line),
      [7],
    );
    assert.equal(outcome.errors, 1);
    assert.equal(header.gate.message, 'newIssues 4 > 0 (fail)');
    const warnings = await compared(before(), now(), { quiet: true, gate: gate('warnings') });
    assert.equal(warnings.header.gate.message, 'warnings 2 > 0 (fail)');
  });

  it('stays quiet when the current report is', async () => {
    const quiet = recounted({ ...now(), selection: { quiet: true }, findings: [at(7, 'new', 'error')] });
    const { header } = await compared(before(), quiet);
    const baseline = { newIssues: 1, unchanged: 0, fixed: 0, notVerifiable: 2 };
    assert.deepEqual(header.selection, { quiet: true, baseline });
    await assert.rejects(compared(before(), quiet, { gate: gate('warnings') }), /the report lists errors only/u);
  });

  it('leaves all but errors out when the baseline has errors only', async () => {
    const base = recounted({ ...before(), selection: { quiet: true }, findings: [at(7, 'new', 'error')] });
    const { header, outcome, findings, news } = await compared(base, now(), { quiet: true });
    assert.deepEqual(header.selection.baseline, { newIssues: 0, unchanged: 1, fixed: 0 });
    assert.deepEqual([findings, outcome.errors, header.summary.totalIssues], [[], 0, 0]);
    assert.deepEqual(news, [false, false, false, false, false]);
    const more = recounted({ ...now(), findings: [...now().findings, at(20, 'more', 'error')] });
    const again = await compared(base, more, { quiet: true, gate: gate('newErrors') });
    assert.deepEqual(again.header.selection.baseline, { newIssues: 1, unchanged: 1, fixed: 0 });
    assert.equal(again.news[5], true);
    assert.equal(again.header.gate.message, 'newErrors 1 > 0 (fail)');
  });

  it('counts what is gone and cannot be verified, and says so in the verdict', async () => {
    const current = sampleReport([], (report) => (report.scan.enabledRuleIds = []));
    const { header } = await compared(before(), current, { gate: gate('newIssues') });
    assert.deepEqual(header.selection.baseline, { newIssues: 0, unchanged: 0, fixed: 0, notVerifiable: 2 });
    assert.deepEqual(header.gate, {
      status: 'passed',
      name: 'own',
      message: '2 baseline findings are not verifiable',
    });
  });

  it('has the notes on the baseline', async () => {
    const base = before();
    base.tool.version = '0.1';
    const current = sampleReport([], (report) => (report.scan.enabledRuleIds = []));
    assert.deepEqual((await compared(base, current)).outcome.notes, [
      'the baseline base.json was written by version 0.1, this is 1.0.0',
    ]);
  });

  it('follows renamed files', async () => {
    const moved = sampleReport([sampleFinding({ path: 'new.ts' })]);
    const renames = new Map([['src/app.ts', 'new.ts']]);
    const counts = async (options?: CompareOptions) =>
      (await compared(sampleReport([sampleFinding()]), moved, options)).header.selection.baseline;
    assert.deepEqual(await counts(), { newIssues: 1, unchanged: 0, fixed: 1 });
    assert.deepEqual(await counts({ renames }), { newIssues: 0, unchanged: 1, fixed: 0 });
  });

  it('is of two consistent reports', async () => {
    const odd = (report: Report) => ({ ...report, summary: { ...report.summary, totalIssues: 77 } });
    await assert.rejects(compared(before(), odd(now())), /now\.json is not consistent/u);
    await assert.rejects(compared(odd(before()), now()), /base\.json is not consistent/u);
  });

  it('is refused for a report that lists only what was new', async () => {
    const delta = sampleReport([], (report) => (report.selection.baseline = { newIssues: 0, unchanged: 0, fixed: 0 }));
    await assert.rejects(compared(before(), delta), (error) => {
      assert.ok(error instanceof ReportFailure);
      assert.deepEqual(
        [error.code, error.message],
        ['input', 'now.json lists only what was new against a baseline; compare needs a full report'],
      );
      return true;
    });
  });
});
