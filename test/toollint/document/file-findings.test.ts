import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isReserved } from '../../../lib/toollint/document/report-format.ts';
import {
  compareFindings,
  fileFindings,
  type LintMessage,
  type RuleFacts,
  withoutDirectives,
} from '../../../lib/toollint/document/file-findings.ts';
import { withoutAbsolutePaths, withoutRoots } from '../../../lib/toollint/document/report-path.ts';
import { fingerprintOf } from '../support/samples.ts';

const message = (change: Partial<LintMessage> = {}): LintMessage => ({
  ruleId: 'r',
  severity: 'warning',
  message: 'm',
  line: 1,
  column: 1,
  ...change,
});
const found = (change: Partial<LintMessage>, text = 'one();\n', facts: RuleFacts = {}) => {
  const request = { path: 'a.js', text, messages: [message(change)], roots: ['/home/me', '/'] };
  const [finding] = fileFindings({ ...request, factsOf: () => facts });
  assert.ok(finding);
  return finding;
};

describe('a finding', () => {
  it('has the id of its rule, a parse error, an unused directive or the linter', () => {
    assert.equal(found({}).ruleId, 'r');
    assert.equal(found({ ruleId: null, fatal: true }).ruleId, 'PARSE-ERROR');
    assert.equal(found({ ruleId: '', fatal: true }).ruleId, 'PARSE-ERROR');
    const unused = 'eslint/unused-disable-directive';
    assert.equal(found({ ruleId: null, message: 'Unused eslint-disable directive.' }).ruleId, unused);
    assert.equal(found({ ruleId: null, message: 'Unused eslint-enable directive.' }).ruleId, unused);
    assert.equal(found({ ruleId: null, message: 'An Unused eslint-disable' }).ruleId, 'eslint/core');
    const ids = ['PARSE-ERROR', 'eslint/core', unused, 'eslint', 'x/eslint/'];
    assert.deepEqual(ids.filter(isReserved), ids.slice(0, 3));
  });

  it('of a file that does not parse has one fingerprint for every position', () => {
    const { fingerprint } = found({ ruleId: null, fatal: true, line: 2, column: 3 }, 'a\nb c\n');
    const subject = { scope: 'file', ruleId: 'PARSE-ERROR', discriminator: 'm', path: 'a.js' } as const;
    assert.equal(fingerprint, fingerprintOf({ ...subject, lineText: '', flaggedText: '' }));
  });

  it('has only valid positions', () => {
    const locationOf = (change: Partial<LintMessage>) => found(change).location;
    const file = { scope: 'file', path: 'a.js' };
    assert.deepEqual(locationOf({ line: 0 }), file);
    assert.deepEqual(locationOf({ line: undefined }), file);
    assert.deepEqual(locationOf({ line: 1.5 }), file);
    assert.deepEqual(locationOf({ column: -1 }), { ...file, line: 1 });
    assert.deepEqual(locationOf({ line: 9999 }), { ...file, line: 9999, column: 1 });
    assert.deepEqual(locationOf({ endLine: 2 }), { ...file, line: 1, column: 1 });
    assert.deepEqual(locationOf({ endLine: 2, endColumn: 0 }), { ...file, line: 1, column: 1 });
    const whole = { ...file, line: 1, column: 1, endLine: 2, endColumn: 3 };
    assert.deepEqual(locationOf({ endLine: 2, endColumn: 3 }), whole);
  });

  it('has the documentation and the category of its rule', () => {
    const types = { problem: 'bug', suggestion: 'code-smell', layout: 'style', other: undefined };
    for (const [category, issueType] of Object.entries(types)) {
      const facts = { category, docsUrl: 'https://example.org' };
      const { issueType: type, category: own, docsUrl } = found({}, '', facts);
      assert.deepEqual([type, { category: own, docsUrl }], [issueType, facts]);
    }
    const plain = found({}, '');
    for (const name of ['category', 'issueType', 'docsUrl', 'suggestion', 'codeSnippet', 'fix'])
      assert.equal(Object.hasOwn(plain, name), false, name);
    assert.equal(found({ ruleId: null, fatal: true }, '').category, 'problem');
  });

  it('has the flagged line without indentation, or the part of a long line at the column', () => {
    assert.equal(found({}, '  one();  \n').codeSnippet, 'one();');
    assert.equal(found({ line: 3 }, '  one();  \n').codeSnippet, undefined);
    assert.equal(found({ column: 150 }, `${'x'.repeat(200)}\n`).codeSnippet, 'x'.repeat(200));
    const long = `${'a'.repeat(100)}${'b'.repeat(300)}`;
    assert.equal(found({ column: 101 }, long).codeSnippet, 'a'.repeat(50) + 'b'.repeat(150));
    assert.equal(found({ column: undefined }, long).codeSnippet, 'a'.repeat(100) + 'b'.repeat(100));
    assert.equal(found({ snippet: 'given' }, 'one();').codeSnippet, 'given');
  });

  it('names no folder of the machine, and has a text for an empty message', () => {
    assert.equal(found({ message: 'in /home/me/a.js, /home/me' }).message, 'in a.js, .');
    assert.equal(found({ message: 'not /etc/x/y' }).message, 'not /etc/x/y');
    assert.equal(found({ message: 'not /etc/x/y', fatal: true, ruleId: null }).message, 'not y');
    assert.equal(found({ suggestion: 'in /home/me/a.js' }).suggestion, 'in a.js');
    assert.equal(found({ message: '' }).message, '(r gave no message)');
    assert.equal(withoutRoots('/ and /a', ['/']), '/ and /a');
    assert.equal(
      withoutAbsolutePaths("at file:///opt/x/y.js:1, 'C:\\a\\b.js' or a/b/c", []),
      "at y.js:1, 'b.js' or a/b/c",
    );
  });

  it('has the same fingerprint with and without a directive on its line', () => {
    const text = 'one(); // eslint-disable-line r\ntwo(); /* eslint-disable-line */\n// eslint-disable-next-line\n';
    assert.equal(withoutDirectives(text), 'one(); \ntwo(); \n// eslint-disable-next-line\n');
    assert.equal(withoutDirectives('a();  // no\r\n'), 'a();  // no\r\n');
    assert.equal(found({}, withoutDirectives(text)).fingerprint, found({}, 'one();\ntwo();').fingerprint);
  });
});

describe('the order of findings', () => {
  it('is by path, line, column, rule and text, in code units, and does not depend on the input', () => {
    const rows: [string | undefined, number, number, string, string][] = [
      [undefined, 0, 0, 'z', 'm'],
      ['B.js', 9, 1, 'z', 'm'],
      ['a.js', 2, 9, 'z', 'm'],
      ['a.js', 10, 1, 'a', 'm'],
      ['a.js', 10, 1, 'b', 'm'],
      ['a.js', 10, 1, 'b', 'n'],
      ['a.js', 10, 2, 'a', 'm'],
      ['\u00e4.js', 1, 1, 'a', 'm'],
    ];
    const sorted = rows.map(([path, line, column, ruleId, text]) => {
      const [finding] = fileFindings({
        ...{ path, text: '', roots: [], factsOf: () => ({}) },
        messages: [message({ line, column, ruleId, message: text, messageId: 'same' })],
      });
      assert.ok(finding);
      return finding;
    });
    for (const mixed of [sorted.toReversed(), [...sorted.slice(3), ...sorted.slice(0, 3)]])
      assert.deepEqual(mixed.sort(compareFindings), sorted);
  });
});
