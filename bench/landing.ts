// How fast one replica lands, against the fastest way to write the same rows into the same table, as ratios in one run:
//
//   PostgreSQL  COPY of the rows through psql, one statement, one commit
//   SQLite      one big transaction of prepared inserts
//
// Both sides write the same rows into the same schema with its primary key, durably (fsync, `synchronous = FULL`). The
// consumer is the real process; the queue is filled before it starts, and the time is taken from the first WARMUP
// events acknowledged to the last one. The order of the two sides changes each round; medians count.
//
//   bin/node bench/landing.ts [rounds]
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';
import { startPrivatePostgres } from './peers/postgres.ts';
import { postgresTarget, PRODUCER, sqliteTarget, type Row, type Target } from './landing-targets.ts';
import { webhookEvents } from './load/webhooks.ts';
import { BenchEnvironment, ROOT } from './bench-environment.ts';
import { CANONICAL_BODY_BYTES, eventBody, idSource } from './load/workload.ts';

const ROUNDS = Number(process.argv[2] ?? 5);
/**
 * Events that a consumer lands before the time is taken: its rate rises until its code is compiled, for half a second.
 */
const WARMUP = 30_000;

function workloads(): ReadonlyMap<string, readonly Row[]> {
  const nextId = idSource();
  const canonical = Array.from({ length: 150_000 }, () => {
    const id = nextId();
    return { id, type: 'bench.order.created', body: eventBody(id, CANONICAL_BODY_BYTES) };
  });
  const webhooks = Array.from({ length: 8 }, (_, copy) =>
    webhookEvents().map(({ id, body }) => {
      const { type, data } = JSON.parse(body) as { type: string; data: unknown };
      return { id: `${copy}/${id}`, type, body: JSON.stringify({ id: `${copy}/${id}`, type, data }) };
    }),
  ).flat();
  return new Map([
    ['events of 300 bytes', canonical],
    ['GitHub webhooks, 9.5 kB on average', webhooks],
  ]);
}

/** Seconds that a consumer takes for as many events as `rows` are, on a queue of its own. */
async function consume(environment: BenchEnvironment, target: Target, rows: readonly Row[]): Promise<number> {
  const redis = await environment.redis();
  const queueUri = `redis://127.0.0.1:${redis.port}`;
  // A time-out for each command would be a timer for each event, and they all end while the consumer works.
  const client = createClient({ url: queueUri, RESP: 2, commandOptions: { timeout: 0 } });
  await client.connect();
  const warmup = rows.slice(0, WARMUP).map(({ body }) => body.replace('"id":"', '"id":"warm-up '));
  const bodies = [...warmup, ...rows.map(({ body }) => body)];
  for (let from = 0; from < bodies.length; from += 1_000) {
    const batch = bodies.slice(from, from + 1_000);
    await Promise.all(
      batch.map((body) => client.sendCommand(['XADD', 'ingest', '*', 'producer', PRODUCER, 'body', body])),
    );
  }
  const consumer = spawn(join(ROOT, 'bin/ingest-consumer'), [], {
    env: {
      ...process.env,
      INGEST_QUEUE_URI: queueUri,
      INGEST_WAREHOUSE_URI: target.uri,
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  try {
    const reached = async (wanted: number): Promise<{ acknowledged: number; atMs: number }> => {
      for (;;) {
        const acknowledged = await acknowledgedBy(client);
        if (acknowledged >= wanted) return { acknowledged, atMs: performance.now() };
        if (consumer.exitCode !== null) throw new Error('the consumer ended');
        await delay(10);
      }
    };
    const from = await reached(warmup.length);
    const to = await reached(bodies.length);
    return ((to.atMs - from.atMs) / 1000) * (rows.length / (to.acknowledged - from.acknowledged));
  } finally {
    consumer.kill('SIGKILL');
    client.destroy();
    await redis.stop();
  }
}

/** How many entries the group has acknowledged. */
async function acknowledgedBy(client: { sendCommand(args: string[]): Promise<unknown> }): Promise<number> {
  const [group] = (await client.sendCommand(['XINFO', 'GROUPS', 'ingest'])) as unknown[][];
  const value = (name: string): number => Number(group?.[group.indexOf(name) + 1] ?? 0);
  return group === undefined ? 0 : value('entries-read') - value('pending');
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const environment = await BenchEnvironment.create();
const postgres = await startPrivatePostgres({ durable: true });
const copyFolder = join(environment.folder, 'copy');
const sqliteFolder = join(environment.folder, 'sqlite');
mkdirSync(copyFolder);
mkdirSync(sqliteFolder);
try {
  for (const target of [await postgresTarget(postgres, copyFolder), await sqliteTarget(sqliteFolder)]) {
    for (const [workload, rows] of workloads()) {
      const landing: number[] = [];
      const reference: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const sides = [
          async () => void landing.push(await consume(environment, target, rows)),
          async () => void reference.push(await target.reference(rows)),
        ];
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
          await target.clear();
          await side();
        }
      }
      const ratios = landing.map((seconds, round) => (reference[round] ?? Number.NaN) / seconds);
      const rate = (seconds: readonly number[]): string => `${Math.round(rows.length / median(seconds))} events/s`;
      print(
        `${target.name}, ${workload}: one replica ${rate(landing)}, reference ${rate(reference)}; ` +
          `ratio ${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')})`,
      );
    }
    await target.warehouse.close();
  }
} finally {
  await postgres.stop();
  rmSync(environment.folder, { recursive: true, force: true });
}
process.exit(0);
