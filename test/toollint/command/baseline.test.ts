// The baseline that lives in git, by the verbs: its ratchet, how git merges it, commits as baselines, and --list.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFile, mkdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { keyOf } from '../../../lib/toollint/command/git-baseline.ts';
import type { Report } from '../../../lib/toollint/document/report-schema.ts';
import { configText, project, scanned, toollint, writeConfig } from '../support/verbs.ts';

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.org', ...args], {
    cwd,
    stdio: 'pipe',
    encoding: 'utf8',
  });
const HEAD = '{"baseline":"toollint/1","linter":"ESLint 10"}';
const linesIn = async (path: string) =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path: string; ruleId: string; accepted?: { reason: string } });
const counts = ({ selection: { baseline } }: Report) => [baseline?.newIssues, baseline?.unchanged, baseline?.fixed];
const update = ['scan', '--baseline', 'b.jsonl', '--update-baseline', '--silent', '-o', '/dev/null'];

describe('the ratchet', () => {
  const start = async (t: TestContext, files: Record<string, string>) => {
    const cwd = await project(t, files);
    assert.equal((await toollint(update, { cwd })).code, 0);
    return cwd;
  };

  it('is made of all that there is, and then only gets lower', async (t) => {
    const cwd = await start(t, { 'a.js': 'var a;\nvar b;\n', 'b.js': 'console.log(1);\n' });
    const first = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 3);
    await writeFile(join(cwd, 'a.js'), '// a comment\n\nvar a;\n   var b;\n');
    await toollint(update, { cwd });
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), first);
    await writeFile(join(cwd, 'a.js'), 'var b;\nvar c;\n');
    const { report, code } = await scanned(cwd, ['--baseline', 'b.jsonl', '--update-baseline']);
    assert.deepEqual([code, counts(report)], [1, [1, 2, 1]]);
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 2);
  });

  it('is raised by an acceptance alone, whose reason, end and owner stay with the finding', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'a.js'), 'var a;\nconsole.log(a);\n');
    const accept = [
      ...update,
      '--accept',
      'no-var',
      '--reason',
      'until the rewrite',
      '--until',
      '2026-12-31',
      '--owner',
      'web',
    ];
    assert.equal((await toollint(accept, { cwd })).code, 0);
    assert.deepEqual(
      (await linesIn(join(cwd, 'b.jsonl'))).map(({ ruleId, accepted }) => [ruleId, accepted]),
      [['no-var', { reason: 'until the rewrite', until: '2026-12-31', owner: 'web' }]],
    );
    const at = async (day: string) =>
      counts((await scanned(cwd, ['--baseline', 'b.jsonl', '--timestamp', `${day}T12:00:00Z`])).report);
    assert.deepEqual(
      [await at('2026-12-31'), await at('2027-01-01')],
      [
        [1, 1, 0],
        [2, 0, 0],
      ],
    );
    // What has ended stays written down until the finding is gone or accepted again.
    await toollint([...update, '--timestamp', '2027-01-01T00:00:00Z'], { cwd });
    assert.equal((await linesIn(join(cwd, 'b.jsonl'))).length, 1);
    await toollint([...update, '--timestamp', '2027-01-01T00:00:00Z', '--accept', 'no-var', '--reason', 'again'], {
      cwd,
    });
    assert.deepEqual(
      (await linesIn(join(cwd, 'b.jsonl'))).map(({ accepted }) => accepted?.reason),
      ['again'],
    );
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    await toollint(update, { cwd });
    assert.deepEqual(await linesIn(join(cwd, 'b.jsonl')), []);
  });

  it('takes a file that does not parse as known once that was accepted', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'broken.js'), 'let = ;\n');
    const before = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    assert.equal((await toollint(update, { cwd })).code, 3);
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), before);
    assert.equal((await toollint([...update, '--accept', 'PARSE-ERROR', '--reason', 'a fixture'], { cwd })).code, 0);
    const { report, code } = await scanned(cwd, ['--baseline', 'b.jsonl', '--gate', 'strict']);
    assert.deepEqual([code, counts(report), report.execution.status], [0, [0, 1, 0], 'complete']);
    await writeFile(join(cwd, 'other.js'), 'let = ;\n');
    assert.equal((await scanned(cwd, ['--baseline', 'b.jsonl'])).code, 3);
    await rm(join(cwd, 'other.js'));
    await writeFile(join(cwd, 'broken.js'), 'let b;\n');
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'b.jsonl'])).report), [0, 0, 1]);
  });

  it('takes no rule that throws as known because the same file does not parse', async (t) => {
    // Two blocks of one file, as a processor of Markdown gives them: one does not parse, in the other a rule may throw.
    const blocks = (second: string) =>
      `[{ text: 'let = ;', filename: '0.js' }, { text: '${second}', filename: '1.js' }]`;
    const config = (second: string) =>
      `const boom = { create: () => ({ DebuggerStatement() { throw new Error('x'); } }) };
       const two = { preprocess: () => ${blocks(second)}, postprocess: (lists) => lists.flat() };
       const own = { rules: { boom }, processors: { two } };
       export default [{ plugins: { own } }, { files: ['**/*.md'], processor: 'own/two' }, { files: ['**/*.js'], rules: { 'own/boom': 2 } }];\n`;
    const cwd = await project(t, { 'eslint.config.mjs': config('x;'), 'a.md': 'x' });
    const scan = async (...args: string[]) => await scanned(cwd, ['a.md', '--baseline', 'b.jsonl', ...args]);
    await toollint(['scan', 'a.md', '--baseline', 'b.jsonl', '--update-baseline', '--silent', '-o', '/dev/null'], {
      cwd,
    });
    await scan('--update-baseline', '--accept', 'PARSE-ERROR', '--reason', 'a fixture');
    assert.equal((await scan()).report.execution.status, 'complete');
    await writeConfig(join(cwd, 'eslint.config.mjs'), config('debugger;'));
    const { report, code } = await scan();
    assert.deepEqual(
      report.execution.diagnostics.map(({ kind, relativePath }) => [kind, relativePath]),
      [['rule-error', 'a.md']],
    );
    assert.equal(code, 3);
  });

  it('refuses flags that do not go together, and a rule that no scan has', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    for (const args of [
      ['--accept', 'no-var', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--accept', 'no-var', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var', '--reason', ' '],
      ['--baseline', 'b.jsonl', '--update-baseline', '--reason', 'x'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-var', '--reason', 'x', '--until', 'soon'],
      ['--baseline', 'b.jsonl', '--update-baseline', '--accept', 'no-vra', '--reason', 'x'],
      ['--baseline', 'git:HEAD', '--update-baseline'],
    ]) {
      const { code, stdout } = await toollint(['scan', ...args], { cwd });
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
    }
  });

  it('notes a baseline of another major version of the linter', async (t) => {
    const cwd = await start(t, { 'a.js': 'let a;\n' });
    await writeFile(join(cwd, 'b.jsonl'), `${HEAD.replace('10', '9')}\n`);
    const { stderr } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.match(stderr, /the baseline b\.jsonl is of ESLint 9, this is ESLint 10/u);
  });
});

