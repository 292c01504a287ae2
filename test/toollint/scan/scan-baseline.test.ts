import assert from 'node:assert/strict';
import { rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { configText, counts, pathsIn, project, rulesIn, scanned, toollint, writeConfig } from '../support/verbs.ts';
import { assertSound } from '../support/samples.ts';

describe('a scan against a baseline', () => {
  const SOURCES = { 'src/a.js': 'var a;\nconsole.log(a);\n', 'src/b.js': 'var b;\n', 'lib/c.js': 'var c;\n' };

  it('lists only new findings after code moved', async (t) => {
    const cwd = await project(t, SOURCES);
    assert.equal((await toollint(['scan', '-o', 'base.json'], { cwd })).code, 1);
    await writeFile(join(cwd, 'src/a.js'), `${'\n'.repeat(1000)}    var a;\r\n\tconsole.log(a);\r\n`);
    const same = await scanned(cwd, ['--baseline', 'base.json']);
    assert.deepEqual([same.code, counts(same.report), same.report.findings], [0, [0, 4, 0], []]);
    await writeFile(join(cwd, 'src/b.js'), 'let b;\nvar d;\n');
    const { report, code } = await scanned(cwd, ['--baseline', 'base.json', '--gate', 'new-code']);
    assertSound(report);
    assert.deepEqual(
      [code, counts(report), pathsIn(report), report.gate.status],
      [1, [1, 3, 1], ['src/b.js'], 'failed'],
    );
  });

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

  it('calls findings fixed if their only file was renamed or deleted', async (t) => {
    const cwd = await project(t, { 'src/a.js': 'var a;\n', 'b.js': 'let b;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await rename(join(cwd, 'src/a.js'), join(cwd, 'src/d.js'));
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [1, 0, 1]);
    await rm(join(cwd, 'src/d.js'));
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [0, 0, 1]);
  });

  it('distinguishes a fixed finding from a disabled rule, an ignored file and a broken file', async (t) => {
    const cwd = await project(t, SOURCES);
    await toollint(['scan', '-o', 'base.json'], { cwd });
    const config = (text: string) => writeConfig(join(cwd, 'eslint.config.mjs'), text);
    await config(configText(`{ 'no-console': 'warn' }`));
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [0, 1, 0]);
    await config(
      `${configText(`{ 'no-console': 'warn', 'no-var': 'error' }`).trimEnd().replace(/\];$/u, `, { ignores: ['lib/'] }];`)}\n`,
    );
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'base.json'])).report), [0, 3, 0]);
    await config(configText(`{ 'no-console': 'warn', 'no-var': 'error' }`));
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
    await writeFile(
      join(cwd, 'eslint.config.mjs'),
      configText(`{ 'own/mark': 1 }`, plugin(`if (node.name === 'one') throw new Error('x');`)),
    );
    await writeFile(join(cwd, 'b.js'), ';\n');
    const { report } = await scanned(cwd, ['--baseline', 'base.json', '--ext', 'js']);
    assert.deepEqual([report.execution.status, counts(report)], ['incomplete', [0, 0, 1]]);
  });

  it('has the same counts with --quiet', async (t) => {
    const cwd = await project(t, SOURCES);
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'src/a.js'), 'console.info(1);\n');
    const loud = await scanned(cwd, ['--baseline', 'base.json', '--max-warnings', '0']);
    const quiet = await scanned(cwd, ['--baseline', 'base.json', '--max-warnings', '0', '--quiet']);
    assertSound(quiet.report);
    assert.deepEqual(
      [counts(quiet.report), quiet.report.gate, quiet.code],
      [counts(loud.report), loud.report.gate, loud.code],
    );
    assert.deepEqual([loud.report.summary.totalIssues, quiet.report.summary.totalIssues], [1, 0]);
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
