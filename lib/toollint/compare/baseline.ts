// A baseline, the known findings: an earlier report or a baseline file, which is JSON Lines with one finding per line,
// sorted. A line contains nothing that changes when code moves, and of a fingerprint only the half that does not depend
// on the path. An invalid baseline is refused: if it were read as empty, every finding would be new.
import { type DocumentSource, textIn } from '../document/document-source.ts';
import { FINGERPRINT_VERSION, PARSE_ERROR_RULE, SEVERITIES } from '../document/report-format.ts';
import { anchorIn, hasLineText, lintersOf } from '../document/extension.ts';
import { type Pause, pausesFor, ReportFailure } from '../document/failure.ts';
import { isOurs, masked, placeHalf } from '../document/fingerprint.ts';
import { byCodeUnits, pathFault } from '../document/report-path.ts';
import { openReport } from '../document/read-report.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import { isObject, readJson } from '../document/strict-json.ts';

export type Acceptance = { readonly reason: string; readonly until?: string | undefined };

export interface BaselineEntry {
  /** A finding from a baseline file has no line and no column. */
  readonly finding: Finding;
  readonly accepted?: Acceptance | undefined;
}

const FORMAT = 'toollint/1';
const HEAD = Buffer.from('{"baseline":');

/** `linter` is a name and a major version, so that a minor update of the linter does not change the file. */
export function baselineText(entries: readonly BaselineEntry[], linter: string, commit?: string): string {
  const counts = new Map<string, number>();
  const lines = entries
    .map((entry) => ({ line: lineOf(entry), key: keyOf(entry) }))
    .sort((one, other) => byCodeUnits(one.line, other.line))
    .map(({ line, key }) => {
      const occurrence = (counts.get(key) ?? 0) + 1;
      counts.set(key, occurrence);
      return occurrence === 1 ? line : `${line.slice(0, -1)},"occurrence":${occurrence}}`;
    });
  const head = JSON.stringify({ baseline: FORMAT, linter, unique: true, commit });
  return [head, ...lines.sort(byCodeUnits), ''].join('\n');
}

/** Returns several commits after a merge that kept the first lines of both sides, and none for a report. */
export function commitsIn(source: DocumentSource): string[] {
  const heads = textIn(source).matchAll(/^\{"baseline":.*"commit":"([0-9a-f]{40,64})"\}$/gmu);
  return Array.from(heads, ([, commit = '']) => commit);
}

