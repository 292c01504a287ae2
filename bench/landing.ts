// How fast one replica lands, against the fastest way to write the same rows into the same table, as ratios in one run:
//
//   PostgreSQL  COPY of the rows through psql, one statement, one commit
//   SQLite      one big transaction of prepared inserts
//
// And how fast three replicas are against one, and one replica with four partitions against one with one stream.
//
// Both sides write the same rows into the same schema with its primary key, durably (fsync, `synchronous = FULL`). The
// consumer is the real process; the queue is filled before it starts, and the time is taken from the first WARMUP
// events acknowledged to the last one. The order of the two sides changes each round; medians count.
//
//   bin/node bench/landing.ts [rounds] [PostgreSQL|SQLite]
import { spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';
import { SETTINGS } from '../lib/process/settings.ts';
import { queueIdentity } from '../lib/redis/stream/identity.ts';
import { partitionOf } from '../lib/ingest/partition.ts';
import { startPrivatePostgres } from '../test/support/postgres.ts';
import { startCluster } from './peers/redis-cluster.ts';
import { postgresTarget, PRODUCER, sqliteTarget, type Row, type Target } from './landing-targets.ts';
import { webhookEvents } from './load/webhooks.ts';
import { BenchEnvironment, ROOT } from './bench-environment.ts';
import { withServer } from './queue-filling.ts';
import { CANONICAL_BODY_BYTES, eventBody, idSource } from './load/workload.ts';
import { SYSTEM } from '../test/support/system.ts';

const ROUNDS = Number(process.argv[2] ?? 5);
/** The target to measure; both by default. */
const ONLY = process.argv[3];
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

/** How the queue is read. */
interface Reading {
  readonly replicas: number;
  /** 1: the stream of a plain server. More: those of a Redis Cluster of one server. */
  readonly partitions: number;
}

const ONE: Reading = { replicas: 1, partitions: 1 };

/** Seconds that consumers take for as many events as `rows` are, on a queue of their own. */
async function consume(
  environment: BenchEnvironment,
  target: Target,
  rows: readonly Row[],
  { replicas, partitions }: Reading,
): Promise<number> {
  const cluster = partitions === 1 ? undefined : await startCluster(environment, 1);
  const redis = cluster?.masters[0] ?? (await environment.redis());
  const server = `redis://127.0.0.1:${redis.port}`;
  // A time-out for each command would be a timer for each event, and they all end while the consumer works.
  const client = createClient({ url: server, RESP: 2, commandOptions: { timeout: 0 } });
  await client.connect();
  const warmup = rows
    .slice(0, WARMUP)
    .map(({ id, body }) => ({ id: `warm-up ${id}`, body: body.replace('"id":"', '"id":"warm-up ') }));
  const events = [...warmup, ...rows];
  const streams = partitions === 1 ? ['ingest'] : Array.from({ length: partitions }, (_, at) => `ingest-${at}`);
  // As a gateway says it when it connects: consumers read by it.
  const accepts = SETTINGS.INGEST_BODY_BYTES_MAX.default;
  await withServer(redis, (to) => queueIdentity(to, 'ingest', { ...SYSTEM, partitions, plain: false, accepts }));
  const streamOf = (id: string): string => streams[partitionOf(id, partitions)] ?? '';
  for (let from = 0; from < events.length; from += 1_000) {
    await Promise.all(
      events
        .slice(from, from + 1_000)
        .map(({ id, body }) => client.sendCommand(['XADD', streamOf(id), '*', 'producer', PRODUCER, 'body', body])),
    );
  }
  const consumers = Array.from({ length: replicas }, () =>
    spawn(join(ROOT, 'bin/ingest-consumer'), [], {
      env: {
        ...process.env,
        ...(cluster === undefined
          ? { INGEST_QUEUE_URI: server }
          : { INGEST_QUEUE_URI: cluster.uri, INGEST_QUEUE_PARTITIONS: String(partitions) }),
        INGEST_WAREHOUSE_URI: target.uri,
        ...target.settings,
        INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  try {
    const reached = async (wanted: number): Promise<{ acknowledged: number; atMs: number }> => {
      for (;;) {
        const each = await Promise.all(streams.map((stream) => acknowledgedBy(client, stream)));
        const acknowledged = each.reduce((sum, one) => sum + one, 0);
        if (acknowledged >= wanted) return { acknowledged, atMs: performance.now() };
        if (consumers.some(({ exitCode }) => exitCode !== null)) throw new Error('a consumer ended');
        await delay(10);
      }
    };
    const from = await reached(warmup.length);
    const to = await reached(events.length);
    return ((to.atMs - from.atMs) / 1000) * (rows.length / (to.acknowledged - from.acknowledged));
  } finally {
    for (const consumer of consumers) consumer.kill('SIGKILL');
    client.destroy();
    await (cluster ?? redis).stop();
  }
}

/** How many entries of a stream the group has acknowledged. */
async function acknowledgedBy(
  client: { sendCommand(args: string[]): Promise<unknown> },
  stream: string,
): Promise<number> {
  // Before a consumer has made the group there is none, and of an empty partition not even a stream.
  const groups = await client.sendCommand(['XINFO', 'GROUPS', stream]).catch(() => []);
  const [group] = groups as unknown[][];
  const value = (name: string): number => Number(group?.[group.indexOf(name) + 1] ?? 0);
  return group === undefined ? 0 : value('entries-read') - value('pending');
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const print = (line: string): void => void process.stdout.write(`${line}\n`);

/** A way to write `rows`, which gives the seconds that it took. */
interface Side {
  readonly name: string;
  readonly run: () => Promise<number>;
  /** Of a side that does not write to the target. */
  readonly clear?: () => Promise<void>;
}

/** Runs both sides by turns, and prints how many times as fast as `against` the side `of` is. */
async function compare(target: Target, workload: string, rows: readonly Row[], of: Side, against: Side): Promise<void> {
  const seconds = new Map<Side, number[]>([
    [of, []],
    [against, []],
  ]);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const side of round % 2 === 0 ? [of, against] : [against, of]) {
      await side.clear?.();
      await target.clear();
      seconds.get(side)?.push(await side.run());
    }
  }
  const times = (side: Side): readonly number[] => seconds.get(side) ?? [];
  const ratios = times(of).map((time, round) => (times(against)[round] ?? Number.NaN) / time);
  const rate = (side: Side): string => `${side.name} ${Math.round(rows.length / median(times(side)))} events/s`;
  print(
    `${target.name}, ${workload}: ${rate(of)}, ${rate(against)}; ` +
      `ratio ${median(ratios).toFixed(2)} (${ratios.map((ratio) => ratio.toFixed(2)).join(' ')})`,
  );
}

const environment = await BenchEnvironment.create();
const postgres = await startPrivatePostgres({ durable: true });
const copyFolder = join(environment.folder, 'copy');
const sqliteFolder = join(environment.folder, 'sqlite');
mkdirSync(copyFolder);
mkdirSync(sqliteFolder);
try {
  const all = workloads();
  for (const target of [await postgresTarget(postgres, copyFolder), await sqliteTarget(sqliteFolder)]) {
    if (ONLY !== undefined && target.name !== ONLY) continue;
    const consumers = (name: string, rows: readonly Row[], how: Reading): Side => ({
      name,
      run: () => consume(environment, target, rows, how),
    });
    for (const [workload, rows] of all) {
      const reference: Side = { name: 'reference', run: () => target.reference(rows) };
      await compare(target, workload, rows, consumers('one replica', rows, ONE), reference);
    }
    const [[workload, rows] = ['', []]] = all;
    const one = consumers('one', rows, ONE);
    await compare(target, workload, rows, consumers('three replicas', rows, { ...ONE, replicas: 3 }), one);
    await compare(target, workload, rows, consumers('four partitions', rows, { ...ONE, partitions: 4 }), one);
    await target.warehouse.close();
  }
} finally {
  await postgres.stop();
  rmSync(environment.folder, { recursive: true, force: true });
}
process.exit(0);
