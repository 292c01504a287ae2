import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { configText, project, rulesIn, scanned, toollint, writeConfig, writeJson } from '../support/verbs.ts';
import { assertSound, sampleReport } from '../support/samples.ts';

const MODULES = fileURLToPath(new URL('../../../node_modules/', import.meta.url));
/** A rule that reports the major version of the ESLint that runs it. */
const VERSION_RULE = `{ version: { create: (context) => ({ Program(node) {
  context.report({ node, message: typeof context.getSourceCode === 'function' ? 'nine' : 'ten' });
} }) } }`;

function install(root: string, modules: Record<string, string>): void {
  mkdirSync(join(root, 'node_modules'), { recursive: true });
  for (const [name, from] of Object.entries(modules))
    symlinkSync(join(MODULES, from), join(root, 'node_modules', name));
}

describe('the ESLint of a scan', () => {
  it("is the root's own, version 9 or 10, or else this package's, and named in the report", async (t) => {
    for (const [from, message, name] of [
      ['eslint-9', 'nine', /; ESLint 9\.\d+\.\d+\n/u],
      ['eslint', 'ten', /; ESLint 10\.\d+\.\d+\n/u],
      [undefined, 'ten', /ESLint 10\.\d+\.\d+\n/u],
    ] as const) {
      const cwd = await project(t, {
        'eslint.config.mjs': configText(`{ 'own/version': 1, 'no-var': 2 }`, VERSION_RULE),
        'a.js': 'var a;\n',
      });
      if (from !== undefined) install(cwd, { eslint: from });
      const { report, code, stderr } = await scanned(cwd, ['a.js']);
      assertSound(report);
      assert.deepEqual([code, report.findings.find(({ ruleId }) => ruleId === 'own/version')?.message], [1, message]);
      assert.match(stderr, name);
      const { linter, rules } = report.tool as unknown as { linter: { name: string; version: string }; rules: object };
      assert.ok(stderr.includes(`; ${linter.name} ${linter.version}\n`));
      assert.deepEqual(rules, { 'no-var': 'Require `let` or `const` instead of `var`' });
    }
  });

  it('is refused in one sentence if it is too old, and the other verbs run without it', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\n',
      'node_modules/eslint/package.json': '{"name":"eslint","version":"8.57.1"}',
    });
    await writeJson(cwd, 'r.json', sampleReport([]));
    const { code, stdout, stderr } = await toollint(['scan'], { cwd });
    const sentence = 'toollint: the root has ESLint 8.57.1, but a scan needs ESLint 9 or 10\n';
    assert.deepEqual([code, stdout, stderr], [2, '', sentence]);
    assert.equal((await toollint(['validate', 'r.json'], { cwd })).code, 0);
  });

  it('ends the scan with the name of a missing module if it cannot be loaded', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\n',
      'node_modules/eslint/package.json': '{"name":"eslint","version":"10.0.0","main":"main.js"}',
      'node_modules/eslint/main.js': `require('not-there');\n`,
    });
    const { code, stdout, stderr } = await toollint(['scan'], { cwd });
    const sentence = "toollint: ESLint 10.0.0 cannot be loaded: Cannot find module 'not-there'\n";
    assert.deepEqual([code, stdout, stderr], [2, '', sentence]);
  });

  it("reads a TypeScript configuration with the root's jiti", async (t) => {
    const config = `enum Level { Error = 2 }\nexport default [{ rules: { 'no-var': Level.Error as number } }];\n`;
    for (const from of ['eslint', 'eslint-9']) {
      const cwd = await project(t, { 'eslint.config.mjs': null, 'eslint.config.ts': config, 'a.js': 'var a;\n' });
      install(cwd, { eslint: from, jiti: 'jiti' });
      const { report } = await scanned(cwd, ['a.js']);
      assert.deepEqual(rulesIn(report), ['no-var']);
    }
  });

  it("applies the root's bulk suppressions as ESLint does", async (t) => {
    const cwd = await project(t, {
      'eslint.config.mjs': configText(`{ 'no-var': 'error', 'no-console': 'warn' }`),
      'a.js': 'var a;\nvar b;\nconsole.log(1);\n',
      'b.js': 'var c;\nvar d;\n',
      'eslint-suppressions.json':
        '{"a.js":{"no-var":{"count":2},"no-console":{"count":5}},"b.js":{"no-var":{"count":1}}}',
    });
    const { report } = await scanned(cwd, ['a.js', 'b.js']);
    assertSound(report);
    assert.deepEqual(
      report.findings.map(({ ruleId, location }) => `${location.path} ${ruleId}`),
      ['a.js no-console', 'b.js no-var', 'b.js no-var'],
    );
    await writeFile(join(cwd, 'eslint-suppressions.json'), '{');
    assert.equal((await toollint(['scan'], { cwd })).code, 2);
  });

  it('fails with 2 if a suppression no longer occurs in a scanned file, as ESLint does', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'b.js': 'let b;\n' });
    const codeOf = async (suppressions: object, ...paths: string[]) => {
      await writeFile(join(cwd, 'eslint-suppressions.json'), JSON.stringify(suppressions));
      const eslint = spawnSync(process.execPath, [join(MODULES, 'eslint/bin/eslint.js'), ...paths], { cwd });
      const { code } = await toollint(['scan', ...paths], { cwd });
      assert.equal(code, eslint.status);
      return code;
    };
    assert.equal(await codeOf({ 'a.js': { 'no-var': { count: 1 } } }), 0);
    assert.equal(await codeOf({ 'a.js': { 'no-var': { count: 2 } } }), 2);
    assert.equal(await codeOf({ 'a.js': { 'no-var': { count: 1 }, eqeqeq: { count: 1 } } }), 2);
    assert.equal(await codeOf({ 'a.js': { 'no-var': { count: 2 } } }, 'b.js'), 0);
    assert.equal(await codeOf({ 'gone.js': { 'no-var': { count: 2 } } }), 1);
  });
});

