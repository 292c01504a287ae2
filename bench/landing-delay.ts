// The landing delay (acceptance to commit) at half of the gateway's top rate, with everything on one machine: load, one
// gateway, Redis, one consumer, PostgreSQL. And whether that consumer keeps up with the gateway at its top rate.
//
// The top rate is that of a closed loop with TOP_CONNECTIONS. Half of it is the closed loop with as few connections as
// reach half; the rate that it really had is printed. The delay comes from the consumer's own histogram
// `ingest_landing_delay_seconds`, so a percentile is the upper bound of its bucket.
//
//   bin/node bench/landing-delay.ts [seconds]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { startPrivatePostgres } from '../test/support/postgres.ts';
import { BenchEnvironment, ROOT, type RunningServer } from './bench-environment.ts';
import { runLoad } from './load/load-process.ts';
import { CANONICAL_BODY_BYTES } from './load/workload.ts';

const SECONDS = Number(process.argv[2] ?? 10);
const TOP_CONNECTIONS = 64;
const STEPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/** The consumer's histogram and counters at one moment: bucket bound to count. */
interface Reading {
  readonly buckets: ReadonlyMap<number, number>;
  readonly landed: number;
  readonly lag: number;
}

async function read(url: string): Promise<Reading> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const buckets = new Map<number, number>();
  for (const match of text.matchAll(/^ingest_landing_delay_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)) {
    buckets.set(match[1] === '+Inf' ? Number.POSITIVE_INFINITY : Number(match[1]), Number(match[2]));
  }
  const value = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  return { buckets, landed: value('ingest_landed_total'), lag: value('ingest_queue_lag_events') };
}

/** The bucket bound that `share` of the landings between two readings lie under, in seconds. */
function percentile(from: Reading, to: Reading, share: number): number {
  const counts = [...to.buckets].map(([bound, count]) => [bound, count - (from.buckets.get(bound) ?? 0)] as const);
  const total = Math.max(...counts.map(([, count]) => count));
  return counts.find(([, count]) => count >= share * total)?.[0] ?? Number.NaN;
}

const environment = await BenchEnvironment.create();
const postgres = await startPrivatePostgres({ durable: true });
const redis = await environment.redis();
const gateway: RunningServer = await environment.gateway(redis);
const consumer = spawn(join(ROOT, 'bin/ingest-consumer'), [], {
  env: {
    ...process.env,
    INGEST_QUEUE_URI: `redis://127.0.0.1:${redis.port}`,
    INGEST_WAREHOUSE_URI: await postgres.freshDatabase(),
    INGEST_CONSUMER_ADDR: '127.0.0.1:0',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
const print = (line: string): void => void process.stdout.write(`${line}\n`);

/** Accepted events a second. */
async function load(
  connections: number,
  seconds: number,
  marks = { warm: () => undefined, done: () => undefined },
): Promise<number> {
  const options = {
    port: gateway.port,
    connections,
    durationMs: seconds * 1000,
    warmupMs: 1_000,
    bodyBytes: CANONICAL_BODY_BYTES,
  };
  const result = await runLoad('raw-client.ts', environment.certificates, options, marks);
  return (result.statuses['202'] ?? 0) / (result.elapsedMs / 1000);
}

/** Waits until everything has landed, and gives the seconds that it took. */
async function drained(url: string): Promise<number> {
  const from = performance.now();
  // The lag is looked at once a second; a change of the landed count says that there was one.
  for (let before = -1; ;) {
    const { landed, lag } = await read(url);
    if (lag === 0 && landed === before) return (performance.now() - from) / 1000 - 1.2;
    before = landed;
    await delay(1_200);
  }
}

try {
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: consumer.stdout }).on('line', (line) => {
      const found = /listening on (http:[^"]+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  const before = await read(url);
  const top = await load(TOP_CONNECTIONS, SECONDS);
  const afterTop = await read(url);
  const drain = await drained(url);
  print(`top rate: ${Math.round(top)} events/s accepted by one gateway process with ${TOP_CONNECTIONS} connections`);
  const landedShare = (afterTop.landed - before.landed) / (top * (SECONDS + 1));
  print(
    `at the top rate one consumer landed ${Math.round(100 * landedShare)} % while the load ran, ` +
      `the rest within ${Math.max(0, drain).toFixed(1)} s; ` +
      `delay p50 <= ${percentile(before, afterTop, 0.5)} s, p99 <= ${percentile(before, afterTop, 0.99)} s`,
  );
  for (const connections of STEPS) {
    const rate = await load(connections, 2);
    await drained(url);
    if (rate < 0.47 * top && connections !== STEPS.at(-1)) continue;
    const from = await read(url);
    const half = await load(connections, SECONDS);
    await drained(url);
    const to = await read(url);
    print(
      `at ${Math.round(half)} events/s ` +
        `(${Math.round((100 * half) / top)} % of the top rate, ${connections} connections): ` +
        `landing delay p50 <= ${percentile(from, to, 0.5)} s, p99 <= ${percentile(from, to, 0.99)} s, ` +
        `p99.9 <= ${percentile(from, to, 0.999)} s`,
    );
    break;
  }
} finally {
  const gone = once(consumer, 'exit');
  consumer.kill('SIGTERM');
  await gone;
  await gateway.stop();
  await redis.stop();
  await postgres.stop();
}
process.exit(0);
