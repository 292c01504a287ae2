import { METRICS, written, type MetricName } from '../metrics.ts';
import type { CaseSummary, ComparisonSummary } from '../summary.ts';

const COLUMNS = Object.entries(METRICS).flatMap(([name, metric]) =>
  'heading' in metric ? { metric: name as MetricName, heading: metric.heading } : [],
);

/**
 * Columns in µs show the CPU time per accepted event; `others` shows the share of all cores' time that other
 * processes used.
 */
export function caseTable(summary: CaseSummary): string {
  const lines = [`\n${summary.name}: ${summary.aim}`];
  const columns = COLUMNS.filter(({ metric }) => summary.labels.some(({ figures }) => figures[metric] !== undefined));
  const rows = [
    ['', ...columns.map(({ heading }) => heading)],
    ...summary.labels.map(({ label, figures }) => [
      label,
      ...columns.map(({ metric }) => written(metric, figures[metric]?.median)),
    ]),
  ];
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? [];
  for (const row of rows) {
    const padded = row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)));
    lines.push(`  ${padded.join('  ')}`);
  }
  for (const { label, rounds, voids } of summary.labels)
    if (voids.length > 0) lines.push(`  ${label}: ${voids.length} of ${rounds} runs void (${voids.join('; ')})`);
  return [...lines, ...summary.comparisons.map((comparison) => `  ${comparisonLine(comparison)}`), ''].join('\n');
}

export const missedGoals = (summaries: readonly CaseSummary[]): readonly string[] =>
  summaries.flatMap(({ name, comparisons }) =>
    comparisons.filter(({ verdict }) => verdict === 'missed').map((missed) => `${name}: ${comparisonLine(missed)}`),
  );

/** Returns a line such as `gateway / floor, server CPU: 1.31 (1.28 to 1.36); goal: at most 1.10, missed`. */
function comparisonLine(comparison: ComparisonSummary): string {
  const { metric, of, against, figure, limit, verdict, untested } = comparison;
  const name =
    against === undefined ? `${of}, ${METRICS[metric].title}` : `${of} / ${against}, ${METRICS[metric].title}`;
  const value = (number: number): string => (against === undefined ? written(metric, number) : number.toFixed(2));
  if (figure.count === 0) return `${name}: no samples`;
  const unit = against === undefined && METRICS[metric].unit !== '' ? ` ${METRICS[metric].unit}` : '';
  const middle =
    figure.count === 1
      ? `${value(figure.median)}${unit}`
      : `${value(figure.median)}${unit} (${value(figure.low)} to ${value(figure.high)})`;
  const goal = limit?.atMost === undefined ? `at least ${limit?.atLeast}` : `at most ${limit.atMost}`;
  const outcome = untested === undefined ? verdict : `not tested: ${untested}`;
  return `${name}: ${middle}${limit === undefined ? '' : `; goal: ${goal}, ${outcome}`}`;
}
