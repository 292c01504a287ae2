import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import { pathsIn, project, scanned } from '../support/verbs.ts';

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
});
