// The baseline after a scan, for a ratchet: without what is fixed, with nothing new. What is still there stands as it
// stands now, so that the next scan meets its present lines; what could not be verified stands as it stood.
import { isNeverBaselined, renamed } from '../compare/baseline.ts';
import type { ByteSource } from '../document/byte-source.ts';
import { compareFindings, numberOccurrences } from '../document/finding-order.ts';
import { sortedUnique } from '../document/report-path.ts';
import type { Finding, ReportHeader, Severity } from '../document/report-schema.ts';
import { openReport, type ReportSource } from '../document/report-source.ts';
import type { ScanBaseline } from './scan-baseline.ts';

/** The new baseline. Memory follows the baseline. */
export async function updatedBaseline(
  source: ByteSource,
  match: ScanBaseline,
  current: ReportHeader,
  renames: ReadonlyMap<string, string> | undefined,
): Promise<ReportSource> {
  const { header, findings } = await openReport(source);
  const stays = new Set(match.notVerifiable.map(({ index }) => index));
  const kept: Finding[] = match.unchangedFindings.map((finding) => ({ ...finding }));
  let index = -1;
  for await (const batch of findings()) {
    for (const finding of batch) {
      index += 1;
      if (stays.has(index)) kept.push(renames === undefined ? finding : renamed(finding, renames));
      else if (isNeverBaselined(finding)) kept.push(finding);
    }
  }
  numberOccurrences(kept.sort(compareFindings));
  const bySeverity: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  for (const { severity } of kept) bySeverity[severity] += 1;
  const enabledRuleIds = sortedUnique([...header.scan.enabledRuleIds, ...current.scan.enabledRuleIds]);
  const { timestamp, durationMs } = current.scan;
  const updated: ReportHeader = {
    ...header,
    tool: current.tool,
    scan: { ...header.scan, timestamp, durationMs, enabledRuleIds: header.scan.scopeKnown ? enabledRuleIds : [] },
    gate: { status: 'not-evaluated' },
    summary: { ...header.summary, totalIssues: kept.length, bySeverity },
  };
  const findingsOf = async function* () {
    yield await Promise.resolve(kept);
  };
  return { header: updated, findings: findingsOf };
}
