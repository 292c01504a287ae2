import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { memorySource, openReport, type Report, validate } from '../../../lib/toollint/toollint.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

type Change = (report: Report) => unknown;

const base = () =>
  sampleReport([
    projectFinding(),
    sampleFinding(),
    sampleFinding({ line: 9 }),
    sampleFinding({ path: 'src/b.ts', severity: 'error' }),
  ]);

const withDiagnostic = (report: Report, kind: 'parse-error' | 'rule-error' | 'no-files') => {
  report.execution = {
    status: kind === 'no-files' ? 'no-files' : 'incomplete',
    diagnostics: [{ kind, message: 'it failed', relativePath: 'src/c.ts' }],
  };
  if (kind === 'parse-error') report.summary.parseErrors = 1;
  if (kind === 'rule-error') report.summary.ruleErrors = 1;
};
const emptied = (report: Report) => {
  report.findings = [];
  report.summary = {
    totalFiles: 0,
    totalIssues: 0,
    parseErrors: 0,
    ruleErrors: 0,
    bySeverity: { error: 0, warning: 0, info: 0 },
  };
};
/** Removes the second warning, which has the fingerprint of the first. */
const withoutSecondOfItsKind = (report: Report) => {
  report.findings.splice(2, 1);
  report.summary.totalIssues = 3;
  report.summary.bySeverity.warning = 1;
};
const delta = (report: Report, newIssues: number) =>
  (report.selection.baseline = { newIssues, unchanged: 0, fixed: 0 });
const at = (report: Report, index: number) => {
  const finding = report.findings[index];
  assert.ok(finding !== undefined);
  return finding;
};

function found(report: Report): string[] {
  const { schema, problems } = validate(memorySource(JSON.stringify(report), 'sample'));
  assert.equal(schema, 'valid');
  return problems.map(({ level, code, pointer }) => `${level} ${code} ${pointer}`);
}

/** Changes that make one contradiction each. A key has its code, the pointer of the fault and a description. */
const BROKEN: Readonly<Record<string, Change>> = {
  'wrong-count /summary/totalIssues a wrong total': (r) => (r.summary.totalIssues = 5),
  'wrong-count /summary/bySeverity/warning a wrong count of warnings': (r) => (r.summary.bySeverity.warning = 3),
  'not-a-count /summary/totalFiles a fractional count': (r) => (r.summary.totalFiles = 1.5),
  'not-a-count /summary/totalIssues a negative count': (r) => (r.summary.totalIssues = -4),
  'not-a-count /summary/ruleErrors an unsafe count': (r) => (r.summary.ruleErrors = 2 ** 60),
  'not-a-count /selection/baseline/fixed a negative baseline count': (r) =>
    (r.selection.baseline = { newIssues: 4, unchanged: 0, fixed: -1 }),
  'wrong-count /summary/parseErrors parse errors without diagnostics': (r) => (r.summary.parseErrors = 1),
  'wrong-count /summary/ruleErrors rule errors without diagnostics': (r) => (r.summary.ruleErrors = 2),
  'wrong-status /execution/status a complete run with diagnostics': (r) => {
    withDiagnostic(r, 'rule-error');
    r.execution.status = 'complete';
  },
  'wrong-status /execution/status an incomplete run without diagnostics': (r) => (r.execution.status = 'incomplete'),
  'wrong-status /execution/status a complete run over no files': (r) => (r.summary.totalFiles = 0),
  'wrong-status /execution/status no files, but some': (r) => {
    emptied(r);
    withDiagnostic(r, 'no-files');
    r.summary.totalFiles = 2;
  },
  'wrong-status /execution/diagnostics no files without a diagnostic': (r) => {
    emptied(r);
    r.execution.status = 'no-files';
  },
  'wrong-status /findings/0/location/scope no files with a finding in a file': (r) => {
    emptied(r);
    withDiagnostic(r, 'no-files');
    r.findings = [sampleFinding()];
    r.summary.totalIssues = r.summary.bySeverity.warning = 1;
  },
  'wrong-status /execution/diagnostics a no-files diagnostic beside files': (r) => {
    withDiagnostic(r, 'rule-error');
    r.execution.diagnostics.push({ kind: 'no-files', message: 'none' });
  },
  'wrong-count /summary/totalFiles more parse errors than files': (r) => {
    withDiagnostic(r, 'parse-error');
    r.summary.totalFiles = 0;
  },
  'wrong-occurrence /findings/2/occurrence an occurrence that skips': (r) => (at(r, 2).occurrence = 3),
  'shared-fingerprint /findings/2/fingerprint one fingerprint for two rules': (r) => {
    at(r, 2).ruleId = 'other';
    r.scan.enabledRuleIds.push('other');
  },
  'impossible-location /findings/1/location/path a finding in a file without a path': (r) => {
    withoutSecondOfItsKind(r);
    delete at(r, 1).location.path;
  },
  'impossible-location /findings/0/location/line a line in the project': (r) => (at(r, 0).location.line = 1),
  'impossible-location /findings/1/location/column a column without a line': (r) => delete at(r, 1).location.line,
  'invalid-path /execution/diagnostics/0/relativePath an absolute path in a diagnostic': (r) => {
    withDiagnostic(r, 'rule-error');
    Object.assign(r.execution.diagnostics[0] ?? {}, { relativePath: '/etc' });
  },
  'invalid-path /scan/target/path a target outside': (r) => {
    emptied(r);
    r.summary.totalFiles = 1;
    r.scan.target = { kind: 'project', path: '../x' };
  },
  'outside-target /findings/3/location/path a finding outside the target': (r) => {
    at(r, 3).location.path = 'test/b.ts';
    r.scan.target = { kind: 'project', path: 'src' };
  },
  'contradictory-scope /scan/target an unknown scope with a target': (r) =>
    Object.assign(r.scan, { scopeKnown: false, enabledRuleIds: [] }),
  'contradictory-scope /scan/enabledRuleIds an unknown scope with rules': (r) =>
    Object.assign(r.scan, { scopeKnown: false, target: null }),
  'contradictory-scope /scan/target a known scope without a target': (r) => (r.scan.target = null),
  'rule-not-enabled /findings/3/ruleId a rule that is not enabled': (r) =>
    Object.assign(at(r, 3), { ruleId: 'no-eval', fingerprint: 'x' }),
  'not-an-error /findings/0/severity a quiet report with a warning': (r) => {
    emptied(r);
    r.summary.totalFiles = 1;
    r.findings = [projectFinding()];
    r.summary.totalIssues = r.summary.bySeverity.info = 1;
    r.selection.quiet = true;
  },
  'wrong-new-issues /selection/baseline/newIssues a delta that lists more than is new': (r) => delta(r, 3),
  'gate-of-unfinished /gate/status a gate passed by an incomplete run': (r) => {
    withDiagnostic(r, 'rule-error');
    r.gate = { status: 'passed', name: 'x' };
  },
  'gate-of-unfinished /gate/status a gate that warns of an incomplete run': (r) => {
    withDiagnostic(r, 'rule-error');
    r.gate = { status: 'warning', name: 'x' };
  },
  'empty-text /tool/version an empty version': (r) => (r.tool.version = ''),
  'empty-text /findings/3/message an empty message': (r) => (at(r, 3).message = ''),
  'empty-text /findings/3/fingerprint an empty fingerprint': (r) => (at(r, 3).fingerprint = ''),
  'empty-text /findings/1/ruleId an empty rule id': (r) => {
    withoutSecondOfItsKind(r);
    at(r, 1).ruleId = '';
    r.scan.enabledRuleIds.push('');
  },
};

