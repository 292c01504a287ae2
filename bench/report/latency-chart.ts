// Draws latency by percentile as SVG. Both axes are logarithmic (the horizontal axis in nines), so that the tail is
// wide enough to read.
import type { CaseSummary } from '../summary.ts';
import { escaped } from './markup.ts';

interface Line {
  readonly name: string;
  /** Pairs of a percentile and its latency in milliseconds. */
  readonly points: readonly (readonly [number, number])[];
}

/** The limit in rule 8 of openapi/rules.md. */
const LIMIT_MS = 200;
const WIDTH = 860;
const HEIGHT = 340;
const LEFT = 62;
const RIGHT = 190;
const TOP = 14;
const BOTTOM = 44;
const NINES_MAX = 4;
const TICKS = [0, 50, 90, 99, 99.9, 99.99];

const nines = (percentile: number): number => Math.min(NINES_MAX, -Math.log10(1 - Math.min(percentile, 99.99) / 100));
const across = (percentile: number): number => LEFT + (nines(percentile) / NINES_MAX) * (WIDTH - LEFT - RIGHT);

export function latencyChart(summaries: readonly CaseSummary[]): string | undefined {
  const labels = summaries.find(({ name }) => name === 'latency')?.labels ?? [];
  const shown = labels.map(({ label, curve }) => ({
    name: label,
    points: curve.filter(([percentile, ms]) => percentile < 100 && ms > 0),
  }));
  if (shown.every(({ points }) => points.length === 0)) return undefined;
  const all = [...shown.flatMap(({ points }) => points.map(([, ms]) => ms)), LIMIT_MS];
  const low = Math.floor(Math.log10(Math.min(...all)));
  const high = Math.ceil(Math.log10(Math.max(...all) * 1.05));
  const up = (ms: number): number => TOP + ((high - Math.log10(ms)) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const right = WIDTH - RIGHT;

  const grid: string[] = [];
  for (const tick of TICKS) {
    const x = across(tick);
    grid.push(`<line class="grid" x1="${x}" x2="${x}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/>`);
    grid.push(
      `<text x="${x}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${tick === 0 ? 'min' : `p${tick}`}</text>`,
    );
  }
  for (let power = low; power <= high; power += 1) {
    const y = up(10 ** power);
    grid.push(`<line class="grid" x1="${LEFT}" x2="${right}" y1="${y}" y2="${y}"/>`);
    grid.push(`<text x="${LEFT - 8}" y="${y + 4}" text-anchor="end">${Number((10 ** power).toPrecision(1))}</text>`);
  }
  grid.push(`<line class="limit" x1="${LEFT}" x2="${right}" y1="${up(LIMIT_MS)}" y2="${up(LIMIT_MS)}"/>`);
  grid.push(`<text class="limit" x="${LEFT + 6}" y="${up(LIMIT_MS) - 5}">${LIMIT_MS} ms, the limit of p99</text>`);

  const paths = shown.map(({ name, points }, at) => {
    const path = points.map(([percentile, ms]) => `${across(percentile).toFixed(1)},${up(ms).toFixed(1)}`).join(' ');
    const other = name.startsWith('gateway') ? '' : ' other';
    return `<polyline class="line c${at % COLORS.length}${other}" points="${path}"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" \
aria-label="Latency by percentile, in milliseconds">
<style>${STYLE}</style>
<rect class="back" width="100%" height="100%" rx="8"/>
${grid.join('\n')}
${paths.join('\n')}
${endLabels(shown, up, right).join('\n')}
<text x="${LEFT}" y="${HEIGHT - 6}">percentile of answers</text>
<text transform="translate(14 ${(HEIGHT - BOTTOM) / 2 + 40}) rotate(-90)">milliseconds</text>
</svg>
`;
}

/** Labels at the right ends of the lines, moved apart so that they do not overlap. */
function endLabels(lines: readonly Line[], up: (ms: number) => number, right: number): string[] {
  const labels = lines
    .map(({ name, points }, at) => ({ name, at, y: up(points.at(-1)?.[1] ?? 1) + 4 }))
    .sort((one, other) => one.y - other.y);
  let above = 0;
  return labels.map(({ name, at, y }) => {
    above = Math.max(y, above + 15);
    return `<text class="c${at % COLORS.length}" x="${right + 8}" y="${above.toFixed(1)}">${escaped(name)}</text>`;
  });
}

const COLORS = ['#3b5bdb', '#0b8f6a', '#c2410c', '#a21caf'];

const STYLE = `
text{font:12px system-ui,sans-serif;fill:#1b2430}.back{fill:#fff}.grid{stroke:#dfe4ea}
line.limit{stroke:#b3261e;stroke-dasharray:5 4}text.limit{fill:#b3261e}
.line{fill:none;stroke-width:2}.other{stroke-dasharray:6 4;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#e6eaef}.back{fill:#14181d}.grid{stroke:#2c343d}}
${COLORS.map((color, at) => `.line.c${at}{stroke:${color}}text.c${at}{fill:${color}}`).join('')}
`;
