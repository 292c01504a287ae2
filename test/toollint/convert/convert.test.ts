import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { Ajv } from 'ajv';
import formats from 'ajv-formats';
import type { Log, Run } from 'sarif';
import { SaxesParser } from 'saxes';
import { convert, type Format, type Report } from '../../../lib/toollint/toollint.ts';
import {
  fullReport,
  incompleteReport,
  noFilesReport,
  projectFinding,
  sampleFinding,
  sampleReport,
} from '../support/samples.ts';

const require = createRequire(import.meta.url);

async function converted(report: Report, format: Format): Promise<string> {
  let text = '';
  await convert(JSON.parse(JSON.stringify(report)) as Report, format, async (part) => {
    text += part;
  });
  return text;
}

const NASTY = '\u0000\u0001\u001b[31m\u001b]8;;http://x\u0007 \u009b2J \u202e ]]> &amp; \ufffe \ud800 😀 <b>\r\n"\'';
const many = sampleReport(
  Array.from({ length: 3_000 }, (_, at) => sampleFinding({ line: at + 1, path: `src/${Math.floor(at / 1000)}.ts` })),
);
const samples: [string, Report][] = [
  ['empty', sampleReport([])],
  ['no files', noFilesReport()],
  ['incomplete', incompleteReport([{ kind: 'parse-error', message: NASTY, relativePath: '<#%é.ts' }])],
  ['the project alone', sampleReport([projectFinding()])],
  ['nasty texts', sampleReport([sampleFinding({ message: NASTY, path: 'src/,:"<&\'>\n#%é.ts' })])],
  ['every member', fullReport()],
  ['3,000 findings', many],
];

describe('SARIF', () => {
  const schemaFile = join(dirname(require.resolve('@microsoft/jest-sarif')), 'schemas/sarif-2.1.0-rtm.5.json');
  const ajv = new Ajv({ strict: false, allErrors: true, unicodeRegExp: false });
  formats.default(ajv);
  // The schema declares draft 4. Its only keyword that later drafts read differently is `id`.
  const { $schema, id, ...schema } = JSON.parse(readFileSync(schemaFile, 'utf8')) as Record<string, unknown>;
  assert.deepEqual([$schema, typeof id], ['http://json-schema.org/draft-04/schema#', 'string']);
  const check = ajv.compile(schema);

  for (const [name, report] of samples)
    it(`is valid by the official schema for ${name}`, async () => {
      const log = JSON.parse(await converted(report, 'sarif')) as Log;
      assert.equal(check(log), true, JSON.stringify(check.errors?.slice(0, 3)));
      const [{ results = [], invocations = [] }] = log.runs as [Run];
      assert.equal(results.length, report.findings.length);
      assert.equal(invocations[0]?.executionSuccessful, report.execution.status === 'complete');
      assert.equal(invocations[0].toolExecutionNotifications?.length, report.execution.diagnostics.length);
    });
});

describe('JUnit', () => {
  for (const [name, report] of samples)
    it(`parses, with true counts, for ${name}`, async () => {
      const suites: Record<string, string>[] = [];
      const counts: Record<string, number> = {};
      const parser = new SaxesParser();
      parser.on('error', (error) => assert.fail(error.message));
      parser.on('opentag', ({ name: tag, attributes }) => {
        counts[tag] = (counts[tag] ?? 0) + 1;
        if (tag !== 'testcase') suites.push(attributes);
      });
      parser.write(await converted(report, 'junit')).close();
      const { testcase = 0, failure = 0, error = 0 } = counts;
      const [root = {}, ...own] = suites.filter(({ tests }) => tests !== undefined);
      const sumOf = (count: string) => own.reduce((sum, suite) => sum + Number(suite[count]), 0);
      for (const [count, expected] of Object.entries({ tests: testcase, failures: failure, errors: error }))
        assert.deepEqual([Number(root[count]), sumOf(count)], [expected, expected], count);
      assert.equal(new Set(own.map((suite) => suite['name'])).size, own.length);
    });
});

describe('Markdown', () => {
  it('lists 100 findings, counts the others, and fits a comment', async () => {
    const text = await converted(many, 'markdown');
    assert.equal(text.split('\n').filter((line) => line.startsWith('| warning')).length, 100);
    assert.match(text, /…and 2900 more\./u);
    for (const part of ['<&>', '€']) {
      const message = part.repeat(500);
      const long = sampleReport(Array.from({ length: 100 }, (_, index) => sampleFinding({ line: index + 1, message })));
      assert.ok(Buffer.byteLength(await converted(long, 'markdown')) <= 65_536, part);
    }
    const failure = { kind: 'parse-error', message: 'x'.repeat(500) } as const;
    const diagnostics = Array.from({ length: 5000 }, (_, index) => ({ ...failure, relativePath: `${index}.ts` }));
    const failures = incompleteReport(diagnostics);
    failures.summary.totalFiles = 5000;
    const comment = await converted(failures, 'markdown');
    assert.ok(Buffer.byteLength(comment) <= 65_536);
    const listed = comment.split('\n').filter((line) => line.startsWith('- parse-error')).length;
    assert.ok(listed > 0 && comment.includes(`…and ${5000 - listed} more`));
  });
});
