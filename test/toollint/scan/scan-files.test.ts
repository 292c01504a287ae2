import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { project, toollint } from '../support/verbs.ts';

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
      const scanned = async (...paths: string[]) =>
        JSON.parse((await toollint(['scan', ...paths], { cwd })).stdout) as Report;
      const report = await scanned();
      assert.equal(report.summary.totalFiles, plain.length, folder);
      assert.equal(report.findings.map(({ location }) => location.path).join(' '), 'kept/b.js');
      const named = [folder.startsWith('deep') ? 'deep' : 'gone', 'kept'];
      const asked = await new ESLint({ cwd, errorOnUnmatchedPattern: false }).lintFiles(named);
      const part = await scanned(...named);
      assert.equal(part.summary.totalFiles, asked.length, `${folder}, named`);
    }
  });
});
