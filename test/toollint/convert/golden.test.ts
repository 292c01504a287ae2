// `GOLDEN=write` rewrites the golden files.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { convert, type ConvertOptions, type Format, FORMATS, type Report } from '../../../lib/toollint/toollint.ts';
import { projectFinding, sampleFinding, sampleReport } from '../support/samples.ts';

const fixed = {
  ...sampleFinding({ severity: 'error', ruleId: 'no-var', message: 'Use let | const.', column: 3 }),
  category: 'problem',
  docsUrl: 'https://example.org/no-var',
  standardIds: ['CWE-1'],
  suggestion: 'eslint --fix can fix this.',
  codeSnippet: 'var a = 1;',
  flaggedText: 'var a',
  fix: { offset: 40, length: 3, text: 'let', region: { line: 3, column: 3, endLine: 3, endColumn: 6 } },
};
Object.assign(fixed.location, { endLine: 3, endColumn: 8 });

const REPORT = sampleReport(
  [
    { ...projectFinding('No README'), category: 'layout' },
    fixed,
    sampleFinding({ line: 12, column: undefined, message: '::error::##vso[task] \u001b[31m<script>@all' }),
    sampleFinding({
      line: undefined,
      column: undefined,
      severity: 'info',
      path: 'src/b c.ts',
      message: 'x'.repeat(310),
    }),
  ],
  (report) => {
    Object.assign(report.tool, {
      linter: { name: 'ESLint', version: '10.15.0', informationUri: 'https://eslint.org' },
      rules: { 'no-var': 'Require `let` or `const`' },
    });
    report.scan.include = ['src/app.ts', 'src/b c.ts'];
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
  return text;
}

const GOLDEN = ['report', 'pretty', 'sarif', 'gitlab', 'junit', 'markdown', 'github'] as const;

describe('the golden file', () => {
  for (const format of GOLDEN)
    it(`holds the ${format} of a report with something of everything`, async () => {
      const file = new URL(`golden/${format}.txt`, import.meta.url);
      const text = await textOf(format);
      if (process.env['GOLDEN'] === 'write') writeFileSync(file, text);
      assert.equal(text, readFileSync(file, 'utf8'));
    });

  it('exists for each format that is written as text', () => {
    assert.deepEqual(
      GOLDEN.filter((format) => !FORMATS.includes(format)),
      [],
    );
  });
});

describe('the text for a terminal', () => {
  it('is cut to the width, with the rule on a separate line if it is narrow', async () => {
    for (const width of [20, 40, 80, 200])
      for (const line of (await textOf('pretty', { width })).split('\n')) assert.ok(line.length <= width, line);
    assert.match(await textOf('pretty', { width: 40 }), /\n {2}3:3 error Use let \| const\.\n {4}no-var\n/u);
    assert.ok((await textOf('pretty')).includes('x'.repeat(310)), 'without a width nothing is cut');
  });

  it('has red errors, yellow warnings, cyan infos, and a green end if all is well', async () => {
    const good = await textOf('pretty', { color: true }, sampleReport([]));
    assert.equal(good, '\u001b[32m9 files, 0 findings: 0 errors, 0 warnings, 0 info\u001b[39m\n');
    const bad = await textOf('pretty', { color: true });
    for (const part of ['\u001b[31merror  ', '\u001b[33mwarning', '\u001b[36minfo   ', '\u001b[1msrc/app.ts'])
      assert.ok(bad.includes(part), part);
  });
});
