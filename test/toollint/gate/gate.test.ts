import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { chosenGate, ReportFailure, type Report } from '../../../lib/toollint/toollint.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';
import { project, scanned, toollint, writeJson } from '../support/verbs.ts';

const warning = sampleFinding({ line: 1 });
const error = sampleFinding({ line: 2, severity: 'error', ruleId: 'no-var' });

describe('a gate', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'toollint-test-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  async function gated(
    report: Report,
    args: readonly string[],
  ): Promise<{ code: number; gate: Report['gate'] | undefined; stderr: string }> {
    const path = await writeJson(folder, 'report.json', report);
    const { code, stdout, stderr } = await toollint(['gate', path, '--silent', ...args], { cwd: folder });
    return { code, gate: stdout === '' ? undefined : (JSON.parse(stdout) as Report).gate, stderr };
  }
  const config = (conditions: unknown, name: unknown = 'own') => writeJson(folder, 'gate.json', { name, conditions });
  const limit = (metric: string, op: string, threshold: unknown, level = 'fail') => ({ metric, op, threshold, level });

  it('called default fails for errors and warns for warnings', async () => {
    assert.deepEqual(await gated(sampleReport([warning, error]), []), {
      code: 1,
      stderr: '',
      gate: { status: 'failed', name: 'default', message: 'errors 1 > 0 (fail); warnings 1 > 0 (warn)' },
    });
    assert.deepEqual((await gated(sampleReport([warning]), [])).gate, {
      status: 'warning',
      name: 'default',
      message: 'warnings 1 > 0 (warn)',
    });
    assert.equal((await gated(sampleReport([warning]), [])).code, 0);
    assert.equal((await gated(sampleReport([warning]), ['--fail-on-warning'])).code, 1);
    assert.deepEqual(await gated(sampleReport([]), []), {
      code: 0,
      stderr: '',
      gate: { status: 'passed', name: 'default' },
    });
  });

  it('called strict fails for anything', async () => {
    assert.equal((await gated(sampleReport([warning]), ['--gate', 'strict'])).gate?.status, 'failed');
    assert.equal((await gated(sampleReport([]), ['--gate', 'strict'])).gate?.status, 'passed');
  });

  it('applies each operator exactly at its threshold', async () => {
    const report = sampleReport([warning, sampleFinding({ line: 5 })]);
    for (const [op, verdicts] of [
      ['>', 'fpp'],
      ['>=', 'ffp'],
      ['<', 'ppf'],
      ['<=', 'pff'],
      ['==', 'pfp'],
      ['!=', 'fpf'],
    ] as const) {
      for (const [index, threshold] of [1, 2, 3].entries()) {
        await config([limit('warnings', op, threshold)]);
        assert.equal(
          (await gated(report, ['--gate-config', 'gate.json'])).gate?.status,
          verdicts[index] === 'f' ? 'failed' : 'passed',
          `${op} ${threshold}`,
        );
      }
    }
    assert.equal((await gated(report, ['--max-warnings', '2'])).code, 0);
    assert.deepEqual((await gated(report, ['--max-warnings', '1'])).gate, {
      status: 'failed',
      name: 'cli',
      message: 'warnings 2 > 1 (fail)',
    });
  });

  it('knows every metric', async () => {
    const report = sampleReport([{ ...warning, category: 'layout' }, error], (r) => {
      r.selection.baseline = { newIssues: 2, unchanged: 5, fixed: 3 };
      r.scan.enabledRuleIds.push('eqeqeq');
    });
    const expected = {
      errors: 1,
      warnings: 1,
      infos: 0,
      issues: 2,
      newIssues: 2,
      newErrors: 1,
      fixed: 3,
      parseErrors: 0,
      ruleErrors: 0,
      files: 9,
      'rule:no-var': 1,
      'rule:eqeqeq': 0,
      'category:layout': 1,
      'category:problem': 0,
    };
    for (const [metric, value] of Object.entries(expected)) {
      await config([limit(metric, '==', value, 'warn')]);
      assert.equal(
        (await gated(report, ['--gate-config', 'gate.json'])).gate?.message,
        `${metric} ${value} == ${value} (warn)`,
      );
    }
  });

  it('refuses a disabled rule and an unknown category if the scope is known', async () => {
    const known = sampleReport([warning]);
    const unknown = sampleReport([warning], (r) => {
      Object.assign(r.scan, {
        scopeKnown: false,
        target: null,
        profile: null,
        enabledRuleIds: [],
        include: [],
        exclude: [],
      });
    });
    const foreign = sampleReport([warning], (r) => (r.tool.name = 'other'));
    for (const [metric, codes] of [
      ['rule:no-vra', [2, 0, 2]],
      ['category:probelm', [2, 0, 0]],
      ['rule:PARSE-ERROR', [0, 0, 0]],
      ['rule:no-console', [1, 1, 1]],
    ] as const) {
      await config([limit(metric, '>', 0)]);
      const actual = [];
      for (const report of [known, unknown, foreign])
        actual.push((await gated(report, ['--gate-config', 'gate.json'])).code);
      assert.deepEqual(actual, codes, metric);
    }
  });

  it('fails an incomplete analysis, whatever its conditions', async () => {
    await config([]);
    const incomplete = sampleReport(
      [],
      (r) =>
        (r.execution = {
          status: 'incomplete',
          diagnostics: [
            { kind: 'parse-error', message: 'x', relativePath: 'a.ts' },
            { kind: 'parse-error', message: 'y', relativePath: 'b.ts' },
          ],
        }),
    );
    const { code, gate } = await gated(incomplete, ['--gate-config', 'gate.json', '--exit-zero']);
    assert.deepEqual(
      [code, gate],
      [3, { status: 'failed', name: 'own', message: 'analysis incomplete: 2 parse errors' }],
    );
    assert.equal((await gated(sampleReport([error]), ['--gate-config', 'gate.json'])).gate?.status, 'passed');
    const none = sampleReport([], (r) => {
      r.execution = { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'none' }] };
      r.summary.totalFiles = 0;
    });
    assert.deepEqual(
      [
        (await gated(none, ['--exit-zero'])).code,
        (await gated(none, [])).gate?.status,
        (await gated(none, ['--allow-no-files'])).code,
      ],
      [4, 'failed', 0],
    );
  });

  it('is not evaluated if the report lacks the counts', async () => {
    const quiet = sampleReport([error], (r) => (r.selection.quiet = true));
    assert.match((await gated(quiet, [])).stderr, /cannot be evaluated/u);
    for (const [report, args] of [
      [quiet, []],
      [quiet, ['--gate', 'strict']],
      [quiet, ['--max-infos', '1']],
      [sampleReport([]), ['--gate', 'new-code']],
      [sampleReport([]), ['--max-new', '0']],
    ] as const) {
      assert.deepEqual([(await gated(report, args)).code, (await gated(report, args)).gate], [2, undefined]);
    }
    assert.equal((await gated(quiet, ['--max-errors', '1'])).code, 0);
  });

  it('replaces an earlier verdict', async () => {
    const report = sampleReport([], (r) => (r.gate = { status: 'failed', name: 'old', message: 'old' }));
    assert.deepEqual((await gated(report, ['--gate', 'strict'])).gate, { status: 'passed', name: 'strict' });
  });

  it('is refused if its description is invalid', async () => {
    const good = limit('errors', '>', 0);
    const bad: unknown[] = [
      '',
      'x',
      '[]',
      '{}',
      { name: 'own' },
      { name: '', conditions: [] },
      { name: 7, conditions: [] },
      { name: 'own', conditions: {} },
      { name: 'own', conditions: [], more: 1 },
      [
        { name: 'a', conditions: [] },
        { name: 'a', conditions: [] },
      ],
      {
        gates: [
          { name: 'a', conditions: [] },
          { name: 'b', conditions: [] },
        ],
      },
      { name: 'strict', conditions: [] },
      ...[
        { metric: 'bugs' },
        { metric: 'rule:' },
        { metric: undefined },
        { metric: 'constructor' },
        { op: '~' },
        { op: undefined },
        { threshold: -1 },
        { threshold: 1.5 },
        { threshold: '1' },
        { threshold: null },
        { level: 'error' },
        { level: undefined },
        { treshold: 1 },
      ].map((change) => ({ name: 'own', conditions: [{ ...good, ...change }] })),
    ];
    for (const content of bad) {
      await writeJson(folder, 'gate.json', content);
      assert.deepEqual(
        Object.values(await gated(sampleReport([]), ['--gate-config', 'gate.json'])).slice(0, 2),
        [2, undefined],
        JSON.stringify(content),
      );
    }
    await writeFile(
      join(folder, 'gate.json'),
      JSON.stringify({
        gates: [
          { name: 'a', conditions: [] },
          { name: 'b', conditions: [good] },
        ],
      }),
    );
    assert.deepEqual(
      (await gated(sampleReport([error]), ['--gate-config', 'gate.json', '--gate', 'b'])).gate?.name,
      'b',
    );
  });

  it('has the limits of the command line: a count at the limit passes, one above fails', async () => {
    const report = sampleReport(
      [error, warning, sampleFinding({ line: 5 }), sampleFinding({ severity: 'info' })],
      (r) => {
        r.selection.baseline = { newIssues: 4, unchanged: 0, fixed: 0 };
      },
    );
    for (const [option, count] of [
      ['--max-errors', 1],
      ['--max-warnings', 2],
      ['--max-infos', 1],
      ['--max-new', 4],
    ] as const) {
      assert.equal((await gated(report, [option, String(count)])).gate?.status, 'passed', option);
      assert.equal((await gated(report, [option, String(count - 1)])).gate?.status, 'failed', option);
    }
    const both = await gated(report, ['--gate', 'new-code', '--max-infos', '0']);
    assert.equal(both.gate?.message, 'newIssues 4 > 0 (fail); infos 1 > 0 (fail)');
  });

  it('accepts limits in plain digits only', async () => {
    for (const option of ['--max-errors', '--max-warnings', '--max-infos', '--max-new']) {
      for (const value of ['abc', '-1', '1e9', '', ' 1', '1.0', '0x1', '99999999999999999999']) {
        const { code, gate } = await gated(sampleReport([]), [`${option}=${value}`]);
        assert.deepEqual([code, gate], [2, undefined], `${option}=${value}`);
      }
      assert.equal((await gated(sampleReport([]), [option, '-1'])).code, 2);
    }
    assert.throws(() => chosenGate({ limits: { errors: Number.NaN } }), ReportFailure);
  });
});

describe('the exit code of a scan', () => {
  it('depends on the gate, or without one on the errors', async (t) => {
    const cwd = await project(t, {
      'error.js': 'var a;\n',
      'warning.js': 'console.log(1);\n',
      'broken.js': 'let = ;',
      'clean.js': 'let a;\n',
    });
    const code = async (...args: string[]) => (await scanned(cwd, args)).code;
    assert.equal(await code('clean.js'), 0);
    assert.equal(await code('warning.js'), 0);
    assert.equal(await code('error.js'), 1);
    assert.equal(await code('error.js', '--exit-zero'), 0);
    assert.equal(await code('error.js', '--max-errors', '1'), 0);
    assert.equal(await code('warning.js', '--gate', 'strict'), 1);
    assert.equal(await code('warning.js', '--gate', 'default'), 0);
    assert.equal(await code('warning.js', '--gate', 'default', '--fail-on-warning'), 1);
    assert.equal(await code('broken.js', 'error.js'), 3);
    assert.equal(await code('broken.js', '--exit-zero', '--allow-no-files'), 3);
  });
});
