// The parts of a scan that need no linter: who is to blame, when a rule is given up, what is told, and which paths.
import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { lintIsolated, RuleFailures, type RuleFilter } from '../../../lib/toollint/scan/crash-isolation.ts';
import { readSource } from '../../../lib/toollint/scan/file-search.ts';
import { PathPrefix } from '../../../lib/toollint/scan/path-prefix.ts';
import { ScanDiagnostics } from '../../../lib/toollint/scan/scan-diagnostics.ts';
import { readSuppressions, suppress } from '../../../lib/toollint/scan/suppressions.ts';
import { project } from '../support/verbs.ts';

/** A linter of four rules, some of which throw, each by itself, what is given; its result is the rules that ran. */
function linter(thrown: Readonly<Record<string, unknown>>, always?: Error) {
  const ruleIds = ['a', 'b', 'c', 'd'];
  const runs: string[] = [];
  const run = async (filter: RuleFilter): Promise<string> => {
    const ran = ruleIds.filter(filter);
    runs.push(ran.join(''));
    if (always !== undefined) throw always;
    const bad = ran.find((id) => Object.hasOwn(thrown, id));
    if (bad !== undefined) throw thrown[bad];
    return Promise.resolve(ran.join(''));
  };
  const culpritOf = (error: unknown) =>
    error instanceof Error && 'ruleId' in error ? String(error.ruleId) : undefined;
  return {
    runs,
    lint: (knownCulprits: readonly string[] = []) => lintIsolated({ run, culpritOf, ruleIds, knownCulprits }),
  };
}
const blaming = (ruleId: string, message: string) => Object.assign(new Error(message), { ruleId });

describe('a rule that throws', () => {
  it('is left out as soon as its error names it, and the others run', async () => {
    const { lint, runs } = linter({ b: blaming('b', 'first\nsecond'), d: blaming('d', '') });
    assert.deepEqual(await lint(), {
      result: 'ac',
      crashes: [
        { ruleId: 'b', message: 'first' },
        { ruleId: 'd', message: 'the rule threw an Error without a message' },
      ],
    });
    assert.deepEqual(runs, ['abcd', 'acd', 'ac']);
  });

  it('is found by itself where nothing names it, those that have thrown before first', async () => {
    const parts = linter({ c: 'a text' });
    const crashes = [{ ruleId: 'c', message: 'a text' }];
    assert.deepEqual(await parts.lint(), { result: 'abd', crashes });
    assert.deepEqual(parts.runs, ['abcd', '', 'a', 'b', 'c', 'abd']);
    parts.runs.length = 0;
    assert.deepEqual(await parts.lint(['c']), { result: 'abd', crashes });
    assert.deepEqual(parts.runs, ['abcd', '', 'c', 'abd']);
  });

  it('is told in words of its own where the linter wrote into what was thrown', async () => {
    const message = "Cannot create property 'currentNode' on string 'x'";
    const { crashes } = await linter({ a: new TypeError(message) }).lint();
    assert.deepEqual(crashes, [{ ruleId: 'a', message: 'the rule threw a value that is not an Error' }]);
    const loading = await linter({ a: blaming('a', "Error while loading rule 'a': no options") }).lint();
    assert.deepEqual(loading.crashes, [{ ruleId: 'a', message: 'no options' }]);
  });

  it('is one of all four, or none where the linter throws without any', async () => {
    const all = Object.fromEntries(['a', 'b', 'c', 'd'].map((id) => [id, id]));
    const { result, crashes } = await linter(all).lint();
    assert.deepEqual([result, crashes.map(({ ruleId }) => ruleId)], ['', ['a', 'b', 'c', 'd']]);
    assert.deepEqual(await linter({}, new Error('out of\nmemory')).lint(), {
      result: undefined,
      crashes: [],
      failure: 'out of memory',
    });
  });

  it('is given up after 20 files, where it ran to the end of none', () => {
    const failures = (crashes: number, runs: number) => {
      const counted = new RuleFailures();
      for (let file = 0; file < runs; file += 1) counted.note(['a', 'b'], []);
      for (let file = 0; file < crashes; file += 1) counted.note(['b'], [{ ruleId: 'a', message: 'm' }]);
      return [...counted.givenUp];
    };
    assert.deepEqual(failures(19, 0), []);
    assert.deepEqual(failures(20, 0), ['a']);
    assert.deepEqual(failures(20, 1), []);
    assert.deepEqual(failures(1000, 1), []);
  });
});

