// Runs the cases of golden/*.txt. A case begins with `# ` and its name, creates files (`@ NAME`, then the content), and
// runs commands (`$ COMMAND`, then its output). The commands `toollint`, with `<`, `>` and variables before it, and
// `json FILE EXPRESSION`, `sarif RESULTS ; RUN ; DRIVER` (members that are added to a small log), `faults CHANGES`
// (JavaScript that changes the report `r`, which is then validated), `texts EXPRESSION` (texts of reports that are
// validated) and `report FILE CHANGES` run in this process, all others in a shell. To record new output, set
// GOLDEN=write and read the difference.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, describe, it, type TestContext } from 'node:test';
import { runInNewContext } from 'node:vm';
import { importReports, memorySource, validate } from '../../../lib/toollint/toollint.ts';
import { assertSound, fullReport, projectFinding, recounted, sampleFinding, sampleReport } from '../support/samples.ts';
import { project, toollint, writeConfig } from '../support/verbs.ts';

const FOLDER = import.meta.dirname;
const isWriting = process.env['GOLDEN'] === 'write';
const person = { NAME: 't', EMAIL: 't@example.org', DATE: '2026-01-01T00:00:00Z' };
const GIT = Object.fromEntries(
  Object.entries(person).flatMap(([name, value]) => [
    [`GIT_AUTHOR_${name}`, value],
    [`GIT_COMMITTER_${name}`, value],
  ]),
);
const FOLDERS = { MODULES: join(FOLDER, '../../../node_modules'), FIXTURES: join(FOLDER, '../convert/fixtures') };
const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`;
const ENVIRONMENT = { PATH, HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', ...FOLDERS, ...GIT };

interface Step {
  readonly head: string;
  readonly body: readonly string[];
}

function stepsIn(text: string): Step[] {
  const steps: { head: string; body: string[] }[] = [];
  for (const line of text.trimEnd().split('\n'))
    if (/^[@$] /u.test(line)) steps.push({ head: line, body: [] });
    else steps.at(-1)?.body.push(line);
  return steps;
}

async function output(cwd: string, command: string): Promise<string> {
  const words = [...command.matchAll(/'([^']*)'|"([^"]*)"|([^\s'"]+)/gu)].map(([, a, b, c]) => a ?? b ?? c ?? '');
  const at = words.findIndex((word) => !/^[A-Z_]+=/u.test(word));
  const [program = '', ...rest] = words.slice(at);
  if (program === 'json') {
    const value: unknown = JSON.parse(await readFile(join(cwd, rest[0] ?? ''), 'utf8'));
    const result: unknown = runInNewContext(rest.slice(1).join(' '), { r: value });
    return [result]
      .flat()
      .map((one) => `${typeof one === 'string' ? one : JSON.stringify(one)}\n`)
      .join('');
  }
  if (program === 'sarif') return await importedText(command.slice('sarif '.length), cwd);
  if (program === 'faults') return faultsIn(changed(command.slice('faults '.length)).report);
  if (program === 'texts') return [changed(command.slice('texts '.length)).value].flat().map(faultsIn).join('');
  if (program === 'report') {
    const [, name = '', changes = ''] = /^report (\S+) (.*)/u.exec(command) ?? [];
    await writeFile(join(cwd, name), changed(changes).report);
    return '';
  }
  if (program !== 'toollint') {
    const { stdout, stderr, status } = spawnSync('sh', ['-c', command], { cwd, env: ENVIRONMENT, encoding: 'utf8' });
    return `${stdout}${stderr}${status === 0 ? '' : `exit ${status}\n`}`;
  }
  const env = Object.fromEntries(words.slice(0, at).map((word) => word.split('=') as [string, string]));
  const args: string[] = [];
  let [input, target] = ['', ''];
  for (let index = 0; index < rest.length; index += 1)
    if (rest[index] === '<') input = rest[(index += 1)] ?? '';
    else if (rest[index] === '>') target = rest[(index += 1)] ?? '';
    else args.push(rest[index] ?? '');
  const stdin = input === '' ? '' : await readFile(join(cwd, input));
  const terminal = env['COLUMNS'] === undefined ? {} : { terminal: Number(env['COLUMNS']) };
  const { stdout, stderr, code } = await toollint(args, { cwd: join(cwd, env['IN'] ?? ''), env, stdin, ...terminal });
  if (target !== '') await writeFile(join(cwd, target), stdout);
  return `${target === '' ? stdout : ''}${stderr}${code === 0 ? '' : `exit ${code}\n`}`;
}

const RESULT = {
  ...{ ruleId: 'r', message: { text: 'm' } },
  locations: [{ physicalLocation: { artifactLocation: { uri: 'a.c' }, region: { startLine: 1 } } }],
};

/** Imports a log with these members, and prints what the report has. */
async function importedText(members: string, root: string): Promise<string> {
  const [results, run, driver] = members.split(' ; ').map((text) => JSON.parse(text) as object);
  const all = [results ?? {}].flat().map((one) => ({ ...RESULT, ...one }));
  const tool = { driver: { name: 'lint', version: '1', ...driver } };
  const log = { version: '2.1.0', runs: [{ tool, results: all, ...run }] };
  const options = { root, timestamp: '2026-01-01T00:00:00Z' };
  try {
    const { report, notes } = await importReports([memorySource(JSON.stringify(log), 'x')], options);
    assertSound(report);
    const found = report.findings.map(({ ruleId, severity, message, location, ...more }) => {
      const { path = '(project)', line, column, ...end } = location;
      const place = [path, line, column, ...Object.values(end).slice(1)].filter((part) => part !== undefined);
      const rest = [more.codeSnippet, more.suggestion, ...more.standardIds, more.docsUrl].filter(Boolean);
      return [place.join(':'), severity, ruleId, message, ...rest.map((text) => `[${text}]`)].join(' ');
    });
    const faults = report.execution.diagnostics.map(
      ({ kind, message, ...at }) => `${[kind, ...Object.values(at)].join(' ')}: ${message}`,
    );
    return [...found, ...faults, ...notes, ''].filter((line) => !line.startsWith('source lines')).join('\n');
  } catch (cause) {
    return `${(cause as Error).message}\n`;
  }
}

/** Returns the text of a changed report, and the value of the changes. */
function changed(changes: string) {
  const r = sampleReport([
    ...[projectFinding(), sampleFinding(), sampleFinding({ line: 9 })],
    sampleFinding({ path: 'src/b.ts', severity: 'error' }),
  ]);
  const given = { r, text: JSON.stringify(fullReport()), Buffer, projectFinding, recounted, sampleFinding };
  const value = runInNewContext(changes, given) as string | Uint8Array | (string | Uint8Array)[];
  return { report: JSON.stringify(r), value };
}

function faultsIn(report: string | Uint8Array): string {
  const { problems, sawByteOrderMark } = validate(memorySource(report, 'r'));
  const lines = problems.map(({ level, code, pointer, message }) => `${level} ${code} ${pointer}: ${message}\n`);
  return `${sawByteOrderMark ? 'byte order mark\n' : ''}${lines.join('') || 'valid\n'}`;
}

/** Returns the text of the case with the output that its commands have now. */
async function played(t: TestContext, text: string): Promise<string> {
  const cwd = await project(t, {});
  const lines: string[] = [];
  for (const { head, body } of stepsIn(text)) {
    lines.push(head);
    if (head.startsWith('@ ')) {
      const path = join(cwd, head.slice(2));
      await mkdir(dirname(path), { recursive: true });
      await writeConfig(path, body.map((line) => `${line}\n`).join(''));
      lines.push(...body);
      continue;
    }
    const shown = (await output(cwd, head.slice(2)))
      .replaceAll(cwd, 'CWD')
      .replaceAll(/ESLint (\d+)\.\d+\.\d+/gu, 'ESLint $1')
      .replaceAll(/(?<=commit )[0-9a-f]{12}\b/gu, 'COMMIT')
      // What git says next depends on its version.
      .replaceAll(/(?<=transport 'file' not allowed).*/gu, '');
    lines.push(...shown.split('\n').slice(0, -1));
  }
  return `${lines.join('\n')}\n`;
}

for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.txt'))) {
  const path = join(FOLDER, name);
  const [, ...cases] = readFileSync(path, 'utf8').split(/^# /mu);
  const written: string[] = [];
  describe(name.replace('.txt', ''), () => {
    for (const text of cases) {
      const [title = ''] = text.split('\n', 1);
      it(title, async (t) => {
        const expected = `${text.slice(title.length + 1).trimEnd()}\n`;
        const actual = await played(t, expected);
        written.push(`# ${title}\n${actual}`);
        if (!isWriting) assert.equal(actual, expected);
      });
    }
    after(() => {
      if (isWriting && written.length === cases.length) writeFileSync(path, written.join('\n'));
    });
  });
}
