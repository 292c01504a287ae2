// Each text format of one report that has something of everything, letter for letter.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { convert, type ConvertOptions, type Format, type Report } from '../../../lib/toollint/toollint.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const LONG = 'x'.repeat(290);
const REPORT = sampleReport(
  [
    { ...projectFinding('No README'), category: 'layout' },
    {
      ...sampleFinding({ severity: 'error', ruleId: 'no-var', message: 'Use let | const.' }),
      category: 'problem',
      docsUrl: 'https://example.org/no-var',
    },
    sampleFinding({ line: 12, column: undefined }),
    sampleFinding({
      line: undefined,
      column: undefined,
      severity: 'info',
      path: 'src/b c.ts',
      message: `${LONG}${'y'.repeat(20)}`,
    }),
  ],
  (report) => {
    report.execution = {
      status: 'incomplete',
      diagnostics: [
        { kind: 'rule-error', message: 'it threw', ruleId: 'eqeqeq', relativePath: 'src/b.ts' },
        { kind: 'parse-error', message: 'no\nend', relativePath: 'src/c.ts' },
      ],
    };
    report.selection = {
      quiet: true,
      baseline: Object.assign({ newIssues: 4, unchanged: 2, fixed: 1 }, { notVerifiable: 3 }),
    };
    report.gate = { status: 'failed', name: 'strict', message: 'analysis incomplete' };
  },
);

async function textOf(format: Format, options: ConvertOptions = {}, report: Report = REPORT): Promise<string> {
  let text = '';
  await convert(report, format, async (part) => void (text += await Promise.resolve(part)), options);
  return text.replaceAll(LONG, '<LONG>');
}

const MARKDOWN_HEAD = `### Code analysis

**Gate strict: ❌ failed** – analysis incomplete

9 files, 4 findings: 1 error, 1 warning, 2 info (only errors are listed).

Against the baseline: 4 new, 2 unchanged, 1 fixed, 3 not verifiable.

**The analysis is incomplete.**

- rule-error src/b.ts eqeqeq: it threw
- parse-error src/c.ts: no end
`;
const SUMMARY = `9 files, 4 findings: 1 error, 1 warning, 2 info
only errors are listed
baseline: 4 new, 2 unchanged, 1 fixed, 3 not verifiable
incomplete: 1 parse error, 1 rule error
gate strict failed: analysis incomplete
`;

