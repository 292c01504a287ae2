// Over real files (this project's own dependencies): a harmless edit turns no finding new, a swap is seen.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { ESLint } from 'eslint';
import { matchFindings } from '../../../lib/toollint/compare/finding-match.ts';
import { fileFindings, type LintMessage } from '../../../lib/toollint/document/file-findings.ts';
import { sourceLines } from '../../../lib/toollint/document/fingerprint.ts';
import type { Finding } from '../../../lib/toollint/document/report-schema.ts';

const FILES = 110;
const RULES = Object.fromEntries(
  [
    'complexity',
    'consistent-return',
    'curly',
    'default-case',
    'dot-notation',
    'eqeqeq',
    'func-names',
    'guard-for-in',
    'max-depth',
    'max-statements',
    'new-cap',
    'no-bitwise',
    'no-continue',
    'no-else-return',
    'no-empty',
    'no-magic-numbers',
    'no-nested-ternary',
    'no-param-reassign',
    'no-plusplus',
    'no-shadow',
    'no-ternary',
    'no-undefined',
    'no-underscore-dangle',
    'no-unused-vars',
    'no-use-before-define',
    'no-var',
    'object-shorthand',
    'prefer-const',
    'prefer-template',
    'strict',
    'vars-on-top',
  ].map((id) => [id, 'warn' as const]),
);
Object.assign(RULES, { complexity: ['warn', 3], 'max-statements': ['warn', 4], 'max-depth': ['warn', 2] });

const folder = new URL('../../../node_modules/', import.meta.url);

/** Sources of packages that are readable code, the same ones on every run. */
function corpus(): { path: string; text: string }[] {
  const found: { path: string; text: string }[] = [];
  for (const place of [
    'eslint/lib/rules',
    'eslint/lib/linter',
    'eslint/lib/shared',
    'esquery/dist',
    'ajv/lib',
    'esutils/lib',
    'semver/functions',
    'semver/classes',
    'semver/ranges',
    'levn/lib',
    'type-check/lib',
    'optionator/lib',
  ]) {
    for (const name of readdirSync(new URL(place, folder)).sort()) {
      if (!name.endsWith('.js') || found.length >= FILES) continue;
      const text = readFileSync(new URL(`${place}/${name}`, folder), 'utf8');
      if (text.length > 400 && text.length < 12_000) found.push({ path: `${place}/${name}`, text });
    }
  }
  return found;
}

const eslint = new ESLint({
  overrideConfigFile: true,
  overrideConfig: [
    {
      files: ['**/*.js'],
      languageOptions: { sourceType: 'commonjs' },
      linterOptions: { reportUnusedDisableDirectives: 'off' },
      rules: RULES,
    },
  ],
});

interface Linted {
  messages: LintMessage[];
  findings: Finding[];
  /** Lines from the first to the last of each message. */
  touched: Set<number>;
}

async function lint(path: string, text: string): Promise<Linted> {
  const [result] = await eslint.lintText(text, { filePath: `sample/${path.replaceAll('/', '-')}` });
  const messages: LintMessage[] = (result?.messages ?? []).map((message) => ({
    ...message,
    severity: 'warning',
    fatal: message.fatal === true,
    suggestion: undefined,
    fix: undefined,
  }));
  assert.ok(
    messages.every(({ fatal }) => !fatal),
    `${path} does not parse`,
  );
  const touched = new Set<number>();
  for (const { line = 0, endLine = line } of messages) for (let at = line; at <= endLine; at += 1) touched.add(at);
  return { messages, findings: findingsOf(path, text, messages), touched };
}

function findingsOf(path: string, text: string, messages: readonly LintMessage[]): Finding[] {
  return fileFindings({ path, text, messages, roots: [], snippets: false, factsOf: () => ({}) });
}

function against(before: readonly Finding[], after: readonly Finding[]): { news: Finding[]; fixed: number } {
  const { knownBy, missing } = matchFindings(
    before.map((finding) => ({ finding })),
    after,
  );
  return { news: after.filter((_, index) => knownBy[index] === undefined), fixed: missing.length };
}

