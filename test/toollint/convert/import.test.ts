import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { Log } from 'sarif';
import {
  convert,
  importReports,
  memorySource,
  type Finding,
  type Report,
  validate,
} from '../../../lib/toollint/toollint.ts';
import { counts, git, project, toollint } from '../support/verbs.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const FIXTURES = new URL('fixtures/', import.meta.url);
const fixture = (name: string) => readFileSync(new URL(name, FIXTURES), 'utf8');

function track(root: string): void {
  git(root, 'init', '-q');
  git(root, 'add', '.');
}

const imported = async (text: string | Uint8Array, root = '/', more: object = {}): Promise<Report> => {
  const options = { root, timestamp: '2026-01-01T00:00:00Z', ...more };
  const { report } = await importReports([memorySource(text, 'x')], options);
  assert.deepEqual(validate(memorySource(JSON.stringify(report), 'x')).problems, []);
  return report;
};
const places = ({ findings }: Report) =>
  findings.map(({ ruleId, severity, location: { path, line, column } }) =>
    [path, line, column, severity, ruleId].join(' '),
  );

describe('the import of a real report', () => {
  it('reads the findings of ruff', async (t) => {
    const root = await project(t, { 'eslint.config.mjs': null, 'src/bad.py': fixture('bad.py.txt') });
    track(root);
    const report = await imported(fixture('ruff.sarif').replaceAll('/project', root), root);
    assert.deepEqual(places(report), [
      'src/bad.py 1 8 error F401',
      'src/bad.py 2 8 error F401',
      'src/bad.py 5 18 error B006',
      'src/bad.py 6 5 error E741',
      'src/bad.py 8 9 error E741',
    ]);
    const { linter, rules } = report.tool as unknown as { linter: { name: string; version: string }; rules: object };
    assert.deepEqual([report.tool.name, linter.name, linter.version], ['ruff', 'ruff', '0.16.9']);
    assert.deepEqual(Object.keys(rules), ['B006', 'E741', 'F401']);
    assert.equal(report.findings[0]?.docsUrl, 'https://docs.astral.sh/ruff/rules/unused-import');
  });
});

