// A closed loop with autocannon: each connection sends its next event when the last one is answered. It measures the
// rate at full speed and finds wrong answers and broken connections. It cannot measure the effect of a server that
// stands still: each connection then has one late answer and sends nothing else, so 50 of 10,000 answers are late
// (coordinated omission). `paced-load.ts` measures latency, from the time at which each request was due.
import autocannon from 'autocannon';
import { readFileSync } from 'node:fs';
import type { LoadOptions } from './options.ts';
import { printResult, PRINTED_MARKS } from './tally.ts';
import { bodySource } from './workload.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const nextBody = bodySource(options);

PRINTED_MARKS.warm();
const result = await autocannon({
  url: `https://127.0.0.1:${options.port}`,
  connections: options.connections,
  duration: Math.ceil(options.durationMs / 1000),
  tlsOptions: {
    ca: readFileSync(options.caPath),
    cert: readFileSync(options.certPath),
    key: readFileSync(options.keyPath),
  },
  requests: [
    {
      method: 'POST',
      path: '/events',
      headers: { 'Content-Type': 'application/json', 'X-Request-Id': 'bench' },
      setupRequest: (request) => ({ ...request, body: nextBody() }),
    },
  ],
});
PRINTED_MARKS.done();
const statuses = Object.entries(result.statusCodeStats ?? {}).map(([status, { count }]) => [status, count ?? 0]);
const broken = result.errors + result.timeouts + result.resets;
printResult({
  statuses: Object.fromEntries(broken === 0 ? statuses : [...statuses, ['0', broken]]) as Record<string, number>,
  offered: 0,
  elapsedMs: result.duration * 1000,
  latency: { p50: result.latency.p50, p99: result.latency.p99, max: result.latency.max },
});
