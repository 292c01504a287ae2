// How true a comparison is: two commits of a real repository, what toollint calls new and fixed, held against a line
// diff; and how a baseline file fares in git.
//
//   bin/node bench/toollint/compare-truth.ts REPOSITORY OLD NEW --config FILE [--merges N]
//
// A finding is untouched when git's line diff of the two commits (renames followed) has its line unchanged, and both
// commits have a finding of the same rule and message there. Every untouched finding has to be "unchanged": those that
// are called new or fixed are counted, for `compare --renames git:OLD` and for a baseline file of OLD. The size of that
// file is printed, and how many of its lines change when a comment is put on top of every file. With --merges the last
// N merges of NEW's history are made again with the baseline files of both sides, plainly and as with merge=union. Of
// the union, the deleted lines that it keeps and the lines that it loses or makes up are counted. Exit code 1 above
// 0.5 %.
//
// The repository is cloned into a temporary folder; nothing of it is changed or kept.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Finding, Report } from '../../lib/toollint/toollint.ts';

const SHARE_MAX = 0.005;
const { values, positionals } = parseArgs({
  options: { config: { type: 'string' }, merges: { type: 'string', default: '0' } },
  allowPositionals: true,
});
const [repository = '', ...names] = positionals;
if (names.length !== 2 || values.config === undefined)
  throw new Error('usage: bin/node bench/toollint/compare-truth.ts REPOSITORY OLD NEW --config FILE [--merges N]');
const config = resolve(values.config);
const [oldCommit = '', newCommit = ''] = names.map((name) =>
  execFileSync('git', ['-C', repository, 'rev-parse', '--verify', `${name}^{commit}`], { encoding: 'utf8' }).trim(),
);
const toollint = fileURLToPath(new URL('../../bin/toollint', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'toollint-truth-'));
const tree = join(folder, 'tree');
const git = (...args: string[]) =>
  execFileSync('git', ['-C', tree, '-c', 'core.quotePath=false', ...args], { encoding: 'utf8', maxBuffer: 1 << 30 });

function own(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(toollint, args, { cwd: tree, encoding: 'utf8', maxBuffer: 1 << 30 });
  if (![0, 1, 3].includes(status ?? -1)) throw new Error(stderr);
  return stdout;
}

const scan = (...args: readonly string[]) => own('scan', '--config', config, '--silent', ...args);
/** Parse errors are never part of a baseline unless they are accepted. */
const writeBaseline = (file: string) =>
  scan('--baseline', file, '--update-baseline', '--accept', 'PARSE-ERROR', '--reason', 'as it is', '-o', '/dev/null');

/** New path -> its old path, and the hunks of each new path as old start, old count, new start, new count. */
function counterparts() {
  const pathOf = new Map<string, string>();
  const hunks = new Map<string, number[][]>();
  let path = '';
  let old = '';
  const patch = git('diff', '-U0', '-M', '-l0', '--no-ext-diff', oldCommit, newCommit);
  for (const line of patch.split('\n')) {
    if (line.startsWith('rename from ')) old = line.slice('rename from '.length);
    else if (line.startsWith('rename to ')) pathOf.set(line.slice('rename to '.length), old);
    else if (line.startsWith('+++ b/')) hunks.set((path = line.slice('+++ b/'.length)), []);
    const numbers = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/u.exec(line)?.slice(1);
    if (numbers !== undefined) hunks.get(path)?.push(numbers.map((text: string | undefined) => Number(text ?? 1)));
  }
  return { pathOf, hunks };
}

/** The old line of an unchanged new line; undefined for one that was added or changed. */
function oldLine(line: number, hunks: readonly number[][]): number | undefined {
  let shift = 0;
  for (const [, removed = 1, to = 0, added = 1] of hunks) {
    if (line < to || (added === 0 && line <= to)) break;
    if (line < to + added) return undefined;
    shift += removed - added;
  }
  return line + shift;
}

const keyOf = ({ ruleId, message, location }: Finding, path = location.path, line = location.line) =>
  JSON.stringify([ruleId, message, path, line]);

/** The findings of both sides that a line diff calls the same, by their keys. */
function untouched(before: Report, after: Report) {
  const { pathOf, hunks } = counterparts();
  const known = counted(before.findings.map((finding) => keyOf(finding)));
  const [old, now] = [new Map<string, number>(), new Map<string, number>()];
  for (const finding of after.findings) {
    // ESLint's own messages are never part of a baseline.
    if (finding.ruleId === 'eslint/core') continue;
    const { path = '', line = 0 } = finding.location;
    const was = oldLine(line, hunks.get(path) ?? []);
    const key = keyOf(finding, pathOf.get(path) ?? path, was ?? -1);
    const left = known.get(key) ?? 0;
    if (left === 0) continue;
    known.set(key, left - 1);
    old.set(key, (old.get(key) ?? 0) + 1);
    now.set(keyOf(finding), (now.get(keyOf(finding)) ?? 0) + 1);
  }
  return { old, now, pathOf };
}

