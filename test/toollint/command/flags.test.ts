import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { configText, project, scanned, toollint, writeJson } from '../support/verbs.ts';
import { assertSound, sampleFinding, sampleReport } from '../support/samples.ts';

const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path: string; ruleId: string; accepted?: object });

const reportIn = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Report;

describe('--update-baseline', () => {
  it('drops fixed findings and adds no new ones', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\nvar b;\n', 'b.js': 'var c;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), '\n\nvar b;\nvar d;\n');
    const { report, stderr } = await scanned(cwd, ['--baseline', 'base.json', '--update-baseline']);
    assert.deepEqual(report.selection.baseline, { newIssues: 1, unchanged: 2, fixed: 1 });
    assert.match(stderr, /the baseline base\.json now has 2 findings/u);
    const before = await readFile(join(cwd, 'base.json'), 'utf8');
    assert.deepEqual(
      linesOf(before).map(({ path, ruleId }) => [path, ruleId]),
      [
        ['a.js', 'no-var'],
        ['b.js', 'no-var'],
      ],
    );
    await toollint(['scan', '--baseline', 'base.json', '--update-baseline'], { cwd });
    assert.equal(await readFile(join(cwd, 'base.json'), 'utf8'), before);
  });

  it('keeps unchecked findings, and changes nothing after an incomplete analysis', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'b.js': 'var b;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    await writeFile(join(cwd, 'b.js'), 'let = ;\n');
    const before = await readFile(join(cwd, 'base.json'), 'utf8');
    assert.match(
      (await toollint(['scan', '--baseline', 'base.json', '--update-baseline'], { cwd })).stderr,
      /the baseline is left as it is/u,
    );
    assert.equal(await readFile(join(cwd, 'base.json'), 'utf8'), before);
    await toollint(['scan', 'a.js', '--baseline', 'base.json', '--update-baseline'], { cwd });
    assert.deepEqual(
      linesOf(await readFile(join(cwd, 'base.json'), 'utf8')).map(({ path }) => path),
      ['b.js'],
    );
  });
});

describe('--path-prefix', () => {
  it('precedes every path of the report and of the baseline', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'bad.js': 'let = ;\n' });
    await toollint(['scan', '--deterministic', '--path-prefix', './packages/one/', '-o', 'base.json'], { cwd });
    const report = await reportIn(join(cwd, 'base.json'));
    assertSound(report);
    assert.deepEqual(
      report.findings.map(({ location }) => location.path),
      ['packages/one/a.js', 'packages/one/bad.js'],
    );
    assert.equal(report.execution.diagnostics[0]?.relativePath, 'packages/one/bad.js');
    assert.equal(report.scan.target?.path, 'packages/one');
    assert.ok(report.scan.include.every((glob) => glob.startsWith('packages/one/')));
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    const again = await scanned(cwd, ['--path-prefix', 'packages/one', '--baseline', 'base.json']);
    assert.deepEqual(again.report.selection.baseline, { newIssues: 1, unchanged: 0, fixed: 1 });
    for (const bad of ['../x', '/x', 'a//b'])
      assert.equal((await toollint(['scan', '--path-prefix', bad], { cwd })).code, 2);
  });
});

describe('the configuration and the outputs of a scan', () => {
  it("--config and -c replace the folder's own configuration", async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\ndebugger;\n',
      'ci/other.config.mjs': configText(`{ 'no-debugger': 'error' }`),
    });
    for (const [args, rule] of [
      [[], 'no-var'],
      [['--config', 'ci/other.config.mjs'], 'no-debugger'],
      [['-c', join(cwd, 'ci/other.config.mjs')], 'no-debugger'],
    ] as const) {
      const { report } = await scanned(cwd, ['a.js', ...args]);
      assert.deepEqual(
        report.findings.map(({ ruleId }) => ruleId),
        [rule],
      );
    }
  });

  it('--output writes what -o writes, in any format, and nothing to standard output', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const { stdout: report } = await toollint(['scan', '--deterministic'], { cwd });
    for (const flag of ['-o', '--output']) {
      const { stdout } = await toollint(['scan', '--deterministic', flag, 'out.json'], { cwd });
      assert.deepEqual([stdout, await readFile(join(cwd, 'out.json'), 'utf8')], ['', report]);
    }
    const args = ['scan', '--deterministic', '--format', 'github', '--format', 'report=whole.json', '--output', 'out'];
    assert.equal((await toollint(args, { cwd })).stdout, '');
    assert.match(await readFile(join(cwd, 'out'), 'utf8'), /^::error /u);
    assert.equal(await readFile(join(cwd, 'whole.json'), 'utf8'), report);
  });

  it('--color never removes colors from a terminal, and --color always adds them to a pipe', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const shown = async (terminal: number | undefined, ...args: string[]) => {
      const options = { cwd, ...(terminal === undefined ? {} : { terminal }) };
      return (await toollint(['scan', '--format', 'pretty', ...args], options)).stdout.includes('\u001b[31m');
    };
    assert.deepEqual([await shown(80), await shown(80, '--color', 'never')], [true, false]);
    assert.deepEqual([await shown(undefined), await shown(undefined, '--color', 'always')], [false, true]);
  });
});

describe('limits of SARIF', () => {
  it('--max-results bounds the SARIF log, errors first', async (t) => {
    const cwd = await project(t, {});
    const findings = Array.from({ length: 50 }, (_, index) =>
      sampleFinding({ line: index + 1, severity: index === 49 ? 'error' : 'warning' }),
    );
    await writeJson(cwd, 'r.json', sampleReport(findings));
    const { stdout } = await toollint(['convert', 'r.json', '--to', 'markdown'], { cwd });
    assert.match(stdout, /\| --- \|\n\| error \|/u);
    assert.match((await toollint(['convert', 'r.json', '--to', 'github'], { cwd })).stdout, /^::error .*line=50/u);
    for (const [limit, written] of [
      [1, 1],
      [2, 2],
      [50, 50],
      [51, 50],
    ] as const) {
      const sarif = await toollint(['convert', 'r.json', '--to', 'sarif', '--max-results', String(limit)], { cwd });
      const { results } = (JSON.parse(sarif.stdout) as { runs: [{ results: { level: string }[] }] }).runs[0];
      assert.deepEqual([results.length, results.at(-1)?.level], [written, 'error']);
      assert.equal(sarif.stderr.includes(`${limit} of 50 results are written`), limit < 50);
    }
  });

  it('warns of a SARIF log that would close other alerts', async (t) => {
    const cwd = await project(t, {});
    await writeJson(cwd, 'r.json', sampleReport([sampleFinding()]));
    await writeJson(
      cwd,
      'delta.json',
      sampleReport([sampleFinding()], (r) => (r.selection.baseline = { newIssues: 1, unchanged: 2, fixed: 0 })),
    );
    assert.match(
      (await toollint(['convert', 'delta.json', '--to', 'sarif'], { cwd })).stderr,
      /GitHub closes the alerts that are not in it/u,
    );
    assert.equal((await toollint(['convert', 'r.json', '--to', 'sarif'], { cwd })).stderr, '');
    assert.doesNotMatch((await toollint(['compare', 'r.json', 'r.json', '--to', 'sarif'], { cwd })).stderr, /closes/u);
  });
});
