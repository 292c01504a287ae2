// The cost of an event at rates far below saturation, at which a call of Redis carries one event. Each server first
// runs at full speed, so that V8 has compiled the hot code and its heap has the size that a flood leaves, then at each
// rate. With BENCH_BASE=<commit>, the gateway of that commit runs too.
import type { BenchCase, Comparison } from '../bench-case.ts';
import type { Bench } from '../bench.ts';
import { checkOut } from '../bench-environment.ts';
import { underLoad, type Run, type Sample } from '../measure.ts';
import * as subjects from '../subjects.ts';

const BASE = process.env['BENCH_BASE'];
const FULL_SPEED = { warmupSeconds: 0, seconds: 4 };
const AT_RATE = { warmupSeconds: 10, seconds: 15 };

interface Goals {
  readonly ratePerS: number;
  /** The maximum cost of the gateway and its Redis, as a ratio. */
  readonly toFastify: number;
  readonly toNginx: number;
  readonly p99Ms?: number;
}

const RATES: readonly Goals[] = [
  { ratePerS: 500, toFastify: 0.9, toNginx: 1.5, p99Ms: 4.5 },
  { ratePerS: 2_000, toFastify: 0.8, toNginx: 1.15 },
];

export const atRate = (name: string, ratePerS: number): string => `${name} at ${ratePerS.toLocaleString('en-US')}/s`;

export const ordinary: BenchCase = {
  name: 'ordinary',
  aim: 'CPU time of one event, latency and collections at 500 and 2,000 events/s over 50 connections.',
  roundsMax: 3,
  comparisons: RATES.flatMap(({ ratePerS, toFastify, toNginx, p99Ms }): Comparison[] => {
    const of = atRate('gateway', ratePerS);
    const to = (name: string, atMost?: number): Comparison => ({
      ...{ metric: 'totalUs', of, against: atRate(name, ratePerS) },
      ...(atMost !== undefined && { limit: { atMost } }),
    });
    return [
      ...[to('fastify', toFastify), to('nginx', toNginx), to('floor with Redis'), to('node reader'), to('base')],
      { metric: 'p99Ms', of, ...(p99Ms !== undefined && { limit: { atMost: p99Ms } }) },
    ];
  }),
  runs: (bench) => {
    const base = BASE === undefined ? undefined : subjects.gatewayOf(checkOut(BASE));
    return [
      ...[subjects.GATEWAY, base, subjects.GATEWAY_WITH_NODE_READER, subjects.FASTIFY],
      ...[bench.nginx, subjects.FLOOR_WITH_REDIS, bench.limit],
    ].flatMap((subject) => (subject === undefined ? [] : ordinaryRun(bench, subject)));
  },
};

function ordinaryRun({ environment }: Bench, subject: subjects.Subject): Run {
  return {
    labels: RATES.map(({ ratePerS }) => atRate(subject.name, ratePerS)),
    execute: () =>
      subjects.withServer(environment, subject, async (server, redis) => {
        await underLoad(environment, { label: subject.name }, FULL_SPEED, redis, server);
        const samples: Sample[] = [];
        for (const { ratePerS } of RATES) {
          const plan = { label: atRate(subject.name, ratePerS), options: { ratePerS } };
          samples.push(await underLoad(environment, plan, AT_RATE, redis, server));
        }
        return samples;
      }),
  };
}
