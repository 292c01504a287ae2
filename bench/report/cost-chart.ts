// Draws the README's chart of CPU time per event as SVG. The ratios are measured side by side (turns.ts). Those to
// nginx and Fastify include Redis on both sides. The gateway is 1.
import { besidePeer } from '../cases/saturation.ts';
import type { Machine } from '../machine.ts';
import type { MetricName } from '../metrics.ts';
import type { CaseSummary } from '../summary.ts';

interface Peer {
  readonly name: string;
  readonly metric: MetricName;
  readonly title: string;
}

const GROUPS: readonly { readonly title: string; readonly peers: readonly Peer[] }[] = [
  {
    title: 'server and Redis',
    peers: [
      { name: 'nginx', metric: 'totalUs', title: 'nginx with Lua, one XADD' },
      { name: 'fastify', metric: 'totalUs', title: 'Fastify and ioredis, one XADD' },
    ],
  },
  {
    title: 'server alone',
    peers: [
      { name: 'floor', metric: 'serverUs', title: 'empty node:https server' },
      { name: 'floor with Redis', metric: 'serverUs', title: 'the same, awaiting one Redis reply' },
    ],
  },
];

const [WIDTH, LEFT, RIGHT, ROW, BAR] = [760, 250, 70, 28, 16];

/** Returns `undefined` unless the saturation case measured every peer. */
export function costChart(summaries: readonly CaseSummary[], machine: Machine): string | undefined {
  const comparisons = summaries.find(({ name }) => name === 'saturation')?.comparisons ?? [];
  const barOf = ({ name, metric, title }: Peer): readonly [string, number] => {
    const label = besidePeer(name);
    const found = comparisons.find((one) => one.of === label && one.against === name && one.metric === metric);
    return [title, 1 / (found?.figure.median ?? Number.NaN)];
  };
  const groups = GROUPS.map(({ title, peers }) => ({ title, bars: peers.map(barOf) }));
  const values = groups.flatMap(({ bars }) => bars.map(([, value]) => value));
  if (!values.every(Number.isFinite)) return undefined;
  const scale = (WIDTH - LEFT - RIGHT) / Math.max(1, ...values);
  let y = 64;
  const marks: string[] = [];
  const bar = (title: string, value: number, kind: string): void => {
    const end = LEFT + value * scale;
    marks.push(
      `<text x="${LEFT - 12}" y="${y + 12}" text-anchor="end">${title}</text>`,
      `<rect class="${kind}" x="${LEFT}" y="${y}" width="${(value * scale).toFixed(1)}" height="${BAR}" rx="3"/>`,
      `<text class="value" x="${(end + 8).toFixed(1)}" y="${y + 12}">${value.toFixed(2)}</text>`,
    );
    y += ROW;
  };
  for (const { title, bars } of groups) {
    marks.push(`<text class="group" x="20" y="${y + 2}">${title}</text>`);
    y += 14;
    bar('ingest-gateway', 1, 'own');
    for (const [peer, value] of bars) bar(peer, value, 'peer');
    y += 14;
  }
  const about =
    `${machine.date.slice(0, 10)}, ${machine.cores} cores, node ${machine.node}, Redis ${machine.redis}; ` +
    `medians of ${machine.rounds} rounds of make bench.`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 24}" role="img" \
aria-label="CPU time per accepted event, ingest-gateway = 1">
<style>${STYLE}</style>
<rect class="back" width="100%" height="100%" rx="8"/>
<text class="title" x="20" y="32">CPU time per accepted event, ingest-gateway = 1 (less is better)</text>
${marks.join('\n')}
<text class="about" x="20" y="${y + 8}">${about}</text>
</svg>
`;
}

const STYLE = `
text{font:13px system-ui,sans-serif;fill:#1b2430}.title{font-size:15px;font-weight:600}
.group,.about{fill:#5c6876;font-size:11px}.value{font-variant-numeric:tabular-nums}
.back{fill:#fff}.own{fill:#3b5bdb}.peer{fill:#b8c2cf}
@media(prefers-color-scheme:dark){text{fill:#e6eaef}.group,.about{fill:#9aa5b1}
.back{fill:#14181d}.own{fill:#8fa8ff}.peer{fill:#465160}}
`;
