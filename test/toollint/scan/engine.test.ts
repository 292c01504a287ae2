import assert from 'node:assert/strict';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { analyse } from '../../../lib/toollint/scan/analyse.ts';
import { configText, pathsIn, project, scanned, toollint, writeConfig } from '../support/verbs.ts';

describe('the data of ESLint in a report', () => {
  it('has the list of enabled rules', async (t) => {
    const rules = `{ 'no-var': 'error', 'no-eval': [1], 'no-console': 'off', 'no-alert': 0, eqeqeq: ['off'] }`;
    const cwd = await project(t, { 'a.js': 'let a;\n', 'eslint.config.mjs': configText(rules) });
    assert.deepEqual((await scanned(cwd)).report.scan.enabledRuleIds, ['no-eval', 'no-var']);
  });

  it('covers files with the endings of --ext', async (t) => {
    const cwd = await project(t, {
      'a.js': 'let a;\n',
      'b.es': 'var b;\n',
      'eslint.config.mjs': `export default [{ rules: { 'no-var': 'error' } }];\n`,
    });
    assert.equal((await scanned(cwd, ['b.es', 'a.js'])).report.summary.totalFiles, 1);
    const { report } = await scanned(cwd, ['--ext', '.es', 'b.es', 'a.js']);
    assert.deepEqual(pathsIn(report), ['b.es']);
  });

  it('needs no configuration if there are only other files', async (t) => {
    const bare = { 'eslint.config.mjs': null };
    assert.equal((await scanned(await project(t, { ...bare, 'a.txt': '' }))).code, 4);
    for (const name of ['a.js', 'a.mjs', 'a.cts', 'a.jsx', 'a.tsx']) {
      const { code, stderr } = await toollint(['scan'], { cwd: await project(t, { ...bare, [name]: '' }) });
      assert.equal(code, 2);
      assert.match(stderr, /: no eslint\.config\.\* was found .*--config; for .* import --from sarif FILE\n$/u);
    }
  });

  it('skips a file without a configuration if a folder has one', async (t) => {
    const part = { 'part/eslint.config.mjs': configText(`{ 'no-var': 1 }`), 'part/b.js': 'var b;\n' };
    const { report } = await scanned(await project(t, { 'eslint.config.mjs': null, 'a.js': 'var a;\n', ...part }));
    assert.deepEqual(pathsIn(report), ['part/b.js']);
  });
});

describe('the analysis of a file', () => {
  it('names no folder of the machine if the root is a relative link', async (t) => {
    const folder = await project(t, { 'real/a.js': 'a;\n' });
    const link = join(folder, 'link');
    await symlink('real', link);
    const rule = `{ one: { create: (c) => ({ Program: (node) => c.report({ node, message: 'see ${link}/a.js' }) }) } }`;
    await writeConfig(join(folder, 'real/eslint.config.mjs'), configText(`{ 'own/one': 1 }`, rule));
    const { findings } = (await analyse({ root: relative(process.cwd(), link), paths: ['a.js'] })).report;
    assert.equal(findings[0]?.message, 'see a.js');
  });
});

describe('a missing finding of a baseline', () => {
  const counted = async (cwd: string, change: () => Promise<unknown>) => {
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await change();
    return (await scanned(cwd, ['--baseline', 'base.json'])).report.selection.baseline;
  };

  it('is fixed if it was an unused directive that is gone', async (t) => {
    const cwd = await project(t, { 'a.js': '// eslint-disable-next-line no-var\nlet a;\n' });
    const counts = await counted(cwd, () => writeFile(join(cwd, 'a.js'), 'let a;\n'));
    assert.deepEqual(counts, { newIssues: 0, unchanged: 0, fixed: 1 });
  });

  it('is not fixed if unused directives are off, a rule throws, or the file does not parse', async (t) => {
    const unused = { 'a.js': '// eslint-disable-next-line no-var\nlet a;\n' };
    const off = configText(`{ 'no-var': 'error' }`).replace(
      '[{ ',
      '[{ linterOptions: { reportUnusedDisableDirectives: false }, ',
    );
    const silent = await project(t, unused);
    const counts = { newIssues: 0, unchanged: 0, fixed: 0, notVerifiable: 1 };
    assert.deepEqual(await counted(silent, () => writeConfig(join(silent, 'eslint.config.mjs'), off)), counts);
    const throwing = await project(t, unused);
    const thrown = await counted(throwing, async () => {
      await writeFile(join(throwing, 'a.js'), 'let a;\n');
      const config = configText(`{ 'own/boom': 1 }`, `{ boom: { create() { throw new Error('x'); } } }`);
      await writeConfig(join(throwing, 'eslint.config.mjs'), config);
    });
    assert.deepEqual(thrown, counts, 'a rule that threw may have used it');
    const broken = await project(t, unused);
    const after = await counted(broken, () => writeFile(join(broken, 'a.js'), 'let = ;\n'));
    assert.deepEqual(after, { ...counts, newIssues: 1 });
    const { report } = await scanned(broken);
    assert.deepEqual(report.scan.enabledRuleIds, ['no-console', 'no-var'], 'no rule is called PARSE-ERROR');
  });

  it('is fixed if a file replaced its folder', async (t) => {
    const cwd = await project(t, { 'a/b.js': 'var b;\n', 'c.js': 'var c;\n' });
    const counts = await counted(cwd, async () => {
      await rm(join(cwd, 'a'), { recursive: true });
      await writeFile(join(cwd, 'a'), '');
    });
    assert.deepEqual(counts, { newIssues: 0, unchanged: 1, fixed: 1 });
  });
});
