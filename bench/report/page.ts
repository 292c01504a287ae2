// The page beside a run's NDJSON: one file, no network, light and dark.
import type { Machine } from '../machine.ts';
import { METRICS, written, type MetricName } from '../metrics.ts';
import { noiseText } from '../statistics.ts';
import type { CaseSummary } from '../summary.ts';
import { percentileCurve, type Line } from './curve.ts';
import { escaped } from './markup.ts';
import { ratioChart } from './ratio-chart.ts';
import { comparisonLine } from './table.ts';

/** The latency target (openapi/rules.md, 8). */
const P99_LIMIT_MS = 200;
/** Shown in the tables of the cases that are about them. */
const ONLY_COMPARED: readonly MetricName[] = ['residentGrowth', 'answeredShare', 'refusedShare', 'offeredShare'];
const CURVES = ['saturation', 'latency'];

export function page(machine: Machine, cases: readonly CaseSummary[]): string {
  const gateway = cases
    .find(({ name }) => name === 'saturation')
    ?.labels.find(({ label }) => label === 'gateway')?.figures;
  const numbers =
    gateway === undefined
      ? ''
      : `<div class="numbers"><p><b>${written('ratePerS', gateway.ratePerS?.median)}</b> accepted events a second</p>
<p><b>${written('p99Ms', gateway.p99Ms?.median)}</b> ms p99 at saturation</p></div>`;
  const lines: Line[] = cases
    .filter(({ name }) => CURVES.includes(name))
    .flatMap(({ name, labels }) =>
      labels
        .filter(({ curve }) => curve.length > 0)
        .map(({ label, curve }) => ({ name: name === 'saturation' ? `${label} at full load` : label, points: curve })),
    );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Events gateway: benchmark of ${machine.date.slice(0, 10)}</title>
<style>${STYLE}</style></head><body><main>
<h1>Events gateway: benchmark</h1>
<p class="about">${escaped(about(machine))}</p>
${numbers}
<h2>Ratios</h2>
<p>Dot: median over the rounds. Bar: the median’s interval. Tick: the goal.
CPU time is user and system time for each accepted event.</p>
${ratioChart(cases)}
${lines.length === 0 ? '' : `<h2>Latency by percentile</h2>\n${percentileCurve(lines, P99_LIMIT_MS)}`}
${cases.map(section).join('\n')}
</main></body></html>
`;
}

/** What was measured, where and when. */
const about = ({ date, commit, cores, cpu, node, redis, rounds, seconds }: Machine): string =>
  [
    `${date.slice(0, 16).replace('T', ' ')} UTC`,
    `commit ${commit}`,
    `${cores} cores, ${cpu}`,
    `node ${node}`,
    `Redis ${redis}`,
    `${rounds} rounds of ${seconds} s`,
  ].join(' · ');

function section({ name, aim, leftOut, labels, comparisons }: CaseSummary): string {
  const head = `<h2 id="${name}">${name}</h2><p>${escaped(aim)}</p>`;
  if (leftOut !== undefined) return `${head}<p class="note">${escaped(leftOut)}</p>`;
  const metrics = (Object.keys(METRICS) as MetricName[]).filter(
    (metric) =>
      (!ONLY_COMPARED.includes(metric) || comparisons.some((comparison) => comparison.metric === metric)) &&
      labels.some(({ figures }) => figures[metric] !== undefined),
  );
  const heading = metrics
    .map((metric) => `<th>${METRICS[metric].title}<small>${METRICS[metric].unit}</small></th>`)
    .join('');
  const rows = labels.map(({ label, figures, voids }) => {
    const cells = metrics.map((metric) => {
      const figure = figures[metric];
      const noise = figure === undefined ? '' : `<small>${noiseText(figure)}</small>`;
      return `<td>${written(metric, figure?.median)}${metric === 'foreignShare' ? '' : noise}</td>`;
    });
    const wasVoid = voids.length > 0 ? `<small>${voids.length} void</small>` : '';
    return `<tr><th scope="row">${escaped(label)}${wasVoid}</th>${cells.join('')}</tr>`;
  });
  const notes = labels.flatMap(({ label, voids, notes: said }) => [
    ...voids.map((reason) => `${label}: a run was void (${reason})`),
    ...said.map((note) => `${label}: ${note}`),
  ]);
  const item = (kind: string, text: string): string => `<li class="${kind}">${escaped(text)}</li>`;
  const items = [
    ...comparisons.map((comparison) =>
      item((comparison.verdict ?? 'plain').replace(' ', '-'), comparisonLine(comparison)),
    ),
    ...notes.map((note) => item('note', note)),
  ];
  return `${head}<div class="scroll"><table><thead><tr><th></th>${heading}</tr></thead>
<tbody>${rows.join('')}</tbody></table></div>
<ul>${items.join('')}</ul>`;
}

const lineColours = (colours: readonly string[]): string =>
  colours.map((colour, at) => `.line.c${at}{stroke:${colour}}svg .name.c${at}{fill:${colour}}`).join('');

const STYLE = `
:root{color-scheme:light dark;--back:#fff;--ink:#1b2430;--soft:#5c6876;--rule:#dfe4ea;--good:#16794c;
--bad:#b3261e;--dull:#8a6d00;--plain:#3b5bdb}
@media(prefers-color-scheme:dark){:root{--back:#14181d;--ink:#e6eaef;--soft:#9aa5b1;--rule:#2c343d;
--good:#5fd39a;--bad:#ff8a80;--dull:#e3c04f;--plain:#8fa8ff}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:940px;margin:0 auto;padding:32px 24px 64px}h1{margin:0;font-size:26px}
h2{margin:40px 0 6px;font-size:18px}p{margin:4px 0 12px}
.about,small{color:var(--soft)}small{font-size:11px;font-weight:400;margin-left:4px;white-space:nowrap}
.numbers{display:flex;gap:48px;flex-wrap:wrap;margin:20px 0}
.numbers b{display:block;font-size:38px;line-height:1.1}
svg{width:100%;height:auto;font-size:12px}svg text{fill:var(--ink)}.grid{stroke:var(--rule)}.one{stroke:var(--soft)}
.interval{stroke-width:6;stroke-opacity:.35;stroke-linecap:round;stroke:var(--plain)}circle{fill:var(--plain)}
.interval.reached{stroke:var(--good)}circle.reached{fill:var(--good)}svg .value.reached{fill:var(--good)}
.interval.missed{stroke:var(--bad)}circle.missed{fill:var(--bad)}svg .value.missed{fill:var(--bad)}
.interval.unclear{stroke:var(--dull)}circle.unclear{fill:var(--dull)}svg .value.unclear{fill:var(--dull)}
.goal{stroke:var(--ink);stroke-width:2}
line.limit{stroke:var(--bad);stroke-dasharray:5 4}svg text.limit{fill:var(--bad)}
.line{fill:none;stroke-width:2}.beside{stroke-dasharray:6 4;stroke-width:1.5}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;text-align:right;border-bottom:1px solid var(--rule)}
thead th{font-size:12px;color:var(--soft);font-weight:600;vertical-align:bottom}
th[scope=row],th:first-child{text-align:left;white-space:nowrap}td:first-child,th:first-child{padding-left:0}
ul{margin:10px 0;padding-left:20px}li.reached::marker{color:var(--good)}li.missed{color:var(--bad)}
li.unclear,li.not-tested{color:var(--dull)}li.note{color:var(--soft)}
${lineColours(['#3b5bdb', '#0b8f6a', '#c2410c', '#a21caf', '#0e7490', '#b45309', '#be123c', '#6d28d9'])}
@media(prefers-color-scheme:dark){
${lineColours(['#8fa8ff', '#4fd1a5', '#fb923c', '#e879f9', '#67e8f9', '#fbbf24', '#fb7185', '#c4b5fd'])}}
`;
