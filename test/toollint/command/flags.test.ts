// What each flag of scan and compare does, seen from outside: summary, cache, ratchet, renames, prefix, limits.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { configText, project, scanned, toollint, writeJson, writeConfig } from '../support/verbs.ts';
import { assertSound, sampleFinding, sampleReport } from '../support/samples.ts';

/** The findings of a baseline file. */
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as { path: string; ruleId: string; accepted?: object });

const reportIn = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Report;

describe('the summary on standard error', () => {
  it('says how many and why the exit code is what it is, for every code', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'b.js': 'let = ;\n', 'c.js': 'let c;\n', 'd/e.txt': '' });
    for (const [args, lines] of [
      [
        ['a.js', '-o', 'r.json'],
        [/^1 file, 1 finding: 1 error, 0 warnings, 0 info; ESLint 10\./u, /^exit code 1: 1 error finding$/u],
      ],
      [
        ['b.js', '-o', 'r.json'],
        [/1 finding/u, /^incomplete: 1 parse error, 0 rule errors$/u, /^exit code 3: the analysis is incomplete$/u],
      ],
      [['c.js'], [/0 findings/u, /^exit code 0: no error finding$/u]],
      [
        ['d'],
        [
          /^no configuration is for the files matched by 'd'$/u,
          /0 files/u,
          /^no files were analyzed$/u,
          /^exit code 4: no files were analyzed$/u,
        ],
      ],
      [
        ['d', '--allow-no-files'],
        [
          /^no configuration/u,
          /0 files/u,
          /no files/u,
          /^exit code 0: no files were analyzed, which --allow-no-files allows$/u,
        ],
      ],
      [
        ['a.js', '--exit-zero'],
        [/1 finding/u, /^exit code 0: --exit-zero$/u],
      ],
      [
        ['a.js', '--gate', 'strict'],
        [/1 finding/u, /^gate strict failed: /u, /^exit code 1: the gate is failed$/u],
      ],
      [
        ['a.js', '--max-errors', '1'],
        [/1 finding/u, /^gate cli passed$/u, /^exit code 0: the gate is passed$/u],
      ],
    ] as const) {
      const { stderr } = await toollint(['scan', ...args], { cwd });
      const actual = stderr
        .trimEnd()
        .split('\n')
        .map((line) => line.replace('toollint: ', ''));
      assert.equal(actual.length, lines.length, stderr);
      for (const [index, line] of lines.entries()) assert.match(actual[index] ?? '', line, args.join(' '));
      const silent = (await toollint(['scan', ...args, '--silent'], { cwd })).stderr;
      assert.doesNotMatch(silent, /exit code|findings?:/u);
    }
  });

  it('is given by compare and gate too', async (t) => {
    const cwd = await project(t, {});
    await writeJson(cwd, 'a.json', sampleReport([sampleFinding()]));
    assert.match(
      (await toollint(['compare', 'a.json', 'a.json', '-o', 'x'], { cwd })).stderr,
      /baseline: 0 new, 1 unchanged, 0 fixed\ntoollint: exit code 0: no error finding\n$/u,
    );
    assert.match(
      (await toollint(['gate', 'a.json', '-o', 'x'], { cwd })).stderr,
      /gate default warning.*\ntoollint: exit code 0: the gate is warning\n$/u,
    );
    for (const verb of [
      ['compare', 'a.json', 'a.json'],
      ['gate', 'a.json'],
    ])
      assert.equal((await toollint([...verb, '--silent'], { cwd })).stderr, '');
  });
});

