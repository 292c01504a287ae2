// Draws the README's chart of CPU time per event as SVG, with the data in a comment. The ratios are measured side by
// side (turns.ts). The gateway is 1.
import { AT_LOW_RATE, besidePeer } from '../cases/saturation.ts';
import type { Machine } from '../machine.ts';
import type { MetricName } from '../metrics.ts';
import type { CaseSummary } from '../summary.ts';

export interface CostData {
  /**
   * The gateway's CPU time divided by each peer's. The ratios to `nginx` and `fastify` include Redis on both sides.
   */
  readonly ratios: Readonly<Record<string, number>>;
  /** The gateway's CPU time per event in microseconds. */
  readonly saturationUs: number;
  readonly lowRateUs: number;
}

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

const PEERS = GROUPS.flatMap(({ peers }) => peers);

/** Returns `undefined` unless the saturation case measured every peer. */
export function costData(summaries: readonly CaseSummary[]): CostData | undefined {
  const saturation = summaries.find(({ name }) => name === 'saturation');
  const usOf = (wanted: string): number | undefined =>
    saturation?.labels.find(({ label }) => label === wanted)?.figures.serverUs?.median;
  const ratioTo = (peer: Peer): number | undefined =>
    saturation?.comparisons.find(
      ({ of, against, metric }) => of === besidePeer(peer.name) && against === peer.name && metric === peer.metric,
    )?.figure.median;
  const ratios = PEERS.map((peer) => [peer.name, rounded(ratioTo(peer), 2)] as const);
  const [saturationUs, lowRateUs] = [rounded(usOf('gateway'), 0), rounded(usOf(AT_LOW_RATE), 0)];
  if (![saturationUs, lowRateUs, ...ratios.map(([, ratio]) => ratio)].every(Number.isFinite)) return undefined;
  return { ratios: Object.fromEntries(ratios), saturationUs, lowRateUs };
}

const rounded = (value: number | undefined, digits: number): number => Number((value ?? Number.NaN).toFixed(digits));

export const costDataLines = ({ ratios, saturationUs, lowRateUs }: CostData): string =>
  `gateway and Redis / nginx with Lua and Redis: ${ratios['nginx']}; gateway / empty node:https server: ` +
  `${ratios['floor']}\n` +
  `CPU time of the gateway per event: ${saturationUs} µs at saturation, ${lowRateUs} µs at 2,000/s\n`;

const [WIDTH, LEFT, RIGHT, ROW, BAR] = [760, 250, 70, 28, 16];

export function costChart(data: CostData, machine: Machine): string {
  const values = PEERS.map(({ name }) => 1 / (data.ratios[name] ?? Number.NaN));
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
  for (const { title, peers } of GROUPS) {
    marks.push(`<text class="group" x="20" y="${y + 2}">${title}</text>`);
    y += 14;
    bar('ingest-gateway', 1, 'own');
    for (const { name, title: peer } of peers) bar(peer, 1 / (data.ratios[name] ?? Number.NaN), 'peer');
    y += 14;
  }
  const about = [
    `The gateway alone: ${data.saturationUs} µs per event at saturation, ${data.lowRateUs} µs at 2,000 events/s.`,
    `${machine.date.slice(0, 10)}, ${machine.cores} cores, node ${machine.node}, Redis ${machine.redis}; ` +
      `medians of ${machine.rounds} rounds of make bench.`,
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 40}" role="img" \
aria-label="CPU time per accepted event, ingest-gateway = 1">
<!-- data: ${JSON.stringify(data)} -->
<style>${STYLE}</style>
<rect class="back" width="100%" height="100%" rx="8"/>
<text class="title" x="20" y="32">CPU time per accepted event, ingest-gateway = 1 (less is better)</text>
${marks.join('\n')}
${about.map((line, at) => `<text class="about" x="20" y="${y + 8 + 16 * at}">${line}</text>`).join('\n')}
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
