// A scan from its options to its report: look at the files, compare with the baseline, evaluate the gate, filter,
// number, and say what the baseline is to become.
import {
  type Acceptance,
  type Baseline,
  type BaselineEntry,
  isNeverBaselined,
  majorOf,
  readBaseline,
} from '../compare/baseline.ts';
import { baselineText } from '../compare/baseline-file.ts';
import { compareWith, type Comparison, type FixedClaims } from '../compare/comparison.ts';
import { matchFindings } from '../compare/finding-match.ts';
import type { SourceChanges } from '../compare/source-changes.ts';
import { isReserved, PARSE_ERROR_RULE } from '../document/consistency.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { ReportFailure, usageFailure } from '../document/failure.ts';
import { SCHEMA_VERSION, TOOL_NAME, TOOL_VERSION } from '../document/report-format.ts';
import type { Diagnostic, Finding, Report, ReportHeader } from '../document/report-schema.ts';
import { checkGateNeeds } from '../gate/gate.ts';
import type { GateConfig } from '../gate/gate-config.ts';
import { analyse } from '../scan/analyse.ts';
import type { Analysis, AnalysisOptions } from '../scan/scan-options.ts';
import { selectedReport } from './selection.ts';

export interface ScanOptions extends AnalysisOptions {
  /** List errors only. */
  readonly quiet?: boolean;
  readonly baseline?: DocumentSource | undefined;
  /** Old path -> new path, for the baseline's findings. */
  readonly renames?: ReadonlyMap<string, string> | undefined;
  /** What git knows of the lines since the baseline. */
  readonly changes?: SourceChanges | undefined;
  /** Make the text of the baseline without what is fixed; without a baseline, of all that there is. */
  readonly updateBaseline?: boolean;
  /** New findings of these rules become known. */
  readonly accept?: { readonly rules: readonly string[]; readonly acceptance: Acceptance } | undefined;
  readonly gate?: GateConfig | undefined;
}

export interface ScanOutcome {
  readonly report: Report;
  /** Findings of severity error that count: after the baseline, before the quiet filter. */
  readonly errors: number;
  /** Sentences for standard error. */
  readonly notes: string[];
  /** Name and version of the linter. */
  readonly linter: string;
  /** Where it was asked for and the analysis ran to its end. */
  readonly updatedBaseline?: { readonly text: string; readonly count: number };
}

/** Scans. Throws ReportFailure when it cannot begin, Interrupted when the signal fires. */
export async function scan(options: ScanOptions): Promise<ScanOutcome> {
  const { quiet = false, updateBaseline = false, accept, gate } = options;
  checkGateNeeds(gate, options.baseline !== undefined || updateBaseline);
  const analysis = await analyse(options);
  const { linter, findings, totalFiles } = analysis;
  const baseline = baselineFor(options, analysis);
  const isNew = baseline === undefined && updateBaseline;
  const known = baseline ?? (isNew ? NO_BASELINE : undefined);
  const matched =
    known === undefined ? undefined : await compareWith(known, findings, claimsOf(analysis), options.changes);
  const becomesKnown = (finding: Finding) =>
    (isNew && !isNeverBaselined(finding)) || accept?.rules.includes(finding.ruleId) === true;
  const added = matched?.news.filter(becomesKnown) ?? [];
  const comparison = matched === undefined ? undefined : withKnown(matched, added);
  checkAccepted(accept?.rules ?? [], analysis);
  const execution = executionOf(withoutKnown(analysis.diagnostics, comparison), totalFiles);
  const header = {
    schemaVersion: SCHEMA_VERSION,
    tool: { name: TOOL_NAME, version: TOOL_VERSION, linter, rules: analysis.rules },
    execution,
    scan: analysis.scan,
  } as const;
  const { report, errors } = selectedReport({ header, totalFiles, findings, comparison, gate, quiet });
  const notes = [...analysis.notes, ...(baseline?.notes ?? [])];
  const outcome = { report, errors, notes, linter: `${linter.name} ${linter.version}` };
  if (!updateBaseline || known === undefined || matched === undefined) return outcome;
  if (execution.status !== 'complete' || known.errorsOnly) {
    const reason = known.errorsOnly ? 'it lists errors only' : 'the analysis is not complete';
    notes.push(`the baseline is left as it is, because ${reason}`);
    return outcome;
  }
  const acceptance = (finding: Finding) =>
    accept?.rules.includes(finding.ruleId) === true ? { accepted: accept.acceptance } : {};
  const entries = updated(
    known,
    matched,
    added.map((finding) => ({ finding, ...acceptance(finding) })),
  );
  return { ...outcome, updatedBaseline: { text: baselineText(entries, majorOf(linter)), count: entries.length } };
}

