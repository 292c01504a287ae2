import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import { pathsIn, project, scanned } from '../support/verbs.ts';
import { assertSound } from '../support/samples.ts';

describe('the files of a scan', () => {
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
});
