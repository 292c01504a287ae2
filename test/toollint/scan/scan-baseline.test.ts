import assert from 'node:assert/strict';
import { rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { configText, counts, project, rulesIn, scanned, toollint, writeConfig } from '../support/verbs.ts';

describe('a scan against a baseline', () => {
  const SOURCES = { 'src/a.js': 'var a;\nconsole.log(a);\n', 'src/b.js': 'var b;\n', 'lib/c.js': 'var c;\n' };

  it('calls findings fixed only in the scanned file', async (t) => {
    const cwd = await project(t, SOURCES);
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'src/a.js'), 'console.log(1);\n');
    await rm(join(cwd, 'lib/c.js'));
    const { report, stderr } = await scanned(cwd, ['--baseline', 'base.json', 'src/a.js']);
    assert.deepEqual(counts(report), [0, 1, 1]);
    assert.match(stderr, /, 2 not verifiable$/mu);
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json', 'src'])).report), [0, 2, 1]);
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [0, 2, 2]);
  });

  it('distinguishes a fixed finding from one in a file that does not parse or has another name', async (t) => {
    const cwd = await project(t, SOURCES);
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'src/a.js'), 'let = ;\n');
    const { report, code } = await scanned(cwd, ['--baseline', 'base.json']);
    assert.deepEqual([code, counts(report), rulesIn(report)], [3, [1, 2, 0], ['PARSE-ERROR']]);
    await rename(join(cwd, 'lib/c.js'), join(cwd, 'lib/d.js'));
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [2, 1, 1]);
  });

  it('makes the findings of a throwing rule not verifiable in that file', async (t) => {
    const plugin = (boom: string) =>
      `{ mark: { create: (context) => ({ Identifier(node) { ${boom} context.report({ node, message: 'mark' }); } }) } }`;
    const cwd = await project(t, {
      'eslint.config.mjs': configText(`{ 'own/mark': 1 }`, plugin('')),
      'a.js': 'one;\n',
      'b.js': 'two;\n',
    });
    await toollint(['scan', '-o', 'base.json', '--ext', 'js'], { cwd });
    const throwing = plugin(`if (node.name === 'one') throw new Error('x');`);
    await writeConfig(join(cwd, 'eslint.config.mjs'), configText(`{ 'own/mark': 1 }`, throwing));
    await writeFile(join(cwd, 'b.js'), ';\n');
    const { report } = await scanned(cwd, ['--baseline', 'base.json', '--ext', 'js']);
    assert.deepEqual([report.execution.status, counts(report)], ['incomplete', [0, 0, 1]]);
  });

  it('does not call a finding fixed if it cannot check whether the file exists', async (t) => {
    const cwd = await project(t, { 'a/b.js': 'var b;\n', 'c.js': 'let c;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await rm(join(cwd, 'a'), { recursive: true });
    await symlink('a', join(cwd, 'a'));
    const { report } = await scanned(cwd, ['--baseline', 'base.json']);
    assert.deepEqual(report.selection.baseline, { newIssues: 0, unchanged: 0, fixed: 0, notVerifiable: 1 });
  });

  it('does not call a finding fixed if its file has no configuration any more', async (t) => {
    const own = configText(`{ 'no-var': 1 }`);
    const cwd = await project(t, { 'a.js': 'var a;\n', 'part/eslint.config.mjs': own, 'part/b.js': 'var b;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await rm(join(cwd, 'eslint.config.mjs'));
    await rm(join(cwd, 'a.js'));
    const { report, code } = await scanned(cwd, ['--baseline', 'base.json']);
    assert.deepEqual(report.selection.baseline, { newIssues: 0, unchanged: 1, fixed: 0, notVerifiable: 1 });
    assert.equal(code, 0);
  });

  it('calls findings of a deleted file fixed only if the command line includes it', async (t) => {
    const cwd = await project(t, SOURCES);
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await rm(join(cwd, 'lib/c.js'));
    const fixedBy = async (...args: string[]) =>
      (await scanned(cwd, ['--baseline', 'base.json', ...args])).report.selection.baseline?.fixed;
    assert.equal(await fixedBy(), 1);
    assert.equal(await fixedBy('.'), 1);
    assert.equal(await fixedBy('lib/*.js', 'src'), 1);
    assert.equal(await fixedBy('--ext', 'js'), 1);
    assert.equal(await fixedBy('--include', 'src/**'), 0);
    assert.equal(await fixedBy('--exclude', 'lib'), 0);
    assert.equal(await fixedBy('src'), 0);
  });
});
