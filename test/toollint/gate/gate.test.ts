import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { chosenGate, ReportFailure, type Report } from '../../../lib/toollint/toollint.ts';
import { incompleteReport, noFilesReport, sampleFinding, sampleReport } from '../support/samples.ts';
import { project, scanned, toollint, writeJson } from '../support/verbs.ts';

const warning = sampleFinding({ line: 1 });
const error = sampleFinding({ line: 2, severity: 'error', ruleId: 'no-var' });

/** Compares a report with an empty one, so that all its findings are new. */
async function gated(t: TestContext, report: Report, ...args: string[]) {
  const cwd = await project(t, {});
  const base = sampleReport([], (r) => (r.selection.quiet = report.selection.quiet));
  await writeJson(cwd, 'base.json', base);
  await writeJson(cwd, 'now.json', report);
  const { code, stdout } = await toollint(['compare', 'base.json', 'now.json', '--silent', ...args], { cwd });
  return { code, gate: stdout === '' ? undefined : (JSON.parse(stdout) as Report).gate };
}

describe('a gate', () => {
  it('called default fails for errors and warns for warnings', async (t) => {
    const run = (findings: (typeof warning)[], ...args: string[]) =>
      gated(t, sampleReport(findings), '--gate', 'default', ...args);
    const failed = 'errors 1 > 0 (fail); warnings 1 > 0 (warn)';
    const found = { code: 1, gate: { status: 'failed', name: 'default', message: failed } };
    assert.deepEqual(await run([warning, error]), found);
    const warned = { code: 0, gate: { status: 'warning', name: 'default', message: 'warnings 1 > 0 (warn)' } };
    assert.deepEqual(await run([warning]), warned);
    assert.equal((await run([warning], '--fail-on-warning')).code, 1);
    assert.deepEqual(await run([]), { code: 0, gate: { status: 'passed', name: 'default' } });
  });

  it('called strict fails for any finding', async (t) => {
    for (const severity of ['error', 'warning', 'info'] as const)
      assert.equal((await gated(t, sampleReport([sampleFinding({ severity })]), '--gate', 'strict')).code, 1, severity);
    assert.equal((await gated(t, sampleReport([]), '--gate', 'strict')).code, 0);
  });

  it('has limits: a count at the limit passes, one above fails', async (t) => {
    const report = sampleReport([error, warning, sampleFinding({ line: 5 }), sampleFinding({ severity: 'info' })]);
    for (const [option, count] of [
      ['--max-errors', 1],
      ['--max-warnings', 2],
      ['--max-infos', 1],
      ['--max-new', 4],
    ] as const) {
      assert.equal((await gated(t, report, option, String(count))).gate?.status, 'passed', option);
      const above = await gated(t, report, option, String(count - 1));
      assert.deepEqual([above.code, above.gate?.status, above.gate?.name], [1, 'failed', 'cli'], option);
    }
    const both = await gated(t, report, '--gate', 'new-code', '--max-infos', '0');
    assert.equal(both.gate?.message, 'newIssues 4 > 0 (fail); infos 1 > 0 (fail)');
  });

  it('accepts limits in plain digits only', async (t) => {
    for (const option of ['--max-errors', '--max-new'])
      for (const value of ['abc', '-1', '1e9', '', ' 1', '1.0', '0x1', '99999999999999999999'])
        assert.equal((await gated(t, sampleReport([]), `${option}=${value}`)).code, 2, `${option}=${value}`);
    assert.throws(() => chosenGate({ limits: { errors: Number.NaN } }), ReportFailure);
  });

  it('fails an incomplete analysis and one without files', async (t) => {
    const unparsed = (relativePath: string) => ({ kind: 'parse-error' as const, message: 'x', relativePath });
    const incomplete = incompleteReport([unparsed('a.ts'), unparsed('b.ts')]);
    assert.deepEqual(await gated(t, incomplete, '--max-errors', '1', '--exit-zero'), {
      code: 3,
      gate: { status: 'failed', name: 'cli', message: 'analysis incomplete: 2 parse errors' },
    });
    const codes = [];
    for (const flag of ['--exit-zero', '--allow-no-files'])
      codes.push((await gated(t, noFilesReport(), '--gate', 'strict', flag)).code);
    assert.deepEqual(codes, [4, 0]);
  });

  it('is not evaluated if the report lists errors only and the gate asks for more', async (t) => {
    const quiet = sampleReport([error], (r) => (r.selection.quiet = true));
    for (const args of ['--gate=strict', '--max-infos=1']) assert.equal((await gated(t, quiet, args)).code, 2);
    assert.equal((await gated(t, quiet, '--max-errors', '1')).code, 0);
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
    assert.equal(await code('broken.js', 'error.js'), 3);
    assert.equal(await code('broken.js', '--exit-zero', '--allow-no-files'), 3);
  });
});