function counted(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((total, count) => total + count, 0);
/** How many of the findings are untouched ones, at least: of a key, all that the others of that key do not explain. */
function wrongly(findings: readonly Finding[], same: ReadonlyMap<string, number>, all: readonly Finding[]): number {
  const everywhere = counted(all.map((finding) => keyOf(finding)));
  return [...counted(findings.map((finding) => keyOf(finding)))].reduce((wrong, [key, count]) => {
    const touched = (everywhere.get(key) ?? 0) - (same.get(key) ?? 0);
    return wrong + Math.max(0, count - touched);
  }, 0);
}

function tell(what: string, wrong: number, total: number): void {
  const share = total === 0 ? 0 : wrong / total;
  process.stdout.write(`${what}: ${wrong} of ${total} untouched findings (${(share * 100).toFixed(2)} %)\n`);
  if (share > SHARE_MAX) process.exitCode = 1;
}

interface Merged {
  readonly conflicts: boolean;
  /** Lines of the union that one side had deleted. */
  readonly kept: number;
  /** Lines of both sides that the union does not have, and lines that neither side has. */
  readonly wrong: number;
}

/** The baseline files of a merge's three sides, merged by git; undefined where only one side changed the file. */
function mergedAgain(merge: string): Merged | undefined {
  const [one = '', two = ''] = git('rev-parse', `${merge}^1`, `${merge}^2`).split('\n');
  const base = git('merge-base', one, two).trim();
  const files = [one, base, two].map((commit, index) => {
    const file = join(folder, `side-${index}.jsonl`);
    rmSync(file, { force: true });
    git('checkout', '--quiet', '--force', commit);
    writeBaseline(file);
    return file;
  });
  const texts = files.map((file) => readFileSync(file, 'utf8'));
  if (texts[0] === texts[1] || texts[1] === texts[2]) return undefined;
  const conflicts = spawnSync('git', ['merge-file', '-p', '--quiet', ...files], { stdio: 'ignore' }).status !== 0;
  const union = execFileSync('git', ['merge-file', '-p', '--union', ...files], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  const [ours, before, theirs, all] = [...texts, union].map((text) => new Set(text.split('\n')));
  if (ours === undefined || before === undefined || theirs === undefined || all === undefined) return undefined;
  const isKept = (line: string) => before.has(line) && !(ours.has(line) && theirs.has(line));
  const lost = [...ours].filter((line) => theirs.has(line) && !all.has(line));
  const madeUp = [...all].filter((line) => !ours.has(line) && !theirs.has(line));
  return { conflicts, kept: [...all].filter(isKept).length, wrong: lost.length + madeUp.length };
}

try {
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', '--', resolve(repository), tree]);
  git('checkout', '--quiet', oldCommit);
  const [oldReport, file] = [join(folder, 'old.json'), join(folder, 'old.jsonl')];
  scan('-o', oldReport);
  writeBaseline(file);
  git('checkout', '--quiet', newCommit);
  const nowReport = join(folder, 'now.json');
  scan('-o', nowReport);
  const read = (path: string) => JSON.parse(readFileSync(path, 'utf8')) as Report;
  const [before, after] = [read(oldReport), read(nowReport)];
  const same = untouched(before, after);
  const list = (name: string, ...args: readonly string[]) =>
    (
      JSON.parse(own('compare', oldReport, nowReport, '--list', name, '--format', 'json', '--silent', ...args)) as {
        findings: Finding[];
      }
    ).findings;
  const total = sum(same.now);
  process.stdout.write(`${before.findings.length} findings before, ${after.findings.length} after\n`);
  const since = ['--renames', `git:${oldCommit}`];
  tell('reports, new', wrongly(list('new', ...since), same.now, after.findings), total);
  // What is fixed in a renamed file is listed at its new path.
  const fixed = list('fixed', ...since).map((finding): Finding => {
    const { path = '' } = finding.location;
    return { ...finding, location: { ...finding.location, path: same.pathOf.get(path) ?? path } };
  });
  tell('reports, fixed', wrongly(fixed, same.old, before.findings), total);
  const delta = JSON.parse(scan('--baseline', file, ...since)) as Report;
  tell('baseline file, new', wrongly(delta.findings, same.now, after.findings), total);
  const bytes = statSync(file).size;
  process.stdout.write(`baseline file: ${bytes} bytes, report: ${statSync(oldReport).size} bytes\n`);
  git('checkout', '--quiet', oldCommit);
  const moved = read(oldReport).findings.flatMap(({ location }) => location.path ?? []);
  for (const path of new Set(moved)) {
    const text = readFileSync(join(tree, path), 'utf8');
    const isCode = /\.[cm]?[jt]sx?$/u.test(path) && !text.startsWith('#!');
    if (isCode) writeFileSync(join(tree, path), `// a comment\n${text}`);
  }
  const known = readFileSync(file, 'utf8');
  writeBaseline(file);
  const lines = new Set(readFileSync(file, 'utf8').split('\n'));
  const changed = known.split('\n').filter((line) => !lines.has(line)).length;
  process.stdout.write(
    `a comment on top of ${new Set(moved).size} files changes ${changed} lines of the baseline file\n`,
  );
  const merges = git('rev-list', '--merges', `--max-count=${values.merges}`, newCommit).split('\n').filter(Boolean);
  const outcomes = merges.map(mergedAgain).filter((outcome) => outcome !== undefined);
  if (merges.length > 0)
    process.stdout.write(
      `of ${merges.length} merges both sides changed the file in ${outcomes.length}: ` +
        `${outcomes.filter(({ conflicts }) => conflicts).length} conflicts; with merge=union none, ` +
        `${outcomes.reduce((sum, { kept }) => sum + kept, 0)} deleted lines are kept, ` +
        `${outcomes.reduce((sum, { wrong }) => sum + wrong, 0)} are wrong\n`,
    );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
