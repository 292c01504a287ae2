import assert from 'node:assert/strict';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import {
  committed,
  configText,
  counts,
  git,
  project,
  repository,
  scanned,
  toollint,
  writeConfig,
} from '../support/verbs.ts';

const UPDATE = ['scan', '--baseline', 'b.jsonl', '--update-baseline', '-o', '/dev/null'];
const FILES = {
  'eslint.config.mjs': configText(`{ 'no-console': 'warn', 'no-var': 'error', 'no-debugger': 'warn' }`),
  'a.js': `${['var one = 1; console.log(one);', 'let two;', 'let three;', 'debugger;'].join('\n')}\n`,
};

async function withBaseline(t: TestContext, files: Record<string, string> = FILES): Promise<string> {
  const cwd = await repository(t, files);
  await toollint(UPDATE, { cwd });
  committed(cwd, 'baseline');
  return cwd;
}
const scanOf = async (cwd: string, ...args: string[]) => await scanned(cwd, ['--baseline', 'b.jsonl', ...args]);

describe('a finding on a changed line', () => {
  it('stays known, and one more of its kind is new', async (t) => {
    const cwd = await withBaseline(t);
    const edit = async (...lines: string[]) => {
      await writeFile(join(cwd, 'a.js'), `${lines.join('\n')}\n`);
      const { report } = await scanOf(cwd);
      return [...counts(report), ...report.findings.map(({ ruleId, location }) => `${ruleId} ${location.line}`)];
    };
    const rest = ['let two;', 'let three;', 'debugger;'];
    assert.deepEqual(await edit('let one = 1; console.log(one);', ...rest), [0, 2, 1], 'the other was fixed');
    assert.deepEqual(await edit('var one = 1; console.log(one); // why', ...rest), [0, 3, 0], 'a comment');
    assert.deepEqual(await edit('var one = 2;', 'console.log(one, 7);', ...rest), [0, 3, 0], 'two lines of one');
    const more = await edit('var one = 1; console.log(one); console.log(2);', ...rest);
    assert.deepEqual(more, [1, 3, 0, 'no-console 1']);
    assert.deepEqual(await edit('var one = 1; console.warn(one);', ...rest), [0, 3, 0], 'other text');
    const moved = await edit('let one = 1;', 'let two;', 'let three;', 'debugger; console.log(one);');
    assert.deepEqual(moved, [1, 1, 2, 'no-console 4']);
  });

  it('is updated in the next baseline, which names its commit', async (t) => {
    const cwd = await withBaseline(t);
    const head = async () => JSON.parse((await readFile(join(cwd, 'b.jsonl'), 'utf8')).split('\n')[0] ?? '') as unknown;
    const first = git(cwd, 'rev-parse', 'HEAD~1');
    assert.deepEqual(await head(), { baseline: 'toollint/1', linter: 'ESLint 10', commit: first });
    const before = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    await writeFile(join(cwd, 'a.js'), `// moved\n${FILES['a.js']}`);
    git(cwd, 'commit', '-qam', 'moved');
    await toollint(UPDATE, { cwd });
    assert.equal(await readFile(join(cwd, 'b.jsonl'), 'utf8'), before, 'another commit alone changes no byte');
    await writeFile(join(cwd, 'a.js'), FILES['a.js'].replace('(one)', '(one) // why'));
    git(cwd, 'commit', '-qam', 'commented');
    await toollint(UPDATE, { cwd });
    assert.deepEqual(((await head()) as { commit: string }).commit, git(cwd, 'rev-parse', 'HEAD'));
    await writeFile(join(cwd, 'a.js'), FILES['a.js'].replace('(one)', '(one) // because'));
    assert.deepEqual(counts((await scanOf(cwd)).report), [0, 3, 0]);
  });

  it('is matched within its file, with a note, if the commit or git is missing', async (t) => {
    const cwd = await withBaseline(t);
    await writeFile(join(cwd, 'a.js'), FILES['a.js'].replace('(one);', '(one); // why'));
    git(cwd, 'commit', '-qam', 'two');
    const clone = `${cwd}/clone`;
    git(cwd, 'clone', '-q', '--depth', '1', `file://${cwd}`, clone);
    const shallow = await scanOf(clone);
    assert.deepEqual(counts(shallow.report), [0, 3, 0]);
    assert.match(shallow.stderr, /2 known on changed lines were found by their file alone, because git does not have/u);
    await rename(join(clone, 'a.js'), join(clone, 'z.js'));
    assert.match((await scanOf(clone)).stderr, /1 new are known in a file that is gone \(git does not have its/u);
    const unknown = await toollint(['scan', '--baseline', 'b.jsonl', '--renames', 'git:none'], { cwd: clone });
    assert.match(unknown.stderr, /: git:none: git rev-parse: fatal: /u);
    const bare = await project(t, { ...FILES, 'b.jsonl': await readFile(join(cwd, 'b.jsonl'), 'utf8') });
    await writeFile(join(bare, 'a.js'), FILES['a.js'].replace('(one);', '(one); // why'));
    const { report, stderr } = await scanOf(bare);
    assert.deepEqual(counts(report), [0, 3, 0]);
    assert.match(stderr, /found by their file alone/u);
    assert.doesNotMatch((await scanOf(cwd)).stderr, /alone/u);
  });

  it('stays known after a squash, which replaces the commit of the baseline', async (t) => {
    const cwd = await withBaseline(t);
    git(cwd, 'checkout', '-q', '--orphan', 'squashed');
    git(cwd, 'commit', '-qm', 'squashed');
    const clone = await project(t, { 'eslint.config.mjs': null });
    git(clone, 'clone', '-q', '--single-branch', `file://${cwd}`, '.');
    await writeFile(join(clone, 'a.js'), FILES['a.js'].replace('one = 1', 'uno = 1'));
    const { report, stderr } = await scanOf(clone);
    assert.deepEqual([counts(report), stderr.includes('because')], [[0, 3, 0], false]);
  });
});

describe('a file whose changes git does not show', () => {
  it('keeps its known findings if it is binary for git, ignored, has an odd name or is not checked out', async (t) => {
    const odd = ['binary.js', 'quo"te\t.js', 'ignored/a.js'];
    const attributes = { '.gitattributes': 'binary.js -diff\n', '.gitignore': 'ignored\n' };
    const copies = Object.fromEntries(odd.map((name) => [name, FILES['a.js']]));
    const cwd = await withBaseline(t, { ...FILES, ...copies, ...attributes });
    for (const name of odd) await writeFile(join(cwd, name), FILES['a.js'].replace('(one);', '(one); // why'));
    assert.deepEqual(counts((await scanOf(cwd)).report), [0, 12, 0]);
    await toollint(['scan', '-o', '.git/now.json'], { cwd });
    await writeFile(join(cwd, 'ignored/a.js'), FILES['a.js'].replace('one = 1', 'uno = 1'));
    const other = await scanned(cwd, ['--baseline', '.git/now.json', '--renames', 'git:HEAD']);
    assert.deepEqual(counts(other.report), [1, 11, 1], 'another text');
    git(cwd, 'checkout', '.');
    await rm(join(cwd, 'binary.js'));
    assert.deepEqual(counts((await scanOf(cwd)).report), [1, 8, 4], 'deleted');
    git(cwd, 'checkout', '.');
    git(cwd, 'mv', 'quo"te\t.js', 'a"\u0001.js');
    await writeFile(join(cwd, 'binary.js'), `${FILES['a.js']}var more;\n`);
    assert.deepEqual(counts((await scanOf(cwd)).report), [2, 11, 1]);
    git(cwd, 'sparse-checkout', 'set', '--no-cone', '/*', '!/a.js');
    assert.match((await scanOf(cwd)).stderr, /baseline: 2 new, 8 unchanged, 1 fixed, 3 not verifiable/u);
    await toollint(UPDATE, { cwd });
    assert.equal((await readFile(join(cwd, 'b.jsonl'), 'utf8')).match(/"path":"a\.js"/gu)?.length, 3);
  });
});

describe('a finding about a whole line or function', () => {
  const FUNCTION = (name: string, statement: string) =>
    `${name}(() => {\n  const a = 1;\n  const b = a + 1;\n  ${statement}\n  return b;\n});\n`;
  const RULES = `{ 'max-lines-per-function': [1, 3], 'max-statements': [1, 2], 'max-len': [1, 60], complexity: [1, 1] }`;

  it('stays known after a small change inside it', async (t) => {
    const comment = `// a comment that is longer than the sixty columns of the rule\n`;
    const before = comment + FUNCTION('one', 'f(a ? b : 1);') + FUNCTION('two', 'f(a ? b : 1);');
    const cwd = await withBaseline(t, { 'eslint.config.mjs': configText(RULES), 'a.js': before });
    for (const after of [
      before.replace('longer', 'much longer'),
      before.replace('one(', 'one.skip('),
      before.replace('f(a ? b : 1)', 'g(a ? b : 2, 3)'),
      before.replace('  return b', '  f(2);\n  return b'),
    ]) {
      await writeFile(join(cwd, 'a.js'), after);
      const { report, code } = await scanOf(cwd, '--gate', 'new-code');
      assert.deepEqual([code, report.findings], [0, []], after);
      await toollint(['scan', '-o', 'now.json'], { cwd });
      assert.equal((await toollint(['compare', 'b.jsonl', 'now.json', '--gate', 'new-code'], { cwd })).code, 0, after);
    }
    await writeFile(join(cwd, 'a.js'), before + FUNCTION('three', 'f(a ? b : 1);'));
    assert.equal((await scanOf(cwd, '--gate', 'new-code')).code, 1);
  });
});

describe('a file that was renamed', () => {
  it('keeps its known findings after git mv, and gets a note if git does not know the rename', async (t) => {
    const cwd = await withBaseline(t);
    await rename(join(cwd, 'a.js'), join(cwd, 'z.js'));
    const { report, stderr } = await scanOf(cwd);
    assert.deepEqual(counts(report), [3, 0, 3]);
    assert.match(stderr, /3 new are known in a file that is gone; if it was renamed, use --renames git:REF/u);
    git(cwd, 'add', '-A');
    assert.deepEqual(counts((await scanOf(cwd)).report), [0, 3, 0]);
    assert.deepEqual(counts((await scanOf(cwd, '--renames', 'git:HEAD')).report), [0, 3, 0]);
    for (const bad of ['git:', 'git:no-such-ref', 'git:--output=x', 'z.js']) {
      const { code, stdout } = await toollint(['scan', '--baseline', 'b.jsonl', '--renames', bad], { cwd });
      assert.deepEqual([code, stdout], [2, ''], bad);
    }
  });
});

describe('an update of the baseline', () => {
  it('drops the lines that its scan can no longer verify, and keeps those of other files', async (t) => {
    const cwd = await withBaseline(t, { ...FILES, 'c.js': 'debugger;\n', 'd.js': 'console.log(1);\n' });
    await writeFile(join(cwd, 'c.js'), 'debugger; // eslint-disable-line\n');
    await writeConfig(join(cwd, 'eslint.config.mjs'), configText(`{ 'no-var': 'error', 'no-debugger': 'warn' }`));
    const lines = async () =>
      (await readFile(join(cwd, 'b.jsonl'), 'utf8'))
        .match(/"path":"[a-d]\.js","ruleId":"[^"]*/gu)
        ?.map((line) => line.replaceAll(/"path":|"ruleId":|"/gu, ''));
    await toollint([...UPDATE, 'a.js'], { cwd });
    assert.deepEqual(await lines(), ['a.js,no-debugger', 'a.js,no-var', 'c.js,no-debugger', 'd.js,no-console']);
    await toollint(UPDATE, { cwd });
    assert.deepEqual(await lines(), ['a.js,no-debugger', 'a.js,no-var']);
  });

  it("records the linter's own messages", async (t) => {
    const text = '/* eslint no-var: 2 */\nlet a;\n';
    const config = configText(`{ 'no-var': 'error' }`).replace(
      '[{ ',
      '[{ linterOptions: { reportUnusedInlineConfigs: 2 }, ',
    );
    const cwd = await withBaseline(t, { 'eslint.config.mjs': config, 'a.js': text });
    const { report } = await scanOf(cwd);
    assert.deepEqual(counts(report), [0, 1, 0]);
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    assert.deepEqual(counts((await scanOf(cwd)).report), [0, 0, 1]);
  });
});

describe('explain', () => {
  it('prints why a finding is new, known, fixed or not verifiable', async (t) => {
    const cwd = await withBaseline(t);
    const lines = ['var one = 1; console.log(one); // why', 'let two;', 'let three;', 'var four;'];
    await writeFile(join(cwd, 'a.js'), `${lines.join('\n')}\n`);
    const explain = async (...args: string[]) => await toollint(['explain', ...args, '--baseline', 'b.jsonl'], { cwd });
    const { code, stdout } = await explain('a.js:1');
    assert.equal(code, 0);
    assert.match(stdout, /^a\.js:1:1 no-var .*\n {2}known: .*same rule, message and flagged text/mu);
    const file = await readFile(join(cwd, 'b.jsonl'), 'utf8');
    const numberOf = (part: RegExp) => String(file.split('\n').findIndex((line) => part.test(line)) + 1);
    const { stdout: ofLine } = await explain(numberOf(/no-var/u));
    assert.ok(ofLine !== '' && stdout.startsWith(ofLine), ofLine);
    const { stdout: fresh } = await explain('./a.js:4:1');
    assert.match(fresh, /^a\.js:4:1 no-var .*\n {2}new: .*in this file: 1 matched by other findings$/mu);
    const fixed = (await explain(/no-debugger.*"content":"([0-9a-f]+)/u.exec(file)?.[1] ?? '')).stdout;
    assert.equal((await explain(numberOf(/no-debugger/u))).stdout, fixed);
    assert.match(fixed, /^a\.js no-debugger .*\n {2}fixed: its rule checked the file/mu);
    const fingerprint = /fingerprint ([0-9a-f]+)/u.exec(fixed)?.[1] ?? '';
    assert.equal((await explain(fingerprint)).stdout, fixed);
    assert.equal((await explain(fingerprint.slice(0, 12))).stdout, fixed);
    await writeConfig(join(cwd, 'eslint.config.mjs'), configText(`{ 'no-var': 'error' }`));
    assert.match((await explain(fingerprint)).stdout, / {2}not verifiable: the rule no-debugger did not run/u);
    await toollint(['scan', '-o', 'now.json'], { cwd });
    const { stdout: compared } = await explain(fingerprint, '--report', 'now.json');
    assert.match(compared, /not verifiable: the rule no-debugger is off/u);
    await writeFile(join(cwd, 'a.js'), 'let one;\nlet two;\nlet three;\ndebugger;\nvar five;\n');
    await writeConfig(join(cwd, 'eslint.config.mjs'), FILES['eslint.config.mjs']);
    const { report } = await scanOf(cwd);
    assert.deepEqual(counts(report), [1, 1, 2]);
    assert.match((await explain('a.js:5')).stdout, / {2}new: .*in this file: 1 fixed, and not in the same part/u);
    const none = await explain('a.js:77');
    assert.deepEqual([none.code, none.stderr], [2, 'toollint: neither the findings nor b.jsonl have a.js:77\n']);
  });

  it('finds the line of the baseline for a renamed file, and for the project', async (t) => {
    const cwd = await withBaseline(t);
    git(cwd, 'mv', 'a.js', 'new.js');
    const { stdout } = await toollint(['explain', '2', '--baseline', 'b.jsonl'], { cwd });
    assert.match(stdout, /^new\.js:1:14 no-console .*\n {2}known: the baseline has its fingerprint/u);
    const results = [{ ruleId: 'r', message: { text: 'about all' } }];
    const log = JSON.stringify({ version: '2.1.0', runs: [{ tool: { driver: { name: 'l' } }, results }] });
    const imported = async (...args: string[]) =>
      await toollint(['import', '--from', 'sarif', '-', '-o', 'now.json', ...args], { cwd, stdin: log });
    await imported('--baseline', 'p.jsonl', '--update-baseline');
    await imported();
    const { stdout: about } = await toollint(['explain', '2', '--baseline', 'p.jsonl', '--report', 'now.json'], {
      cwd,
    });
    assert.match(about, /^\(project\) r about all\n {2}known: /u);
  });
});
