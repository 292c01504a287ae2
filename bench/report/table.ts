import { METRICS, written, type MetricName } from '../metrics.ts';
import { noiseText } from '../statistics.ts';
import type { CaseSummary, ComparisonSummary, LabelSummary } from '../summary.ts';

const COLUMNS: readonly { readonly metric: MetricName; readonly heading: string }[] = [
  { metric: 'ratePerS', heading: 'events/s' },
  { metric: 'p50Ms', heading: 'p50 ms' },
  { metric: 'p99Ms', heading: 'p99 ms' },
  { metric: 'serverUs', heading: 'server µs' },
  { metric: 'redisUs', heading: 'Redis µs' },
  { metric: 'heapBytes', heading: 'heap B' },
  { metric: 'consumersUs', heading: 'consumers µs' },
  { metric: 'warehouseUs', heading: 'PostgreSQL µs' },
  { metric: 'restShare', heading: 'to gateway' },
  { metric: 'bytesEach', heading: 'bytes each' },
  { metric: 'diskBytesEach', heading: 'disk each' },
  { metric: 'logBytes', heading: 'log per million' },
  { metric: 'foreignShare', heading: 'others' },
];

/**
 * Columns in µs show the CPU time per accepted event; `others` shows the share of all cores' time that other
 * processes used.
 */
export function caseTable(summary: CaseSummary): string {
  const lines = [`\n${summary.name}: ${summary.aim}`];
  if (summary.leftOut !== undefined) return [...lines, `  ${summary.leftOut}`, ''].join('\n');
  const columns = COLUMNS.filter(({ metric }) => summary.labels.some(({ figures }) => figures[metric] !== undefined));
  const rows = [
    ['', ...columns.map(({ heading }) => heading), 'spread'],
    ...summary.labels.map((label) => [
      label.label,
      ...columns.map(({ metric }) => written(metric, label.figures[metric]?.median)),
      spreadOf(label),
    ]),
  ];
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? [];
  for (const row of rows) {
    const padded = row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)));
    lines.push(`  ${padded.join('  ')}`);
  }
  for (const { label, rounds, voids, notes } of summary.labels) {
    if (voids.length > 0) lines.push(`  ${label}: ${voids.length} of ${rounds} runs void (${voids.join('; ')})`);
    for (const note of notes) lines.push(`  ${label}: ${note}`);
  }
  return [...lines, ...summary.comparisons.map((comparison) => `  ${comparisonLine(comparison)}`), ''].join('\n');
}

export const missedGoals = (summaries: readonly CaseSummary[]): readonly string[] =>
  summaries.flatMap(({ name, comparisons }) =>
    comparisons.filter(({ verdict }) => verdict === 'missed').map((missed) => `${name}: ${comparisonLine(missed)}`),
  );

function spreadOf({ figures }: LabelSummary): string {
  const main = figures.serverUs ?? figures.bytesEach;
  return main === undefined ? '' : noiseText(main);
}

/** Returns a line such as `gateway / floor, server CPU: 1.31 (1.28 to 1.36), higher; goal: at most 1.10, missed`. */
function comparisonLine({
  metric,
  of,
  against,
  figure,
  difference,
  limit,
  verdict,
  untested,
}: ComparisonSummary): string {
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
  const told = difference === undefined ? '' : `, ${difference}`;
  const outcome = untested === undefined ? verdict : `not tested: ${untested}`;
  return `${name}: ${middle}${told}${limit === undefined ? '' : `; goal: ${goal}, ${outcome}`}`;
}