describe('fingerprints over real files', () => {
  let files: ({ path: string; text: string } & Linted)[] = [];

  before(async () => {
    files = [];
    for (const file of corpus()) files.push({ ...file, ...(await lint(file.path, file.text)) });
  });

  /** Edits every file; sums what turned new and what seems fixed. */
  async function churn(
    edit: (text: string, touched: ReadonlySet<number>) => string,
  ): Promise<{ news: number; fixed: number; edited: number }> {
    const sum = { news: 0, fixed: 0, edited: 0 };
    for (const { path, text, findings, touched } of files) {
      const changed = edit(text, touched);
      if (changed !== text) sum.edited += 1;
      const { news, fixed } = against(findings, (await lint(path, changed)).findings);
      sum.news += news.length;
      sum.fixed += fixed;
    }
    return sum;
  }

  it('has more than 100 files and 1,000 findings', () => {
    assert.ok(files.length > 100, String(files.length));
    const total = files.reduce((sum, { findings }) => sum + findings.length, 0);
    assert.ok(total > 1000, String(total));
  });

  it('turns none new when lines are inserted', async () => {
    const { news, fixed, edited } = await churn(
      (text) => `${'\n'.repeat(1000)}${text.replaceAll('\n}\n', '\n}\n\n\n')}`,
    );
    assert.deepEqual([news, fixed], [0, 0]);
    assert.ok(edited > 100);
  });

  it('turns none new when code is indented otherwise', async () => {
    const { news, fixed, edited } = await churn((text) => text.replace(/^(?:\t|[ ]{2,})(?=\S)/gmu, '$&  '));
    assert.deepEqual([news, fixed], [0, 0]);
    assert.ok(edited > 100);
  });

  it('turns none new when line ends become CRLF and a byte order mark is added', async () => {
    const { news, fixed, edited } = await churn((text) => `\ufeff${text.replaceAll('\n', '\r\n')}`);
    assert.deepEqual([news, fixed], [0, 0]);
    assert.ok(edited > 100);
  });

  it('turns none new when the lines beside a finding are edited', async () => {
    const { news, fixed, edited } = await churn((text, touched) => {
      const lines = sourceLines(text);
      const isFree = (line: number) =>
        !touched.has(line) &&
        (touched.has(line - 1) || touched.has(line + 1)) &&
        /[;{}],?$/u.test(lines[line - 1] ?? '');
      return lines.map((line, index) => (isFree(index + 1) ? `${line} // edited` : line)).join('\n');
    });
    assert.deepEqual([news, fixed], [0, 0]);
    assert.ok(edited > 50, String(edited));
  });

  it('turns none new when a number in a message changes', () => {
    let renumbered = 0;
    for (const { path, text, messages } of files) {
      // Without the message id the text of the message is what identifies it.
      for (const messageId of ['kept', undefined]) {
        const before = messages.map((message) => ({
          ...message,
          messageId: messageId === undefined ? undefined : message.messageId,
        }));
        const after = before.map((message) => ({
          ...message,
          message: message.message.replace(/\d+/gu, (digits) => String(Number(digits) + 7)),
        }));
        renumbered += after.filter(({ message }, index) => message !== before[index]?.message).length;
        assert.deepEqual(against(findingsOf(path, text, before), findingsOf(path, text, after)), {
          news: [],
          fixed: 0,
        });
      }
    }
    assert.ok(renumbered > 100, String(renumbered));
  });

  it('keeps every finding when a statement is added to a function, though complexity and counts in messages change', async () => {
    const { fixed, edited } = await churn((text) =>
      text.replace(/^\s*create\(context\) \{$/gmu, '$&\nif (globalThis.x) { globalThis.x(); }'),
    );
    assert.equal(fixed, 0);
    assert.ok(edited > 30, String(edited));
  });

  it('sees that one finding was exchanged for another with the same message', async () => {
    const path = 'src/swap.js';
    const first = (await lint(path, 'var a = 1;\nlet b = 2;\nexport_(a, b);\n')).findings.filter(
      ({ ruleId }) => ruleId === 'no-var',
    );
    const second = (await lint(path, 'let a = 1;\nvar b = 2;\nexport_(a, b);\n')).findings.filter(
      ({ ruleId }) => ruleId === 'no-var',
    );
    assert.equal(first[0]?.message, second[0]?.message);
    const { news, fixed } = against(first, second);
    assert.deepEqual([news.length, fixed], [1, 1]);
  });
});
