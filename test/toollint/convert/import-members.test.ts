// Member for member: what an imported finding takes from each foreign format, and what it falls back to.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Finding, type ImportFormat, importReport, memorySource } from '../../../lib/toollint/toollint.ts';
import { project } from '../support/verbs.ts';

const imported = (value: unknown, from: ImportFormat, more: { root?: string; tool?: string } = {}) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return importReport(memorySource(text, 'x'), from, {
    root: '/',
    cwd: '/',
    timestamp: '2026-01-01T00:00:00Z',
    ...more,
  });
};
/** What a finding says, without what it is recognised by. */
const said = ({ ruleId, severity, message, location, ...rest }: Finding) => {
  const { fingerprint: _, fingerprintVersion: __, occurrence: ___, standardIds: ____, ...more } = rest;
  return { ruleId, severity, message, location, ...more };
};
const firstOf = (value: unknown, from: ImportFormat) => {
  const [finding] = imported(value, from).findings;
  assert.ok(finding);
  return said(finding);
};

describe('an import from GitLab', () => {
  const issue = { description: 'it is odd', location: { path: 'a.c' } };

  it('takes the check, the severity, and the lines or the positions', () => {
    const lines = { ...issue, check_name: 'odd', severity: 'minor', location: { path: 'a.c', lines: { begin: 4 } } };
    const location = { scope: 'file', path: 'a.c', line: 4 };
    assert.deepEqual(firstOf([lines], 'gitlab'), {
      ruleId: 'odd',
      severity: 'warning',
      message: 'it is odd',
      location,
    });
    const positions = { begin: { line: 2, column: 3 }, end: { line: 5, column: 6 } };
    assert.deepEqual(firstOf([{ ...issue, location: { path: 'a.c', positions } }], 'gitlab').location, {
      scope: 'file',
      path: 'a.c',
      line: 2,
      column: 3,
      endLine: 5,
      endColumn: 6,
    });
  });

  it('knows a rule and a severity where the issue names none', () => {
    assert.deepEqual(firstOf([issue], 'gitlab'), {
      ruleId: 'unknown',
      severity: 'warning',
      message: 'it is odd',
      location: { scope: 'file', path: 'a.c' },
    });
    const severities = ['info', 'minor', 'major', 'critical', 'blocker', 'terrible'];
    assert.deepEqual(
      severities.map((severity) => firstOf([{ ...issue, severity }], 'gitlab').severity),
      ['info', 'warning', 'warning', 'error', 'error', 'warning'],
    );
  });

  it('names the place of what is no issue', () => {
    for (const wrong of [{ location: { path: 'a' } }, { description: 'x' }, 7])
      assert.throws(
        () => imported([issue, wrong], 'gitlab'),
        /^ReportFailure: x cannot be imported from gitlab: \/1: no issue with a description and a path$/u,
      );
    assert.throws(() => imported({}, 'gitlab'), /: expected a list$/u);
    assert.throws(() => imported('{', 'gitlab'), /: not JSON$/u);
  });
});

