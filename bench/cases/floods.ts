// One client that sends as much as it can on 100 connections, by what it has the gateway do, and another producer that
// posts 50 events a second meanwhile.
import type { BenchCase } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { startFlood } from '../load/load-process.ts';
import type { FloodOptions } from '../load/options.ts';
import { measure, type Run } from '../measure.ts';
import { GATEWAY } from '../subjects.ts';

const CONNECTIONS = 100;
const P99_MS_MAX = 200;

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
/** A request that leaves its connection to node:http. */
const BY_NODE = 'HEAD /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
const LOOK_UPS = { certificate: true, largeBytes: 250_000, request: get('/events/large') };

type Kind = Pick<FloodOptions, 'request'> &
  Partial<Pick<FloodOptions, 'opening' | 'largeBytes'>> & { readonly certificate?: boolean };

const KINDS: Readonly<Record<string, Kind>> = {
  metrics: { request: get('/metrics') },
  'metrics, by node:http': { request: get('/metrics'), opening: BY_NODE },
  refused: { request: get('/x') },
  'refused, by node:http': { request: get('/x').replace('GET', 'PUT'), opening: BY_NODE },
  'look-ups': LOOK_UPS,
  'look-ups, by node:http': { ...LOOK_UPS, opening: BY_NODE },
};
const LABELS = Object.entries(KINDS).flatMap(([name, kind]) =>
  [true, false].map((reads) => ({ label: `${name}, ${reads ? 'read' : 'unread'}`, kind, reads })),
);

export const floods: BenchCase = {
  name: 'floods',
  aim:
    'How long a producer waits that posts 50 events a second, ' +
    `while another client floods ${CONNECTIONS} connections.`,
  comparisons: LABELS.map(({ label }) => ({ metric: 'p99Ms', of: label, limit: { atMost: P99_MS_MAX } })),
  runs: (bench) => LABELS.map((one) => floodRun(bench, one)),
};

function floodRun(bench: Bench, { label, kind, reads }: (typeof LABELS)[number]): Run {
  return {
    label,
    execute: async () => {
      let flood: { stop(): Promise<void> } | undefined;
      try {
        const plan = { label, subject: GATEWAY, load: 'paced.ts', options: { connections: 4, ratePerS: 50 } } as const;
        const prepare = async (_redis: unknown, { port }: { readonly port: number }): Promise<void> => {
          const asked = { opening: '', ...kind, port, connections: CONNECTIONS, reads };
          flood = await startFlood(bench.environment.certificates, asked, kind.certificate === true);
        };
        return await measure(bench.environment, { ...plan, prepare }, bench.duration);
      } finally {
        await flood?.stop();
      }
    },
  };
}
