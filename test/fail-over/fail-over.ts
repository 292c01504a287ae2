// The long form of a fail-over: a master is killed at random, again and again, under load, behind Sentinel and in a
// Redis Cluster. At the end every event that was answered 202 must have its row. It runs with an acknowledgement of one
// replica, which is held to that, and without, where what is lost is only told.
//
// `make fail-over`; FAIL_OVER_ROUNDS, FAIL_OVER_PER_SECOND, FAIL_OVER_REPLICAS and FAIL_OVER_ON bound and choose it.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import type { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

const ROUNDS = Number(process.env['FAIL_OVER_ROUNDS'] ?? 50);
const PER_SECOND = Number(process.env['FAIL_OVER_PER_SECOND'] ?? 2_000);
const REPLICAS = (process.env['FAIL_OVER_REPLICAS'] ?? '1 0').split(' ');
const ON = (process.env['FAIL_OVER_ON'] ?? 'sentinel cluster').split(' ');
const PRODUCERS = 64;
const PARTITIONS = 8;
/** When no row has come for so long, landing has come to rest. */
const REST_MS = 5_000;

/** Servers of which one is killed, and what takes its place. */
interface Servers {
  readonly uri: string;
  /** Waits until every master has its replicas. */
  whole(): Promise<void>;
  /** Kills a master, waits until a replica is the master in its place, and starts it again. */
  failOver(): Promise<void>;
}

async function sentinelServers(): Promise<Servers> {
  const sentinels = await TestSentinels.start();
  return {
    uri: sentinels.uri,
    whole: () => sentinels.whole(),
    failOver: async () => {
      const old = await sentinels.master();
      await old.signal('SIGKILL');
      await sentinels.rejoin(old, await sentinels.promoted(old));
    },
  };
}

async function clusterServers(): Promise<Servers> {
  const cluster = await TestCluster.start();
  return {
    uri: cluster.uri,
    whole: () => cluster.whole(),
    failOver: async () => {
      const stream = `ingest-${Math.floor(Math.random() * PARTITIONS)}`;
      const old = await cluster.masterOf(stream);
      await old.signal('SIGKILL');
      await eventually('a replica is promoted', async () => isOther(await cluster.masterOf(stream), old), 60_000);
      await old.start();
    },
  };
}

const isOther = async (master: TestRedis, old: TestRedis): Promise<boolean> =>
  master !== old && /role:master/.test(String(await master.command('INFO', 'replication')));

/** How many of these have no row once no more rows come. */
async function lost(accepted: ReadonlySet<string>, store: WarehouseStore): Promise<number> {
  let [rows, sinceMs] = [-1, performance.now()];
  await eventually(
    'landing has come to rest',
    async () => {
      const now = await store.count();
      if (now !== rows) [rows, sinceMs] = [now, performance.now()];
      return performance.now() - sinceMs > REST_MS;
    },
    120_000,
  );
  const there = new Set((await store.events()).map(({ id }) => id));
  return [...accepted].filter((id) => !there.has(id)).length;
}

async function campaign(t: TestContext, servers: Servers, replicas: string): Promise<void> {
  const store = sqliteStore();
  const pipeline = await Pipeline.start({
    queueUri: servers.uri,
    warehouseUri: store.uri,
    env: {
      INGEST_QUEUE_REPLICAS: replicas,
      ...(servers.uri.includes('+cluster') ? { INGEST_QUEUE_PARTITIONS: String(PARTITIONS) } : {}),
      ...PATIENT,
    },
  });
  atEnd(() => pipeline.stop());
  const accepted = new Set<string>();
  const statuses = new Set<number>();
  const rates: number[] = [];
  const startMs = performance.now();
  for (let round = 0; round < ROUNDS; round += 1) {
    await servers.whole();
    const load = new ProducerLoad(pipeline, `event-${round}`, PRODUCERS, (1_000 * PRODUCERS) / PER_SECOND, true);
    const begunMs = performance.now();
    await load.more(Math.ceil((0.2 + 0.8 * Math.random()) * PER_SECOND));
    rates.push((load.accepted.size * 1_000) / (performance.now() - begunMs));
    await servers.failOver();
    await load.more(100);
    await load.stop();
    for (const id of load.accepted.keys()) accepted.add(id);
    for (const status of load.statuses.keys()) statuses.add(status);
  }
  const missing = await lost(accepted, store);
  await pipeline.stop();
  const rate = Math.round(rates.reduce((sum, one) => sum + one, 0) / rates.length);
  const seconds = Math.round((performance.now() - startMs) / 1_000);
  t.diagnostic(
    `${accepted.size} events were answered 202, at ${rate} a second before each of ${ROUNDS} fail-overs, and ${missing} of them are lost (${seconds} s)`,
  );
  assert.deepEqual(
    [...statuses].filter((status) => status !== 202 && status !== 503),
    [],
  );
  if (replicas !== '0') assert.equal(missing, 0);
}

for (const on of ON)
  describe(`${ROUNDS} masters killed at random under ${PER_SECOND} events a second, ${on}`, () => {
    for (const replicas of REPLICAS)
      it(`with INGEST_QUEUE_REPLICAS=${replicas}`, async (t) =>
        campaign(t, await (on === 'cluster' ? clusterServers() : sentinelServers()), replicas));
  });
