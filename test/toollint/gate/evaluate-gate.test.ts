// The verdict of a gate, from counts alone.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReportFailure } from '../../../lib/toollint/document/failure.ts';
import { checkGateNeeds, evaluateGate, gate, type GateSubject, tallyOf } from '../../../lib/toollint/gate/gate.ts';
import type { GateCondition, GateConfig } from '../../../lib/toollint/gate/gate-config.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

const { tool, scan } = sampleReport([], (report) => (report.scan.enabledRuleIds = ['no-console', 'eqeqeq']));
const FINDINGS = [
  sampleFinding({ severity: 'error', ruleId: 'no-var' }),
  sampleFinding({ line: 2 }),
  { ...sampleFinding({ line: 3 }), category: 'layout' },
  { ...sampleFinding({ line: 4, severity: 'info' }), category: 'layout' },
];
const one = (metric: string, op: GateCondition['op'], threshold: number, level: GateCondition['level'] = 'fail') =>
  ({ metric, op, threshold, level }) as const;
const named = (...conditions: GateCondition[]): GateConfig => ({ name: 'own', conditions });

function subject(change: Partial<GateSubject> = {}): GateSubject {
  const tally = tallyOf(FINDINGS);
  const baseline = { newIssues: 4, unchanged: 6, fixed: 7 };
  const execution = { status: 'complete' as const, diagnostics: [] };
  return { tally, baseline, execution, totalFiles: 9, quiet: false, scan, tool, ...change };
}

const refuses = (work: () => unknown, message: string) =>
  assert.throws(work, (error) => {
    assert.ok(error instanceof ReportFailure);
    assert.deepEqual([error.code, error.message], ['gate', message]);
    return true;
  });

const COUNTS: Readonly<Record<string, number>> = {
  errors: 1,
  warnings: 2,
  infos: 1,
  issues: 4,
  newIssues: 4,
  newErrors: 1,
  fixed: 7,
  parseErrors: 0,
  ruleErrors: 0,
  files: 9,
  'rule:no-console': 3,
  'rule:no-var': 1,
  'rule:eqeqeq': 0,
  'rule:PARSE-ERROR': 0,
  'category:layout': 2,
  'category:problem': 0,
  'category:suggestion': 0,
};

const refusalOf = (metric: string) =>
  `${metric} cannot be evaluated: ${metric.startsWith('rule:') ? 'the rule was not on in this scan' : 'known are problem, suggestion, layout'}`;

