import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, lstat, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Report, type TextSink, writeWhole } from '../../../lib/toollint/toollint.ts';
import { Interrupted } from '../../../lib/toollint/document/failure.ts';
import { configText, pathsIn, project, rulesIn, scanned, toollint } from '../support/verbs.ts';
import { assertSound } from '../support/samples.ts';

const THROWING = (thrown: string) => `{ boom: { create: () => ({ CallExpression() { throw ${thrown}; } }) } }`;

describe('a scan', () => {
  it("reports the linter's findings and all enabled rules", async (t) => {
    const cwd = await project(t, {
      'src/a.js': 'var a = 1;\nconsole.log(a);\n',
      'src/b.js': 'let b = 2;\n',
      'README.md': '# x',
    });
    const { report, code } = await scanned(cwd);
    assertSound(report);
    assert.equal(code, 1);
    assert.deepEqual(rulesIn(report), ['no-var', 'no-console']);
    assert.equal(report.summary.totalFiles, 3);
    assert.deepEqual(report.scan.target, { kind: 'project', path: '.' });
    assert.deepEqual(report.scan.enabledRuleIds, ['no-console', 'no-var']);
    assert.equal(report.findings[0]?.docsUrl, 'https://eslint.org/docs/latest/rules/no-var');
    assert.equal(report.findings[0].codeSnippet, 'var a = 1;');
  });

  for (const [name, plugin] of [
    ['throws an Error', THROWING(`new Error('boom at ' + process.cwd())`)],
    ['throws a string', THROWING(`'boom'`)],
    ['throws null', THROWING('null')],
    ['throws a frozen Error', THROWING(`Object.freeze(new Error('boom'))`)],
    ['throws a string in create()', `{ boom: { create() { throw 'boom'; } } }`],
    ['throws in create()', `{ boom: { create() { throw new Error('boom in create'); } } }`],
  ] as const) {
    it(`loses only the rule that ${name}`, async (t) => {
      const config = configText(`{ 'no-var': 'error', 'own/boom': 'error', 'no-console': 'warn' }`, plugin);
      const isEverywhere = plugin.includes('create()');
      const textOf = (index: number) => `var a = ${index};\n${index === 3 || isEverywhere ? 'console.log(a);\n' : ''}`;
      const files = Object.fromEntries(Array.from({ length: 6 }, (_, index) => [`f${index}.js`, textOf(index)]));
      const cwd = await project(t, { 'eslint.config.mjs': config, ...files });
      const { report, code } = await scanned(cwd, ['--exclude', '*.mjs', '--gate', 'default']);
      assertSound(report);
      const crashed = isEverywhere ? 6 : 1;
      assert.deepEqual(
        [code, report.execution.status, report.gate.status, report.summary.ruleErrors],
        [3, 'incomplete', 'failed', crashed],
      );
      for (const { kind, ruleId, message } of report.execution.diagnostics)
        assert.deepEqual([kind, ruleId, message.includes('/')], ['rule-error', 'own/boom', false]);
      assert.ok(report.execution.diagnostics.some(({ relativePath }) => relativePath === 'f3.js'));
      assert.equal(rulesIn(report).filter((id) => id === 'no-var').length, 6);
      assert.equal(rulesIn(report).filter((id) => id === 'no-console').length, crashed);
    });
  }

  it('survives a parser that throws without a position', async (t) => {
    const config = `export default [{ files: ['**/*.js'], languageOptions: { parser: { parse() { throw new Error('cannot ' + process.cwd()); } } } }];`;
    const cwd = await project(t, { 'eslint.config.mjs': config, 'a.js': 'x;\n' });
    const { report, code } = await scanned(cwd, ['a.js']);
    assertSound(report);
    assert.deepEqual([code, rulesIn(report), report.findings[0]?.location.line], [3, ['PARSE-ERROR'], undefined]);
    assert.ok(!JSON.stringify(report).includes(process.cwd()));
  });

  it('writes the same bytes for any folder and order of arguments', async (t) => {
    const files = {
      'src/İ.js': 'var a;\n',
      'src/i.js': 'var b;\n',
      'lib/ä.js': 'console.log(1);\n',
      'lib/z.js': 'var q;\n',
    };
    const cwd = await project(t, files);
    const run = async (args: string[], options: object = {}) =>
      (await toollint(['scan', '--deterministic', ...args], { cwd, ...options })).stdout;
    const expected = await run([]);
    assert.equal(await run(['.']), expected);
    assert.equal(await run(['--root', cwd], { cwd: '/' }), expected);
    assert.equal(await run([], { cwd: await project(t, files) }), expected);
    assert.ok(!expected.includes(cwd));
    const both = await run(['src', 'lib']);
    assert.equal(await run(['lib', 'src', './src', join(cwd, 'lib')]), both);
    assert.equal(await run(['--root', cwd, join(cwd, 'lib'), join(cwd, 'src')], { cwd: '/' }), both);
  });

  it('records its start and duration unless --deterministic is set', async (t) => {
    const cwd = await project(t, { 'a.js': 'x;\n' });
    const before = Date.now();
    const { stdout } = await toollint(['scan', '--silent'], { cwd });
    const { timestamp, durationMs } = (JSON.parse(stdout) as Report).scan;
    assert.ok(before <= Date.parse(timestamp) && Date.parse(timestamp) <= Date.now());
    assert.ok(durationMs >= 0 && durationMs <= Date.now() - before + 1, String(durationMs));
    assert.equal((await scanned(cwd)).report.scan.durationMs, 0);
  });
});