describe('the import of SARIF', () => {
  const sarif = (results: object[], more: object = {}, driver: object = {}) =>
    JSON.stringify({
      version: '2.1.0',
      runs: [{ tool: { driver: { name: 'lint', version: '1', ...driver } }, results, ...more }],
    });
  const at = (uri: string, region: object = { startLine: 1 }, more: object = {}) => ({
    locations: [{ physicalLocation: { artifactLocation: { uri, ...more }, region } }],
  });
  const result = (change: object = {}) => ({ ruleId: 'r', message: { text: 'm' }, ...at('a.c'), ...change });

  it('restores a converted report, with its fingerprints, places and CWE numbers', async () => {
    const finding = { ...sampleFinding(), suggestion: 'Remove it.', codeSnippet: 'console.log(x);' };
    const [one, two] = [['CWE-1', 'CWE-2'], ['CWE-1']].map((standardIds, index) => ({
      ...sampleFinding({ line: 9 + index, severity: 'error', ruleId: 'no-var' }),
      standardIds,
    })) as [Finding, Finding];
    const report = sampleReport([projectFinding(), finding, one, two, sampleFinding({ line: 12 })]);
    let text = '';
    const sink = async (part: string) => {
      text += await Promise.resolve(part);
    };
    await convert(report, 'sarif', sink, { projectFile: 'package.json' });
    const again = await imported(text);
    const facts = ({ findings }: Report) =>
      findings.map(({ fingerprint, occurrence, standardIds, suggestion, codeSnippet }) => [
        ...[fingerprint, occurrence, standardIds, suggestion, codeSnippet],
      ]);
    assert.deepEqual([places(again), facts(again)], [places(report), facts(report)]);
    const rules = (JSON.parse(text) as Log).runs[0]?.tool.driver.rules ?? [];
    assert.deepEqual(rules.find(({ id }) => id === 'no-var')?.properties?.tags, ['CWE-1'], 'what all of them have');
  });

  it('treats null as an absent member wherever it is optional', async () => {
    const whole = JSON.parse(fixture('ruff.sarif')) as { runs: object[] };
    Object.assign(whole.runs[0] ?? {}, {
      artifacts: [{ location: { uri: 'a.c' } }],
      invocations: [{ executionSuccessful: true, toolExecutionNotifications: [{ message: { text: 'x' } }] }],
      originalUriBaseIds: { B: { uri: 'b/' } },
    });
    const { length } = (await imported(JSON.stringify(whole))).findings;
    const REQUIRED = new Set(['version', 'tool', 'driver', 'name', 'id']);
    const check = async (owner: object) => {
      for (const [name, value] of Object.entries(owner) as [string, unknown][]) {
        if (typeof value === 'object' && value !== null) await check(value);
        if (REQUIRED.has(name) || Array.isArray(owner)) continue;
        Object.assign(owner, { [name]: null });
        const { findings } = await imported(JSON.stringify(whole));
        assert.equal(findings.length, name === 'results' || name === 'runs' ? 0 : length, name);
        Object.assign(owner, { [name]: value });
      }
    };
    await check(whole);
  });

  it('reads a log without runs as no files, which no gate passes', async () => {
    for (const runs of [[], null]) {
      const text = JSON.stringify({ version: '2.1.0', runs });
      const { execution, findings } = await imported(text);
      assert.deepEqual([execution.status, findings], ['no-files', []]);
      const args = ['import', '--from', 'sarif', '-', '--gate', 'default', '-o', '/dev/null'];
      assert.equal((await toollint(args, { stdin: text })).code, 4);
    }
  });

  it('makes one report of several tools, or takes one of them', async (t) => {
    const run = (name: string, ...results: object[]) => ({ tool: { driver: { name, version: '1' } }, results });
    const log = { version: '2.1.0', runs: [run('a', result(), result(at('b.c'))), run('b', result()), run('a')] };
    const text = JSON.stringify(log);
    const report = await imported(text);
    const { linters } = report.tool as unknown as { linters: { name: string }[] };
    assert.deepEqual([report.tool.name, linters.map(({ name }) => name)], ['toollint', ['a', 'b']]);
    assert.deepEqual([report.findings.length, report.summary.totalFiles], [3, 2]);
    const only = await imported(text, '/', { tool: 'b' });
    assert.deepEqual([only.tool.name, only.findings.length], ['b', 1]);
    const cwd = await project(t, { 'x.sarif': text });
    const { code, stderr } = await toollint(['import', '--from', 'sarif', 'x.sarif', '--tool', 'c'], { cwd });
    assert.deepEqual([code, stderr], [2, 'toollint: --tool c: there is no run of this tool, only of a, b\n']);
  });

  it('lists a finding once that two logs have', async (t) => {
    const cwd = await project(t, { 'x.sarif': sarif([result(), result(at('b.c'))]), 'y.sarif': sarif([result()]) });
    const { stdout } = await toollint(['import', '--from', 'sarif', 'x.sarif', 'y.sarif'], { cwd });
    assert.equal((JSON.parse(stdout) as Report).findings.length, 2);
  });

  it('puts --path-prefix before every path, and counts suppressed results and those outside', async (t) => {
    const log = sarif([result(), result(at('/etc/passwd')), result({ suppressions: [{ kind: 'external' }] })]);
    const cwd = await project(t, { 'x.sarif': log });
    const args = ['import', '--from', 'sarif', 'x.sarif', '--path-prefix', 'packages/one', '-o', 'r.json'];
    const { code, stdout, stderr } = await toollint(args, { cwd });
    const { findings, summary } = JSON.parse(readFileSync(join(cwd, 'r.json'), 'utf8')) as Report;
    assert.deepEqual([code, stdout, findings[1]?.location.path], [0, '', 'packages/one/a.c']);
    assert.equal((summary as { suppressed?: number }).suppressed, 1);
    assert.match(stderr, /^toollint: 1 result is outside the root/mu);
    assert.match(stderr, /^toollint: source lines are not read, because git ls-files: fatal: not a git repository/mu);
    assert.match(stderr, /^toollint: 1 file, 2 findings: .*; 1 suppressed; lint 1$/mu);
  });

  it('reads 20,000 results of 3,000 rules in a time that does not depend on their product', async () => {
    const rules = Array.from({ length: 3000 }, (_, index) => ({ id: `r${index}` }));
    const results = Array.from({ length: 20_000 }, (_, index) => result({ ruleId: `r${index % 3000}/part` }));
    const log = sarif(results, {}, { rules });
    const before = process.cpuUsage();
    assert.equal((await imported(log)).findings.length, 20_000);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 4_000_000, `${(user + system) / 1e6} s of CPU time`);
  });

  it('bounds a message that its arguments make long', async () => {
    const message = { text: '{0}'.repeat(200_000), arguments: ['x'.repeat(5000)] };
    const { findings } = await imported(sarif([result({ message })]));
    assert.ok((findings[0]?.message.length ?? 0) < 20_000);
  });

  it('copies lines only from files that git tracks, up to the limit', async (t) => {
    const cwd = await project(t, { 'root/a.c': 'here\n', 'secret.c': 'secret\n', 'root/long.c': 'x'.repeat(33 << 20) });
    const root = join(cwd, 'root');
    const wide = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le');
    await writeFile(join(root, 'wide.c'), wide('here\r\n'));
    await symlink('../secret.c', join(root, 'link.c'));
    await symlink('..', join(root, 'up'));
    await symlink('/dev/zero', join(root, 'zero.c'));
    await symlink('a.c', join(root, 'inner.c'));
    track(root);
    execFileSync('mkfifo', [join(root, 'pipe.c')]);
    await writeFile(join(root, '.env'), 'TOKEN=1\n');
    await writeFile(join(root, '.npmrc'), 'token\n');
    await symlink('.env', join(root, 'env.c'));
    git(root, 'add', 'env.c');
    const shown = async (log: string | Uint8Array) => (await imported(log, root)).findings[0]?.codeSnippet;
    const snippetOf = (uri: string) => shown(sarif([result(at(uri))]));
    for (const uri of ['a.c', 'inner.c', 'wide.c']) assert.equal(await snippetOf(uri), 'here', uri);
    assert.equal(await shown(wide(sarif([result(at('a.c'))]))), 'here');
    for (const uri of 'link.c up/secret.c zero.c pipe.c long.c none.c .git/config .env .npmrc env.c'.split(' '))
      assert.equal(await snippetOf(uri), undefined, uri);
    await rm(join(root, '.git'), { recursive: true });
    assert.equal(await snippetOf('a.c'), undefined, 'without git');
    const snippet = { text: 'in the log' };
    assert.equal(await shown(sarif([result(at('a.c', { startLine: 1, snippet }))])), 'in the log');
  });

  it('has a baseline, acceptances and a gate like a scan', async (t) => {
    const cwd = await project(t, { 'a.py': 'one\ntwo\nthree\n' });
    const region = (startLine: number) => ({ startLine, startColumn: 1, endColumn: 4 });
    const found = (line: number) => ({ ...result(at('a.py', region(line))), ruleId: 'E1', level: 'error' });
    const logOf = (lines: number[]) => sarif(lines.map(found));
    const run = async (lines: number[], ...args: string[]) =>
      await toollint(['import', '--from', 'sarif', '-', ...args], { cwd, stdin: logOf(lines) });
    const baseline = ['--baseline', 'b.jsonl'];
    assert.equal((await run([1, 2])).code, 0, 'a conversion');
    assert.equal((await run([1, 2], ...baseline, '--update-baseline')).code, 0);
    const known = await run([1, 2], ...baseline, '--gate', 'new-code');
    assert.deepEqual([known.code, counts(JSON.parse(known.stdout) as Report)], [0, [0, 2, 0]]);
    const more = await run([1, 2, 3], ...baseline, '--gate', 'new-code');
    assert.deepEqual([more.code, counts(JSON.parse(more.stdout) as Report)], [1, [1, 2, 0]]);
    const accept = ['--update-baseline', '--accept', 'E1', '--reason', 'r'];
    assert.equal((await run([1, 2, 3], ...baseline, ...accept)).code, 0);
    await writeFile(join(cwd, 'a.py'), 'one\ntwo # x\nthree\n');
    assert.deepEqual(counts(JSON.parse((await run([1, 2, 3], ...baseline)).stdout) as Report), [0, 3, 0]);
    const fewer = JSON.parse((await run([1], ...baseline, '--update-baseline')).stdout) as Report;
    assert.deepEqual(fewer.selection.baseline, { newIssues: 0, unchanged: 1, fixed: 0, notVerifiable: 2 });
    assert.equal((await readFile(join(cwd, 'b.jsonl'), 'utf8')).trim().split('\n').length, 2);
    assert.match((await run([1], '--accept', 'E1')).stderr, /--accept needs --update-baseline/u);
  });
});