describe('the verdict of a gate', () => {
  it('is not evaluated when none was asked for, and passed when nothing is violated', () => {
    assert.deepEqual(evaluateGate(undefined, subject()), { status: 'not-evaluated' });
    assert.deepEqual(evaluateGate(named(), subject()), { status: 'passed', name: 'own' });
    assert.deepEqual(evaluateGate(named(one('errors', '>', 1)), subject()), { status: 'passed', name: 'own' });
  });

  it('counts what each metric says', () => {
    for (const [metric, count] of Object.entries(COUNTS))
      assert.deepEqual(
        evaluateGate(named(one(metric, '==', count)), subject()),
        { status: 'failed', name: 'own', message: `${metric} ${count} == ${count} (fail)` },
        metric,
      );
  });

  it('counts a finding without a category in no category', () => {
    assert.deepEqual([...subject().tally.byCategory], [['layout', 2]]);
  });

  it('draws the line exactly at the threshold', () => {
    for (const [op, verdicts] of [
      ['>', [true, false, false]],
      ['>=', [true, true, false]],
      ['<', [false, false, true]],
      ['<=', [false, true, true]],
      ['==', [false, true, false]],
      ['!=', [true, false, true]],
    ] as const)
      for (const [index, threshold] of [1, 2, 3].entries())
        assert.equal(
          evaluateGate(named(one('warnings', op, threshold)), subject()).status === 'failed',
          verdicts[index],
          `2 ${op} ${threshold}`,
        );
  });

  it('is the worst of what is violated, and names all of it in the order of the conditions', () => {
    const conditions = [one('warnings', '>', 0, 'warn'), one('infos', '>', 5), one('errors', '>', 0)];
    assert.deepEqual(evaluateGate(named(...conditions), subject()), {
      status: 'failed',
      name: 'own',
      message: 'warnings 2 > 0 (warn); errors 1 > 0 (fail)',
    });
    assert.deepEqual(evaluateGate(named(one('warnings', '>', 0, 'warn')), subject()), {
      status: 'warning',
      name: 'own',
      message: 'warnings 2 > 0 (warn)',
    });
  });

  it('tells what of the baseline cannot be verified', () => {
    assert.deepEqual(evaluateGate(named(), subject({ notVerifiable: 2 })), {
      status: 'passed',
      name: 'own',
      message: '2 baseline findings are not verifiable',
    });
    assert.deepEqual(evaluateGate(named(), subject({ notVerifiable: 0 })), { status: 'passed', name: 'own' });
  });

  it('is failed when the analysis did not run to its end', () => {
    const ended = (...kinds: ('parse-error' | 'rule-error')[]) =>
      evaluateGate(
        named(),
        subject({
          execution: { status: 'incomplete', diagnostics: kinds.map((kind) => ({ kind, message: 'x' })) },
        }),
      );
    const failed = (message: string) => ({ status: 'failed', name: 'own', message });
    assert.deepEqual(ended('parse-error'), failed('analysis incomplete: 1 parse error'));
    assert.deepEqual(
      ended('parse-error', 'rule-error', 'rule-error'),
      failed('analysis incomplete: 1 parse error, 2 rule errors'),
    );
    assert.deepEqual(ended('rule-error'), failed('analysis incomplete: 1 rule error'));
    const none = { status: 'no-files' as const, diagnostics: [{ kind: 'no-files' as const, message: 'none' }] };
    assert.deepEqual(evaluateGate(named(), subject({ execution: none })), failed('no files were analysed'));
  });

  it('is refused where an answer would be a guess', () => {
    for (const metric of ['warnings', 'infos', 'issues', 'rule:no-console', 'category:layout'])
      refuses(
        () => evaluateGate(named(one(metric, '>', 0)), subject({ quiet: true })),
        `${metric} cannot be evaluated: the report lists errors only`,
      );
    for (const metric of ['newIssues', 'newErrors', 'fixed'])
      refuses(
        () => evaluateGate(named(one(metric, '>', 0)), subject({ baseline: undefined })),
        `${metric} cannot be evaluated without a baseline`,
      );
    assert.equal(
      evaluateGate(named(one('errors', '>', 0)), subject({ quiet: true, baseline: undefined })).status,
      'failed',
    );
    refuses(() => evaluateGate(named(one('bugs', '>', 0)), subject()), 'unknown metric bugs');
    // A condition that cannot be evaluated is an error of its author, also when the analysis is incomplete.
    const incomplete = { status: 'incomplete' as const, diagnostics: [] };
    refuses(() => evaluateGate(named(one('bugs', '>', 0)), subject({ execution: incomplete })), 'unknown metric bugs');
  });

  it('is refused for rules and categories that the report cannot have', () => {
    const off = 'rule:no-vra cannot be evaluated: the rule was not on in this scan';
    refuses(() => evaluateGate(named(one('rule:no-vra', '>', 0)), subject()), off);
    refuses(
      () => evaluateGate(named(one('rule:a:b', '>', 0)), subject()),
      'rule:a:b cannot be evaluated: the rule was not on in this scan',
    );
    refuses(
      () => evaluateGate(named(one('category:probelm', '>', 0)), subject()),
      'category:probelm cannot be evaluated: known are problem, suggestion, layout',
    );
    const passes = (metric: string, change: Partial<GateSubject>) =>
      assert.equal(evaluateGate(named(one(metric, '>', 9)), subject(change)).status, 'passed', metric);
    const unknown = { ...scan, scopeKnown: false };
    passes('rule:no-vra', { scan: unknown });
    passes('category:probelm', { scan: unknown });
    passes('category:probelm', { tool: { name: 'other', version: '1' } });
    passes('rule:a:b', { scan: { ...scan, enabledRuleIds: ['a:b'] } });
    const tally = tallyOf([{ ...sampleFinding({ ruleId: 'gone' }), category: 'odd' }]);
    passes('rule:gone', { tally });
    passes('category:odd', { tally });
  });

  it('passes over a rule or category that is absent where the condition is optional', () => {
    for (const metric of ['rule:no-vra', 'category:probelm']) {
      const optional = { ...one(metric, '>=', 0), optional: true };
      assert.deepEqual(evaluateGate(named(optional), subject()), { status: 'passed', name: 'own' });
      refuses(() => evaluateGate(named({ ...optional, optional: false }), subject()), refusalOf(metric));
    }
    const there = { ...one('rule:no-var', '>', 0), optional: true };
    assert.equal(evaluateGate(named(there), subject()).status, 'failed');
    // Optional is about rules and categories alone.
    refuses(() => evaluateGate(named({ ...one('bugs', '>', 0), optional: true }), subject()), 'unknown metric bugs');
  });
});

describe('what a gate needs', () => {
  it('is a baseline for the metrics of one, and is known before the work', () => {
    for (const metric of ['newIssues', 'newErrors', 'fixed']) {
      refuses(
        () => checkGateNeeds(named(one('errors', '>', 0), one(metric, '>', 0)), false),
        `the gate 'own' asks for ${metric}, which needs a baseline`,
      );
      checkGateNeeds(named(one(metric, '>', 0)), true);
    }
    checkGateNeeds(named(one('errors', '>', 0)), false);
    checkGateNeeds(undefined, false);
  });
});

describe('a gate on a report that exists', () => {
  it('replaces the verdict and leaves the rest', () => {
    const report = sampleReport(FINDINGS, (r) => {
      r.gate = { status: 'failed', name: 'old', message: 'old' };
      r.selection.baseline = { newIssues: 4, unchanged: 6, fixed: 7 };
    });
    const outcome = gate(report, named(one('fixed', '<', 7), one('files', '==', 9, 'warn')));
    assert.deepEqual(outcome.report, {
      ...report,
      gate: { status: 'warning', name: 'own', message: 'files 9 == 9 (warn)' },
    });
    assert.equal(outcome.errors, 1);
  });

  it('is refused when the report lists errors only', () => {
    const quiet = sampleReport(FINDINGS.slice(0, 1), (r) => (r.selection.quiet = true));
    assert.throws(() => gate(quiet, named(one('warnings', '>', 0))), /the report lists errors only/u);
  });
});
