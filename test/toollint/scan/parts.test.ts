// The parts of a scan that need no linter: who is to blame, when a rule is given up, what is told, and which paths.
import assert from 'node:assert/strict';
import { mkdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { lintIsolated, RuleFailures, type RuleFilter } from '../../../lib/toollint/scan/crash-isolation.ts';
import {
  findFiles,
  findStarts,
  isNamedBy,
  isWanted,
  readSource,
  type SearchRequest,
} from '../../../lib/toollint/scan/file-search.ts';
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
    const told = async (text: string) => (await linter({ a: blaming('a', text) }).lint()).crashes[0]?.message;
    for (const begin of ['Cannot create property', 'Cannot set properties of null', 'Cannot read properties of null'])
      assert.equal(await told(`${begin} (setting 'currentNode')`), 'the rule threw a value that is not an Error');
    for (const text of ["Cannot set property 'x' of null", "I Cannot set property 'currentNode'", 'currentNode'])
      assert.equal(await told(text), text);
    assert.equal(await told("Error while loading rule 'a': no options"), 'no options');
    assert.equal(await told("an Error while loading rule 'a': x"), "an Error while loading rule 'a': x");
  });

  it('is not blamed again once it is left out', async () => {
    const { lint, runs } = linter({}, blaming('b', 'still'));
    assert.deepEqual(await lint(), { result: undefined, crashes: [], failure: 'still' });
    assert.deepEqual(runs, ['abcd', 'acd', '']);
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
    await assert.rejects(readSuppressions(root), /^ReportFailure: eslint-suppressions\.json cannot be read: .*JSON/u);
    await rm(file);
    await mkdir(file);
    await assert.rejects(readSuppressions(root), /^ReportFailure: eslint-suppressions\.json cannot be read: EISDIR$/u);
  });
});

