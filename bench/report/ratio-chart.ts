// The ratios as SVG: one row each, the median as a dot, its interval as a bar, the wanted limit as a tick; 1 is a line
// down through all of them. The axis is logarithmic, so half and twice are as far from 1.
import { METRICS } from '../metrics.ts';
import type { CaseSummary, ComparisonSummary } from '../summary.ts';
import { escaped } from './markup.ts';

const WIDTH = 860;
const LEFT = 370;
const RIGHT = 124;
const ROW = 24;
const TOP = 26;
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50];

export function ratioChart(cases: readonly CaseSummary[]): string {
  const rows = cases.flatMap(({ name, comparisons }) =>
    comparisons
      .filter(({ against, figure }) => against !== undefined && figure.count > 0)
      .map((comparison) => ({ name, comparison })),
  );
  if (rows.length === 0) return '<p>No ratios.</p>';
  const titles = rows.map(({ comparison }) => titleOf(comparison));
  // Several cases compare the same two.
  const titleAt = (at: number): string => {
    const title = titles[at] ?? '';
    return titles.indexOf(title) === titles.lastIndexOf(title) ? title : `${title} (${rows[at]?.name})`;
  };
  const all = rows.flatMap(({ comparison: { figure, limit } }) => [
    figure.low,
    figure.high,
    limit?.atMost ?? 1,
    limit?.atLeast ?? 1,
  ]);
  const low = Math.log(Math.min(0.5, ...all) * 0.9);
  const high = Math.log(Math.max(2, ...all) * 1.1);
  const across = (ratio: number): number => LEFT + ((Math.log(ratio) - low) / (high - low)) * (WIDTH - LEFT - RIGHT);
  const height = TOP + rows.length * ROW + 10;

  const grid = TICKS.filter((tick) => Math.log(tick) >= low && Math.log(tick) <= high).map((tick) => {
    const x = across(tick).toFixed(1);
    return (
      `<line class="${tick === 1 ? 'one' : 'grid'}" x1="${x}" x2="${x}" y1="${TOP - 6}" y2="${height - 8}"/>` +
      `<text x="${x}" y="${TOP - 12}" text-anchor="middle">${tick}</text>`
    );
  });
  const marks = rows.map(({ name, comparison }, at) =>
    row(titleAt(at), name, comparison, TOP + at * ROW + ROW / 2, across),
  );
  return `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Ratios with their intervals and limits">
${grid.join('\n')}
${marks.join('\n')}
</svg>`;
}

const titleOf = ({ metric, of, against }: ComparisonSummary): string => `${of} / ${against}, ${METRICS[metric].title}`;

function row(
  title: string,
  name: string,
  comparison: ComparisonSummary,
  y: number,
  across: (ratio: number) => number,
): string {
  const { figure, limit, verdict, difference } = comparison;
  const kind = (verdict ?? 'plain').replace(' ', '-');
  const goal = limit?.atMost ?? limit?.atLeast;
  const x = (ratio: number): string => across(ratio).toFixed(1);
  const about = `${name}: ${figure.low.toFixed(2)} to ${figure.high.toFixed(2)}, ${difference ?? ''}`;
  const goalText = goal === undefined ? '' : ` (goal ${limit?.atMost === undefined ? '≥' : '≤'} ${goal})`;
  const valueX = WIDTH - RIGHT + 14;
  const parts = [
    `<text x="${LEFT - 12}" y="${y + 4}" text-anchor="end">${escaped(title)}</text>`,
    `<line class="interval ${kind}" x1="${x(figure.low)}" x2="${x(figure.high)}" y1="${y}" y2="${y}"/>`,
    `<circle class="${kind}" cx="${x(figure.median)}" cy="${y}" r="4.5"><title>${escaped(about)}</title></circle>`,
    `<text class="value ${kind}" x="${valueX}" y="${y + 4}">${figure.median.toFixed(2)}${goalText}</text>`,
  ];
  if (goal !== undefined) parts.push(`<path class="goal" d="M${x(goal)} ${y - 8}v16"/>`);
  return parts.join('');
}
