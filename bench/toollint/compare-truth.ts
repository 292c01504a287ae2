// How true a comparison is: two commits of a real repository, what toollint calls new, held against a line diff.
//
//   bin/node bench/toollint/compare-truth.ts REPOSITORY OLD NEW [--profile recommended|strict]
//
// A finding of NEW is untouched when git's line diff of the two commits (renames followed) has its line unchanged and
// OLD has a finding of the same rule and message on the counterpart of that line. Every untouched finding has to be
// "unchanged"; those that are "new" are counted, and the share is printed. Exit code 1 above 0.5 %, or when the counts
// of the comparison do not add up.
//
// Both commits are checked out into temporary folders; nothing of the repository is changed or kept.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Finding, Report } from '../../lib/toollint/toollint.ts';

const SHARE_MAX = 0.005;
const { values, positionals } = parseArgs({
  options: { profile: { type: 'string', default: 'strict' } },
  allowPositionals: true,
});
const [given = '', oldCommit = '', newCommit = ''] = positionals;
if (newCommit === '')
  throw new Error('usage: bin/node bench/toollint/compare-truth.ts REPOSITORY OLD NEW [--profile NAME]');
const repository = resolve(given);
const toollint = fileURLToPath(new URL('../../bin/toollint', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'toollint-truth-'));
const git = (...args: string[]) =>
  execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8', maxBuffer: 1 << 30 });

function scanOf(commit: string, name: string): Report {
  const place = join(folder, name);
  mkdirSync(place);
  execFileSync('tar', ['-x', '-C', place], {
    input: execFileSync('git', ['-C', repository, 'archive', commit], { maxBuffer: 1 << 30 }),
  });
  own(['scan', '--root', place, '--profile', values.profile, '--silent', '-o', join(folder, `${name}.json`)]);
  return JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Report;
}

function own(args: readonly string[]): void {
  const { status, stderr } = spawnSync(toollint, args, { cwd: folder, encoding: 'utf8' });
  if (![0, 1, 3].includes(status ?? -1)) throw new Error(stderr);
}

/** New path -> its old path and, for each of its unchanged lines, the old line. */
function counterparts(): { pathOf: Map<string, string>; hunks: Map<string, [number, number, number, number][]> } {
  const pathOf = new Map<string, string>();
  const hunks = new Map<string, [number, number, number, number][]>();
  let path = '';
  let old = '';
  for (const line of git(
    '-c',
    'core.quotePath=false',
    'diff',
    '-U0',
    '-M',
    '-l0',
    '--no-ext-diff',
    oldCommit,
    newCommit,
  ).split('\n')) {
    if (line.startsWith('rename from ')) old = line.slice('rename from '.length);
    else if (line.startsWith('rename to ')) pathOf.set(line.slice('rename to '.length), old);
    else if (line.startsWith('+++ b/')) hunks.set((path = line.slice('+++ b/'.length)), []);
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/u.exec(line);
    if (hunk === null) continue;
    const [from = 0, removed = 1, to = 0, added = 1] = hunk
      .slice(1)
      .map((text) => (text === undefined ? undefined : Number(text)));
    hunks.get(path)?.push([from, removed, to, added]);
  }
  return { pathOf, hunks };
}

/** The old line of an unchanged new line; undefined for one that was added or changed. */
function oldLine(line: number, hunks: readonly [number, number, number, number][]): number | undefined {
  let shift = 0;
  for (const [, removed, to, added] of hunks) {
    if (line < to || (added === 0 && line <= to)) break;
    if (line < to + added) return undefined;
    shift += removed - added;
  }
  return line + shift;
}

const keyOf = ({ ruleId, message }: Finding, path: string, line: number) =>
  JSON.stringify([ruleId, message, path, line]);
const positionOf = ({ location, ruleId, message }: Finding) =>
  JSON.stringify([location.path, location.line, location.column, ruleId, message]);

try {
  const before = scanOf(oldCommit, 'old');
  const after = scanOf(newCommit, 'new');
  const { pathOf, hunks } = counterparts();
  const map = join(folder, 'renames.json');
  writeFileSync(map, JSON.stringify(Object.fromEntries([...pathOf].map(([to, from]) => [from, to]))));
  own([
    'compare',
    join(folder, 'old.json'),
    join(folder, 'new.json'),
    '--renames',
    map,
    '--silent',
    '-o',
    join(folder, 'delta.json'),
  ]);
  const delta = JSON.parse(readFileSync(join(folder, 'delta.json'), 'utf8')) as Report;
  const known = new Map<string, number>();
  for (const finding of before.findings) {
    const key = keyOf(finding, finding.location.path ?? '', finding.location.line ?? 0);
    known.set(key, (known.get(key) ?? 0) + 1);
  }
  const isNew = new Set(delta.findings.map(positionOf));
  let untouched = 0;
  let wrong = 0;
  for (const finding of after.findings) {
    const { path = '', line = 0 } = finding.location;
    const was = oldLine(line, hunks.get(path) ?? []);
    const key = was === undefined ? '' : keyOf(finding, pathOf.get(path) ?? path, was);
    const left = known.get(key) ?? 0;
    if (left === 0) continue;
    known.set(key, left - 1);
    untouched += 1;
    if (isNew.has(positionOf(finding))) wrong += 1;
  }
  const { newIssues = 0, unchanged = 0, fixed = 0 } = delta.selection.baseline ?? {};
  const baselined = before.findings.filter(({ ruleId }) => ruleId !== 'PARSE-ERROR' && ruleId !== 'eslint/core').length;
  const addsUp =
    newIssues + unchanged === after.findings.length &&
    unchanged + fixed <= baselined &&
    delta.findings.length === newIssues;
  const share = untouched === 0 ? 0 : wrong / untouched;
  process.stdout.write(
    `${before.findings.length} findings before, ${after.findings.length} after: ${newIssues} new, ${unchanged} unchanged, ${fixed} fixed\n`,
  );
  process.stdout.write(
    `${untouched} untouched, of which ${wrong} shown as new: ${(share * 100).toFixed(2)} % (limit ${SHARE_MAX * 100} %)\n`,
  );
  process.stdout.write(`the counts ${addsUp ? 'add up' : 'DO NOT add up'}\n`);
  process.exitCode = share > SHARE_MAX || !addsUp ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