describe('an import from ESLint', () => {
  const file = (...messages: object[]) => [{ filePath: '/a.js', messages }];

  it('takes the range, the severity and the fix', () => {
    const message = {
      ruleId: 'no-var',
      severity: 2,
      message: 'no',
      line: 1,
      column: 2,
      endLine: 3,
      endColumn: 4,
      fix: { range: [5, 9], text: 'let' },
    };
    const location = { scope: 'file', path: 'a.js', line: 1, column: 2, endLine: 3, endColumn: 4 };
    const fix = { offset: 5, length: 4, text: 'let' };
    assert.deepEqual(firstOf(file(message), 'eslint'), {
      ruleId: 'no-var',
      severity: 'error',
      message: 'no',
      location,
      fix,
    });
    assert.equal(firstOf(file({ ...message, severity: 1 }), 'eslint').severity, 'warning');
    for (const odd of [{ range: [5, 9] }, { range: [5], text: 'x' }, { range: 5, text: 'x' }])
      assert.equal('fix' in firstOf(file({ ...message, fix: odd }), 'eslint'), false);
  });

  it('is incomplete with a file that does not parse, and counts the files without messages', () => {
    const broken = file({ ruleId: null, fatal: true, severity: 2, message: 'Parsing error', line: 1, column: 1 });
    const report = imported([...broken, { filePath: '/b.js', messages: [] }], 'eslint');
    assert.deepEqual(report.execution, {
      status: 'incomplete',
      diagnostics: [{ kind: 'parse-error', message: 'Parsing error', relativePath: 'a.js' }],
    });
    assert.deepEqual(
      [report.summary.totalFiles, report.summary.parseErrors, report.findings[0]?.ruleId],
      [2, 1, 'PARSE-ERROR'],
    );
    assert.deepEqual(report.tool, {
      name: 'ESLint',
      version: 'unknown',
      linter: { name: 'ESLint', version: 'unknown', informationUri: 'https://eslint.org' },
      rules: {},
    });
    assert.equal(imported([], 'eslint').summary.totalFiles, 1);
  });

  it('names the place of what is no result', () => {
    for (const wrong of [{ filePath: 'a' }, { messages: [] }, { filePath: 'a', messages: {} }])
      assert.throws(() => imported([...file(), wrong], 'eslint'), /: \/1: no result of ESLint$/u);
  });

  it('takes the tool from the command line, with a version or without', () => {
    const toolOf = (tool: string) => imported([], 'eslint', { tool }).tool;
    assert.deepEqual([toolOf('mine@2').name, toolOf('mine@2').version], ['mine', '2']);
    assert.deepEqual([toolOf('mine').name, toolOf('mine').version, toolOf('').name], ['mine', 'unknown', 'unknown']);
  });

  it('sorts what comes in any order, and knows a finding by the line in its file', async (t) => {
    const root = await project(t, { 'eslint.config.mjs': null, 'b.js': 'var a;\nvar b;\n' });
    const at = (line: number) => ({ ruleId: 'r', severity: 1, message: 'no', line, column: 1 });
    const value = [
      { filePath: join(root, 'b.js'), messages: [at(2), at(1)] },
      { filePath: 'a.js', messages: [at(7)] },
    ];
    const before = imported(value, 'eslint', { root });
    assert.deepEqual(
      before.findings.map(({ location, codeSnippet }) => [location.path, location.line, codeSnippet]),
      [
        ['a.js', 7, undefined],
        ['b.js', 1, 'var a;'],
        ['b.js', 2, 'var b;'],
      ],
    );
    await writeFile(join(root, 'b.js'), '\nvar a;\n');
    const [, moved] = imported([{ filePath: 'b.js', messages: [at(2)] }, value[1]], 'eslint', { root }).findings;
    assert.equal(moved?.fingerprint, before.findings[1]?.fingerprint);
  });
});

describe('an import from Checkstyle', () => {
  it('takes the version, and of each error its file, source, severity and place', () => {
    const report = imported(
      `<?xml version="1.0"?><checkstyle version="8.1"><file name="a.c">
        <error line="3" column="4" severity="info" message="one" source="r1"/>
        <error line="x" message="two"/><error severity="ignore" message="no"/>
        <error severity="odd" line="9" message="three" source="r3"/></file><file name="b.c"/></checkstyle>`,
      'checkstyle',
    );
    assert.deepEqual([report.tool.name, report.tool.version, report.summary.totalFiles], ['checkstyle', '8.1', 2]);
    assert.deepEqual(report.findings.map(said), [
      { ruleId: 'unknown', severity: 'error', message: 'two', location: { scope: 'file', path: 'a.c' } },
      { ruleId: 'r1', severity: 'info', message: 'one', location: { scope: 'file', path: 'a.c', line: 3, column: 4 } },
      { ruleId: 'r3', severity: 'error', message: 'three', location: { scope: 'file', path: 'a.c', line: 9 } },
    ]);
  });
});

