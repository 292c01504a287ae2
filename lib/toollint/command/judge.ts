// Turns findings into a report by applying the baseline, the gate and the quiet filter. Also computes the next text
// of the baseline file. The quiet filter only shortens the list; it changes neither the verdict of the gate nor the
// exit code.
import { type Baseline, isNeverBaselined, majorOf, readBaseline } from '../compare/baseline.ts';
import { type Acceptance, type BaselineEntry, baselineText } from '../compare/baseline-file.ts';
import { compareWith, type Comparison, countsOf, type DoubtsOf } from '../compare/comparison.ts';
import { matchFindings } from '../compare/finding-match.ts';
import type { SourceChanges } from '../compare/source-changes.ts';
import { countSeverities, isReserved, PARSE_ERROR_RULE, summaryOf } from '../document/consistency.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { type Linter, lintersOf } from '../document/extension.ts';
import { usageFailure } from '../document/failure.ts';
import { numberOccurrences } from '../document/file-findings.ts';
import { SCHEMA_VERSION } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report, ReportHeader, Scan } from '../document/report-schema.ts';
import { evaluateGate, type GateConfig } from '../gate/gate.ts';
import type { Analysis } from '../scan/scan-options.ts';

export interface JudgeOptions {
  readonly quiet?: boolean;
  readonly baseline?: DocumentSource | undefined;
  /** The changes since the baseline, or the reason why they are unknown. */
  readonly changes?: SourceChanges | string | undefined;
  readonly update?: BaselineUpdate | undefined;
  readonly gate?: GateConfig | undefined;
}

/**
 * An update removes the findings that are gone from the baseline: the fixed ones, and in checked files those that are
 * not verifiable. Without a baseline, it records all findings except parse errors.
 */
export interface BaselineUpdate {
  readonly accept?: { readonly rules: readonly string[]; readonly acceptance: Acceptance } | undefined;
  /** The commit of the scanned files. */
  readonly commit?: string | undefined;
  /** True if the baseline file is not in the root, which may then be the wrong folder. */
  readonly isElsewhere?: boolean;
}

/** The findings of a scan, an import or a report, before the baseline, the gate and the filter are applied. */
export interface Found extends Pick<Analysis, 'findings' | 'diagnostics' | 'totalFiles' | 'scan' | 'notes' | 'exists'> {
  readonly tool: ReportHeader['tool'];
  readonly linter: Linter | undefined;
  readonly errorsOnly?: boolean;
  /** The number of suppressed results that an import left out. */
  readonly suppressed?: number;
  readonly unusedSuppressions?: number;
  readonly doubtsOf: DoubtsOf;
  /** True if an update of the baseline may drop the unverifiable findings in this file. */
  readonly isChecked?: (path: string) => boolean;
}

export interface Judgment {
  readonly report: Report;
  /** The number of error findings after the baseline and before the quiet filter. */
  readonly errors: number;
  readonly notes: string[];
  readonly linter: string | undefined;
  readonly unusedSuppressions: number;
  readonly baseline?: Baseline | undefined;
  readonly comparison?: Comparison | undefined;
  /** Set if the caller requested an update and the analysis is complete. */
  readonly updatedBaseline?: { readonly text: string; readonly count: number };
}