describe('the consistency of a report', () => {
  it('holds for a report of our own', () => {
    assert.deepEqual(found(base()), []);
  });

  for (const [key, change] of Object.entries(BROKEN)) {
    const [code = '', pointer = '', ...name] = key.split(' ');
    it(`names ${name.join(' ')} as ${code} and nothing else`, () => {
      const report = base();
      change(report);
      assert.deepEqual(found(report), [`consistency ${code} ${pointer}`]);
      const [problem] = validate(memorySource(JSON.stringify(report), 'x')).problems;
      assert.match(problem?.message ?? '', /\w \w/u, 'it is said in words');
    });
  }

  it('refuses every path that is not relative to the root', () => {
    const faulty = String.raw`/etc C:\x C:/x a\b ../x a/../b ./a a//b file:///x https://example.org/x s3://b/x a/ . a/.`;
    for (const path of [...faulty.split(' '), '', 'x\u0000y']) {
      const expected = ['consistency invalid-path /findings/0/location/path'];
      assert.deepEqual(found(sampleReport([sampleFinding({ path })])), expected, path);
    }
    for (const path of ['..foo/bar', 'a..b', '.hidden/x', 'a b/#%.ts', '漢字/é.ts', '...']) {
      assert.deepEqual(found(sampleReport([sampleFinding({ path })])), [], path);
    }
  });

  it('accepts a foreign report that breaks only what holds for our scans', () => {
    const changes: Change[] = [
      (r) => delta(r, 1),
      (r) => (r.scan.enabledRuleIds = []),
      (r) => (r.scan.target = { kind: 'project', path: 'lib' }),
      (r) =>
        r.findings.forEach((finding, index) => Object.assign(finding, { fingerprint: 'same', occurrence: index + 1 })),
    ];
    for (const change of changes) {
      const report = base();
      report.tool.name = 'other-lint';
      change(report);
      assert.deepEqual(found(report), []);
      report.tool.name = 'toollint';
      assert.notDeepEqual(found(report), []);
    }
  });

  it('reports every kind of fault, even beside 1,500 faults of another kind', () => {
    const report = base();
    report.findings = Array.from({ length: 1500 }, (_, index) => sampleFinding({ line: index + 1 }));
    for (const finding of report.findings) finding.occurrence = 7;
    const codes = new Set(found(report).map((text) => text.split(' ')[1]));
    assert.deepEqual(codes, new Set(['wrong-occurrence', 'wrong-count']));
    assert.throws(() => openReport(memorySource(JSON.stringify(report), 'sample')), /summary/u);
  });
});
