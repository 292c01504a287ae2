// Compares two reports: the current one comes out with the three counts and only its new findings. Works on any valid
// pair, from any producer, without the sources. The current report is read several times and never held.
import { type BaselineEntry, readBaseline } from './baseline.ts';
import type { ByteSource } from '../document/byte-source.ts';
import { ReportFailure } from '../document/failure.ts';
import { FindingMatcher, type MatchResult } from './finding-match.ts';
import { FingerprintTable } from '../document/fingerprint-table.ts';
import { fixedClaims } from './fixed-claims.ts';
import { checkGateNeeds, evaluateGate, tallyOf } from '../gate/gate.ts';
import type { GateConfig } from '../gate/gate-config.ts';
import type { Finding, ReportHeader } from '../document/report-schema.ts';
import { openReport, type ReportSource } from '../document/report-source.ts';

export interface CompareOptions {
  /** List errors only; default: as in the current report. */
  readonly quiet?: boolean;
  readonly gate?: GateConfig | undefined;
  /** Old path -> new path. */
  readonly renames?: ReadonlyMap<string, string> | undefined;
  /** Take documents that are valid by the specification, but not consistent. */
  readonly lenient?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The outcome of a comparison. */
export interface CompareOutcome {
  /** The current report with `selection.baseline` and only the new findings. */
  readonly report: ReportSource;
  /** The current report with all findings, and which of them are new, by their index. */
  readonly current: ReportSource;
  isNew(index: number): boolean;
  /** New findings of severity error, listed or not. */
  readonly errors: number;
  readonly notes: string[];
}

/** Compares. Throws ReportFailure when the baseline cannot serve or the current report is a delta itself. */
export async function compare(
  base: ByteSource,
  currentSource: ByteSource,
  options: CompareOptions = {},
): Promise<CompareOutcome> {
  const { signal, gate, renames, lenient = false } = options;
  checkGateNeeds(gate, true);
  const current = await openReport(currentSource, { consistency: !lenient, signal });
  const { header } = current;
  if (header.selection.baseline !== undefined) {
    throw new ReportFailure(
      'input',
      `${currentSource.name} lists only what was new against a baseline; compare needs a full report`,
    );
  }
  const quiet = options.quiet === true || header.selection.quiet;
  const user = { tool: header.tool, profile: header.scan.profile, quiet };
  const baseline = await readBaseline(base, user, { renames, lenient, signal });
  const counts = (finding: Finding) => !baseline.errorsOnly || finding.severity === 'error';
  const match = await matchAll(current, baseline.entries, counts);
  const isFixed = fixedClaims(header);
  const fixed = match.missing.filter(isFixed).length;
  const notVerifiable = match.missing.length - fixed;
  const notes = [...baseline.notes];
  if (notVerifiable > 0) notes.push(`${notVerifiable} baseline findings are gone but not verifiably fixed`);
  const isListed = (finding: Finding) => !quiet || finding.severity === 'error';
  const tally = await tallyOf(newFindings(current, match, counts));
  const selection = { quiet, baseline: { newIssues: match.newIssues, unchanged: match.unchanged, fixed } };
  const { error, warning, info } = tally.bySeverity;
  const bySeverity = quiet ? { error, warning: 0, info: 0 } : { error, warning, info };
  const totalIssues = bySeverity.error + bySeverity.warning + bySeverity.info;
  const result: ReportHeader = {
    ...header,
    selection,
    gate: evaluateGate(gate, {
      tally,
      baseline: selection.baseline,
      execution: header.execution,
      totalFiles: header.summary.totalFiles,
      quiet: header.selection.quiet,
      notVerifiable,
      scan: header.scan,
      tool: header.tool,
    }),
    summary: { ...header.summary, totalIssues, bySeverity },
  };
  return {
    report: {
      header: result,
      findings: () => numbered(newFindings(current, match, (finding) => counts(finding) && isListed(finding))),
    },
    current: { header: { ...result, summary: header.summary }, findings: () => current.findings() },
    isNew: (index) => match.isNew(index),
    errors: error,
    notes,
  };
}

async function matchAll(
  current: ReportSource,
  entries: readonly BaselineEntry[],
  counts: (finding: Finding) => boolean,
): Promise<MatchResult> {
  const matcher = new FindingMatcher(entries);
  for await (const batch of current.findings()) {
    for (const finding of batch) {
      if (counts(finding)) matcher.offer(finding);
      else matcher.skip();
    }
  }
  return matcher.finish();
}

async function* newFindings(
  current: ReportSource,
  match: MatchResult,
  wanted: (finding: Finding) => boolean,
): AsyncGenerator<Finding[]> {
  let index = 0;
  for await (const batch of current.findings()) {
    const first = index;
    index += batch.length;
    yield batch.filter((finding, offset) => match.isNew(first + offset) && wanted(finding));
  }
}

async function* numbered(batches: AsyncIterable<Finding[]>): AsyncGenerator<Finding[]> {
  const table = new FingerprintTable();
  for await (const batch of batches) {
    for (const finding of batch) {
      const { fingerprint, ruleId, location } = finding;
      finding.occurrence = table.add(fingerprint, ruleId, location.scope, location.path ?? '').count;
    }
    yield batch;
  }
}
