import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { project } from '../support/verbs.ts';

const HOME = fileURLToPath(new URL('../../../', import.meta.url));

describe('toollint in a package of its own', () => {
  for (const place of ['.', 'lib', 'a/b/c/d']) {
    it(`scans, and tells the version of that package, from the folder '${place}'`, async (t) => {
      const folder = await project(t, {
        'package.json': '{ "name": "somewhere-else", "version": "9.8.7", "type": "module" }',
        'work/package.json': '{ "name": "scanned", "version": "0.0.1" }',
        'work/a.js': 'var a;\n',
      });
      mkdirSync(join(folder, place), { recursive: true });
      cpSync(join(HOME, 'lib/toollint'), join(folder, place), { recursive: true });
      symlinkSync(join(HOME, 'node_modules'), join(folder, 'node_modules'));
      const program = `
        const { scan, reportText } = await import(process.argv[1]);
        const { report } = await scan({ root: process.argv[2] });
        for (const piece of reportText(report)) process.stdout.write(piece);`;
      const entry = pathToFileURL(join(folder, place, 'toollint.ts')).href;
      const args = ['--input-type=module', '--eval', program, entry, join(folder, 'work')];
      const report = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', cwd: folder })) as Report;
      assert.deepEqual([report.tool.name, report.tool.version], ['toollint', '9.8.7']);
      assert.deepEqual([report.summary.totalFiles, report.summary.totalIssues], [1, 1]);
    });
  }
});
