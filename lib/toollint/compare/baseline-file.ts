// The baseline file: JSON Lines, one known finding per line, sorted.
//
// A report is unsuitable as a baseline in git, because its counts conflict on every branch. A line of this file
// contains nothing that changes when code moves: no line or column, numbers in the message masked as '#', and only
// the half of the fingerprint that does not depend on the path.
import { type DocumentSource, textIn } from '../document/document-source.ts';
import { FINGERPRINT_VERSION, SEVERITIES } from '../document/report-format.ts';
import { anchorIn } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { isOurs, masked, placeHalf } from '../document/fingerprint.ts';
import { byCodeUnits, pathFault } from '../document/report-path.ts';
import type { Finding, Severity } from '../document/report-schema.ts';
import { isObject, readJson } from '../document/strict-json.ts';

export interface Acceptance {
  readonly reason: string;
  readonly until?: string | undefined;
}

export interface BaselineEntry {
  /** A finding from a baseline file has no line and no column. */
  readonly finding: Finding;
  readonly accepted?: Acceptance | undefined;
}

const FORMAT = 'toollint/1';
const HEAD = Buffer.from('{"baseline":');

/** Checks only the first bytes, so the file may still be invalid. */
export function isBaselineFile({ bytes }: DocumentSource): boolean {
  return HEAD.equals(bytes.subarray(0, HEAD.length));
}

/** `linter` is a name and a major version, so that a minor update of the linter does not change the file. */
export function baselineText(entries: readonly BaselineEntry[], linter: string, commit?: string): string {
  const lines = entries.map(lineOf).sort(byCodeUnits);
  return [JSON.stringify({ baseline: FORMAT, linter, commit }), ...lines, ''].join('\n');
}

/** Returns several commits after a merge that kept the first lines of both sides, and none for a report. */
export function commitsIn(source: DocumentSource): string[] {
  if (!isBaselineFile(source)) return [];
  const heads = textIn(source).split('\n').filter(isHead).map(objectIn);
  return heads.flatMap((head) =>
    /^[0-9a-f]{40,64}$/u.test(String(head?.['commit'])) ? [String(head?.['commit'])] : [],
  );
}

export function isSameBaseline(one: string, other: string): boolean {
  const [mine, theirs] = [one, other].map((text) => text.replace(/^(\{"baseline":.*),"commit":"[^"]*"\}$/mu, '$1}'));
  return mine === theirs;
}

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

export function readBaselineFile(source: DocumentSource) {
  const { name } = source;
  const [head = '', ...lines] = textIn(source).split('\n');
  const refuse = (line: number, fault: string): never => {
    throw new ReportFailure('baseline', `the baseline ${name} cannot be used: line ${line}: ${fault}`);
  };
  const { baseline, linter } = objectIn(head) ?? refuse(1, 'not a JSON object');
  if (baseline !== FORMAT) refuse(1, `expected the format ${FORMAT}, found ${JSON.stringify(baseline)}`);
  if (lines.at(-1) === '') lines.pop();
  const entries = lines.flatMap((line, index): BaselineEntry | [] => {
    if (isHead(line)) return [];
    const members = objectIn(line) ?? refuse(index + 2, 'not a JSON object');
    const entry = entryOf(members);
    return typeof entry === 'string' ? refuse(index + 2, entry) : entry;
  });
  const [linterName = '', version = ''] = typeof linter === 'string' ? linter.split(/ (?=[^ ]*$)/u) : [];
  return { entries, linter: version === '' ? undefined : { name: linterName, version } };
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
  const date = new Date(`${value}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(value);
}
