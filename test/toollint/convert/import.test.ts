import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import {
  convert,
  importReport,
  memorySource,
  mergeReports,
  type Report,
  validate,
} from '../../../lib/toollint/toollint.ts';
import { project, toollint } from '../support/verbs.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

const FIXTURES = new URL('fixtures/', import.meta.url);
const fixture = (name: string) => readFileSync(new URL(name, FIXTURES), 'utf8');

async function linted(t: TestContext): Promise<{ root: string; read: (name: string) => string }> {
  const root = await project(t, { 'eslint.config.mjs': null });
  mkdirSync(join(root, 'src'));
  for (const name of ['bad.py', 'bad.js']) cpSync(new URL(`${name}.txt`, FIXTURES), join(root, 'src', name));
  return { root, read: (name) => fixture(name).replaceAll('/project', root) };
}

const imported = (text: string, root = '/'): Report => {
  const report = importReport(memorySource(text, 'x'), { root, cwd: '/', timestamp: '2026-01-01T00:00:00Z' });
  assert.deepEqual(validate(memorySource(JSON.stringify(report), 'x')).problems, []);
  return report;
};
const places = ({ findings }: Report) =>
  findings.map(({ ruleId, severity, location: { path, line, column } }) =>
    [path, line, column, severity, ruleId].join(' '),
  );