describe('a configuration', () => {
  it('ends the scan with one line if it is missing, broken or has an unknown rule', async (t) => {
    const broken: [Record<string, string | null>, string[]][] = [
      [{ 'eslint.config.mjs': null, 'a.js': 'x;\n' }, []],
      [{ 'eslint.config.mjs': 'export default [', 'a.js': 'x;\n' }, []],
      [{ 'eslint.config.mjs': `throw new Error('no');`, 'a.js': 'x;\n' }, []],
      [{ 'eslint.config.mjs': configText(`{ 'no-such-rule': 1 }`), 'a.js': 'x;\n' }, []],
      [{ 'eslint.config.mjs': configText(`{ 'no-var': 'loud' }`), 'a.js': 'x;\n' }, []],
      [{ 'a.js': 'x;\n' }, ['-c', 'missing.mjs']],
    ];
    for (const [files, args] of broken) {
      const cwd = await project(t, files);
      const { code, stdout, stderr } = await toollint(['scan', ...args], { cwd });
      assert.deepEqual([code, stdout], [2, ''], JSON.stringify(files));
      assert.match(stderr, /^toollint: [^\n]+\n$/u);
      assert.ok(!stderr.includes('    at '));
    }
  });

  it('can be in another folder or in a subfolder', async (t) => {
    const cwd = await project(t, {
      'part/eslint.config.mjs': configText(`{ 'no-var': 'error' }`).replace(
        'export default [',
        `export default [{ ignores: ['gone/'] }, `,
      ),
      'part/a.js': 'var a;\n',
      'part/gone/b.js': 'var b;\n',
      'eslint.config.mjs': null,
      'conf/other.mjs': configText(`{ 'no-console': 'error' }`),
    });
    const { report } = await scanned(cwd, ['part']);
    assert.deepEqual(pathsIn(report), ['part/a.js']);
    assert.deepEqual([report.scan.include, report.scan.exclude], [['part/a.js', 'part/eslint.config.mjs'], []]);
    assert.deepEqual((await scanned(cwd, ['part', '-c', 'conf/other.mjs'])).report.scan.enabledRuleIds, ['no-console']);
  });
});

describe('the output of a scan', () => {
  it('leaves no temporary file if writing is interrupted', async (t) => {
    const folder = await project(t, { 'eslint.config.mjs': null, 'out.json': 'old' });
    const path = join(folder, 'out.json');
    const interrupt = new AbortController();
    const write = async (sink: TextSink) => {
      await sink('new');
      assert.equal(readdirSync(folder).length, 2, 'there is a draft');
      interrupt.abort();
      await sink('more');
    };
    await assert.rejects(writeWhole(path, 'out.json', write, interrupt.signal), Interrupted);
    assert.deepEqual(readdirSync(folder), ['out.json']);
    assert.equal(await readFile(path, 'utf8'), 'old');
  });

  it('keeps the mode of the old file, follows a link, and writes to a pipe unless it is interrupted', async (t) => {
    const folder = await project(t, { 'eslint.config.mjs': null, 'out.json': 'old' });
    const write = async (name: string): Promise<void> =>
      await writeWhole(join(folder, name), name, async (sink) => {
        await sink('one ');
        await sink('two');
      });
    await chmod(join(folder, 'out.json'), 0o640);
    await symlink('out.json', join(folder, 'link.json'));
    await write('link.json');
    assert.ok((await lstat(join(folder, 'link.json'))).isSymbolicLink());
    assert.equal(await readFile(join(folder, 'out.json'), 'utf8'), 'one two');
    assert.equal((await lstat(join(folder, 'out.json'))).mode & 0o777, 0o640);
    await write('new.json');
    assert.equal((await lstat(join(folder, 'new.json'))).mode & 0o111, 0);
    assert.deepEqual(readdirSync(folder).sort(), ['link.json', 'new.json', 'out.json']);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    const [text] = await Promise.all([readFile(join(folder, 'pipe'), 'utf8'), write('pipe')]);
    assert.equal(text, 'one two');
    assert.ok((await lstat(join(folder, 'pipe'))).isFIFO());
    const interrupt = new AbortController();
    const unread = writeWhole(join(folder, 'pipe'), 'pipe', (sink) => sink('x'), interrupt.signal);
    interrupt.abort();
    await assert.rejects(unread, Interrupted);
  });
});
