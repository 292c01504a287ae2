// An open loop with autocannon's `overallRate`. The figures are those of autocannon's own histogram, in whole
// milliseconds, for which each instance runs with `skipAggregateResult` and `aggregateResult` adds them.
//
// Fact: every autocannon client sends its requests for one second at full speed and then waits until the second has
// passed, and all clients of an instance do so at the same time. Choice: several instances, started within one
// second. Effect: the load is even.
//
// Fact: autocannon corrects for coordinated omission with an expected interval of `Math.ceil(1 / rate)`, in
// milliseconds, so it adds one sample for each millisecond of each answer (9.0.0). Choice: `ignoreCoordinatedOmission`.
// `paced.ts` measures from the time at which a request was due.
import autocannon from 'autocannon';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import type { LoadOptions, LoadResult } from './options.ts';
import { bodySource } from './workload.ts';

/** Documented, but missing from the type declarations. */
declare module 'autocannon' {
  export function aggregateResult(
    results: readonly autocannon.Result[],
    options: { readonly url: string },
  ): autocannon.Result;
}

const INSTANCES = 10;

const options = JSON.parse(process.argv[2] ?? '{}') as LoadOptions;
const tlsOptions = {
  ca: readFileSync(options.caPath),
  cert: readFileSync(options.certPath),
  key: readFileSync(options.keyPath),
};
const rate = Math.round(options.ratePerS ?? 1000);
const url = `https://127.0.0.1:${options.port}`;
const nextBody = bodySource(options);

/** Splits `total` into `of` whole shares that add up to `total`. Returns the share at index `at`. */
const share = (total: number, of: number, at: number): number =>
  Math.floor((total * (at + 1)) / of) - Math.floor((total * at) / of);

async function load(durationMs: number): Promise<autocannon.Result> {
  const count = Math.min(INSTANCES, options.connections);
  const runs: Promise<autocannon.Result>[] = [];
  for (let at = 0; at < count; at += 1) {
    runs.push(
      autocannon({
        url,
        connections: share(options.connections, count, at),
        overallRate: share(rate, count, at),
        ignoreCoordinatedOmission: true,
        skipAggregateResult: true,
        duration: Math.max(1, Math.round(durationMs / 1000)),
        tlsOptions,
        requests: [
          {
            method: 'POST',
            path: '/events',
            headers: { 'Content-Type': 'application/json', 'X-Request-Id': 'bench' },
            setupRequest: (request) => ({ ...request, body: nextBody() }),
          },
        ],
      }),
    );
    await wait(1000 / count);
  }
  return autocannon.aggregateResult(await Promise.all(runs), { url });
}

await load(options.warmupMs);
process.stderr.write('warm\n');
const result = await load(options.durationMs);
process.stderr.write('done\n');
const statuses = Object.entries(result.statusCodeStats ?? {}).map(
  ([status, { count }]) => [status, count ?? 0] as const,
);
const broken = result.errors + result.timeouts + result.resets;
const told: LoadResult = {
  statuses: Object.fromEntries(broken === 0 ? statuses : [...statuses, ['0', broken]]),
  offered: result.requests.total,
  elapsedMs: result.duration * 1000,
  latency: { p50: result.latency.p50, p99: result.latency.p99 },
};
process.stdout.write(`${JSON.stringify(told)}\n`, () => process.exit(0));
