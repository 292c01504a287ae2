// Draws the README's chart of CPU time per event as SVG, at saturation and at ordinary rates. The gateway is 1. The
// ratios at saturation are measured side by side (turns.ts).
import { atRate } from '../cases/ordinary.ts';
import { besidePeer } from '../cases/saturation.ts';
import type { Measurements } from '../figures.ts';
import type { MetricName } from '../metrics.ts';

interface Group {
  readonly title: string;
  readonly measurement: 'saturation' | 'ordinary';
  readonly metric: MetricName;
  readonly peers: readonly { readonly title: string; readonly of: string; readonly against: string }[];
}

const TITLES = {
  nginx: 'nginx with Lua, one XADD',
  fastify: 'Fastify and ioredis, one XADD',
  floor: 'empty node:https server',
  'floor with Redis': 'the same, awaiting one Redis reply',
} as const;
type Peer = keyof typeof TITLES;

const saturated = (peer: Peer) => ({ title: TITLES[peer], of: besidePeer(peer), against: peer });

const ordinary = (ratePerS: number): Group => ({
  title: `at ${ratePerS.toLocaleString('en-US')} events/s: server and Redis`,
  measurement: 'ordinary',
  metric: 'totalUs',
  peers: (['nginx', 'fastify', 'floor with Redis'] as const).map((peer) => ({
    ...{ title: TITLES[peer], of: atRate('gateway', ratePerS), against: atRate(peer, ratePerS) },
  })),
});

const GROUPS: readonly Group[] = [
  ordinary(500),
  ordinary(2_000),
  {
    ...{ title: 'at saturation: server and Redis', measurement: 'saturation', metric: 'totalUs' },
    peers: [saturated('nginx'), saturated('fastify')],
  },
  {
    ...{ title: 'at saturation: server alone', measurement: 'saturation', metric: 'serverUs' },
    peers: [saturated('floor'), saturated('floor with Redis')],
  },
];

const [WIDTH, LEFT, RIGHT, ROW, BAR] = [760, 250, 70, 26, 16];

/** Returns `undefined` if a figure is missing. */
export function costChart(measurements: Measurements): string | undefined {
  const groups = GROUPS.map(({ title, measurement, metric, peers }) => ({
    title,
    bars: peers.map((peer): readonly [string, number] => {
      const ratio = measurements[measurement]?.figures[`${peer.of} / ${peer.against} ${metric}`]?.median;
      return [peer.title, 1 / (ratio ?? Number.NaN)];
    }),
  }));
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
  for (const name of ['ordinary', 'saturation'] as const) {
    marks.push(`<text class="about" x="20" y="${y + 8}">${aboutRun(name, measurements)}</text>`);
    y += 16;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 8}" role="img" \
aria-label="CPU time per accepted event, ingest-gateway = 1">
<style>${STYLE}</style>
<rect class="back" width="100%" height="100%" rx="8"/>
<text class="title" x="20" y="32">CPU time per accepted event, ingest-gateway = 1 (less is better)</text>
${marks.join('\n')}
</svg>
`;
}

function aboutRun(name: string, measurements: Measurements): string {
  const run = measurements[name];
  if (run === undefined) return '';
  const versions = `${run.cores} cores, node ${run.node}, Redis ${run.redis}`;
  return `${name}: ${run.date.slice(0, 10)}, commit ${run.commit}, ${versions}; medians of ${run.rounds} rounds`;
}

const STYLE = `
text{font:13px system-ui,sans-serif;fill:#1b2430}.title{font-size:15px;font-weight:600}
.group,.about{fill:#5c6876;font-size:11px}.value{font-variant-numeric:tabular-nums}
.back{fill:#fff}.own{fill:#3b5bdb}.peer{fill:#b8c2cf}
@media(prefers-color-scheme:dark){text{fill:#e6eaef}.group,.about{fill:#9aa5b1}
.back{fill:#14181d}.own{fill:#8fa8ff}.peer{fill:#465160}}
`;