describe('the text of a report', () => {
  it('on a terminal has the findings under their files, and the summary last', async () => {
    const text = await textOf('pretty', { width: 80 });
    const expected = `(project)
  -        info     No README  TL-README

src/app.ts
  3:1      error    Use let | const.  no-var
  12:-     warning  Unexpected console statement.  no-console

src/b c.ts
  -        info     ${'x'.repeat(47)}…  no-console

rule-error src/b.ts eqeqeq: it threw
parse-error src/c.ts: no end
${SUMMARY}`;
    assert.equal(text, expected);
    assert.equal(await textOf('pretty'), expected, '80 columns where nothing is said');
  });

  it('on a narrow terminal has the rule on a line of its own', async () => {
    const text = await textOf('pretty', { width: 40 });
    const [findings = ''] = text.split('\nrule-error');
    assert.equal(
      findings,
      `(project)
  - info No README
    TL-README

src/app.ts
  3:1 error Use let | const.
    no-var
  12:- warning Unexpected console state…
    no-console

src/b c.ts
  - info ${'x'.repeat(30)}…
    no-console
`,
    );
  });

  it('in colour has red errors, yellow warnings, cyan infos, and a green end where all is well', async () => {
    const [good, bad] = [
      await textOf('pretty', { color: true }, sampleReport([])),
      await textOf('pretty', { color: true }),
    ];
    assert.equal(good, '\u001b[32m9 files, 0 findings: 0 errors, 0 warnings, 0 info\u001b[39m\n');
    for (const part of ['\u001b[31merror  \u001b[39m', '\u001b[33mwarning\u001b[39m', '\u001b[36minfo   \u001b[39m'])
      assert.ok(bad.includes(part), part);
    for (const part of ['\u001b[1msrc/app.ts\u001b[22m', '\u001b[2m  no-var\u001b[22m', '\u001b[1m9 files'])
      assert.ok(bad.includes(part), part);
    assert.ok(bad.includes('\u001b[31mparse-error src/c.ts: no end\u001b[39m\n'));
  });

  it('in Markdown has the verdict, the counts, and a table with errors first', async () => {
    const table = `
| Severity | Place | Rule | Message |
| --- | --- | --- | --- |
| error | src/app.ts:3 | [no-var](<https://example.org/no-var>) | Use let \\| const. |
| warning | src/app.ts:12 | no-console | Unexpected console statement. |
| info | (project) | TL-README | No README |
| info | src/b c.ts | no-console | <LONG>yyyyyyyyy… |
`;
    assert.equal(await textOf('markdown'), MARKDOWN_HEAD + table);
    assert.equal(
      await textOf('markdown', {}, sampleReport([])),
      '### Code analysis\n\n9 files, 0 findings: 0 errors, 0 warnings, 0 info.\n',
    );
  });

  it('names a gate without a name as that, and a file that is broken but has no finding for it', async () => {
    const report = sampleReport([sampleFinding({ path: 'a.ts' })], (one) => {
      one.gate = { status: 'failed' };
      one.execution = {
        status: 'incomplete',
        diagnostics: [{ kind: 'parse-error', message: 'it does not parse', relativePath: 'a.ts' }],
      };
    });
    assert.match(await textOf('summary', {}, report), /^gate failed$/mu);
    assert.match(await textOf('github', {}, report), /it does not parse/u);
  });

  it('in Markdown cuts a long list of diagnostics, and has the marks of each verdict', async () => {
    const many = sampleReport([], (report) => {
      const diagnostics = Array.from({ length: 50 }, (_, index) => ({
        kind: 'parse-error' as const,
        message: 'a message of some length',
        relativePath: `file-${index}.js`,
      }));
      report.execution = { status: 'incomplete', diagnostics };
    });
    const text = await textOf('markdown', { bytesMax: 1000 }, many);
    const listed = text.split('\n').filter((line) => line.startsWith('- parse-error')).length;
    assert.ok(listed > 3 && listed < 20);
    assert.ok(text.endsWith(`- …and ${50 - listed} more\n`));
    const verdict = async (status: 'passed' | 'warning') => {
      const report = sampleReport([], (r) => (r.gate = { status, name: 'own' }));
      return (await textOf('markdown', {}, report)).split('\n')[2];
    };
    assert.deepEqual(
      [await verdict('passed'), await verdict('warning')],
      ['**Gate own: ✅ passed**', '**Gate own: ⚠️ warning**'],
    );
    const none = sampleReport([], (r) => {
      r.execution = { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'none' }] };
    });
    assert.ok(
      (await textOf('markdown', {}, none)).includes('\n**The analysis is empty: no files.**\n\n- no-files : none\n'),
    );
  });

  it('for the page of a job is Markdown with links where the code is on the web, else a few lines', async () => {
    assert.equal(await textOf('summary'), SUMMARY);
    const linked = await textOf('summary', { links: 'https://h/' });
    assert.ok(linked.startsWith(MARKDOWN_HEAD));
    assert.deepEqual(
      [...linked.matchAll(/\| (\S*\[.*?\)) \|/gu)].map(([, place]) => place),
      [
        '[src/app.ts:3](<https://h/src/app.ts#L3>)',
        '[src/app.ts:12](<https://h/src/app.ts#L12>)',
        '[src/b c.ts](<https://h/src/b%20c.ts>)',
      ],
    );
    const none = sampleReport([], (r) => (r.execution = { status: 'no-files', diagnostics: [] }));
    assert.equal(
      await textOf('summary', {}, none),
      '9 files, 0 findings: 0 errors, 0 warnings, 0 info\nno files were analysed\n',
    );
  });

  it('for GitHub has a command for each diagnostic and finding', async () => {
    assert.equal(
      await textOf('github'),
      `::error file=src/b.ts,title=rule-error eqeqeq::it threw
::error file=src/c.ts,title=parse-error::no%0Aend
::error file=src/app.ts,line=3,col=1,title=no-var::Use let | const.
::warning file=src/app.ts,line=12,title=no-console::Unexpected console statement.
::notice title=TL-README::No README
::notice file=src/b c.ts,title=no-console::<LONG>yyyyyyyyyyyyyyyyyyyy
`,
    );
  });

  it('in JUnit has a suite for what did not run, and one for each file', async () => {
    assert.equal(
      await textOf('junit'),
      `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="toollint" tests="6" failures="2" errors="2">
<testsuite name="toollint.execution" tests="2" failures="0" errors="2">
<testcase classname="toollint.execution" name="rule-error src/b.ts eqeqeq"><error type="rule-error" message="it threw"/></testcase>
<testcase classname="toollint.execution" name="parse-error src/c.ts"><error type="parse-error" message="no&#10;end"/></testcase>
</testsuite>
<testsuite name="(project)" tests="1" failures="0" errors="0">
<testcase classname="(project)" name="TL-README"><system-out>No README</system-out></testcase>
</testsuite>
<testsuite name="src/app.ts" tests="2" failures="2" errors="0">
<testcase classname="src/app.ts" name="no-var:3:1"><failure type="error" message="Use let | const.">src/app.ts:3:1 Use let | const. (no-var)</failure></testcase>
<testcase classname="src/app.ts" name="no-console:12"><failure type="warning" message="Unexpected console statement.">src/app.ts:12 Unexpected console statement. (no-console)</failure></testcase>
</testsuite>
<testsuite name="src/b c.ts" tests="1" failures="0" errors="0">
<testcase classname="src/b c.ts" name="no-console"><system-out><LONG>yyyyyyyyyyyyyyyyyyyy</system-out></testcase>
</testsuite>
</testsuites>
`,
    );
  });

  it('for GitLab has an issue on each line, diagnostics as blockers', async () => {
    const text = await textOf('gitlab');
    const lines = text.split('\n');
    assert.deepEqual([lines[0], lines.at(-2), lines.at(-1), lines.length], ['[', ']', '', 9]);
    const issues = (JSON.parse(text) as Record<string, unknown>[]).map(
      ({ fingerprint, ...rest }) => (assert.match(String(fingerprint), /^[0-9a-f]{64}$/u), rest),
    );
    const issue = (description: string, check_name: string, severity: string, path: string, begin = 1) => ({
      description,
      check_name,
      severity,
      location: { path, lines: { begin } },
    });
    assert.deepEqual(issues, [
      issue('it threw', 'eqeqeq', 'blocker', 'src/b.ts'),
      issue('no\nend', 'parse-error', 'blocker', 'src/c.ts'),
      issue('No README', 'TL-README', 'info', '.'),
      issue('Use let | const.', 'no-var', 'critical', 'src/app.ts', 3),
      issue('Unexpected console statement.', 'no-console', 'major', 'src/app.ts', 12),
      issue(`<LONG>${'y'.repeat(20)}`, 'no-console', 'info', 'src/b c.ts'),
    ]);
  });

  it('for Sonar has issues, and their rules with what they harm and how much', async () => {
    const text = await textOf('sonar');
    assert.match(text, /^\{"issues":\[\n\{"ruleId":.*\},\n\{[^]*\}\n\],"rules":\[.*\]\}\n$/u);
    const { issues, rules } = JSON.parse(text) as {
      issues: { ruleId: string; primaryLocation: Record<string, unknown> }[];
      rules: {
        id: string;
        engineId: string;
        impacts: { softwareQuality: string; severity: string }[];
        cleanCodeAttribute: string;
      }[];
    };
    assert.deepEqual(
      issues.map(({ ruleId, primaryLocation }) => [ruleId, ...Object.values(primaryLocation)]),
      [
        ['rule-error eqeqeq', 'it threw', 'src/b.ts'],
        ['parse-error', 'no\nend', 'src/c.ts'],
        ['TL-README', 'No README', '.'],
        ['no-var', 'Use let | const.', 'src/app.ts', { startLine: 3 }],
        ['no-console', 'Unexpected console statement.', 'src/app.ts', { startLine: 12 }],
        ['no-console', `<LONG>${'y'.repeat(20)}`, 'src/b c.ts'],
      ],
    );
    assert.deepEqual(
      rules.map(({ id, engineId, impacts: [impact], cleanCodeAttribute }) => [
        id,
        engineId,
        cleanCodeAttribute,
        impact?.softwareQuality,
        impact?.severity,
      ]),
      [
        ['rule-error eqeqeq', 'toollint', 'LOGICAL', 'RELIABILITY', 'BLOCKER'],
        ['parse-error', 'toollint', 'LOGICAL', 'RELIABILITY', 'BLOCKER'],
        ['TL-README', 'toollint', 'FORMATTED', 'MAINTAINABILITY', 'LOW'],
        ['no-var', 'toollint', 'CONVENTIONAL', 'RELIABILITY', 'HIGH'],
        ['no-console', 'toollint', 'CONVENTIONAL', 'MAINTAINABILITY', 'MEDIUM'],
      ],
    );
  });
});