describe('the search for files', () => {
  const request = (root: string, more: Partial<SearchRequest> = {}): SearchRequest => ({
    root,
    cwd: root,
    paths: [],
    include: [],
    exclude: [],
    extensions: [],
    isLeftOut: () => Promise.resolve(false),
    ...more,
  });
  const found = async (root: string, more: Partial<SearchRequest> = {}) => {
    const search = request(root, more);
    return (await findFiles(search, await findStarts(search))).map(({ path }) => path);
  };

  it('begins at what is named, each once and sorted', async (t) => {
    const root = await project(t, { 'b/c.js': '', 'a.js': '' });
    const starts = (...paths: string[]) => findStarts({ root, cwd: join(root, 'b'), paths });
    assert.deepEqual(await starts(), [{ kind: 'folder', path: '.', absolute: root }]);
    assert.deepEqual(await starts('c.js', '*.js', '../a.js', './c.js', '..', './*.js', '.'), [
      { kind: 'folder', path: '.', absolute: root },
      { kind: 'file', path: 'a.js', absolute: join(root, 'a.js') },
      { kind: 'folder', path: 'b', absolute: join(root, 'b') },
      { kind: 'file', path: 'b/c.js', absolute: join(root, 'b/c.js') },
      { kind: 'glob', pattern: 'b/*.js' },
    ]);
    await writeFile(join(root, 'e\u0301.js'), '');
    const [composed] = await starts('../e\u0301.js');
    assert.equal(composed?.kind === 'file' && composed.path, '\u00e9.js');
    await symlink('/dev/null', join(root, 'null.js'));
    await symlink('none', join(root, 'dangling.js'));
    await assert.rejects(starts('../null.js'), /null\.js is outside the root/u);
    const absolute = join(root, 'dangling.js');
    assert.deepEqual(await starts('../dangling.js'), [
      { kind: 'file', path: 'dangling.js', absolute, fault: 'ENOENT' },
    ]);
    const device = { kind: 'file', path: 'null', absolute: '/dev/null', fault: 'not a regular file' };
    assert.deepEqual(await findStarts({ root: '/dev', cwd: '/dev', paths: ['null'] }), [device]);
  });

  it('says of a path where it begins why it cannot', async (t) => {
    const root = await project(t, { 'in/a.js': '', 'out/b.js': '' });
    const outside = (path: string) => `${path} is outside the root; choose the root with --root`;
    const absolute = join(root, 'in/*.js');
    for (const [path, message] of [
      ['', 'a path is empty'],
      ['../out', outside('../out')],
      ['..', outside('..')],
      ['../none.js', outside('../none.js')],
      ['../*.js', outside('../*.js')],
      ['none.js', 'there is no file or folder none.js'],
      [absolute, `there is no file or folder ${absolute}`],
    ] as const)
      await assert.rejects(findStarts({ root: join(root, 'in'), cwd: join(root, 'in'), paths: [path] }), {
        name: 'ReportFailure',
        code: 'usage',
        message,
      });
  });

  it('asks of each folder with a configuration of its own whether it is left out, but not of that where it begins', async (t) => {
    const own = ['eslint.config.js', 'eslint.config.mjs', 'eslint.config.cts', 'eslint.config.ts'];
    const other = [
      'eslint.config.jsx',
      'xeslint.config.js',
      'eslint.config.bjs',
      'eslint.config.as',
      'eslintxconfig.js',
    ];
    const files = [...own, ...other].map((name, index) => [`f${index}/${name}`, '']);
    const root = await project(t, Object.fromEntries(files) as Record<string, string>);
    const asked: string[] = [];
    const isLeftOut = (folder: string) => Promise.resolve(asked.push(folder) > 1);
    const paths = await found(root, { isLeftOut });
    assert.deepEqual(
      asked.sort(),
      [0, 1, 2, 3].map((index) => join(root, `f${index}`)),
    );
    assert.equal(paths.length, 1 + 1 + other.length, 'the root has one, and the first that was asked of is entered');
  });

  it('tells of a folder that cannot be listed, unless it is excluded', async (t) => {
    const root = await project(t, {});
    const absolute = join(root, 'gone');
    const search = (exclude: readonly string[]) =>
      findFiles(request(root, { exclude, include: ['*.js'], extensions: ['js'] }), [
        { kind: 'folder', path: 'gone', absolute },
      ]);
    const told = [{ path: 'gone', absolute, fault: 'ENOENT', isFolder: true }];
    assert.deepEqual(await search([]), told);
    assert.deepEqual(await search(['*.js']), told);
    assert.deepEqual(await search(['gone/**']), []);
  });

  it('ends with the signal', async (t) => {
    const root = await project(t, {});
    await assert.rejects(found(root, { signal: AbortSignal.abort() }), { name: 'Interrupted' });
    assert.deepEqual(await found(root, { signal: new AbortController().signal }), ['eslint.config.mjs']);
  });

  it('finds files, no links, in the order of their paths, and never those of node_modules', async (t) => {
    const root = await project(t, {
      'b.js': '',
      'a/z.js': '',
      'a.js': '',
      'x/node_modules/n.js': '',
      'x/.git/g.js': '',
    });
    await symlink('b.js', join(root, 'link.js'));
    assert.deepEqual(await found(root), ['a.js', 'a/z.js', 'b.js', 'eslint.config.mjs']);
    assert.deepEqual(await found(root, { paths: ['a', '*.js'] }), ['a.js', 'a/z.js', 'b.js']);
    assert.deepEqual(await found(root, { exclude: ['a/**'] }), ['a.js', 'b.js', 'eslint.config.mjs']);
  });

  it('takes what is included, is not excluded, and has one of the endings', () => {
    const wanted = (path: string, more: Partial<SearchRequest>) =>
      isWanted({ path, absolute: `/${path}` }, request('/', more));
    assert.equal(wanted('a.js', {}), true);
    assert.equal(wanted('a.js', { include: ['b.js', 'a.*'] }), true);
    assert.equal(wanted('a.js', { include: ['b.js'] }), false);
    assert.equal(wanted('a.js', { include: ['*.js'], exclude: ['a.*'] }), false);
    assert.equal(wanted('a.js', { extensions: ['ts', 'js'] }), true);
    assert.equal(wanted('a.js', { extensions: ['ts', 's'] }), false);
  });

  it('knows which paths a file, a folder and a pattern name', () => {
    const folder = { kind: 'folder', path: 'a', absolute: '/a' } as const;
    assert.deepEqual(
      ['a', 'a/b.js', 'ab.js'].map((path) => isNamedBy(folder, path)),
      [true, true, false],
    );
    assert.equal(isNamedBy({ kind: 'folder', path: '.', absolute: '/' }, 'x/y'), true);
    const glob = { kind: 'glob', pattern: 'a/*.js' } as const;
    assert.deepEqual(
      ['a/b.js', 'a/b/c.js'].map((path) => isNamedBy(glob, path)),
      [true, false],
    );
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
