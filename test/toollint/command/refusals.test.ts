import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { sampleFinding, sampleReport } from '../support/samples.ts';
import { project, rulesIn, scanned, toollint, writeJson } from '../support/verbs.ts';

const UPDATE = ['scan', '--baseline', 'b.jsonl', '--update-baseline'];
describe('the command line', () => {
  it('reads every argument after -- as a path, also --help', async (t) => {
    const cwd = await project(t, { '--help': '' });
    assert.match((await toollint(['scan', '--', '--help'], { cwd })).stderr, /nothing to scan for '--help'/u);
    assert.match((await toollint(['scan', '--help'], { cwd })).stdout, /^usage: toollint/u);
  });
});

describe('the outputs', () => {
  it('never replace an input, whatever link names it', async (t) => {
    const cwd = await project(t, { 'a.js': '', 'package.json': '{}' });
    const text = JSON.stringify(sampleReport([sampleFinding()]));
    await writeJson(cwd, 'r.json', text);
    await writeJson(cwd, 'b.json', text);
    await symlink('r.json', join(cwd, 'l.json'));
    await symlink('.', join(cwd, 'here'));
    for (const args of [
      ['convert', 'r.json', '--format', 'sarif=r.json'],
      ['convert', 'l.json', '--to', 'sarif', '-o', 'r.json'],
      ['convert', 'r.json', '--to', 'sarif', '-o', 'here/l.json'],
      ['merge', 'b.json', 'r.json', '-o', './r.json'],
      ['compare', 'b.json', 'r.json', '-o', 'r.json'],
      ['compare', 'r.json', 'b.json', '--format', 'sarif=r.json'],
      ['import', '--from', 'sarif', 'r.json', '-o', 'r.json'],
      ['scan', '-c', 'r.json', '-o', 'r.json'],
      ['scan', '-o', 'a.js'],
      ['scan', 'a.js', '--format', 'sarif=here/a.js'],
      ['scan', '-o', 'eslint.config.mjs'],
      ['scan', '-o', 'package.json'],
    ]) {
      const { code, stderr } = await toollint(args, { cwd });
      assert.match(stderr, /^toollint: \S+ is read or written already; choose another output\n$/u, args.join(' '));
      assert.equal(code, 2);
      assert.equal(await readFile(join(cwd, 'r.json'), 'utf8'), text);
      assert.equal(await readFile(join(cwd, 'a.js'), 'utf8'), '');
    }
  });
});

describe('a named pipe', () => {
  it('in place of a file that a scan does not read as a stream is refused', async (t) => {
    const cwd = await project(t, { 'a.js': '' });
    execFileSync('mkfifo', ['pipe', 'eslint-suppressions.json'], { cwd });
    for (const [args, message] of [
      [['scan', '-c', 'pipe'], /there is no configuration file/u],
      [[...UPDATE.with(2, 'pipe')], /expected a regular file/u],
      [['scan'], /eslint-suppressions\.json cannot be read: not a regular file/u],
    ] as const) {
      const { code, stderr } = await toollint([...args], { cwd });
      assert.match(stderr, message);
      assert.notEqual(code, 0);
    }
  });
});

describe('the verbs', () => {
  it('list errors only with --quiet, and limit all', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\nconsole.log(a);\n' });
    const { report, code } = await scanned(cwd, ['--quiet', '--max-warnings', '0']);
    assert.deepEqual([rulesIn(report), report.summary.totalIssues], [['no-var'], 1]);
    assert.equal(report.gate.message, 'warnings 1 > 0 (fail)');
    assert.equal(code, 1);
  });

  it('list errors first in markdown, github and a SARIF log with --max-results', async (t) => {
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
