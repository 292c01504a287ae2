import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { convert, importReports, memorySource, type Report, validate } from '../../../lib/toollint/toollint.ts';
import { counts, git, project, toollint } from '../support/verbs.ts';
import { sampleFinding, sampleReport } from '../support/samples.ts';

const FIXTURES = new URL('fixtures/', import.meta.url);
const fixture = (name: string) => readFileSync(new URL(name, FIXTURES), 'utf8');

function track(root: string): void {
  git(root, 'init', '-q');
  git(root, 'add', '.');
}

const imported = (text: string | Uint8Array, root = '/', more: object = {}): Report => {
  const options = { root, timestamp: '2026-01-01T00:00:00Z', ...more };
  const { report } = importReports([memorySource(text, 'x')], options);
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
    const report = imported(fixture('ruff.sarif').replaceAll('/project', root), root);
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
    assert.equal(of({ ruleId: '', ruleIndex: 1 }), 'info');
    assert.equal(of({ level: 'note' }), 'info');
    for (const level of ['constructor', 'toString', '__proto__']) assert.equal(of({ level }), 'warning', level);
    assert.equal(of({ kind: 'review' }), 'info');
  });

  it('finds a rule by index or id in the named component or the tool', () => {
    const rule = (id: string, level: string) => ({ id, defaultConfiguration: { level } });
    const guid = '11111111-1111-4111-8111-111111111111';
    const extensions = [
      { name: 'one', rules: [rule('a', 'note')] },
      { name: 'two', guid, rules: [rule('a', 'error'), rule('b', 'note')] },
    ];
    const tool = { driver: { name: 'l', rules: [rule('c', 'error'), rule('a', 'warning')] }, extensions };
    const of = (change: object) =>
      severities(JSON.stringify({ version: '2.1.0', runs: [{ tool, results: [result(change)] }] }))[0];
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
      result({ suppressions: [{ kind: 'inSource' }, { kind: 'external', status: 'rejected' }] }),
      result({ baselineState: 'unchanged' }),
    ];
    assert.equal(imported(sarif([...left, ...kept])).findings.length, kept.length);
  });

  it('resolves base ids, artifacts and file URLs', () => {
    const originalUriBaseIds = {
      ROOT: { uri: 'file:///home/' },
      SRC: { uri: 'x y/src', uriBaseId: 'ROOT' },
      '%SRCROOT%': {},
      TURN: { uri: 'here/', uriBaseId: 'BACK' },
      BACK: { uri: 'there', uriBaseId: 'TURN' },
    };
    const artifacts = [{ location: { uri: 'c.c', uriBaseId: 'SRC' } }, { location: {} }, { location: { uri: 'h.c' } }];
    const pathOf = (location: object) => {
      const locations = [{}, { physicalLocation: { artifactLocation: location } }];
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
    assert.equal(pathOf({ uri: '%zz' }), '%zz');
    assert.equal(pathOf({ uri: 'a//b/./c.c' }), 'a/b/c.c');
    assert.equal(pathOf({ uri: 'a\\b.c' }), 'a/b.c');
    for (const root of ['./', '', '.']) assert.equal(pathOf({ uri: root }), undefined);
    for (const nowhere of [{}, { index: 1 }, { index: 3 }, { index: -1 }]) assert.equal(pathOf(nowhere), undefined);
    assert.equal(pathOf({ uri: 'file:///home/d.c' }), 'd.c');
    assert.equal(pathOf({ uri: './e.c' }), 'e.c');
  });

  it('lists a result outside the root for the project, with its path in the message', () => {
    for (const uri of ['../x', 'file:///etc/passwd', '/etc/passwd', 'a/../../b', 'http://x/y', 'a%00b', 'pkg:npm/x']) {
      const { findings } = imported(sarif([result(at(uri)), result()]), '/home');
      assert.deepEqual(
        findings.map(({ message, location: { scope, path } }) => [scope, path, message].join('|')),
        [`project||m (${uri})`, 'file|a.c|m'],
      );
    }
  });

  it('strips a base that does not exist here', () => {
    const pathOf = (base: string, uri: string, more: object = {}) =>
      imported(
        sarif([result(at(uri, {}, { uriBaseId: 'B', ...more }))], {
          originalUriBaseIds: { B: { uri: base }, IN: { uri: 'in', uriBaseId: 'B' } },
        }),
        '/home',
      ).findings[0]?.location.path;
    for (const base of ['file:///no/such/folder/', 'file:///no/such', 'C:/build/', 'file:///C:/build/', 'https://x/y/'])
      assert.equal(pathOf(base, 'src/none.c'), 'src/none.c', base);
    assert.equal(pathOf('file:///', 'none.tf'), 'none.tf');
    assert.equal(pathOf('file:///no/such/', 'none.c', { uriBaseId: 'IN' }), 'in/none.c');
    assert.equal(pathOf('file:///no/such/', 'file:///no/such/none.c'), 'none.c');
    assert.equal(pathOf('file:///', 'etc/passwd'), undefined, 'a file that exists elsewhere');
  });

  it('finds the folder of another machine that has the files of the root', async (t) => {
    const root = await project(t, { 'src/a.c': 'x\n', 'b.c': 'y\n' });
    const pathsOf = (...uris: string[]) =>
      imported(sarif(uris.map((uri) => result(at(uri)))), root).findings.map(({ location }) => location.path);
    assert.deepEqual(pathsOf('file:///none/here/src/a.c', 'file:///none/here/b.c'), ['b.c', 'src/a.c']);
    assert.deepEqual(pathsOf('/src/a.c', '/none/gone.c'), ['none/gone.c', 'src/a.c']);
    assert.deepEqual(pathsOf('/none/here/none.c'), [undefined]);
    for (const base of ['C:\\build\\', 'c:/build/', 'file:///C:/build/'])
      assert.deepEqual(pathsOf(`${base}src/a.c`, `${base}b.c`), ['b.c', 'src/a.c'], base);
    assert.deepEqual(pathsOf('C:\\build\\src\\a.c', 'D:\\none.c'), [undefined, 'src/a.c']);
  });

  it('finds a file whose name contains a percent sign, also if the linter does not encode it', async (t) => {
    const root = await project(t, { 'x%41/d.c': 'x\n', 'xB/d.c': 'x\n', 'x%42/d.c': 'x\n' });
    const pathsOf = (uri: string) => imported(sarif([result(at(uri))]), root).findings[0]?.location.path;
    for (const base of ['', `${root}/`, `file://${root}/`])
      for (const uri of ['x%41/d.c', 'x%2541/d.c']) assert.equal(pathsOf(base + uri), 'x%41/d.c');
    assert.equal(pathsOf('x%42/d.c'), 'xB/d.c', 'encoded, if both exist');
  });

  it('counts columns in UTF-16 units', async (t) => {
    const root = await project(t, { 'eslint.config.mjs': null, 'a.c': '😀😀 x\nnext y\n', 'b.c': 'x\r😀 y' });
    track(root);
    const placeOf = (region: object, more: object = {}, path = 'a.c') => {
      const { line, column } = imported(sarif([result(at(path, region))], more), root).findings[0]?.location ?? {};
      return [line, column];
    };
    const points = { columnKind: 'unicodeCodePoints' };
    assert.deepEqual(placeOf({ startLine: 1, startColumn: 4 }, points), [1, 6]);
    assert.deepEqual(placeOf({ startLine: 1, startColumn: 4 }), [1, 4]);
    assert.deepEqual(placeOf({ charOffset: 12, charLength: 1 }), [2, 6]);
    assert.deepEqual(placeOf({ charOffset: 99 }), [undefined, undefined]);
    // Other line terminators, the last line without one, and a file without a source.
    assert.deepEqual(placeOf({ startLine: 2, startColumn: 3 }, points, 'b.c'), [2, 4]);
    assert.deepEqual(placeOf({ startLine: 1, startColumn: 3 }, points, 'none.c'), [1, 3]);
  });

  it('inserts the arguments of a message, and reads CWE numbers from tags, properties and taxonomies', () => {
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
    const relationships = ['502', 'CWE-120'].map((id) => ({ target: { id, toolComponent: { name: 'CWE' } } }));
    assert.deepEqual(about({ properties: { tags }, relationships })?.standardIds, ['CWE-12', 'CWE-502', 'CWE-120']);
    const taxa = [
      { id: '190', toolComponent: { name: 'cwe' } },
      { id: '7', toolComponent: { name: 'other' } },
    ];
    const properties = { cwe: 'CWE-532 Insertion of 2', tags: ['CWE-22'] };
    const own = imported(sarif([result({ taxa, properties })], {}, { rules })).findings[0]?.standardIds;
    assert.deepEqual(own, ['CWE-79', 'CWE-22', 'CWE-532', 'CWE-190']);
    assert.equal(about({ helpUri: 'HTTP://example.org' })?.docsUrl, 'HTTP://example.org');
    assert.equal(about({ helpUri: 'xhttps://example.org' })?.docsUrl, undefined);
  });

  it('is incomplete after an incomplete run', () => {
    const [descriptor, associatedRule] = [{ id: 'rule-error' }, { id: 'r' }];
    const failure = { level: 'error', message: { text: 'boom' }, descriptor, associatedRule };
    const note = { level: 'note', message: { text: 'x' } };
    const runs: [object, string, number][] = [
      [{ executionSuccessful: true }, 'complete', 0],
      [{ executionSuccessful: false }, 'incomplete', 1],
      [{ executionSuccessful: true, toolExecutionNotifications: [failure, note] }, 'incomplete', 1],
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

  it('ignores a column without a line, and cuts a snippet at 200 units', () => {
    const findingOf = (region: object) => imported(sarif([result(at('a.c', region))])).findings[0];
    assert.deepEqual(findingOf({ startColumn: 3, endColumn: 5, endLine: 2 })?.location, { scope: 'file', path: 'a.c' });
    assert.equal(findingOf({ startLine: 1, snippet: { text: 'x'.repeat(201) } })?.codeSnippet, 'x'.repeat(200));
  });

  it('treats null as an absent member wherever it is optional', () => {
    const whole = JSON.parse(fixture('ruff.sarif')) as { runs: object[] };
    Object.assign(whole.runs[0] ?? {}, {
      artifacts: [{ location: { uri: 'a.c' } }],
      invocations: [{ executionSuccessful: true, toolExecutionNotifications: [{ message: { text: 'x' } }] }],
      originalUriBaseIds: { B: { uri: 'b/' } },
    });
    const { length } = imported(JSON.stringify(whole)).findings;
    const REQUIRED = new Set(['version', 'tool', 'driver', 'name', 'id']);
    const check = (owner: object) => {
      for (const [name, value] of Object.entries(owner) as [string, unknown][]) {
        if (typeof value === 'object' && value !== null) check(value);
        if (REQUIRED.has(name) || Array.isArray(owner)) continue;
        Object.assign(owner, { [name]: null });
        const { findings } = imported(JSON.stringify(whole));
        assert.equal(findings.length, name === 'results' || name === 'runs' ? 0 : length, name);
        Object.assign(owner, { [name]: value });
      }
    };
    check(whole);
  });

  it('reads a log without runs as no files, which no gate passes', async () => {
    for (const runs of [[], null]) {
      const text = JSON.stringify({ version: '2.1.0', runs });
      assert.deepEqual([imported(text).execution.status, imported(text).findings], ['no-files', []]);
      const args = ['import', '--from', 'sarif', '-', '--gate', 'default', '-o', '/dev/null'];
      assert.equal((await toollint(args, { stdin: text })).code, 4);
    }
  });

  it('names the place of whatever the schema forbids', () => {
    const run = '{"tool":{"driver":{"name":"x"}}';
    const log = (text: string) => `{"version":"2.1.0","runs":[${text}]}`;
    for (const [text, fault] of [
      ['', 'not JSON'],
      ['{"version":"1.0.0","runs":[]}', '/version: '],
      ['{"version":"2.1.0","runs":{}}', '/runs: '],
      [log('{"tool":{}}'), '/runs/0/tool/driver: '],
      [log('{"tool":{"driver":{"name":null}}}'), '/runs/0/tool/driver/name: '],
      [log(`${run},"results":[7]}`), '/runs/0/results/0: '],
      [log(`${run},"results":[{"message":{"text":1}}]}`), '/runs/0/results/0/message/text: '],
      [log(`${run},"artifacts":[{"location":{"uri":7}}]}`), '/runs/0/artifacts/0/location/uri: '],
    ] as const)
      assert.throws(
        () => imported(text),
        ({ message }: Error) => message.startsWith(`x cannot be imported from sarif: ${fault}`),
        text,
      );
  });

  it('refuses a log whose results are in another file', () => {
    const external = (name: string) => ({ externalPropertyFileReferences: { [name]: [{ location: { uri: 'x' } }] } });
    for (const name of ['results', 'invocations'])
      assert.throws(() => imported(sarif([], external(name))), /externalPropertyFileReferences/u);
    assert.equal(imported(sarif([result()], external('graphs'))).findings.length, 1);
    const inline = JSON.stringify({ ...JSON.parse(sarif([])), inlineExternalProperties: [{ results: [result()] }] });
    assert.throws(() => imported(inline), /inlineExternalProperties\/0\/results/u);
  });

  it('applies the configuration overrides of an invocation', () => {
    const rules = [{ id: 'r', guid: '11111111-1111-4111-8111-111111111111' }, { id: 's' }];
    const override = (descriptor: object, level: string) => ({
      executionSuccessful: true,
      ruleConfigurationOverrides: [{ descriptor, configuration: { level } }],
    });
    const of = (invocations: object[], change: object = {}) =>
      severities(sarif([result(change)], { invocations }, { rules }))[0];
    for (const descriptor of [{ id: 'r' }, { index: 0 }, { guid: rules[0]?.guid }])
      assert.equal(of([override(descriptor, 'error')]), 'error');
    assert.equal(of([override({ id: 's' }, 'error')]), 'warning');
    const two = [override({ id: 'r' }, 'error'), override({ id: 'r' }, 'note')];
    assert.equal(of(two), 'warning');
    assert.equal(of(two, { provenance: { invocationIndex: 1 } }), 'info');
    assert.equal(of(two, { level: 'warning', provenance: { invocationIndex: 1 } }), 'warning');
  });

  it('reads the texts of a rule and of its tool, and escaped braces', () => {
    const text = (message: object, driver: object) =>
      imported(sarif([result({ message })], {}, driver)).findings[0]?.message;
    const globalMessageStrings = { g: { text: 'global {0}' }, r: { text: 'no' } };
    const rules = [{ id: 'r', messageStrings: { r: { text: 'of the rule {0}' } } }];
    assert.equal(text({ id: 'g', arguments: ['x'] }, { rules, globalMessageStrings }), 'global x');
    assert.equal(text({ id: 'r', arguments: ['x'] }, { rules, globalMessageStrings }), 'of the rule x');
    assert.equal(text({ text: '{{0}} {0} {9}', arguments: ['{1}', 'y'] }, {}), '{0} {1} {9}');
    assert.equal(text({ text: '{{0}}' }, {}), '{{0}}');
    assert.equal(text({}, {}), '(r gave no message)');
  });

  it('makes one report of several tools, or takes one of them', async (t) => {
    const run = (name: string, ...results: object[]) => ({ tool: { driver: { name, version: '1' } }, results });
    const log = { version: '2.1.0', runs: [run('a', result(), result(at('b.c'))), run('b', result()), run('a')] };
    const text = JSON.stringify(log);
    const report = imported(text);
    const { linters } = report.tool as unknown as { linters: { name: string }[] };
    assert.deepEqual([report.tool.name, linters.map(({ name }) => name)], ['toollint', ['a', 'b']]);
    assert.deepEqual([report.findings.length, report.summary.totalFiles], [3, 2]);
    const only = imported(text, '/', { tool: 'b' });
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

  it('reads 20,000 results of 3,000 rules in a time that does not depend on their product', () => {
    const rules = Array.from({ length: 3000 }, (_, index) => ({ id: `r${index}` }));
    const results = Array.from({ length: 20_000 }, (_, index) => result({ ruleId: `r${index % 3000}/part` }));
    const log = sarif(results, {}, { rules });
    const before = process.cpuUsage();
    assert.equal(imported(log).findings.length, 20_000);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 4_000_000, `${(user + system) / 1e6} s of CPU time`);
  });

  it('bounds a message that its arguments make long', () => {
    const message = { text: '{0}'.repeat(200_000), arguments: ['x'.repeat(5000)] };
    assert.ok((imported(sarif([result({ message })])).findings[0]?.message.length ?? 0) < 20_000);
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
    const snippetOf = (uri: string) => imported(sarif([result(at(uri))]), root).findings[0]?.codeSnippet;
    assert.deepEqual(['a.c', 'inner.c', 'wide.c'].map(snippetOf), ['here', 'here', 'here']);
    assert.equal(imported(wide(sarif([result(at('a.c'))])), root).findings[0]?.codeSnippet, 'here');
    for (const uri of 'link.c up/secret.c zero.c pipe.c long.c none.c .git/config .env .npmrc env.c'.split(' '))
      assert.equal(snippetOf(uri), undefined, uri);
    await rm(join(root, '.git'), { recursive: true });
    assert.equal(snippetOf('a.c'), undefined, 'without git');
    const snippet = { text: 'in the log' };
    assert.equal(
      imported(sarif([result(at('a.c', { startLine: 1, snippet }))]), root).findings[0]?.codeSnippet,
      'in the log',
    );
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
