// Comparing two reports in memory.
import { compare, memorySource, type Report } from '../../../lib/toollint/toollint.ts';

export const source = (report: unknown) => memorySource(JSON.stringify(report), 'sample');

export async function compared(base: Report, current: Report) {
  const outcome = await compare(source(base), source(current));
  const { newIssues, unchanged, fixed } = outcome.report.selection.baseline ?? {
    newIssues: -1,
    unchanged: -1,
    fixed: -1,
  };
  return { counts: [newIssues, unchanged, fixed], findings: outcome.report.findings, outcome };
}