describe('--cache', () => {
  it('gives the report that a fresh scan gives, after any edits', async (t) => {
    const rules = [
      '{ "no-var": "error" }',
      '{ "no-var": "warn", "no-console": "error" }',
      '{ "no-console": ["error", { allow: ["log"] }], "own/boom": 1 }',
    ];
    const config = (index: number) =>
      configText(
        rules[index] ?? '{}',
        `{ boom: { create: (context) => ({ DebuggerStatement(node) { if (${index} === 2) context.report({ node, message: 'boom' }); else throw new Error('x'); } }) } }`,
      );
    const texts = [
      'var a;\n',
      'console.log(1);\nvar b;\n',
      '/* eslint-disable no-var */\nvar c;\n',
      'debugger;\n',
      'let = ;\n',
      '',
      'console.warn(2); // eslint-disable-line\n',
    ];
    const edit = fc.record({
      file: fc.constantFrom('a.js', 'b.js', 'c.js'),
      text: fc.constantFrom(...texts, null),
      config: fc.constantFrom(0, 1, 2, null),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(edit, { minLength: 1, maxLength: 4 }), async (edits) => {
        const cwd = await project(t, {
          'eslint.config.mjs': config(0),
          'a.js': texts[0] ?? '',
          'b.js': texts[1] ?? '',
        });
        for (const { file, text, config: index } of [{ file: 'a.js', text: 'var a;\n', config: null }, ...edits]) {
          if (text === null) await rm(join(cwd, file), { force: true });
          else await writeFile(join(cwd, file), text);
          if (index !== null) await writeConfig(join(cwd, 'eslint.config.mjs'), config(index));
          const fresh = await toollint(['scan', '--deterministic'], { cwd });
          for (let pass = 0; pass < 2; pass += 1)
            assert.deepEqual(await toollint(['scan', '--deterministic', '--cache'], { cwd }), fresh);
        }
      }),
      { numRuns: 12 },
    );
  });

  it('keeps what it knows where it is told to, and does without a file that is damaged', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const fresh = await toollint(['scan', '--deterministic'], { cwd });
    await toollint(['scan', '--cache', '--cache-location', 'kept'], { cwd });
    assert.deepEqual(readdirSync(cwd).sort(), ['a.js', 'eslint.config.mjs', 'kept']);
    const kept = await readFile(join(cwd, 'kept'), 'utf8');
    assert.ok(kept.includes('Unexpected var'));
    // What is kept is what is used.
    await writeFile(join(cwd, 'kept'), kept.replace('Unexpected var', 'Remembered var'));
    const again = ['scan', '--deterministic', '--cache', '--cache-location', 'kept'];
    assert.ok((await toollint(again, { cwd })).stdout.includes('Remembered var'));
    await writeFile(join(cwd, 'kept'), '{');
    assert.deepEqual(await toollint(again, { cwd }), fresh);
    assert.equal((await toollint(['scan', '--cache', '--cache-location', ''], { cwd })).code, 2);
  });
});

describe('--update-baseline', () => {
  it('drops what is fixed and accepts nothing new', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\nvar b;\n', 'b.js': 'var c;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), '\n\nvar b;\nvar d;\n');
    const { report, stderr } = await scanned(cwd, ['--baseline', 'base.json', '--update-baseline']);
    assert.deepEqual(report.selection.baseline, { newIssues: 1, unchanged: 2, fixed: 1 });
    assert.match(stderr, /the baseline base\.json now has 2 findings/u);
    const before = await readFile(join(cwd, 'base.json'), 'utf8');
    assert.deepEqual(
      linesOf(before).map(({ path, ruleId }) => [path, ruleId]),
      [
        ['a.js', 'no-var'],
        ['b.js', 'no-var'],
      ],
    );
    await toollint(['scan', '--baseline', 'base.json', '--update-baseline'], { cwd });
    assert.equal(await readFile(join(cwd, 'base.json'), 'utf8'), before);
  });

  it('keeps what was not looked at, and everything when the analysis is not complete', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'b.js': 'var b;\n' });
    await toollint(['scan', '-o', 'base.json'], { cwd });
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    await writeFile(join(cwd, 'b.js'), 'let = ;\n');
    const before = await readFile(join(cwd, 'base.json'), 'utf8');
    assert.match(
      (await toollint(['scan', '--baseline', 'base.json', '--update-baseline'], { cwd })).stderr,
      /the baseline is left as it is/u,
    );
    assert.equal(await readFile(join(cwd, 'base.json'), 'utf8'), before);
    await toollint(['scan', 'a.js', '--baseline', 'base.json', '--update-baseline'], { cwd });
    assert.deepEqual(
      linesOf(await readFile(join(cwd, 'base.json'), 'utf8')).map(({ path }) => path),
      ['b.js'],
    );
    for (const args of [['--update-baseline'], ['--renames', 'git:HEAD'], ['--baseline', '-', '--update-baseline']])
      assert.equal((await toollint(['scan', ...args], { cwd })).code, 2);
  });
});

describe('--path-prefix', () => {
  it('stands before every path, also for a baseline', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n', 'bad.js': 'let = ;\n' });
    await toollint(['scan', '--deterministic', '--path-prefix', './packages/one/', '-o', 'base.json'], { cwd });
    const report = await reportIn(join(cwd, 'base.json'));
    assertSound(report);
    assert.deepEqual(
      report.findings.map(({ location }) => location.path),
      ['packages/one/a.js', 'packages/one/bad.js'],
    );
    assert.equal(report.execution.diagnostics[0]?.relativePath, 'packages/one/bad.js');
    assert.equal(report.scan.target?.path, 'packages/one');
    assert.ok(report.scan.include.every((glob) => glob.startsWith('packages/one/')));
    await writeFile(join(cwd, 'a.js'), 'let a;\n');
    const again = await scanned(cwd, ['--path-prefix', 'packages/one', '--baseline', 'base.json']);
    assert.deepEqual(again.report.selection.baseline, { newIssues: 1, unchanged: 0, fixed: 1 });
    assert.equal((await toollint(['scan', '--baseline', 'base.json'], { cwd })).code, 2);
    for (const bad of ['../x', '/x', 'a//b'])
      assert.equal((await toollint(['scan', '--path-prefix', bad], { cwd })).code, 2);
  });
});