describe('a baseline and git', () => {
  const repository = async (t: TestContext, files: Record<string, string>) => {
    const cwd = await project(t, files);
    git(cwd, 'init', '-q', '-b', 'main');
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'one');
    return cwd;
  };

  it('merges without conflict when two branches fix and accept different findings', async (t) => {
    const files = Object.fromEntries(
      ['a', 'b', 'c', 'd', 'e'].map((name) => [`${name}.js`, 'var x;\nvar y;\nvar z;\n']),
    );
    const cwd = await repository(t, files);
    await toollint(update, { cwd });
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    git(cwd, 'checkout', '-qb', 'side');
    await writeFile(join(cwd, 'b.js'), 'let x;\nvar y;\nvar z;\n');
    await toollint(update, { cwd });
    git(cwd, 'commit', '-qam', 'fix in b');
    git(cwd, 'checkout', '-q', 'main');
    await writeFile(join(cwd, 'e.js'), '// moved\nvar x;\nlet y;\nvar z;\nconsole.log(x);\n');
    await toollint([...update, '--accept', 'no-console', '--reason', 'x'], { cwd });
    git(cwd, 'commit', '-qam', 'fix in e');
    git(cwd, 'merge', '-q', '--no-edit', 'side');
    const { report } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.deepEqual(counts(report), [0, 14, 0]);
  });

  it('merges neighbouring lines with merge=union into a superset, which the next update lowers', async (t) => {
    const names = ['a', 'b', 'c', 'd'];
    const cwd = await repository(t, Object.fromEntries(names.map((name) => [`${name}.js`, 'var x;\n'])));
    await writeFile(join(cwd, '.gitattributes'), 'b.jsonl merge=union\n');
    await toollint(update, { cwd });
    const known = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    const fixed = async (name: string) => {
      await writeFile(join(cwd, `${name}.js`), 'let x;\n');
      await toollint(update, { cwd });
      git(cwd, 'commit', '-qam', `fix in ${name}`);
    };
    git(cwd, 'checkout', '-qb', 'side');
    await fixed('b');
    git(cwd, 'checkout', '-q', 'main');
    await fixed('c');
    git(cwd, 'merge', '-q', '--no-edit', 'side');
    const merged = (await readFile(join(cwd, 'b.jsonl'), 'utf8')).split('\n');
    const lines = known.split('\n');
    const left = lines.filter((line) => !/"path":"[bc]\.js"/u.test(line));
    assert.deepEqual(
      left.filter((line) => !merged.includes(line)),
      [],
    );
    assert.deepEqual(
      merged.filter((line) => !lines.includes(line)),
      [],
    );
    assert.equal((await scanned(cwd, ['--baseline', 'b.jsonl'])).report.selection.baseline?.newIssues, 0);
    await toollint(update, { cwd });
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), left.join('\n'));
  });

  it('tells equal lines apart by the history of the file', async (t) => {
    const block = 'console.log(1);\n';
    const cwd = await repository(t, { 'a.js': `let a;\n${block}let b;\n${block}` });
    await toollint(update, { cwd });
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'baseline');
    await writeFile(join(cwd, 'a.js'), `${block}let a;\n${block}let b;\n${block}`);
    const { report } = await scanned(cwd, ['--baseline', 'b.jsonl']);
    assert.deepEqual(
      report.findings.map(({ location }) => location.line),
      [1],
    );
  });

  it('can be a commit, whose tree is scanned once, or whose own baseline is read', async (t) => {
    const cwd = await repository(t, { 'a.js': 'var a;\n', 'part/b.js': 'var b;\n' });
    git(cwd, 'checkout', '-qb', 'work');
    await mkdir(join(cwd, 'moved'));
    await rename(join(cwd, 'part/b.js'), join(cwd, 'moved/b.js'));
    await appendFile(join(cwd, 'a.js'), 'var c;\n');
    git(cwd, 'add', '-A');
    git(cwd, 'commit', '-qm', 'two');
    for (let pass = 0; pass < 2; pass += 1)
      for (const baseline of ['git:main', 'git:merge-base(main)', 'git:HEAD~1']) {
        const { report } = await scanned(cwd, ['--baseline', baseline, '--gate', 'new-code']);
        assert.deepEqual([counts(report), report.findings[0]?.location.line], [[1, 2, 0], 2], baseline);
      }
    assert.equal(git(cwd, 'status', '--porcelain'), '');
    for (const path of ['a.js', 'moved/b.js', join(cwd, 'moved/b.js')]) {
      const { report } = await scanned(cwd, [path, '--baseline', 'git:HEAD']);
      assert.equal(report.selection.baseline?.newIssues, 0, path);
    }
    const part = await scanned(join(cwd, 'moved'), ['--baseline', 'git:HEAD', '-c', '../eslint.config.mjs']);
    assert.deepEqual(counts(part.report), [0, 1, 0]);
    await writeFile(join(cwd, 'toollint-baseline.jsonl'), `${HEAD}\n`);
    git(cwd, 'add', '.');
    git(cwd, 'commit', '-qm', 'nothing is known');
    assert.deepEqual(counts((await scanned(cwd, ['--baseline', 'git:HEAD'])).report), [3, 0, 0]);
    for (const [bad, message] of [
      ['git:', 'git: needs a commit, as in git:main'],
      ['git:nowhere', 'git:nowhere: git knows no commit nowhere'],
      ['git:--output=x', 'git:--output=x: git knows no commit --output=x'],
      ['git:merge-base(nowhere)', 'git:merge-base(nowhere): git knows no commit nowhere'],
    ] as const) {
      const { code, stdout, stderr } = await toollint(['scan', '--baseline', bad], { cwd });
      assert.deepEqual([code, stdout, stderr], [2, '', `toollint: ${message}\n`]);
    }
  });

  it('of a commit has its own packages, or those that are installed, those of an inner folder too', async (t) => {
    const rule = (id: string) =>
      `{ ${id}: { create: (c) => ({ Program: (node) => c.report({ node, message: 'm' }) }) } }`;
    const using = (name: string) =>
      `import rules from '${name}';\nexport default [{ files: ['**/*.js'], plugins: { own: { rules } }, rules: { 'own/${name}': 2 } }];\n`;
    const cwd = await repository(t, {
      'eslint.config.mjs': using('outer'),
      'part/eslint.config.mjs': using('inner'),
      'a.js': 'a;\n',
      'part/b.js': 'b;\n',
      'other/eslint.config.mjs': using('kept'),
      'other/c.js': 'c;\n',
      '.gitignore': 'node_modules\n',
    });
    for (const [path, id] of [
      ['node_modules', 'outer'],
      ['part/node_modules', 'inner'],
      ['other/node_modules', 'kept'],
    ] as const) {
      await mkdir(join(cwd, path, id), { recursive: true });
      await writeFile(join(cwd, path, id, 'index.mjs'), `export default ${rule(id)};\n`);
      await writeFile(join(cwd, path, id, 'package.json'), '{"exports":"./index.mjs"}');
    }
    git(cwd, 'add', '-f', 'other');
    git(cwd, 'commit', '-qm', 'two');
    await writeFile(
      join(cwd, 'other/node_modules/kept/index.mjs'),
      'export default { kept: { create: () => ({}) } };\n',
    );
    const { report } = await scanned(cwd, ['a.js', 'part', 'other', '--baseline', 'git:HEAD']);
    assert.deepEqual(counts(report), [0, 2, 1], 'the rule of the commit finds what the present one does not');
  });

  it('of a commit is scanned again where something besides the commit decides what is found', async (t) => {
    const root = await project(t, { 'node_modules/x': '' });
    const config = join(root, 'eslint.config.mjs');
    const scope = { root, config, extensions: ['js'], pathPrefix: 'a' };
    const keys = [
      keyOf('c1', 'part', scope),
      keyOf('c2', 'part', scope),
      keyOf('c1', '', scope),
      keyOf('c1', 'part', { ...scope, extensions: ['ts'] }),
      keyOf('c1', 'part', { ...scope, pathPrefix: 'b' }),
      keyOf('c1', 'part', { ...scope, config: undefined }),
    ];
    const files = ['.package-lock.json', '.modules.yaml', '.yarn-state.yml'].map((name) => `node_modules/${name}`);
    for (const file of [...files, config]) {
      await writeFile(resolve(root, file), '', { flag: 'a' });
      await utimes(resolve(root, file), 1, 1);
      keys.push(keyOf('c1', 'part', scope));
    }
    assert.equal(new Set(keys).size, 10);
    assert.equal(keyOf('c1', 'part', { ...scope }), keys.at(-1));
    assert.match(keys[0] ?? '', /^c1-[0-9a-f]{12}$/u);
  });

  it('of a commit that is not sound is used with a note, and each scan has the whole of it', async (t) => {
    const cwd = await repository(t, { 'a.js': 'var a;\n', 'b.js': 'var b;\n', 'broken.js': 'var = 1;\n' });
    for (const paths of [['a.js'], ['b.js'], ['a.js', 'b.js']]) {
      const { report, stderr } = await scanned(cwd, [...paths, '--baseline', 'git:HEAD']);
      assert.deepEqual(counts(report).slice(0, 2), [0, paths.length]);
      assert.match(stderr, /the baseline git:HEAD is incomplete: findings in the files that it missed may look new/u);
    }
  });
});