describe('an import from SARIF', () => {
  const log = (results: object[], driver: object = {}, run: object = {}) => ({
    version: '2.1.0',
    runs: [{ tool: { driver: { name: 'lint', ...driver } }, results, ...run }],
  });
  const inFile = (region?: object, more: object = {}) => ({
    locations: [{ physicalLocation: { artifactLocation: { uri: 'a.c' }, region, ...more } }],
  });

  it('takes the region, its snippet, and a suggestion from the fix', () => {
    const region = { startLine: 2, startColumn: 3, endColumn: 5, snippet: { text: '  one();\n  two();' } };
    const result = { ruleId: 'r', level: 'note', message: { text: 'm' }, ...inFile(region) };
    const finding = {
      ruleId: 'r',
      severity: 'info',
      message: 'm',
      location: { scope: 'file', path: 'a.c', line: 2, column: 3, endLine: 2, endColumn: 5 },
      codeSnippet: 'one();',
    };
    assert.deepEqual(firstOf(log([result]), 'sarif'), finding);
    const fixes = [{ description: { text: 'Write two.' }, artifactChanges: [] }];
    assert.equal(firstOf(log([{ ...result, fixes }]), 'sarif').suggestion, 'Write two.');
    for (const none of [[], [{ artifactChanges: [] }], [{ description: {}, artifactChanges: [] }]])
      assert.equal(firstOf(log([{ ...result, fixes: none }]), 'sarif').suggestion, undefined);
    const context = { contextRegion: { snippet: { text: 'around' } } };
    assert.equal(firstOf(log([{ ...result, ...inFile({ startLine: 1 }, context) }]), 'sarif').codeSnippet, 'around');
  });

  it('is about the project where a result has no place, and knows a rule where it names none', () => {
    assert.deepEqual(firstOf(log([{ message: { text: 'm' } }]), 'sarif'), {
      ruleId: 'unknown',
      severity: 'warning',
      message: 'm',
      location: { scope: 'project' },
    });
    assert.equal(firstOf(log([{ ruleId: 'r', message: {} }]), 'sarif').message, '(r gave no message)');
    assert.equal(firstOf(log([{ message: { markdown: '*m*' } }]), 'sarif').message, '*m*');
    assert.equal(firstOf(log([{ rule: { id: 'inner' }, message: { text: 'm' } }]), 'sarif').ruleId, 'inner');
  });

  it('takes the tool and what its rules say of themselves', () => {
    const driver = {
      semanticVersion: '1.2.3',
      version: '1.2',
      informationUri: 'https://example.org/lint',
      rules: [
        {
          id: 'r',
          fullDescription: { text: 'All of it.' },
          shortDescription: { text: 'Short.' },
          helpUri: 'https://example.org/r',
        },
        { id: 's', shortDescription: { text: 'Short.' } },
        { id: 'unused', shortDescription: { text: 'Not there.' } },
      ],
    };
    const results = ['r', 's/1', 't'].map((ruleId) => ({ ruleId, message: { text: 'm' } }));
    const { tool, findings } = imported(log(results, driver), 'sarif');
    const linter = { name: 'lint', version: '1.2.3', informationUri: 'https://example.org/lint' };
    assert.deepEqual(tool, { name: 'lint', version: '1.2.3', linter, rules: { r: 'All of it.', 's/1': 'Short.' } });
    assert.deepEqual(findings.map(({ ruleId, docsUrl }) => [ruleId, docsUrl]).sort(), [
      ['r', 'https://example.org/r'],
      ['s/1', undefined],
      ['t', undefined],
    ]);
    assert.equal(imported(log([], { version: '1.2' }), 'sarif').tool.version, '1.2');
  });

  it('says of a failure which rule and file it was in, and of what kind it is', () => {
    const physicalLocation = { artifactLocation: { uri: 'a.c' } };
    const notifications = [
      {
        level: 'error',
        message: { text: 'no end' },
        descriptor: { id: 'parse-error' },
        locations: [{ physicalLocation }],
      },
      { level: 'error', message: {}, descriptor: { id: 'no-files' }, associatedRule: { id: 'r' } },
    ];
    const run = { invocations: [{ executionSuccessful: true, toolExecutionNotifications: notifications }] };
    const { execution, summary } = imported(log([], {}, run), 'sarif');
    assert.deepEqual(execution.diagnostics, [
      { kind: 'parse-error', message: 'no end', relativePath: 'a.c' },
      { kind: 'rule-error', message: 'no message', ruleId: 'r' },
    ]);
    assert.deepEqual([summary.parseErrors, summary.ruleErrors], [1, 1]);
    const failed = imported(log([], {}, { invocations: [{ executionSuccessful: false }] }), 'sarif');
    assert.deepEqual(failed.execution.diagnostics, [
      { kind: 'rule-error', message: 'the linter did not run to its end' },
    ]);
  });

  it('joins the runs of one tool, and refuses those of two', () => {
    const [one] = log([{ ruleId: 'r', message: { text: 'm' } }]).runs;
    assert.equal(imported({ version: '2.1.0', runs: [one, one] }, 'sarif').findings.length, 2);
    const other = { tool: { driver: { name: 'other' } } };
    assert.throws(
      () => imported({ version: '2.1.0', runs: [one, other] }, 'sarif'),
      /: it has runs of lint and of other$/u,
    );
    assert.throws(() => imported({ version: '2.1.0', runs: [one, {}] }, 'sarif'), /: \/runs\/1: there is no tool$/u);
    assert.throws(
      () => imported({ version: '2.0.0', runs: [] }, 'sarif'),
      /: expected version 2\.1\.0, found "2\.0\.0"$/u,
    );
    assert.throws(() => imported({ version: '2.1.0', runs: [] }, 'sarif'), /: there are no runs$/u);
  });

  it('is about files below a root that is there', () => {
    assert.throws(
      () => imported(log([]), 'sarif', { root: '/no/such/folder' }),
      /: cannot read \/no\/such\/folder: ENOENT$/u,
    );
  });
});