describe('a baseline and the coverage of each file', () => {
  const fixedAfter = async (t: TestContext, after: Record<string, string>) => {
    const cwd = await project(t, { 'z.js': 'var z;\n', 'a.js': 'var a;\nvar b;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    for (const [name, content] of Object.entries(after)) await writeConfig(join(cwd, name), content);
    const { report, stderr } = await scanned(cwd, ['--baseline', 'base.json']);
    assertSound(report);
    const gone = /, (\d+) not verifiable$/mu.exec(stderr)?.[1] ?? '0';
    return { notVerifiable: 0, ...report.selection.baseline, gone };
  };

  it('does not call a finding fixed if a comment or the configuration turned its rule off', async (t) => {
    const overridden = configText(`{ 'no-var': 'error' }`).replace(
      '];',
      ', { files: ["a.js"], rules: { "no-var": 0 } }];',
    );
    for (const [name, after] of Object.entries({
      'a comment for the file': { 'a.js': '/* eslint-disable no-var */\nvar a;\nvar b;\n' },
      'a comment for the line': {
        'a.js': '\nvar a; // eslint-disable-line no-var\n// eslint-disable-next-line\nvar b;\n',
      },
      'an inline setting': { 'a.js': '/* eslint no-var: 0 */\nvar a;\nvar b;\n' },
      'a setting for some files': { 'eslint.config.mjs': overridden },
      'bulk suppressions': { 'eslint-suppressions.json': '{"a.js":{"no-var":{"count":2}}}' },
    })) {
      const counts = { newIssues: 0, unchanged: 1, fixed: 0, notVerifiable: 2, gone: '2' };
      assert.deepEqual(await fixedAfter(t, after), counts, name);
    }
    const other = { 'a.js': 'let a; // eslint-disable-line no-console\nvar b;\n' };
    const counts = { newIssues: 1, unchanged: 2, fixed: 1, notVerifiable: 0, gone: '0' };
    assert.deepEqual(await fixedAfter(t, other), counts);
  });

  it('does not call a finding fixed if its file is ignored', async (t) => {
    const rules = `{ files: ['**/*.js'], rules: { 'no-var': 'error' } }`;
    for (const text of [
      `export default Promise.resolve([${rules}, { ignores: ['a.js'] }]);`,
      `export default [${rules}, { ignores: ['@(a|b).js'] }];`,
      `export default [${rules}, { ignores: ['*.js', '!z.js'] }];`,
      `export default [{ ...${rules}, ignores: ['a.js'] }, { ignores: ['a.js'] }];`,
      `export default [{ files: [['**/*.js', '**/z.*']], rules: { 'no-var': 'error' } }, { ignores: ['[a].js'] }];`,
    ]) {
      const cwd = await project(t, {
        'eslint.config.mjs': `export default [${rules}];`,
        'a.js': 'var a;\n',
        'z.js': 'var z;\n',
      });
      await toollint(['scan', '-o', 'base.json'], { cwd });
      await writeConfig(join(cwd, 'eslint.config.mjs'), text);
      const { report } = await scanned(cwd, ['--baseline', 'base.json']);
      assert.deepEqual(report.selection.baseline, { newIssues: 0, unchanged: 1, fixed: 0, notVerifiable: 1 }, text);
      await toollint(['scan', '-o', 'now.json'], { cwd });
      const { stderr } = await toollint(['compare', 'base.json', 'now.json'], { cwd });
      assert.match(stderr, /baseline: 0 new, 1 unchanged, 0 fixed, 1 not verifiable/u, text);
    }
  });
});
