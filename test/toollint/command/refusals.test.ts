import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FORMATS } from '../../../lib/toollint/toollint.ts';
import { sampleReport } from '../support/samples.ts';
import { project, scanned, toollint, writeJson } from '../support/verbs.ts';

const UPDATE = ['scan', '--baseline', 'b.jsonl', '--update-baseline'];
const unknownOption = (name: string) =>
  `Unknown option '${name}'. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${name}"`;
const REFUSED: readonly (readonly [args: readonly string[], message: string])[] = [
  [['scan', '--color', 'red'], "--color is auto, always or never, not 'red'"],
  [['scan', '--format', 'sarif='], '--format sarif= needs a file name'],
  [['scan', '--format', 'sonar'], `unknown format 'sonar': known are ${FORMATS.join(', ')}`],
  [
    ['scan', '--format', 'sarif', '--to', 'junit'],
    'two formats for one output: name a file for each, as in --format sarif=out.sarif',
  ],
  [['scan', '-o', ''], '-o needs a file name'],
  [['scan', '--source-url', 'javascript:x'], "--source-url needs an http or https address, not 'javascript:x'"],
  [['scan', '--max-results', '1.5'], "--max-results needs an integer of 0 or more, not '1.5'"],
  [['scan', '--max-new', 'x'], "--max-new needs an integer of 0 or more, not 'x'"],
  [['scan', '--ext', 'js,t s'], '--ext needs endings as in --ext js,ts'],
  [['scan', '--ext', ''], '--ext needs endings as in --ext js,ts'],
  [['scan', '--include', ''], '--include and --exclude need a pattern'],
  [['scan', '--timestamp', 'soon'], "--timestamp needs a time such as 2026-01-31T12:00:00Z, not 'soon'"],
  [
    ['import', '--from', 'sarif', '--timestamp', 'soon', 'x'],
    "--timestamp needs a time such as 2026-01-31T12:00:00Z, not 'soon'",
  ],
  [
    ['scan', '--timestamp', '2026-13-01T00:00'],
    "--timestamp needs a time such as 2026-01-31T12:00:00Z, not '2026-13-01T00:00'",
  ],
  [['scan', '--renames', 'git:HEAD'], '--renames needs --baseline'],
  [['scan', '--update-baseline'], '--update-baseline needs --baseline'],
  [['scan', '--baseline', '-', '--update-baseline'], '--update-baseline needs a file'],
  [
    ['scan', '--baseline', 'git:HEAD'],
    '--baseline needs a file; for a commit, commit a baseline file: see --update-baseline',
  ],
  [['explain', 'x'], 'there is no baseline toollint-baseline.jsonl; name one with --baseline'],
  [[...UPDATE, '--accept', 'no-var', '--reason', 'r', '--until', '2020-12-31'], '--until 2020-12-31 is in the past'],
  [['scan', '--accept', 'no-var'], '--accept needs --update-baseline'],
  [[...UPDATE, '--accept', 'no-var', '--reason', ' '], '--accept needs --reason'],
  [[...UPDATE, '--until', '2999-01-01'], '--until needs --accept'],
  [
    [...UPDATE, '--accept', 'no-var', '--reason', 'r', '--until', 'soon'],
    "--until needs a day such as 2026-12-31, not 'soon'",
  ],
  [['compare', '-', '-'], "only one input can be '-'"],
  [['merge'], 'usage: toollint merge REPORT...'],
  [['import', 'x'], 'usage: toollint import --from sarif FILE...'],
  [['convert', 'x'], 'usage: toollint convert REPORT --to FORMAT'],
  [['validate', '--format', 'xml', 'x'], "--format is text or json, not 'xml'"],
  [['validate'], 'usage: toollint validate FILE|- ...'],
  [['validate', '--nope'], unknownOption('--nope')],
  [['scan', '--nope'], unknownOption('--nope')],
  [['scan', '--gate', 'toString'], "unknown gate 'toString': known are default, strict, new-code"],
  [['scan', '--gate', ''], "unknown gate '': known are default, strict, new-code"],
  [['scan', '--gate', 'new-code'], "the gate 'new-code' asks for newIssues, which needs a baseline"],
  [['scan', '--max-new', '0'], "the gate 'cli' asks for newIssues, which needs a baseline"],
  [['import', '--from', 'toString', 'x'], 'usage: toollint import --from sarif FILE...'],
  [['compare', 'x'], 'usage: toollint compare BASE CURRENT'],
  [['convert', 'x', 'y', '--to', 'sarif'], 'usage: toollint convert REPORT --to FORMAT'],
  [['schema', 'x'], 'usage: toollint schema'],
];

describe('the command line', () => {
  for (const [args, message] of REFUSED)
    it(`refuses \`${args.join(' ')}\` and says why`, async (t) => {
      const { code, stdout, stderr } = await toollint(args, { cwd: await project(t, {}) });
      assert.equal(stderr, `toollint: ${message}\n`);
      assert.equal(stdout, '');
      assert.equal(code, 2);
    });

  it('reads every argument after -- as a path, also --help', async (t) => {
    const cwd = await project(t, { '--help': '' });
    assert.match((await toollint(['scan', '--', '--help'], { cwd })).stderr, /nothing to scan for '--help'/u);
    assert.match((await toollint(['scan', '--help'], { cwd })).stdout, /^usage: toollint scan/u);
  });
});

describe('what the command line no longer has', () => {
  for (const args of [
    ['gate', 'r.json'],
    ['scan', '--gate-config', 'g.json'],
    ['scan', '--prune'],
    ['scan', '--owner', 'me'],
    ['scan', '--format', 'summary'],
  ])
    it(`refuses ${args.join(' ')}`, async (t) => {
      assert.equal((await toollint(args, { cwd: await project(t, {}) })).code, 2);
    });
});

describe('the verbs', () => {
  it('list errors only with --quiet, and count all', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\nconsole.log(a);\n' });
    const { report, code } = await scanned(cwd, ['--quiet', '--max-warnings', '0']);
    assert.deepEqual(
      report.findings.map(({ ruleId }) => ruleId),
      ['no-var'],
    );
    assert.equal(report.gate.message, 'warnings 1 > 0 (fail)');
    assert.equal(code, 1);
  });

  it('validate readable documents, and fail for the others', async (t) => {
    const cwd = await project(t, {});
    await writeJson(cwd, 'good.json', sampleReport([]));
    const { code, stdout, stderr } = await toollint(['validate', 'none.json', 'good.json'], { cwd });
    assert.equal(stdout, 'good.json: schema valid, consistency valid\n');
    assert.equal(stderr, 'toollint: cannot read none.json: ENOENT\n');
    assert.equal(code, 2);
    const json = await toollint(['validate', 'none.json', 'good.json', '--format', 'json'], { cwd });
    assert.equal((JSON.parse(json.stdout) as { valid: boolean }).valid, false);
  });
});