/** Throws ReportFailure if the baseline or the gate cannot be used. */
export async function judge(found: Found, options: JudgeOptions): Promise<Judgment> {
  const { update } = options;
  const { linter, findings, totalFiles } = found;
  const accepted = update?.accept;
  const changes = typeof options.changes === 'string' ? undefined : options.changes;
  const baseline = baselineFor(options, changes, found);
  const isNew = baseline === undefined && update !== undefined;
  const known = baseline ?? (isNew ? NO_BASELINE : undefined);
  const matched = known === undefined ? undefined : await compareWith(known, findings, found.doubtsOf, changes);
  const becomesKnown = (finding: Finding) =>
    (isNew && !isNeverBaselined(finding)) || accepted?.rules.includes(finding.ruleId) === true;
  const added = matched?.news.filter(becomesKnown) ?? [];
  const comparison = matched === undefined ? undefined : withKnown(matched, added);
  checkAccepted(accepted?.rules ?? [], found);
  const execution = executionOf(withoutKnown(found.diagnostics, comparison), totalFiles);
  const { report, errors } = selectedReport(found, execution, comparison, options);
  const notes = [...found.notes, ...(baseline?.notes ?? [])];
  if (comparison !== undefined) notes.push(...comparisonNotes(comparison, found, options.changes));
  const linterName =
    lintersOf(found)
      .map(({ name, version }) => `${name} ${version}`)
      .join(', ') || undefined;
  const { unusedSuppressions = 0 } = found;
  const judgment = { report, errors, notes, linter: linterName, unusedSuppressions, baseline, comparison };
  if (update === undefined || known === undefined || matched === undefined) return judgment;
  const reason = reasonToLeave(known, execution, update, found);
  if (reason !== undefined) {
    notes.push(`the baseline is left as it is, because ${reason}`);
    return judgment;
  }
  const left = comparison?.news.length ?? 0;
  if (left > 0) notes.push(`${left} new were not added; --accept RULE --reason TEXT makes them known`);
  const acceptance = (finding: Finding) =>
    accepted?.rules.includes(finding.ruleId) === true ? { accepted: accepted.acceptance } : {};
  const entries = updated(
    known,
    matched,
    added.map((finding) => ({ finding, ...acceptance(finding) })),
    found,
  );
  const text = baselineText(entries, linter === undefined ? '' : majorOf(linter), update.commit);
  return { ...judgment, updatedBaseline: { text, count: entries.length } };
}

function selectedReport(
  { tool, scan, findings, errorsOnly, totalFiles, suppressed = 0 }: Found,
  execution: ReportHeader['execution'],
  comparison: Comparison | undefined,
  { gate: config, quiet = false }: JudgeOptions,
): { report: Report; errors: number } {
  const counting = comparison?.news ?? findings;
  const bySeverity = countSeverities(counting);
  const baseline = comparison === undefined ? undefined : countsOf(comparison);
  const notVerifiable = comparison?.notVerifiable.length ?? 0;
  const subject = { bySeverity, baseline, execution, errorsOnly: errorsOnly === true, notVerifiable };
  const gate = evaluateGate(config, subject);
  const listed = counting.filter(({ severity }) => !quiet || severity === 'error').map((finding) => ({ ...finding }));
  numberOccurrences(listed);
  const summary = summaryOf(totalFiles, listed, execution.diagnostics);
  const report: Report = {
    schemaVersion: SCHEMA_VERSION,
    tool,
    execution,
    scan,
    selection: baseline === undefined ? { quiet } : { quiet, baseline },
    gate,
    summary: suppressed === 0 ? summary : Object.assign(summary, { suppressed }),
    findings: listed,
  };
  return { report, errors: bySeverity.error };
}

const NO_BASELINE: Baseline = { entries: [], expired: [], errorsOnly: false, notes: [] };

function baselineFor(
  { baseline: source, quiet = false }: JudgeOptions,
  changes: SourceChanges | undefined,
  found: Found,
): Baseline | undefined {
  if (source === undefined) return undefined;
  const { tool, linter, scan } = found;
  return readBaseline(source, { tool, linter, quiet, today: dayOf(scan) }, changes?.renames);
}

/**
 * Returns the day on which acceptances are checked: the day of the scan, or today if the scan has no real timestamp.
 */
function dayOf({ timestamp }: Scan): string {
  const isTime = /^\d{4}-\d{2}-\d{2}/u.test(timestamp) && !timestamp.startsWith('1970-01-01');
  return (isTime ? timestamp : new Date().toISOString()).slice(0, 10);
}

/** Refuses a misspelled rule, which would accept nothing. */
function checkAccepted(rules: readonly string[], { scan, findings }: Found): void {
  const isKnown = (id: string) =>
    isReserved(id) || scan.enabledRuleIds.includes(id) || findings.some(({ ruleId }) => ruleId === id);
  const odd = rules.find((id) => !isKnown(id));
  if (odd === undefined) return;
  const fault = scan.scopeKnown ? 'the rule was not on in this scan' : 'the report has no finding of this rule';
  throw usageFailure(`--accept ${odd}: ${fault}`);
}