describe('the import of a real report', () => {
  it('reads the findings of ruff', async (t) => {
    const { root, read } = await linted(t);
    const report = imported(read('ruff.sarif'), root);
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

  it('keeps the fingerprint of a biome finding after its code moved', async (t) => {
    const { root, read } = await linted(t);
    const text = read('biome.sarif');
    const before = imported(text, root);
    assert.equal(places(before)[0], 'src/bad.js 2 7 error lint/suspicious/noDoubleEquals');
    const path = join(root, before.findings[0]?.location.path ?? '');
    await writeFile(path, `\n\n${readFileSync(path, 'utf8')}`);
    const moved = text.replaceAll(
      /("startLine": ?|"endLine": ?)(\d+)/gu,
      (_, name: string, line: string) => `${name}${Number(line) + 2}`,
    );
    const after = imported(moved, root);
    assert.notDeepEqual(places(after), places(before));
    assert.deepEqual(
      after.findings.map(({ fingerprint }) => fingerprint).sort(),
      before.findings.map(({ fingerprint }) => fingerprint).sort(),
    );
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
  const severities = (text: string) => imported(text).findings.map(({ severity }) => severity);

  it("replaces a missing level with the rule's default configuration", () => {
    const rules = [
      { id: 'r', defaultConfiguration: { level: 'error' } },
      { id: 'n', defaultConfiguration: { level: 'note' } },
      { id: 'x' },
    ];
    const of = (change: object) => severities(sarif([result(change)], {}, { rules }))[0];
    assert.equal(of({}), 'error');
    assert.equal(of({ ruleId: 'n' }), 'info');
    assert.equal(of({ ruleId: 'x' }), 'warning');
    assert.equal(of({ ruleId: 'unknown' }), 'warning');
    assert.equal(of({ ruleId: 'r/1' }), 'error');
    assert.equal(of({ ruleId: undefined, ruleIndex: 1 }), 'info');
    assert.equal(of({ ruleId: undefined, rule: { index: 0 } }), 'error');
    assert.equal(of({ level: 'note' }), 'info');
    assert.equal(of({ kind: 'review' }), 'info');
  });

  it('finds a rule by index or id in the named component or the tool', () => {
    const rule = (id: string, level: string) => ({ id, defaultConfiguration: { level } });
    const guid = '11111111-1111-4111-8111-111111111111';
    const extensions = [
      { name: 'one', rules: [rule('a', 'note')] },
      { name: 'two', guid, rules: [rule('a', 'error'), rule('b', 'note')] },
    ];
    const driver = { rules: [rule('c', 'error'), rule('a', 'warning')], extensions: undefined };
    const of = (reference: object, change: object = {}) => {
      const log = { version: '2.1.0', runs: [{ tool: { driver: { name: 'l', ...driver }, extensions }, results: [] }] };
      return severities(
        JSON.stringify({ ...log, runs: [{ ...log.runs[0], results: [result({ ...reference, ...change })] }] }),
      )[0];
    };
    const named = (toolComponent: object, more: object = { index: 0 }) =>
      of({ ruleId: 'a', rule: { toolComponent, ...more } });
    assert.equal(named({ name: 'one' }), 'info');
    assert.equal(named({ name: 'two' }), 'error');
    assert.equal(named({ guid }), 'error');
    assert.equal(named({ index: 1 }, { index: 1 }), 'info');
    assert.equal(named({ name: 'none' }), 'error', 'the first rule of the tool itself');
    assert.equal(named({ name: 'two' }, { id: 'a' }), 'error');
    assert.equal(named({ name: 'two' }, { id: 'c' }), 'error', 'which only the tool itself has');
    assert.equal(of({ ruleId: 'a' }), 'warning', 'of the tool itself, before its extensions');
    assert.equal(of({ ruleId: 'b/x/y' }), 'info');
    assert.equal(of({ ruleId: 'bb/x' }), 'warning');
  });

  it('leaves out suppressed, absent and passed results', () => {
    const left = [
      result({ suppressions: [{ kind: 'inSource' }] }),
      result({ suppressions: [{ kind: 'external', status: 'accepted' }] }),
      result({ baselineState: 'absent' }),
      result({ kind: 'pass' }),
      result({ kind: 'notApplicable' }),
    ];
    const kept = [
      result({ suppressions: [] }),
      result({ suppressions: [{ kind: 'external', status: 'rejected' }] }),
      result({ suppressions: [{ kind: 'external', status: 'underReview' }] }),
      result({ baselineState: 'unchanged' }),
    ];
    assert.equal(imported(sarif([...left, ...kept])).findings.length, kept.length);
  });

  it('resolves base ids, artifacts and file URLs, and refuses paths outside the root', () => {
    const originalUriBaseIds = {
      ROOT: { uri: 'file:///home/' },
      SRC: { uri: 'x y/src', uriBaseId: 'ROOT' },
      '%SRCROOT%': {},
      TURN: { uri: 'here/', uriBaseId: 'BACK' },
      BACK: { uri: 'there', uriBaseId: 'TURN' },
    };
    const artifacts = [{ location: { uri: 'c.c', uriBaseId: 'SRC' } }, { location: {} }, { location: { uri: 'h.c' } }];
    const pathOf = (location: object) => {
      const locations = [{ physicalLocation: { artifactLocation: location } }];
      const text = sarif([result({ locations })], { originalUriBaseIds, artifacts });
      return imported(text, '/home').findings[0]?.location.path;
    };
    assert.equal(pathOf({ uri: 'a%20b/%23.c' }), 'a b/#.c');
    assert.equal(pathOf({ uri: 'a.c', uriBaseId: '%SRCROOT%' }), 'a.c');
    assert.equal(pathOf({ uri: 'b.c', uriBaseId: 'SRC' }), 'x y/src/b.c');
    assert.equal(pathOf({ index: 0 }), 'x y/src/c.c');
    assert.equal(pathOf({ index: 2 }), 'h.c');
    assert.equal(pathOf({ index: 0, uri: 'b.c' }), 'b.c');
    assert.equal(pathOf({ uri: 'f.c', uriBaseId: 'unknown' }), 'f.c');
    assert.equal(pathOf({ uri: 'g.c', uriBaseId: 'TURN' }), 'there/here/g.c');
    assert.throws(() => pathOf({ uri: '%zz' }), /: not a URI: %zz$/u);
    for (const nowhere of [{}, { index: 1 }, { index: 3 }, { index: -1 }]) assert.equal(pathOf(nowhere), undefined);
    assert.equal(pathOf({ uri: 'file:///home/d.c' }), 'd.c');
    assert.equal(pathOf({ uri: './e.c' }), 'e.c');
    for (const uri of ['../x', 'file:///etc/passwd', '/etc/passwd', 'a/../../b', 'http://x/y', 'a%00b'])
      assert.throws(() => pathOf({ uri }), /cannot be imported from sarif/u, uri);
  });

  it('counts columns in UTF-16 units', async (t) => {
    const root = await project(t, { 'eslint.config.mjs': null, 'a.c': '😀😀 x\nnext y\n' });
    const placeOf = (region: object, more: object = {}) => {
      const { line, column } = imported(sarif([result(at('a.c', region))], more), root).findings[0]?.location ?? {};
      return [line, column];
    };
    const points = { columnKind: 'unicodeCodePoints' };
    assert.deepEqual(placeOf({ startLine: 1, startColumn: 4 }, points), [1, 6]);
    assert.deepEqual(placeOf({ startLine: 1, startColumn: 4 }), [1, 4]);
  });

  it('inserts the arguments of a message, and reads CWE numbers from tags', () => {
    const rules = [
      {
        id: 'r',
        messageStrings: { one: { text: '{0} before {1}, {2}' } },
        properties: { tags: ['external/cwe/cwe-079', 'CWE-22', 'security'] },
        helpUri: 'javascript:x',
      },
    ];
    const message = { id: 'one', arguments: ['a', 'b'] };
    const [finding] = imported(sarif([result({ message })], {}, { rules })).findings;
    assert.deepEqual(
      [finding?.message, finding?.standardIds, finding?.docsUrl],
      ['a before b, {2}', ['CWE-79', 'CWE-22'], undefined],
    );
    const about = (more: object) => imported(sarif([result()], {}, { rules: [{ id: 'r', ...more }] })).findings[0];
    const tags = ['xcwe-1', 'cwe', 'a/CWE/0012/b', 'cwe_3'];
    assert.deepEqual(about({ properties: { tags } })?.standardIds, ['CWE-12']);
    assert.equal(about({ helpUri: 'HTTP://example.org' })?.docsUrl, 'HTTP://example.org');
    assert.equal(about({ helpUri: 'xhttps://example.org' })?.docsUrl, undefined);
  });

  it('is incomplete after an incomplete run', () => {
    const failure = {
      level: 'error',
      message: { text: 'boom' },
      descriptor: { id: 'rule-error' },
      associatedRule: { id: 'r' },
    };
    const runs: [object, string, number][] = [
      [{ executionSuccessful: true }, 'complete', 0],
      [{ executionSuccessful: false }, 'incomplete', 1],
      [
        { executionSuccessful: true, toolExecutionNotifications: [failure, { level: 'note', message: { text: 'x' } }] },
        'incomplete',
        1,
      ],
      [{ executionSuccessful: false, toolConfigurationNotifications: [failure] }, 'incomplete', 1],
    ];
    for (const [invocation, status, count] of runs) {
      const { execution } = imported(sarif([], { invocations: [invocation] }));
      assert.deepEqual([execution.status, execution.diagnostics.length], [status, count]);
    }
  });

  it('restores a converted report', async () => {
    const finding = { ...sampleFinding(), suggestion: 'Remove it.', codeSnippet: 'console.log(x);' };
    const report = sampleReport([finding, sampleFinding({ line: 9, severity: 'error', ruleId: 'no-var' })]);
    let text = '';
    await convert(report, 'sarif', async (part) => {
      text += await Promise.resolve(part);
    });
    const again = imported(text);
    assert.deepEqual(places(again), places(report));
    assert.deepEqual(
      [again.findings[0]?.suggestion, again.findings[0]?.codeSnippet],
      ['Remove it.', 'console.log(x);'],
    );
  });

  it('ignores a column without a line, cuts a snippet at 200 units, and accepts a run without results', () => {
    const findingOf = (region: object) => imported(sarif([result(at('a.c', region))])).findings[0];
    assert.deepEqual(findingOf({ startColumn: 3, endColumn: 5, endLine: 2 })?.location, { scope: 'file', path: 'a.c' });
    assert.equal(findingOf({ startLine: 1, snippet: { text: 'x'.repeat(201) } })?.codeSnippet, 'x'.repeat(200));
    assert.equal(imported(sarif([], { results: null })).findings.length, 0);
  });

  it('refuses invalid SARIF in one sentence', () => {
    const run = '{"tool":{"driver":{"name":"x"}}';
    for (const [text, fault] of [
      ['', 'not JSON'],
      ['[]', 'expected version 2.1.0, found undefined'],
      ['{"version":"1.0.0","runs":[]}', 'expected version 2.1.0, found "1.0.0"'],
      ['{"version":"2.1.0"}', 'there are no runs'],
      ['{"version":"2.1.0","runs":[]}', 'there are no runs'],
      ['{"version":"2.1.0","runs":[{}]}', '/runs/0: there is no tool'],
      [`{"version":"2.1.0","runs":[${run},"results":[7]}]}`, '/runs/0: '],
      [`{"version":"2.1.0","runs":[${run}},${run.replace('x', 'y')}}]}`, 'it has runs of x and of y'],
    ] as const)
      assert.throws(
        () => imported(text),
        ({ message }: Error) => message.startsWith(`x cannot be imported from sarif: ${fault}`),
        text,
      );
  });

  it('reads no source outside the root, no device and no file above the limit', async (t) => {
    const cwd = await project(t, { 'root/a.c': 'here\n', 'secret.c': 'secret\n', 'root/long.c': 'x'.repeat(33 << 20) });
    const root = join(cwd, 'root');
    await symlink('../secret.c', join(root, 'link.c'));
    await symlink('..', join(root, 'up'));
    await symlink('/dev/zero', join(root, 'zero.c'));
    await symlink('a.c', join(root, 'inner.c'));
    execFileSync('mkfifo', [join(root, 'pipe.c')]);
    const snippetOf = (uri: string) => imported(sarif([result(at(uri))]), root).findings[0]?.codeSnippet;
    assert.deepEqual(['a.c', 'inner.c'].map(snippetOf), ['here', 'here']);
    for (const uri of ['link.c', 'up/secret.c', 'zero.c', 'pipe.c', 'long.c', 'none.c'])
      assert.equal(snippetOf(uri), undefined, uri);
  });

  it('reads an unknown level such as toString as a warning', () => {
    for (const level of ['constructor', 'toString', '__proto__'])
      assert.deepEqual(severities(sarif([result({ level })])), ['warning'], level);
  });
});

describe('merging reports', () => {
  const named = (report: Report, name = 'r.json') => ({ name, report });
  const merged = (...reports: Report[]) => {
    const report = mergeReports(reports.map((one) => named(one)));
    assert.deepEqual(validate(memorySource(JSON.stringify(report), 'x')).problems, []);
    return report;
  };
  const shard = (path: string, lines: number[], change: (report: Report) => void = () => undefined) =>
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
      report.findings.map(({ location, occurrence }) => [location.path, location.line, occurrence]),
      [
        ['a.ts', 1, 1],
        ['b.ts', 1, 1],
        ['b.ts', 2, 2],
        ['b.ts', 3, 3],
      ],
    );
    assert.deepEqual([report.summary.totalFiles, report.scan.include], [2, ['a.ts', 'b.ts']]);
    assert.equal(merged(shard('a.ts', [4, 4]), shard('a.ts', [4])).findings.length, 2);
    const told = (rules: object) => shard('a.ts', [], (r) => Object.assign(r.tool, { rules }));
    const rules = { a: 'A.', b: 'B.' };
    assert.deepEqual(merged(told({ a: 'A.' }), told({ b: 'B.' })).tool, { name: 'toollint', version: '1.0.0', rules });
  });

  it('returns a single report unchanged, with its gate and selection', () => {
    const one = shard('a.ts', [1], (r) => {
      r.gate = { status: 'passed', name: 'own' };
    });
    assert.deepEqual(mergeReports([named(one)]), one);
    assert.throws(() => mergeReports([]), /there is nothing to merge/u);
  });

  it('is incomplete if one report is, and without files only if all are', () => {
    const broken = shard('a.ts', [], (r) => {
      r.execution = {
        status: 'incomplete',
        diagnostics: [{ kind: 'parse-error', message: 'x', relativePath: 'a.ts' }],
      };
    });
    const none = sampleReport([], (r) => {
      r.execution = { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'none' }] };
      r.summary.totalFiles = 0;
    });
    assert.deepEqual(merged(shard('b.ts', [1]), broken, broken).execution, broken.execution);
    assert.equal(merged(none, shard('b.ts', [1])).execution.status, 'complete');
    assert.equal(merged(none, none).execution.status, 'no-files');
  });

  it('knows its scope only if all reports do, and excludes only common patterns', () => {
    const target = (path: string, exclude: string[]) =>
      sampleReport([], (r) =>
        Object.assign(r.scan, { target: { kind: 'project', path }, exclude, enabledRuleIds: [path] }),
      );
    const both = merged(target('a', ['x', 'y']), target('b', ['y', 'z'])).scan;
    assert.deepEqual(
      [both.target, both.include, both.exclude],
      [{ kind: 'project', path: '.' }, ['a/**', 'b/**'], ['y']],
    );
    assert.deepEqual(both.enabledRuleIds, ['a', 'b']);
    const file = sampleReport([], (r) => (r.scan.target = { kind: 'file', path: 'c[1].ts' }));
    assert.deepEqual(merged(target('.', []), file).scan.include, ['**', 'c\\[1\\].ts']);
    assert.deepEqual(merged(target('a', []), target('a', [])).scan.target, { kind: 'project', path: 'a' });
    const unknown = sampleReport([], (r) =>
      Object.assign(r.scan, { scopeKnown: false, target: null, enabledRuleIds: [] }),
    );
    assert.deepEqual(merged(target('a', ['x']), unknown).scan.scopeKnown, false);
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
    const { code, stdout } = await toollint(['merge', 'a.json', 'b.json', '--to', 'summary'], { cwd });
    assert.deepEqual([code, stdout], [0, '2 files, 2 findings: 0 errors, 2 warnings, 0 info\n']);
  });
});
