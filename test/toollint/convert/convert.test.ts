import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { Ajv } from 'ajv';
import formats from 'ajv-formats';
import type { Log, Run } from 'sarif';
import { SaxesParser } from 'saxes';
import {
  convert,
  type ConvertOptions,
  type Finding,
  type Format,
  FORMATS,
  type Report,
} from '../../../lib/toollint/toollint.ts';
import { incompleteReport, noFilesReport, projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const require = createRequire(import.meta.url);

async function converted(report: Report, format: Format, options?: ConvertOptions): Promise<string> {
  let text = '';
  await convert(
    JSON.parse(JSON.stringify(report)) as Report,
    format,
    async (part) => {
      text += part;
    },
    options,
  );
  return text;
}

const noFiles = noFilesReport();
const DIAGNOSTICS: Report['execution']['diagnostics'] = [
  { kind: 'parse-error', message: 'Unexpected <token> ]]> & "more"', relativePath: 'src/a b#%é.ts' },
  { kind: 'rule-error', message: 'it threw', ruleId: 'no-console', relativePath: 'src/b.ts' },
  { kind: 'rule-error', message: 'everywhere', ruleId: 'no-var' },
];
const incomplete = (findings: Finding[] = []) => incompleteReport(DIAGNOSTICS, findings);
const NASTY = [
  'a|b `c` **d** <script>alert(1)</script>',
  '</details> @everyone [x](javascript:alert(1))',
  'two\r\nlines ::error::no 100%, a:b',
  '\u0000\u0001\u001b[31mred\u001b[0m \u202eevil ]]> &amp; \ufffe',
  '😀 \ud800 é',
  '# head\n- list\n| --- |',
  '\u001b]8;;http://x\u0007link\u001b]8;;\u0007 \u009b2J',
];
const nasty = sampleReport(
  NASTY.map((message, index) =>
    sampleFinding({
      message,
      line: index + 1,
      path: ['src/a b#%é😀.ts', 'src/,:"<&\'>.ts', 'src/c\nd.ts'][index % 3] as string,
    }),
  ),
);
const many = sampleReport(
  Array.from({ length: 30_000 }, (_, index) =>
    sampleFinding({ line: index + 1, path: `src/${Math.floor(index / 1000)}.ts` }),
  ),
);
const samples: [string, Report][] = [
  ['empty', sampleReport([])],
  ['no files', noFiles],
  ['incomplete', incomplete([sampleFinding()])],
  ['the project alone', sampleReport([projectFinding()])],
  ['nasty texts', nasty],
  ['30,000 findings', many],
];

describe('SARIF', () => {
  const schemaFile = join(dirname(require.resolve('@microsoft/jest-sarif')), 'schemas/sarif-2.1.0-rtm.5.json');
  const ajv = new Ajv({ strict: false, allErrors: true, unicodeRegExp: false });
  formats.default(ajv);
  // The schema declares draft 4. Its only keyword that later drafts read differently is `id`.
  const { $schema, id, ...schema } = JSON.parse(readFileSync(schemaFile, 'utf8')) as Record<string, unknown>;
  assert.deepEqual([$schema, typeof id], ['http://json-schema.org/draft-04/schema#', 'string']);
  const check = ajv.compile(schema);
  const run = async (report: Report, options?: ConvertOptions) => {
    const log = JSON.parse(await converted(report, 'sarif', options)) as Log;
    assert.equal(check(log), true, JSON.stringify(check.errors?.slice(0, 3)));
    const [{ results = [], columnKind, tool, invocations = [] }] = log.runs as [Run];
    return { results, columnKind, rules: tool.driver.rules ?? [], invocations };
  };

  for (const [name, report] of samples) {
    it(`is valid by the official schema for ${name}`, async () => {
      const { results, invocations } = await run(report);
      assert.equal(results.length, report.findings.length);
      assert.equal(invocations[0]?.executionSuccessful, report.execution.status === 'complete');
      assert.equal(invocations[0].toolExecutionNotifications?.length, report.execution.diagnostics.length);
    });
  }

  it('encodes each segment of a path, counts columns in UTF-16 units, and names each finding once', async () => {
    const odd = sampleFinding({ path: 'a b/#%é😀.ts' });
    const bare = sampleFinding({ line: undefined, column: undefined });
    const { results, columnKind, rules } = await run(sampleReport([odd, { ...odd }, projectFinding(), bare]));
    const placeOf = (index: number) => results[index]?.locations?.[0]?.physicalLocation;
    assert.equal(columnKind, 'utf16CodeUnits');
    assert.equal(placeOf(0)?.artifactLocation?.uri, 'a%20b/%23%25%C3%A9%F0%9F%98%80.ts');
    assert.equal(placeOf(2)?.artifactLocation?.uri, '.', 'about the project, not about its first file');
    assert.deepEqual(placeOf(3)?.region, { startLine: 1 });
    const names = results.map(({ partialFingerprints }) => partialFingerprints?.['toolLint/v1']);
    assert.deepEqual([new Set(names).size, names[1]], [4, `${odd.fingerprint}:2`]);
    const ids = results.map(({ ruleIndex = -1 }) => rules[ruleIndex]?.id);
    assert.deepEqual(ids, ['no-console', 'no-console', 'TL-README', 'no-console']);
  });

  it('names a rule in other words than its id, with at most 20 tags', async () => {
    const names = {
      'no-console': 'NoConsole',
      '@scope/my-rule': 'ScopeMyRule',
      'TL-README': 'TlReadme',
      E501: undefined,
    };
    const standardIds = Array.from({ length: 25 }, (_, index) => `CWE-${index}`);
    const findings = Object.keys(names).map((ruleId) => ({ ...sampleFinding({ ruleId }), standardIds }));
    const more = { ...sampleFinding({ ruleId: 'two', line: 2 }), standardIds: ['CWE-2'] };
    const all = [...findings, { ...sampleFinding({ ruleId: 'two' }), standardIds: ['CWE-1'] }, more];
    const { rules, results } = await run(sampleReport(all));
    assert.equal(rules.pop()?.properties, undefined, 'nothing that all findings have');
    assert.deepEqual(
      results.slice(-2).map(({ properties }) => properties?.tags),
      [['CWE-1'], ['CWE-2']],
    );
    assert.deepEqual(Object.fromEntries(rules.map(({ id, name }) => [id, name])), names);
    assert.deepEqual(new Set(rules.map(({ properties }) => properties?.tags?.length)), new Set([20]));
  });
});

describe('GitLab', () => {
  interface Issue {
    fingerprint: string;
    severity: string;
    location: { path: string; lines: { begin: number } };
  }
  const issuesOf = async (report: Report) => {
    const issues = JSON.parse(await converted(report, 'gitlab')) as Issue[];
    assert.equal(new Set(issues.map(({ fingerprint }) => fingerprint)).size, issues.length);
    return issues;
  };

  it('has an empty array for a report without findings', async () => {
    assert.deepEqual(await issuesOf(sampleReport([])), []);
  });

  it('has a unique fingerprint and a place for each issue', async () => {
    const report = sampleReport([
      projectFinding(),
      projectFinding(),
      sampleFinding({ line: undefined, column: undefined }),
      sampleFinding({ ruleId: 'PARSE-ERROR', severity: 'error' }),
      ...many.findings.slice(0, 2000),
    ]);
    const issues = await issuesOf(report);
    assert.equal(issues.length, report.findings.length);
    assert.deepEqual(
      issues.slice(0, 4).map(({ severity, location }) => `${severity} ${location.path} ${location.lines.begin}`),
      ['info . 1', 'info . 1', 'major src/app.ts 1', 'blocker src/app.ts 3'],
    );
    assert.equal(issues[0]?.fingerprint, projectFinding().fingerprint);
    assert.match(issues[1]?.fingerprint ?? '', /^[0-9a-f]{64}$/u);
  });

  it('has a blocker for each diagnostic, so that an incomplete run is not a clean one', async () => {
    const issues = await issuesOf(incomplete());
    const blockers = issues.filter(({ severity }) => severity === 'blocker');
    assert.equal(blockers.length, DIAGNOSTICS.length);
    assert.ok(issues.every(({ fingerprint }) => /^[0-9a-f]{64}$/u.test(fingerprint)));
  });
});

describe('JUnit', () => {
  const parsed = (text: string) => {
    const result = { suites: [] as Record<string, string>[], cases: 0, errors: 0, failures: 0 };
    let root: Record<string, string> = {};
    const parser = new SaxesParser();
    parser.on('error', (error) => assert.fail(error.message));
    parser.on('opentag', ({ name, attributes }) => {
      if (name === 'testsuites') root = attributes;
      if (name === 'testsuite') result.suites.push(attributes);
      if (name === 'testcase') result.cases += 1;
      if (name === 'error') result.errors += 1;
      if (name === 'failure') result.failures += 1;
    });
    parser.write(text).close();
    assert.deepEqual(
      ['tests', 'failures', 'errors'].map((name) => Number(root[name])),
      [result.cases, result.failures, result.errors],
    );
    return result;
  };

  for (const [name, report] of samples) {
    it(`parses, with true counts, for ${name}`, async () => {
      const { suites, cases } = parsed(await converted(report, 'junit'));
      assert.equal(
        suites.reduce((sum, suite) => sum + Number(suite['tests']), 0),
        cases,
      );
      assert.equal(new Set(suites.map((suite) => suite['name'])).size, suites.length);
    });
  }

  it('is never all green after an incomplete run', async () => {
    assert.equal(parsed(await converted(incomplete(), 'junit')).errors, 3);
    assert.equal(parsed(await converted(noFiles, 'junit')).errors, 1);
    const empty = parsed(await converted(sampleReport([]), 'junit'));
    assert.deepEqual([empty.cases, empty.errors, empty.failures], [1, 0, 0]);
  });
});

describe('Markdown', () => {
  it('lets no text of a report become markup', async () => {
    const text = await converted(nasty, 'markdown');
    for (const markup of ['<script', '</details>', '@everyone', '](javascript'])
      assert.ok(!text.includes(markup), markup);
    const rows = text.split('\n').filter((line) => line.startsWith('| '));
    assert.equal(rows.length, 2 + NASTY.length);
    for (const row of rows) assert.equal(row.replaceAll('\\|', '').split('|').length, 6, row);
  });

  it('lists 100 findings, counts the others, and fits a comment', async () => {
    const text = await converted(many, 'markdown');
    assert.equal(text.split('\n').filter((line) => line.startsWith('| warning')).length, 100);
    assert.match(text, /…and 29900 more\./u);
    const long = sampleReport(
      Array.from({ length: 100 }, (_, index) => sampleFinding({ line: index + 1, message: '<&>'.repeat(500) })),
    );
    assert.ok(Buffer.byteLength(await converted(long, 'markdown')) <= 65_536);
    const failure = { kind: 'parse-error', message: 'x'.repeat(500) } as const;
    const diagnostics = Array.from({ length: 5000 }, (_, index) => ({ ...failure, relativePath: `${index}.ts` }));
    const failures = incompleteReport(diagnostics);
    failures.summary.totalFiles = 5000;
    assert.ok(Buffer.byteLength(await converted(failures, 'markdown')) <= 65_536);
  });
});

describe('the HTML report', () => {
  it('marks the flagged text in its snippet, and links a finding to its line', async () => {
    const finding = {
      ...sampleFinding({ path: 'src/b c.ts', line: 3 }),
      codeSnippet: 'if (a == b) {',
      flaggedText: '==',
    };
    const html = await converted(sampleReport([finding]), 'html', { links: 'https://h/' });
    assert.ok(html.includes('<pre>if (a <mark>==</mark> b) {</pre>'));
    assert.ok(html.includes('href="https://h/src/b%20c.ts#L3"'));
  });
});

describe('the GitHub commands', () => {
  it('have one line for each finding and diagnostic, for any text', async () => {
    const lines = (await converted(nasty, 'github')).trimEnd().split('\n');
    assert.equal(lines.length, NASTY.length);
    for (const line of lines) assert.match(line, /^::warning file=[^:,]+,line=\d+,col=1,title=no-console::/u);
    assert.ok(lines[2]?.includes('two%0Alines ::error::no 100%25, a:b'));
    // eslint-disable-next-line no-control-regex -- the test asserts that there are none
    assert.doesNotMatch(lines.join(), /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/u);
    assert.equal((await converted(incomplete(), 'github')).trimEnd().split('\n').length, 3);
  });
});

describe('a file that does not parse', () => {
  it('appears once in every format', async () => {
    const finding = sampleFinding({ ruleId: 'PARSE-ERROR', severity: 'error', path: 'a.ts', message: 'found a' });
    const told = (name: string) => ({
      kind: 'parse-error' as const,
      message: `told ${name}`,
      relativePath: `${name}.ts`,
    });
    const thrown = { kind: 'rule-error' as const, message: 'a rule threw', ruleId: 'r', relativePath: 'a.ts' };
    const broken = incompleteReport([told('a'), told('b'), thrown], [finding]);
    for (const format of ['github', 'gitlab', 'junit', 'sarif', 'markdown', 'pretty'] as const) {
      const text = await converted(broken, format);
      const shown = ['found a', 'told a', 'told b', 'a rule threw'].map((message) => text.includes(message));
      assert.deepEqual(shown, [true, false, true, true], format);
    }
  });
});

describe('the text for people', () => {
  it('has no control characters and no commands for CI runners', async () => {
    for (const width of [20, 40, 80, 200]) {
      const text = await converted(nasty, 'pretty', { width });
      // eslint-disable-next-line no-control-regex -- the test asserts that there are none
      assert.doesNotMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/u);
      assert.equal(stripVTControlCharacters(await converted(nasty, 'pretty', { width, color: true })), text);
    }
    const path = '::error::x##vso[task.complete]';
    const commands = ['::set-env name=a::b', '  ::stop-commands::x', 'a ##vso[b]', '##[error]c'];
    const docsUrl = 'https://example.org/##vso[a?##[error]';
    const report = sampleReport(
      commands.map((message, line) => ({
        ...sampleFinding({ path, line: line + 1, message, ruleId: message }),
        docsUrl,
      })),
    );
    for (const format of FORMATS) assert.doesNotMatch(await converted(report, format), /##\[|##vso\[/iu, format);
    for (const width of [30, 100]) {
      const text = await converted(report, 'pretty', { width });
      assert.doesNotMatch(text, /^\s*::|##\[|##vso\[/mu);
    }
  });
});

describe('the document itself', () => {
  it('is written unchanged, one finding per line, with unknown members', async () => {
    const report = sampleReport([sampleFinding(), sampleFinding({ line: 8 })]);
    Object.assign(report.summary, { added: { b: 1, a: [null] } });
    const text = await converted(report, 'report');
    assert.deepEqual(JSON.parse(text), report);
    assert.equal(text.split('\n').filter((line) => line.startsWith('{"ruleId"')).length, 2);
    assert.ok(text.endsWith(']\n}\n'));
    assert.equal(await converted(JSON.parse(text) as Report, 'report'), text);
  });
});
