// Applies the baseline, the gate and the quiet filter to a report. Also computes the next text of the baseline file.
// The quiet filter only shortens the list; it changes neither the verdict of the gate nor the exit code.
import { type Acceptance, type Baseline, type BaselineEntry, baselineText } from '../compare/baseline.ts';
import { isNeverBaselined, likelyRenames, majorLinter, readBaseline, renamed } from '../compare/baseline.ts';
import { compareWith, type Comparison, countsOf, doubtsIn, type DoubtsOf } from '../compare/comparison.ts';
import { matchFindings } from '../compare/finding-match.ts';
import type { SourceChanges } from '../compare/source-changes.ts';
import { counted } from '../convert/plain-text.ts';
import { buildReport, countSeverities } from '../document/build-report.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { countIn } from '../document/extension.ts';
import { pausesFor, usageFailure } from '../document/failure.ts';
import { isReserved, PARSE_ERROR_RULE } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report, Scan } from '../document/report-schema.ts';
import { evaluateGate, type GateConfig } from '../gate/gate.ts';
import type { Analysis } from '../scan/analyse.ts';

export interface JudgeOptions {
  readonly quiet?: boolean;
  readonly baseline?: DocumentSource | undefined;
  /** The changes since the baseline, or the reason why they are unknown. */
  readonly changes?: SourceChanges | string | undefined;
  readonly update?: BaselineUpdate | undefined;
  readonly gate?: GateConfig | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface BaselineUpdate {
  readonly accept?: { readonly rules: readonly string[]; readonly acceptance: Acceptance } | undefined;
  readonly commit?: string | undefined;
  /** True if the baseline file is not in the root, which may then be the wrong folder. */
  readonly isElsewhere?: boolean;
}

/** What the maker of a report knows beside it. By default, the report alone decides, and all files exist. */
export type Evidence = Partial<Omit<Analysis, 'report' | 'coverageOf'>> & { readonly doubtsOf?: DoubtsOf };

export type Judgment = Awaited<ReturnType<typeof judge>>;

const NO_BASELINE: Baseline = { entries: [], expired: [], errorsOnly: false, notes: [], renames: new Map() };

/** `found` has all findings of a scan, an import or a report. Throws ReportFailure for an unusable baseline or gate. */
export async function judge(current: Report, evidence: Evidence, options: JudgeOptions) {
  const { update, quiet = false } = options;
  const { unusedSuppressions = 0, exists = () => true, isChecked = () => false } = evidence;
  const changes = typeof options.changes === 'object' ? options.changes : undefined;
  const renames = changes?.renames ?? new Map<string, string>();
  const isExact = changes !== undefined && changes.note === undefined;
  const renamesOf = (entries: readonly BaselineEntry[]) => {
    if (isExact || update?.isElsewhere === true) return renames;
    const rest = entries.map((entry) => ({ ...entry, finding: renamed(entry.finding, renames) }));
    return new Map([...renames, ...likelyRenames(rest, current.findings, exists)]);
  };
  const user = { ...current, quiet, today: dayOf(current.scan) };
  const pause = pausesFor(options.signal);
  const baseline = options.baseline && (await readBaseline(options.baseline, user, renamesOf, pause));
  const old = baseline ?? (update && NO_BASELINE);
  await pause();
  const doubtsOf = evidence.doubtsOf ?? (() => Promise.resolve(doubtsIn(current, changes?.deleted)));
  const matched = old && (await compareWith(old, current.findings, doubtsOf, changes));
  await pause();
  checkAccepted(update?.accept?.rules ?? [], current);
  const isAccepted = ({ ruleId }: Finding) => update?.accept?.rules.includes(ruleId) === true;
  const isFirst = update !== undefined && baseline === undefined;
  const isAdded = (finding: Finding) => isAccepted(finding) || (isFirst && !isNeverBaselined(finding));
  const { true: added = [], false: news = [] } = Object.groupBy(matched?.news ?? [], (one) => `${isAdded(one)}`);
  const comparison = matched && { ...matched, news, unchanged: [...matched.unchanged, ...added] };
  const counting = comparison?.news ?? current.findings;
  const bySeverity = countSeverities(counting);
  const report = selected(current, counting, comparison, quiet);
  report.gate = evaluateGate(options.gate, report, bySeverity, current.selection.quiet);
  const notes = [...(evidence.notes ?? []), ...(baseline?.notes ?? [])];
  if (changes?.note !== undefined) notes.push(changes.note);
  const reason = typeof options.changes === 'string' ? options.changes : 'the commit of the baseline is unknown';
  const fault = changes === undefined ? reason : undefined;
  const likely = (baseline ?? NO_BASELINE).renames.size - renames.size;
  const because = fault === undefined ? '' : ` (${fault})`;
  if (likely > 0)
    notes.push(`${counted(likely, 'file')} with most findings of a missing one: regarded as renamed${because}`);
  if (comparison) notes.push(...comparisonNotes(comparison, exists, fault));
  const updated = () => {
    if (update === undefined || old === undefined || comparison === undefined) return undefined;
    const reason = reasonToLeave(old, report, update, exists);
    if (reason !== undefined) return void notes.push(`the baseline is not written, because ${reason}`);
    if (news.length > 0) notes.push(`${news.length} new were not added; --accept RULE --reason TEXT makes them known`);
    const acceptance = (finding: Finding) => (isAccepted(finding) ? update.accept?.acceptance : undefined);
    const more = added.map((finding): BaselineEntry => ({ finding, accepted: acceptance(finding) }));
    const entries = [...remaining(old, comparison, isChecked), ...more];
    const text = baselineText(entries, majorLinter(current), update.commit);
    return { text, count: entries.length, hasCommit: changes?.note === undefined };
  };
  /** `errors` counts the error findings after the baseline and before the quiet filter. */
  return {
    report,
    errors: bySeverity.error,
    notes,
    unusedSuppressions,
    baseline,
    comparison,
    updatedBaseline: updated(),
  };
}

/** Drops accepted parse errors from the diagnostics, so that they do not make the analysis incomplete. */
function selected(
  { tool, scan, execution, summary }: Report,
  counting: readonly Finding[],
  comparison: Comparison | undefined,
  quiet: boolean,
): Report {
  const parseErrors = (comparison?.unchanged ?? []).filter(({ ruleId }) => ruleId === PARSE_ERROR_RULE);
  const paths = new Set(parseErrors.flatMap(({ location }) => location.path ?? []));
  const isKnown = ({ kind, relativePath = '' }: Diagnostic) => kind === 'parse-error' && paths.has(relativePath);
  const report = buildReport({
    ...{ tool, scan, totalFiles: summary.totalFiles, suppressed: countIn(summary, 'suppressed') },
    diagnostics: execution.diagnostics.filter((one) => !isKnown(one)),
    findings: quiet ? counting.filter(({ severity }) => severity === 'error') : counting,
  });
  report.selection = comparison === undefined ? { quiet } : { quiet, baseline: countsOf(comparison) };
  return report;
}

/** Returns the day on which acceptances are checked: that of the scan, or today if the scan has no real timestamp. */
function dayOf({ timestamp }: Scan): string {
  const [day] = /^(?!1970-01-01)\d{4}-\d{2}-\d{2}/u.exec(timestamp) ?? [];
  return day ?? new Date().toISOString().slice(0, 10);
}

/** Refuses a misspelled rule, which would accept nothing. */
function checkAccepted(rules: readonly string[], { scan, findings }: Report): void {
  const isKnown = (id: string) =>
    isReserved(id) || scan.enabledRuleIds.includes(id) || findings.some(({ ruleId }) => ruleId === id);
  const fault = scan.scopeKnown ? 'the rule was not on in this scan' : 'the report has no finding of this rule';
  for (const id of rules) if (!isKnown(id)) throw usageFailure(`--accept ${id}: ${fault}`);
}

/** `fault` is the reason why changes are unknown. */
function* comparisonNotes(comparison: Comparison, exists: (path: string) => boolean, fault?: string) {
  const { known, news, fixed, notVerifiable } = comparison;
  const changed = [...known.values()].filter(({ by }) => by !== 'fingerprint').length;
  if (changed > 0 && fault !== undefined)
    yield `${changed} known on changed lines were found by their file alone, because ${fault}`;
  const contentOf = ({ fingerprint }: Finding) => fingerprint.slice(0, 32);
  const absent = [...fixed, ...notVerifiable].filter(({ finding: { location } }) => !exists(location.path ?? '.'));
  const contents = new Set(absent.map(({ finding }) => contentOf(finding)));
  const isMoved = (finding: Finding) => contents.has(contentOf(finding)) && exists(finding.location.path ?? '.');
  const moved = news.filter(isMoved).length;
  const reason = fault === undefined ? '' : ` (${fault})`;
  const hint = 'if it was renamed, use --renames git:REF or git add it';
  if (moved > 0) yield `${moved} new are known in a file that is gone${reason}; ${hint}`;
}

/** From a wrong folder, all files of the baseline would seem deleted. */
function reasonToLeave(
  { entries, expired, errorsOnly }: Baseline,
  { execution: { status } }: Report,
  { isElsewhere = false }: BaselineUpdate,
  exists: (path: string) => boolean,
): string | undefined {
  if (errorsOnly) return 'it lists errors only';
  if (status !== 'complete') return 'the analysis is not complete';
  const all = [...entries, ...expired];
  const areGone = all.length > 0 && !all.some(({ finding: { location } }) => exists(location.path ?? '.'));
  return isElsewhere && areGone ? 'none of its files is under the root' : undefined;
}

/** Returns the old entries that remain, with changed lines as they are now. An expired one remains while it occurs. */
function remaining(
  { entries, expired }: Baseline,
  { fixed, notVerifiable, news, known }: Comparison,
  isChecked: (path: string) => boolean,
): BaselineEntry[] {
  const stale = notVerifiable.filter(({ finding }) => isChecked(finding.location.path ?? '.'));
  const removals = new Set([...fixed, ...stale]);
  const changed = new Map(
    [...known].flatMap(([finding, { entry, by }]) => (by === 'fingerprint' ? [] : [[entry, { ...entry, finding }]])),
  );
  const ended = [...matchFindings(expired, news).known.values()].map(({ entry }) => entry);
  return [...entries.filter((entry) => !removals.has(entry)).map((entry) => changed.get(entry) ?? entry), ...ended];
}
