import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { pathsIn, project, scanned, toollint, writeJson } from '../support/verbs.ts';
import { assertSound, sampleFinding, sampleReport } from '../support/samples.ts';

const reportIn = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Report;

describe('--path-prefix', () => {
  it('precedes every path of the report and of the baseline', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'bad.js': 'let = ;\n' });
    await toollint(['scan', '--deterministic', '--path-prefix', './packages/one/', '-o', 'base.json'], { cwd });
    const report = await reportIn(join(cwd, 'base.json'));
    assertSound(report);
    assert.deepEqual(pathsIn(report), ['packages/one/a.js', 'packages/one/bad.js']);
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

describe('markdown, github and a SARIF log with --max-results', () => {
  it('list errors first', async (t) => {
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
      [51, 50],
    ] as const) {
      const sarif = await toollint(['convert', 'r.json', '--to', 'sarif', '--max-results', String(limit)], { cwd });
      const { results } = (JSON.parse(sarif.stdout) as { runs: [{ results: { level: string }[] }] }).runs[0];
      assert.deepEqual([results.length, results.at(-1)?.level], [written, 'error']);
      assert.equal(sarif.stderr.includes(`${limit} of 50 results are written`), limit < 50);
    }
  });
});
