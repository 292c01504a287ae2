// Compares two reports: the current one comes back with the three counts and only the findings that are new.
import { readBaseline } from '../compare/baseline.ts';
import type { BaselineEntry } from '../compare/baseline-entry.ts';
import { compareWith, type Comparison, doubtsIn } from '../compare/comparison.ts';
import type { SourceChanges } from '../compare/source-changes.ts';
import type { DocumentSource } from '../document/document-source.ts';
import { linterOf } from '../document/extension.ts';
import { ReportFailure } from '../document/failure.ts';
import { openReport } from '../document/read-report.ts';
import type { Report } from '../document/report-schema.ts';
import { checkGateNeeds, gateNotes } from '../gate/gate.ts';
import type { GateConfig } from '../gate/gate-config.ts';
import { selectedReport } from './selection.ts';

export interface CompareOptions {
  /** List errors only; default: as in the current report. */
  readonly quiet?: boolean;
  readonly gate?: GateConfig | undefined;
  /** Old path -> new path. */
  readonly renames?: ReadonlyMap<string, string> | undefined;
  /** What git knows of the lines between the two reports. */
  readonly changes?: SourceChanges | undefined;
}

export interface CompareOutcome {
  /** The current report with `selection.baseline` and only the new findings. */
  readonly report: Report;
  /** The current report as it was, but for the members that a comparison changes. */
  readonly current: Report;
  readonly comparison: Comparison;
  /** New findings of severity error, listed or not. */
  readonly errors: number;
  readonly notes: string[];
}

/** Compares. Throws ReportFailure when the baseline cannot serve or the current report is a delta itself. */
export async function compare(
  base: DocumentSource,
  currentSource: DocumentSource,
  options: CompareOptions = {},
): Promise<CompareOutcome> {
  const { gate, changes } = options;
  checkGateNeeds(gate, true);
  const current = openReport(currentSource);
  if (current.selection.baseline !== undefined) {
    const message = `${currentSource.name} lists only what was new against a baseline; compare needs a full report`;
    throw new ReportFailure('input', message);
  }
  const quiet = options.quiet === true || current.selection.quiet;
  const today = new Date().toISOString().slice(0, 10);
  const renames = options.renames ?? changes?.renames;
  const user = { tool: current.tool, linter: linterOf(current), quiet, today };
  const baseline = readBaseline(base, user, renames);
  const doubtIn = doubtsIn(current, changes?.deleted);
  const doubtsOf = (missing: Comparison['fixed']) => {
    const doubts = missing.map((entry) => [entry, doubtIn(entry.finding)] as const);
    return Promise.resolve(new Map(doubts.filter((doubt): doubt is [BaselineEntry, string] => doubt[1] !== undefined)));
  };
  const comparison = await compareWith(baseline, current.findings, doubtsOf, changes);
  const { report, errors } = selectedReport({
    header: current,
    totalFiles: current.summary.totalFiles,
    findings: current.findings,
    comparison,
    gate,
    quiet,
    errorsOnly: current.selection.quiet,
  });
  const { selection, gate: verdict } = report;
  return {
    report,
    current: { ...current, selection, gate: verdict },
    comparison,
    errors,
    notes: [...baseline.notes, ...gateNotes(gate, current.scan, current.findings)],
  };
}