export function isSameBaseline(one: string, other: string): boolean {
  const [mine, theirs] = [one, other].map((text) => text.replace(/^(\{"baseline":.*),"commit":"[^"]*"\}$/mu, '$1}'));
  return mine === theirs;
}

export const isBaselineFile = ({ bytes }: DocumentSource) => HEAD.equals(bytes.subarray(0, HEAD.length));

const isHead = (line: string) => line.startsWith(HEAD.toString());

function lineOf({ finding, accepted }: BaselineEntry): string {
  const { ruleId, severity, message, fingerprint, location } = finding;
  return JSON.stringify({
    path: location.path,
    ...{ ruleId, severity, message: masked(message) },
    ...(isOurs(finding) ? { content: fingerprint.slice(0, 32) } : { fingerprint }),
    anchor: anchorIn(finding)?.whole,
    accepted,
  });
}

/** Equal lines differ at most in severity and acceptance, because two branches may accept one finding. */
function keyOf({ finding }: BaselineEntry, occurrence?: unknown): string {
  const { ruleId, message, fingerprint } = finding;
  return JSON.stringify([ruleId, masked(message), fingerprint, anchorIn(finding)?.whole, occurrence]);
}

export async function readBaselineFile(source: DocumentSource, pause: Pause = pausesFor()) {
  const { name } = source;
  const [head = '', ...lines] = textIn(source).split('\n');
  const refuse = (line: number, fault: string): never => {
    throw new ReportFailure('baseline', `the baseline ${name} cannot be used: line ${line}: ${fault}`);
  };
  const { baseline, linter } = objectIn(head) ?? refuse(1, 'not a JSON object');
  if (baseline !== FORMAT) refuse(1, `expected the format ${FORMAT}, found ${JSON.stringify(baseline)}`);
  if (lines.at(-1) === '') lines.pop();
  // git's union merge keeps the first lines of both sides, and doubles lines, which would make a copy of a finding
  // known. Version 1.0.0 did not number the lines of equal findings, so its files have equal lines without a merge.
  const heads = [head, ...lines.filter(isHead)];
  const isUnique = heads.length > 1 || objectIn(head)?.['unique'] === true;
  const keys = new Set<string>();
  const entries: BaselineEntry[] = [];
  for (const [index, line] of lines.entries()) {
    if (isHead(line)) continue;
    const members = objectIn(line) ?? refuse(index + 2, 'not a JSON object');
    const entry = entryOf(members);
    if (typeof entry === 'string') return refuse(index + 2, entry);
    const key = keyOf(entry, members['occurrence']);
    if (isUnique && keys.has(key)) continue;
    keys.add(key);
    entries.push(entry);
    await pause();
  }
  return { entries, linter: typeof linter === 'string' ? linter : '' };
}

function objectIn(line: string): Record<string, unknown> | undefined {
  const { value, problems } = readJson(line);
  return problems.length === 0 && isObject(value) ? value : undefined;
}

/** Returns the entry, or a text that names the fault of the line. */
function entryOf(members: Record<string, unknown>): BaselineEntry | string {
  const { path, ruleId, severity, message, content, fingerprint: foreign, accepted, anchor } = members;
  if (path !== undefined && (typeof path !== 'string' || pathFault(path) !== undefined)) return 'no report path';
  if (typeof ruleId !== 'string' || ruleId === '') return 'no rule id';
  if (!SEVERITIES.some((known) => known === severity)) return 'no severity';
  if (typeof message !== 'string') return 'no message';
  const scope = path === undefined ? 'project' : 'file';
  const fingerprint = typeof content === 'string' ? content + placeHalf(scope, path ?? '') : foreign;
  if (typeof fingerprint !== 'string' || fingerprint === '') return 'no fingerprint';
  const location: Finding['location'] = path === undefined ? { scope } : { scope, path };
  const finding: Finding = {
    ...{ ruleId, severity: severity as Severity, message, fingerprint, fingerprintVersion: FINGERPRINT_VERSION },
    ...{ occurrence: 1, location, standardIds: [] },
  };
  if (anchor !== undefined) Object.assign(finding, { anchor });
  if (accepted === undefined) return { finding };
  const { reason, until } = (accepted ?? {}) as Record<string, unknown>;
  if (typeof reason !== 'string' || reason === '') return 'an acceptance without a reason';
  if (until !== undefined && !isDay(until)) return 'an acceptance until no day';
  return { finding, accepted: { reason, until } };
}

export function isDay(value: unknown): value is string {
  if (typeof value !== 'string' || !/^\d{4}-\d{2}-\d{2}$/u.test(value)) return false;
  return new Date(`${value}T00:00:00Z`).toJSON()?.startsWith(value) === true;
}

export type Baseline = Awaited<ReturnType<typeof readBaseline>>;
type BaselineUser = Pick<ReportHeader, 'tool'> & { readonly quiet: boolean; readonly today: string };

/** Renames map old paths to new ones. Throws ReportFailure if the baseline cannot be used. */
export async function readBaseline(
  source: DocumentSource,
  user: BaselineUser,
  renamesOf: (entries: readonly BaselineEntry[]) => ReadonlyMap<string, string>,
  pause: Pause,
) {
  const { entries, linter, errorsOnly, notes } = isBaselineFile(source)
    ? { ...(await readBaselineFile(source, pause)), errorsOnly: false, notes: [] as string[] }
    : readFromReport(source, user);
  const own = majorLinter(user);
  if (linter !== '' && own !== '' && linter !== own)
    notes.push(`the baseline ${source.name} is of ${linter}, this is ${own}`);
  // The findings of these entries are new.
  const isExpired = ({ accepted }: BaselineEntry) => accepted?.until !== undefined && accepted.until < user.today;
  const renames = renamesOf(entries);
  const moved = entries.map((entry) => ({ ...entry, finding: renamed(entry.finding, renames) }));
  const { true: expired = [], false: valid = [] } = Object.groupBy(moved, (entry) => `${isExpired(entry)}`);
  return { entries: valid, expired, errorsOnly, notes, renames };
}

/** A parse error is always new unless it was accepted. */
export const isNeverBaselined = ({ ruleId }: Pick<Finding, 'ruleId'>) => ruleId === PARSE_ERROR_RULE;

/** Such as 'ESLint 10'; '' for a report of several linters. */
export function majorLinter(report: Pick<ReportHeader, 'tool'>): string {
  const [{ name, version } = { name: '', version: '' }, ...others] = lintersOf(report);
  if (others.length > 0) return '';
  return `${name} ${version.split('.')[0] ?? ''}`.trim();
}

export function renamed(finding: Finding, renames: ReadonlyMap<string, string>): Finding {
  const { location, fingerprint: old } = finding;
  const path = renames.get(location.path ?? '');
  if (path === undefined || location.scope !== 'file') return finding;
  const fingerprint = isOurs(finding) ? old.slice(0, 32) + placeHalf('file', path) : old;
  return { ...finding, fingerprint, location: { ...location, path } };
}

/**
 * Pairs each file that is gone with the new file that has more than half of its findings, as git does with lines, for
 * when git cannot name the renames. Each file is paired once, so a copy stays new.
 */
export function likelyRenames(
  entries: readonly BaselineEntry[],
  findings: readonly Finding[],
  exists: (path: string) => boolean,
): [old: string, now: string][] {
  const before = contentsByFile(entries.map(({ finding }) => finding));
  const missing = [...before.values()].filter(({ path }) => !exists(path));
  if (missing.length === 0) return [];
  const fresh = [...contentsByFile(findings).values()].filter(({ path }) => !before.has(path) && exists(path));
  const pairs = missing.flatMap((old) => fresh.map((now) => ({ old, now, share: commonShare(old, now) })));
  const similar = pairs.filter(({ share }) => share > 1 / 2).sort((one, other) => other.share - one.share);
  const paired = new Set<unknown>();
  return similar.flatMap(({ old, now }): [string, string][] => {
    if (paired.has(old) || paired.has(now)) return [];
    paired.add(old).add(now);
    return [[old.path, now.path]];
  });
}

function contentsByFile(findings: readonly Finding[]) {
  const inFiles = findings.filter(({ location }) => location.scope === 'file');
  // Without a line of source text, equal findings of two files say little.
  const contentOf = (one: Finding) => (isOurs(one) && hasLineText(one) ? one.fingerprint.slice(0, 32) : undefined);
  const files = Map.groupBy(inFiles, ({ location }) => location.path ?? '');
  return new Map(Array.from(files, ([path, own]) => [path, { path, own, contents: Map.groupBy(own, contentOf) }]));
}

type FileContents = NonNullable<ReturnType<ReturnType<typeof contentsByFile>['get']>>;

function commonShare(old: FileContents, now: FileContents): number {
  let common = 0;
  for (const [content, { length }] of old.contents)
    if (content !== undefined) common += Math.min(length, now.contents.get(content)?.length ?? 0);
  return common / Math.max(old.own.length, now.own.length);
}

function readFromReport(source: DocumentSource, user: BaselineUser) {
  const report = openReport(source);
  const { tool, execution, selection } = report;
  const refuse = (fault: string): never => {
    throw new ReportFailure('baseline', `the baseline ${source.name} cannot be used: ${fault}`);
  };
  if (tool.name !== user.tool.name) refuse(`it was written by ${tool.name}, not by ${user.tool.name}`);
  if (execution.status === 'no-files') refuse('its scan found no files');
  if (selection.baseline !== undefined) refuse('it lists only what was new against another baseline');
  const errorsOnly = selection.quiet;
  if (errorsOnly && !user.quiet) refuse('it lists errors only; compare with --quiet or make a full one');
  const counts = (finding: Finding) => !isNeverBaselined(finding) && (!errorsOnly || finding.severity === 'error');
  const entries = report.findings.filter(counts).map((finding): BaselineEntry => ({ finding }));
  const note = `the baseline ${source.name} is incomplete: findings in the files that it missed may look new`;
  const notes = execution.status === 'incomplete' ? [note] : [];
  return { entries, linter: majorLinter(report), errorsOnly, notes };
}