describe('--list', () => {
  it('lists one side of a comparison, with counts that add up, as text and as JSON', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\nvar b;\nconsole.log(a);\n',
      'eslint.config.mjs': configText(`{ 'no-var': 2, 'no-console': 1 }`),
    });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), 'var b;\nvar c;\n');
    await writeConfig(join(cwd, 'eslint.config.mjs'), configText(`{ 'no-var': 2 }`));
    await toollint(['scan', '-o', 'now.json'], { cwd });
    const list = async (...args: string[]) =>
      await toollint(['compare', 'base.json', 'now.json', '--silent', '--list', ...args], { cwd });
    const { code, stdout } = await list('fixed');
    assert.equal(code, 1);
    assert.equal(
      stdout,
      'a.js:1:1 no-var Unexpected var, use let or const instead.\nbaseline: 1 new, 1 unchanged, 1 fixed, 1 not verifiable\n',
    );
    assert.match((await list('not-verifiable')).stdout, /^a\.js:3:1 no-console /u);
    assert.match((await list('new')).stdout, /^a\.js:2:1 no-var /u);
    assert.match((await list('unchanged')).stdout, /^a\.js:1:1 no-var /u);
    const json = JSON.parse((await list('fixed', '--format', 'json')).stdout) as { counts: object; findings: object[] };
    assert.deepEqual(
      [json.counts, json.findings.length],
      [{ newIssues: 1, unchanged: 1, fixed: 1, notVerifiable: 1 }, 1],
    );
    for (const args of [['all'], ['fixed', '--format', 'sarif'], ['fixed', '-o', 'x'], ['fixed', '--to', 'json']])
      assert.equal((await list(...args)).code, 2, args.join(' '));
  });
});