describe('where a scan takes its rules and puts its document', () => {
  it('--config and -c take the place of the configuration that is there', async (t) => {
    const cwd = await project(t, {
      'a.js': 'var a;\ndebugger;\n',
      'ci/other.config.mjs': configText(`{ 'no-debugger': 'error' }`),
    });
    for (const [args, rule] of [
      [[], 'no-var'],
      [['--config', 'ci/other.config.mjs'], 'no-debugger'],
      [['-c', join(cwd, 'ci/other.config.mjs')], 'no-debugger'],
    ] as const) {
      const { report } = await scanned(cwd, ['a.js', ...args]);
      assert.deepEqual(
        report.findings.map(({ ruleId }) => ruleId),
        [rule],
      );
    }
  });

  it('--output writes what -o writes, in any format, and nothing to standard output', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const { stdout: report } = await toollint(['scan', '--deterministic'], { cwd });
    for (const flag of ['-o', '--output']) {
      const { stdout } = await toollint(['scan', '--deterministic', flag, 'out.json'], { cwd });
      assert.deepEqual([stdout, await readFile(join(cwd, 'out.json'), 'utf8')], ['', report]);
    }
    const args = ['scan', '--deterministic', '--format', 'github', '--format', 'report=whole.json', '--output', 'out'];
    assert.equal((await toollint(args, { cwd })).stdout, '');
    assert.match(await readFile(join(cwd, 'out'), 'utf8'), /^::error /u);
    assert.equal(await readFile(join(cwd, 'whole.json'), 'utf8'), report);
  });

  it('--color never keeps a terminal free of colours, and --color always colours a pipe', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const shown = async (terminal: number | undefined, ...args: string[]) => {
      const options = { cwd, ...(terminal === undefined ? {} : { terminal }) };
      return (await toollint(['scan', '--format', 'pretty', ...args], options)).stdout.includes('\u001b[31m');
    };
    assert.deepEqual([await shown(80), await shown(80, '--color', 'never')], [true, false]);
    assert.deepEqual([await shown(undefined), await shown(undefined, '--color', 'always')], [false, true]);
  });
});

describe('limits and leniency', () => {
  it('--max-bytes refuses a longer input, at every verb that reads one, and takes one of that length', async (t) => {
    const cwd = await project(t, {});
    const text = JSON.stringify(sampleReport([sampleFinding()]));
    await writeJson(cwd, 'r.json', text);
    const size = Buffer.byteLength(text);
    for (const verb of [
      ['validate', 'r.json'],
      ['gate', 'r.json'],
      ['convert', 'r.json', '--to', 'summary'],
      ['compare', 'r.json', 'r.json'],
      ['validate', '-'],
    ]) {
      const run = async (bytes: number) =>
        (await toollint([...verb, '--max-bytes', String(bytes)], { cwd, stdin: text })).code;
      assert.deepEqual([await run(size), await run(size - 1)], [0, 2], verb.join(' '));
    }
  });

  it('--markdown-bytes bounds the comment and --max-results the SARIF log, errors first', async (t) => {
    const cwd = await project(t, {});
    const findings = Array.from({ length: 50 }, (_, index) =>
      sampleFinding({ line: index + 1, severity: index === 49 ? 'error' : 'warning' }),
    );
    await writeJson(cwd, 'r.json', sampleReport(findings));
    const { stdout } = await toollint(['convert', 'r.json', '--to', 'markdown', '--markdown-bytes', '2000'], { cwd });
    assert.ok(Buffer.byteLength(stdout) <= 2000);
    assert.match(stdout, /\| --- \|\n\| error \|/u);
    assert.match((await toollint(['convert', 'r.json', '--to', 'github'], { cwd })).stdout, /^::error .*line=50/u);
    for (const [limit, written] of [
      [1, 1],
      [2, 2],
      [50, 50],
      [51, 50],
    ] as const) {
      const sarif = await toollint(['convert', 'r.json', '--to', 'sarif', '--max-results', String(limit)], { cwd });
      const { results } = (JSON.parse(sarif.stdout) as { runs: [{ results: unknown[] }] }).runs[0];
      assert.equal(results.length, written);
      assert.equal(sarif.stderr.includes(`${limit} of 50 results are written`), limit < 50);
    }
  });

  it('warns of a SARIF log that would close other alerts', async (t) => {
    const cwd = await project(t, {});
    await writeJson(cwd, 'r.json', sampleReport([sampleFinding()]));
    await writeJson(
      cwd,
      'delta.json',
      sampleReport([sampleFinding()], (r) => (r.selection.baseline = { newIssues: 1, unchanged: 2, fixed: 0 })),
    );
    assert.match(
      (await toollint(['convert', 'delta.json', '--to', 'sarif'], { cwd })).stderr,
      /GitHub closes the alerts that are not in it/u,
    );
    assert.equal((await toollint(['convert', 'r.json', '--to', 'sarif'], { cwd })).stderr, '');
    assert.doesNotMatch((await toollint(['compare', 'r.json', 'r.json', '--to', 'sarif'], { cwd })).stderr, /closes/u);
  });
});