const NO_BASELINE: Baseline = { name: '', entries: [], expired: [], errorsOnly: false, notes: [] };

function baselineFor(options: ScanOptions, analysis: Analysis): Baseline | undefined {
  if (options.baseline === undefined) return undefined;
  const user = {
    tool: { name: TOOL_NAME, version: TOOL_VERSION },
    linter: analysis.linter,
    quiet: options.quiet === true,
    today: (options.timestamp ?? new Date().toISOString()).slice(0, 10),
  };
  const baseline = readBaseline(options.baseline, user, options.renames ?? options.changes?.renames);
  checkSameFiles(baseline, analysis);
  return baseline;
}

/**
 * Throws ReportFailure when the baseline was made from another folder: none of its files is there, but one of them is
 * in a folder of this root, or a file found is in a folder of its root. Otherwise its files were deleted or renamed.
 */
function checkSameFiles({ entries, name }: Baseline, analysis: Analysis): void {
  const { paths: found } = analysis;
  const paths = new Set(entries.flatMap(({ finding: { location } }) => location.path ?? []));
  if ([...paths].some((path) => analysis.exists(path))) return;
  const isWithin = (path: string, others: ReadonlySet<string>): boolean =>
    path.split('/').some((_, index, segments) => index > 0 && others.has(segments.slice(index).join('/')));
  if (![...paths].some((path) => isWithin(path, found)) && ![...found].some((path) => isWithin(path, paths))) return;
  const [first = ''] = paths;
  const message = `none of its ${paths.size} files is under the root (the first is ${first})`;
  const hint = 'was it made from another folder?';
  throw new ReportFailure('baseline', `the baseline ${name} cannot be used: ${message}; ${hint}`);
}

/** A misspelt rule would accept nothing and say nothing. */
function checkAccepted(rules: readonly string[], { scan, findings }: Analysis): void {
  const isKnown = (id: string) =>
    isReserved(id) || scan.enabledRuleIds.includes(id) || findings.some(({ ruleId }) => ruleId === id);
  const odd = rules.find((id) => !isKnown(id));
  if (odd !== undefined) throw usageFailure(`--accept ${odd}: the rule was not on in this scan`);
}

/**
 * A finding that is gone was fixed only where its rule has verifiably looked: it ran to the end of that very file and
 * no comment or suppression took the finding back; or the file is gone from the disk, and would be linted under that
 * rule if it were there.
 */
function claimsOf(analysis: Analysis): FixedClaims {
  return async (missing) => {
    const fixed = new Set<BaselineEntry>();
    const byPath = Map.groupBy(missing, ({ finding }) => finding.location.path ?? '');
    for (const [path, entries] of byPath) {
      const looked = await analysis.looked(path);
      if (looked === undefined) continue;
      const gone = matchFindings(entries, looked.suppressed).missing;
      const isLookedFor = ({ finding }: BaselineEntry) =>
        looked.ran.has(finding.ruleId) || (isNeverBaselined(finding) && looked.ran.size > 0);
      for (const entry of gone) if (isLookedFor(entry)) fixed.add(entry);
    }
    return fixed;
  };
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

/** A file whose parse error was accepted does not make the analysis incomplete. */
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
  return { status: 'no-files', diagnostics: [{ kind: 'no-files', message: 'no file to analyse was found' }] };
}

/** What stays known. An acceptance that has ended stays written down as long as its finding is there. */
function updated(known: Baseline, { fixed, news }: Comparison, added: readonly BaselineEntry[]): BaselineEntry[] {
  const gone = new Set(fixed);
  const again = new Set(added.map(({ finding }) => finding));
  const still = matchFindings(known.expired, news).knownBy;
  const ended = news.flatMap((finding, index) => (again.has(finding) ? [] : (still[index] ?? [])));
  return [...known.entries.filter((entry) => !gone.has(entry)), ...ended, ...added];
}