function* comparisonNotes(
  { known, news, fixed, notVerifiable }: Comparison,
  found: Found,
  changes: JudgeOptions['changes'],
): Generator<string> {
  const changed = [...known.values()].filter(({ by }) => by !== 'fingerprint').length;
  if (changed > 0 && (changes === undefined || typeof changes === 'string')) {
    const reason = changes ?? 'the commit of the baseline is unknown';
    yield `${changed} known on changed lines were found by their file alone, because ${reason}`;
  }
  const contentOf = ({ fingerprint }: Finding) => fingerprint.slice(0, 32);
  const gone = [...fixed, ...notVerifiable].filter(({ finding: { location } }) => !found.exists(location.path ?? '.'));
  const contents = new Set(gone.map(({ finding }) => contentOf(finding)));
  const moved = news.filter((finding) => contents.has(contentOf(finding))).length;
  if (moved > 0)
    yield `${moved} new are known in a file that is gone; if it was renamed, use --renames git:REF or git add it`;
}

function withKnown(comparison: Comparison, added: readonly Finding[]): Comparison {
  if (added.length === 0) return comparison;
  const set = new Set(added);
  return {
    ...comparison,
    news: comparison.news.filter((finding) => !set.has(finding)),
    unchanged: [...comparison.unchanged, ...added],
  };
}

/** Drops accepted parse errors, so that they do not make the analysis incomplete. */
function withoutKnown(diagnostics: readonly Diagnostic[], comparison: Comparison | undefined): Diagnostic[] {
  const known = (comparison?.unchanged ?? []).filter(({ ruleId }) => ruleId === PARSE_ERROR_RULE);
  const paths = new Set(known.map(({ location }) => location.path));
  return diagnostics.filter(
    ({ kind, relativePath }) => kind !== 'parse-error' || relativePath === undefined || !paths.has(relativePath),
  );
}

function executionOf(diagnostics: Diagnostic[], totalFiles: number): ReportHeader['execution'] {
  if (diagnostics.length > 0) return { status: 'incomplete', diagnostics };
  if (totalFiles > 0) return { status: 'complete', diagnostics };
  return { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'no file to analyze was found' }] };
}

/** From a wrong folder, all files of the baseline would seem deleted. */
function reasonToLeave(
  { entries, expired, errorsOnly }: Baseline,
  { status }: ReportHeader['execution'],
  { isElsewhere = false }: BaselineUpdate,
  { exists }: Found,
): string | undefined {
  if (errorsOnly) return 'it lists errors only';
  if (status !== 'complete') return 'the analysis is not complete';
  const all = [...entries, ...expired];
  const areGone = all.length > 0 && !all.some(({ finding: { location } }) => exists(location.path ?? '.'));
  return isElsewhere && areGone ? 'none of its files is under the root' : undefined;
}

/**
 * Returns the entries that remain, with changed lines as they are now. An expired acceptance remains in the file
 * until its finding is gone.
 */
function updated(
  { entries, expired }: Baseline,
  { fixed, notVerifiable, news, known }: Comparison,
  added: readonly BaselineEntry[],
  { isChecked }: Found,
): BaselineEntry[] {
  const isStale = ({ finding }: BaselineEntry) => isChecked?.(finding.location.path ?? '.') === true;
  const gone = new Set([...fixed, ...notVerifiable.filter(isStale)]);
  const changed = new Map(
    [...known].flatMap(([finding, { entry, by }]) => (by === 'fingerprint' ? [] : [[entry, { ...entry, finding }]])),
  );
  const again = new Set(added.map(({ finding }) => finding));
  const still = matchFindings(expired, news).knownBy;
  const ended = news.flatMap((finding, index) => (again.has(finding) ? [] : (still[index]?.entry ?? [])));
  const kept = entries.filter((entry) => !gone.has(entry)).map((entry) => changed.get(entry) ?? entry);
  return [...kept, ...ended, ...added];
}
