import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, open, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { configText, pathsIn, project, rulesIn, scanned, toollint } from '../support/verbs.ts';
import { assertSound } from '../support/samples.ts';

describe('the files of a scan', () => {
  it('are missing in an empty folder, for a pattern without a match, or if all are ignored', async (t) => {
    const config = `export default [{ files: ['**/*.js'] }, { ignores: ['dist/'] }];`;
    const cwd = await project(t, { 'eslint.config.mjs': config, 'dist/a.js': 'var a;\n', 'notes/x.txt': 'x' });
    await mkdir(join(cwd, 'empty'));
    for (const args of [['empty'], ['notes'], ['nothing/**/*.js'], ['dist'], ['dist/a.js'], ['--exclude', '**']]) {
      const { report, code } = await scanned(cwd, args);
      assertSound(report);
      assert.deepEqual([code, report.execution.status, report.summary.totalFiles], [4, 'no-files', 0], args.join(' '));
      assert.equal((await scanned(cwd, [...args, '--allow-no-files'])).code, 0);
      const gated = await scanned(cwd, [...args, '--gate', 'strict', '--exit-zero']);
      assert.deepEqual([gated.code, gated.report.gate.status], [4, 'failed']);
    }
  });

  it('exclude an ignored folder with its own configuration unless it is named', async (t) => {
    const own = `export default [{ files: ['**/*.js'], rules: { 'no-var': 2 } }];`;
    for (const folder of ['gone/', 'gone/**', '**/gone', 'deep/gone/']) {
      const inner = folder.startsWith('deep') ? 'deep/gone/x' : 'gone';
      const cwd = await project(t, {
        'eslint.config.mjs': own.replace('];', `, { ignores: ['${folder}'] }];`),
        ...{ 'kept/eslint.config.mjs': own, 'kept/b.js': 'var b;\n' },
        ...{ [`${inner}/eslint.config.mjs`]: own, [`${inner}/a.js`]: 'var a;\n' },
      });
      const plain = await new ESLint({ cwd }).lintFiles(['.']);
      const { report } = await scanned(cwd);
      assert.equal(report.summary.totalFiles, plain.length, folder);
      assert.deepEqual(pathsIn(report), ['kept/b.js']);
      const named = [folder.startsWith('deep') ? 'deep' : 'gone', 'kept'];
      const asked = await new ESLint({ cwd, errorOnUnmatchedPattern: false }).lintFiles(named);
      const { report: part } = await scanned(cwd, named);
      assert.equal(part.summary.totalFiles, asked.length, `${folder}, named`);
    }
  });

  it('get a note if they are named but not scanned', async (t) => {
    const config = `export default [{ files: ['**/*.js'] }, { ignores: ['dist/', 'b.js'] }];`;
    const files = { 'dist/a.js': 'x;\n', 'b.js': 'x;\n', 'c.js': 'x;\n', 'd.txt': '' };
    const cwd = await project(t, { 'eslint.config.mjs': config, ...files });
    for (const path of ['dist', 'b.js', 'dist/*.js', '*.txt', '*.tsx']) {
      const { stderr, code } = await scanned(cwd, [path, 'c.js']);
      assert.equal(code, 0);
      assert.ok(stderr.startsWith(`toollint: nothing to scan for '${path}': no file is there, or all are ignored`));
    }
    assert.doesNotMatch((await scanned(cwd, ['.'])).stderr, /ignored/u);
  });

  it('count once under several names', async (t) => {
    const cwd = await project(t, { 'src/a.js': 'var a;\n' });
    await symlink('a.js', join(cwd, 'src/link.js'));
    await symlink('src', join(cwd, 'linked'));
    const names = ['src/a.js', './src/../src/a.js', 'src/link.js', 'linked/a.js', 'src', 'linked'];
    const { report } = await scanned(cwd, [...names, join(cwd, 'src/a.js')]);
    assert.deepEqual([report.summary.totalFiles, pathsIn(report)], [1, ['src/a.js']]);
  });

  it('exclude links, and a named broken link is reported', async (t) => {
    const cwd = await project(t, { 'a.js': 'let a;\n' });
    await symlink('nowhere.js', join(cwd, 'dangling.js'));
    await symlink('loop.js', join(cwd, 'loop.js'));
    await symlink('.', join(cwd, 'self'));
    assert.deepEqual([(await scanned(cwd, ['.', '--ext', 'js'])).report.summary.totalFiles], [1]);
    const { report, code } = await scanned(cwd, ['a.js', 'dangling.js', 'loop.js']);
    assertSound(report);
    assert.equal(code, 3);
    assert.deepEqual(
      report.execution.diagnostics.map(({ relativePath, message }) => `${relativePath}: ${message}`),
      ['dangling.js: the file cannot be read: ENOENT', 'loop.js: the file cannot be read: ELOOP'],
    );
  });

  it('may have any valid name', async (t) => {
    const odd = String.raw`-dash hash# per%cent quo"te' 😀 [x] {a,b} .hidden ..double`;
    const names = [...odd.split(' '), 'a b', 'line\nbreak'].map((name) => `${name}.js`);
    const cwd = await project(t, Object.fromEntries(names.map((name) => [`src/${name}`, 'var a;\n'])));
    const { report } = await scanned(cwd, ['src']);
    assertSound(report);
    assert.deepEqual(new Set(pathsIn(report)), new Set(names.map((name) => `src/${name}`)));
    const one = await scanned(join(cwd, 'src'), ['--root', '..', '--', '-dash.js']);
    assert.deepEqual(one.report.scan.target, { kind: 'file', path: 'src/-dash.js' });
  });

  it('with a backslash or a drive in their names are parse errors', async (t) => {
    const cwd = await project(t, { 'src/a\\b.js': 'var a;\n', 'c:/d.js': 'var d;\n' });
    for (const path of ['src', 'src/a\\b.js', 'c:/d.js', 'c:']) {
      const { report, code } = await scanned(cwd, [path]);
      assert.deepEqual([code, report.summary.totalFiles, report.summary.parseErrors], [3, 1, 1], path);
      assert.deepEqual(report.scan.target, { kind: 'project', path: path === 'src' ? 'src' : '.' });
    }
  });

  it('do not stop the scan if they cannot be read', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\n',
      'binary.js': new Uint8Array([0, 159, 146, 150, 255, 254]),
      'empty.js': '',
    });
    const huge = await open(join(cwd, 'huge.js'), 'w');
    await huge.truncate(2 ** 31 + 10);
    await huge.close();
    execFileSync('mkfifo', [join(cwd, 'pipe.js')]);
    const { report, code } = await scanned(cwd, ['.', 'pipe.js', '--ext', 'js']);
    assertSound(report);
    assert.equal(code, 3);
    assert.deepEqual(
      report.execution.diagnostics.map(({ relativePath }) => relativePath),
      ['binary.js', 'huge.js', 'pipe.js'],
    );
    assert.ok(rulesIn(report).includes('no-var'));
    assert.equal(report.summary.totalFiles, 5);
  });

  it('may disappear during the scan, which is then incomplete', async (t) => {
    const plugin = `{ rm: { create: (c) => ({ Program() {
      if (c.filename.endsWith('a.js')) fs.rmSync(c.filename.replace('a.js', 'b.js')); } }) } }`;
    const cwd = await project(t, {
      'eslint.config.mjs': `import fs from 'node:fs';\n${configText(`{ 'own/rm': 1, 'no-var': 2 }`, plugin)}`,
      ...{ 'a.js': 'var a;\n', 'b.js': 'var b;\n', 'c.js': 'var c;\n' },
    });
    const { report, code } = await scanned(cwd, ['--ext', 'js']);
    assertSound(report);
    const { diagnostics } = report.execution;
    assert.deepEqual([code, diagnostics.map(({ relativePath }) => relativePath)], [3, ['b.js']]);
    assert.deepEqual(pathsIn(report), ['a.js', 'b.js', 'c.js']);
  });

  it('are refused if they are outside the root or do not exist', async (t) => {
    const cwd = await project(t, {
      'in/a.js': 'x;\n',
      'out/b.js': 'x;\n',
      'in/eslint.config.mjs': 'export default [];',
    });
    await symlink('../out/b.js', join(cwd, 'in/link.js'));
    for (const path of ['../out', '../out/b.js', '/', join(cwd, 'out'), 'link.js', 'missing.js', '../missing.js']) {
      const { code, stdout, stderr } = await toollint(['scan', path], { cwd: join(cwd, 'in') });
      assert.deepEqual([code, stdout], [2, ''], path);
      assert.match(stderr, /^toollint: [^\n]+\n$/u);
    }
  });

  it('follow --include and --exclude, which the report lists', async (t) => {
    const cwd = await project(t, { 'src/a.js': 'var a;\n', 'src/a.test.js': 'var b;\n', 'lib/c.js': 'var c;\n' });
    const { report } = await scanned(cwd, ['--include', 'src/**/*.js', '--exclude', '**/*.test.js']);
    assert.deepEqual(pathsIn(report), ['src/a.js']);
    assert.deepEqual(report.scan.include, ['src/a.js']);
    assert.deepEqual(report.scan.exclude, ['**/*.test.js']);
    const { report: rest } = await scanned(cwd, ['--exclude', './src/', '--exclude', '*/x']);
    assert.deepEqual(pathsIn(rest), ['lib/c.js']);
    assert.deepEqual(rest.scan.exclude, ['*/x', 'src/**']);
  });

  it('exclude node_modules and .git unless they are named', async (t) => {
    const cwd = await project(t, {
      'eslint.config.mjs': `export default [{ ignores: ['!**/node_modules/', '!**/.git/'] }, { files: ['**/*.js'], rules: { 'no-var': 2 } }];\n`,
      'a.js': 'var a;\n',
      'node_modules/b.js': 'var b;\n',
      'x/.git/c.js': 'var c;\n',
    });
    assert.deepEqual(pathsIn((await scanned(cwd)).report), ['a.js']);
    assert.deepEqual(pathsIn((await scanned(cwd, ['node_modules', 'x/.git'])).report), [
      'node_modules/b.js',
      'x/.git/c.js',
    ]);
  });

  it('have --path-prefix before their paths in the report and in the baseline', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'bad.js': 'let = ;\n' });
    await toollint(['scan', '--deterministic', '--path-prefix', './packages/one/', '-o', 'base.json'], { cwd });
    const report = JSON.parse(await readFile(join(cwd, 'base.json'), 'utf8')) as Report;
    assertSound(report);
    assert.deepEqual(pathsIn(report), ['packages/one/a.js', 'packages/one/bad.js']);
    assert.equal(report.execution.diagnostics[0]?.relativePath, 'packages/one/bad.js');
    assert.equal(report.scan.target?.path, 'packages/one');
    assert.ok(report.scan.include.every((glob) => glob.startsWith('packages/one/')));
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    const again = await scanned(cwd, ['--path-prefix', 'packages/one', '--baseline', 'base.json']);
    assert.deepEqual(again.report.selection.baseline, { newIssues: 1, unchanged: 0, fixed: 1 });
    for (const bad of ['../x', '/x', 'a//b'])
      assert.equal((await toollint(['scan', '--path-prefix', bad], { cwd })).code, 2);
  });
});