describe('what went wrong in a scan', () => {
  it('is sorted, on one line, and names no folder of the machine', () => {
    const diagnostics = new ScanDiagnostics(['/home/me']);
    diagnostics.parseError('b.js', 'at /home/me/b.js\n  or /opt/x/y.js');
    diagnostics.ruleError('a.js', { ruleId: 's', message: ' ' });
    diagnostics.ruleError('a.js', { ruleId: 'r', message: 'm' });
    diagnostics.parseError('../a', 'x'.repeat(2001));
    assert.deepEqual(diagnostics.list(new Set()), [
      { kind: 'parse-error', message: 'x'.repeat(2000) },
      { kind: 'parse-error', message: 'at b.js or y.js', relativePath: 'b.js' },
      { kind: 'rule-error', message: 'm', ruleId: 'r', relativePath: 'a.js' },
      { kind: 'rule-error', message: 'no message', ruleId: 's', relativePath: 'a.js' },
    ]);
  });

  it('is one thing for a rule that failed in more than 1,000 files, or was given up', () => {
    const diagnostics = new ScanDiagnostics([]);
    const fail = (ruleId: string, files: number) => {
      for (let file = 0; file < files; file += 1) diagnostics.ruleError(`${file}.js`, { ruleId, message: 'm' });
    };
    fail('often', 1001);
    fail('up', 2);
    const told = (ruleId: string, message: string) => ({ kind: 'rule-error', ruleId, message });
    assert.deepEqual(diagnostics.list(new Set(['up'])), [
      told('often', 'the rule failed in 1001 files, first: m'),
      told('up', 'the rule failed in 2 files and was given up, first: m'),
    ]);
    const most = new ScanDiagnostics([]);
    for (let file = 0; file < 1000; file += 1) most.ruleError(`${file}.js`, { ruleId: 'r', message: 'm' });
    assert.equal(most.list(new Set()).length, 1000);
  });
});

describe('a path prefix', () => {
  it('is put before paths and patterns, and taken off again', () => {
    for (const given of ['a/[b]', './a/[b]/', 'a/[b]//']) {
      const prefix = new PathPrefix(given);
      assert.equal(prefix.of('x/y'), 'a/[b]/x/y');
      assert.equal(prefix.of('.'), 'a/[b]');
      assert.equal(prefix.ofGlob('*.js'), 'a/\\[b\\]/*.js');
      assert.equal(prefix.strip('a/[b]/x'), 'x');
      assert.equal(prefix.strip('a/[b]'), undefined);
      assert.equal(prefix.strip('c/x'), undefined);
    }
    for (const given of ['', '.', './']) {
      const none = new PathPrefix(given);
      assert.deepEqual([none.of('.'), none.of('x'), none.ofGlob('*'), none.strip('x')], ['.', 'x', '*', 'x']);
    }
    assert.throws(
      () => new PathPrefix('../a'),
      /^ReportFailure: --path-prefix '\.\.\/a': the path has the segment '\.\.'$/u,
    );
  });
});

describe("ESLint's bulk suppressions", () => {
  const message = (ruleId: string | null, severity: 'error' | 'warning' = 'error') => ({
    ruleId,
    severity,
    message: 'm',
  });

  it('leave out the errors of a rule up to their count, and none of more', () => {
    const messages = [message('a'), message('a'), message('b'), message('b', 'warning'), message(null), message('c')];
    const { messages: left, suppressed } = suppress(messages, { a: { count: 2 }, b: { count: 0 }, c: { count: 5 } });
    assert.deepEqual(suppressed, [messages[0], messages[1], messages[5]]);
    assert.deepEqual(left, [messages[2], messages[3], messages[4]]);
    assert.deepEqual(suppress(messages, { a: { count: 1 } }).suppressed, []);
    assert.deepEqual(suppress([message('a', 'warning')], { a: { count: 1 } }).suppressed, []);
    assert.deepEqual(suppress([message('toString')], {}).suppressed, []);
    assert.deepEqual(suppress(messages, undefined), { messages, suppressed: [] });
  });

  it('are none without their file, and end the scan where it cannot be read', async (t) => {
    const root = await project(t, {});
    assert.deepEqual(await readSuppressions(root), {});
    const file = join(root, 'eslint-suppressions.json');
    await writeFile(file, '{"a.js":{"r":{"count":1}}}');
    assert.deepEqual({ ...(await readSuppressions(root)) }, { 'a.js': { r: { count: 1 } } });
    assert.equal('toString' in (await readSuppressions(root)), false);
    await writeFile(file, '{');
    await assert.rejects(readSuppressions(root), /^ReportFailure: eslint-suppressions\.json cannot be read: /u);
  });
});

describe('a source file', () => {
  it('is read up to 32 MiB, and is otherwise a fault in words', async (t) => {
    const folder = await project(t, { 'a.js': '\ufeffvar a;\n', 'long.js': '' });
    assert.deepEqual(readSource(join(folder, 'a.js')), { text: '\ufeffvar a;\n' });
    const long = join(folder, 'long.js');
    await truncate(long, 2 ** 25);
    const read = readSource(long);
    assert.equal('text' in read ? read.text.length : read.fault, 2 ** 25);
    await truncate(long, 2 ** 25 + 1);
    assert.deepEqual(readSource(long), { fault: '33554433 bytes, more than the limit of 33554432' });
    assert.deepEqual(readSource(folder), { fault: 'not a regular file' });
    assert.deepEqual(readSource(join(folder, 'none.js')), { fault: 'ENOENT' });
  });
});
