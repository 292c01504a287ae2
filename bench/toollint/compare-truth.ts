// Measures, over the history of a repository, how many of the findings that a comparison calls new are actually
// known.
//
//   bin/node bench/toollint/compare-truth.ts REPOSITORY COMMITS --config FILE
//
// Compares each of the last COMMITS commits along the first-parent history with its predecessor, in the changed files,
// in two ways: with the predecessor's report and with its baseline file. A new finding is called known if its file has
// no more findings with the same rule, message (digits masked) and declared name than before. Such a finding can still
// be new, if an old one was removed and another one added, so the share is an upper bound. Exits with code 1 if it
// exceeds 2 %. Clones the repository into a temporary folder.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { renamed, baselineText, readBaselineFile } from '../../lib/toollint/compare/baseline.ts';
import { matchFindings } from '../../lib/toollint/compare/finding-match.ts';
import { changesSince, type SourceChanges } from '../../lib/toollint/compare/source-changes.ts';
import { masked } from '../../lib/toollint/document/fingerprint.ts';
import { analyse } from '../../lib/toollint/scan/analyse.ts';
import { type Finding, memorySource } from '../../lib/toollint/toollint.ts';

const SHARE_MAX = 0.02;
const { values, positionals } = parseArgs({ options: { config: { type: 'string' } }, allowPositionals: true });
const [repository = '', commits = ''] = positionals;
if (positionals.length !== 2 || values.config === undefined)
  throw new Error('usage: bin/node bench/toollint/compare-truth.ts REPOSITORY COMMITS --config FILE');
const config = resolve(values.config);
const folder = mkdtempSync(join(tmpdir(), 'toollint-truth-'));
const tree = join(folder, 'tree');
const git = (...args: string[]) =>
  execFileSync('git', ['-C', tree, '-c', 'core.quotePath=false', ...args], { encoding: 'utf8', maxBuffer: 1 << 30 });

const CODE = ['*.js', '*.cjs', '*.mjs'];
const isCode = (path: string) => /\.[cm]?js$/u.test(path) && !/^dist\/|\.min\.js$/u.test(path);

async function scanned(commit: string, paths: readonly string[]): Promise<readonly Finding[]> {
  git('checkout', '--quiet', '--force', commit);
  const code = paths.filter(isCode);
  return code.length === 0 ? [] : (await analyse({ root: tree, config, paths: code })).report.findings;
}

/** A declaration of another name is another finding. */
const DECLARATION = /\b(?:var|let|const|function|class)\s+([\w$]+)/u;

function counted(findings: readonly Finding[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { ruleId, message, location, codeSnippet = '' } of findings) {
    const name = DECLARATION.exec(codeSnippet)?.[1];
    const key = JSON.stringify([location.path, ruleId, masked(message), name]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Counts the new findings that no increase in findings with their file, rule, message and name explains. */
function knownAmong(news: readonly Finding[], before: readonly Finding[], after: readonly Finding[]): number {
  const [was, now] = [counted(before), counted(after)];
  return [...counted(news)].reduce((sum, [key, count]) => {
    const more = Math.max(0, (now.get(key) ?? 0) - (was.get(key) ?? 0));
    return sum + Math.max(0, count - more);
  }, 0);
}

const totals = new Map<string, { known: number; news: number }>();

type Findings = readonly Finding[];

/** `baseline` has the findings `before` as a report or as a baseline file, which has no source lines. */
function compare(name: string, baseline: Findings, before: Findings, after: Findings, changes: SourceChanges): void {
  const entries = baseline.map((finding) => ({ finding }));
  const { known } = matchFindings(entries, after, changes);
  const news = after.filter((finding) => !known.has(finding));
  const total = totals.get(name) ?? { known: 0, news: 0 };
  total.known += knownAmong(news, before, after);
  total.news += news.length;
  totals.set(name, total);
}

async function step(old: string, commit: string): Promise<void> {
  const changed = git('diff', '--name-status', '--find-renames', '-l0', old, commit).trim().split('\n');
  const rows = changed.map((line) => line.split('\t'));
  const renames = new Map(
    rows.flatMap(([kind = '', from = '', to = '']) => (kind.startsWith('R') ? [[from, to]] : [])),
  );
  const was = rows.flatMap(([kind, path]) => (kind === 'A' || path === undefined ? [] : path));
  const now = rows.flatMap((row) => (row[0] === 'D' ? [] : (row.at(-1) ?? [])));
  const before = await scanned(old, was);
  const after = await scanned(commit, now);
  const changes = changesSince(old, tree);
  const moved = (findings: readonly Finding[]) => findings.map((finding) => renamed(finding, renames));
  const text = baselineText(
    before.map((finding) => ({ finding })),
    'ESLint',
  );
  const file = (await readBaselineFile(memorySource(text, 'baseline'))).entries.map(({ finding }) => finding);
  compare('report', moved(before), moved(before), after, changes);
  compare('baseline file', moved(file), moved(before), after, changes);
}

try {
  execFileSync('git', ['clone', '--quiet', '--shared', '--no-checkout', '--', resolve(repository), tree]);
  const names = git('log', '--first-parent', '--format=%H', `--max-count=${Number(commits) + 1}`, '--', ...CODE);
  const history = names.trim().split('\n').reverse();
  for (const [index, commit] of history.slice(1).entries()) await step(history[index] as string, commit);
  for (const [name, { known, news }] of totals) {
    const share = known / Math.max(1, news);
    process.stdout.write(`${name}: ${known} of ${news} new findings are known (${(100 * share).toFixed(1)} %)\n`);
    if (share > SHARE_MAX) process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
