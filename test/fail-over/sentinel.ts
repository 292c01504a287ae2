// Measures how soon after a promotion events are accepted and land again, behind real sentinels and under load. Only
// acceptance by the new master counts, because in a planned fail-over the old master accepts events until it hears of
// it. A gateway that waits for a replica must also wait until Sentinel has moved the other replica, so that case is
// measured separately.
import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { ProducerLoad } from '../support/load.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import type { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

const BACK_WITHIN_MS = 5_000;
const ROUNDS = 2;

let sentinels: TestSentinels;
let store: WarehouseStore;
/** The gateway of this pipeline waits until a replica has acknowledged each event. */
let replicated: Pipeline;
let plain: Pipeline;
before(async () => {
  sentinels = await TestSentinels.start();
  store = sqliteStore();
  const queue = { queueUri: sentinels.uri, warehouseUri: store.uri };
  replicated = await Pipeline.start({ ...queue, env: { ...PATIENT, INGEST_QUEUE_REPLICAS: '1' } });
  plain = await Pipeline.start({ ...queue, replicas: 0, env: PATIENT });
  atEnd(() => Promise.all([replicated.stop(), plain.stop()]).then(() => undefined));
});

/** Waits until the new master has accepted an event from this pipeline. Returns the event's id and the time. */
async function accepted(pipeline: Pipeline, prefix: string, master: TestRedis) {
  let sent = 0;
  return eventually('the new master takes an event', async () => {
    const id = `${prefix}-${sent++}`;
    if ((await pipeline.post(event(id))).status !== 202) return false;
    const atMs = performance.now();
    const last = JSON.stringify(await master.command('XREVRANGE', 'ingest', '+', '-', 'COUNT', '500'));
    return last.includes(JSON.stringify(event(id))) && { id, atMs };
  });
}

async function failOver(t: TestContext, prefix: string, begin: (master: TestRedis) => Promise<void>): Promise<void> {
  await sentinels.whole();
  const old = await sentinels.master();
  const load = new ProducerLoad(replicated, `${prefix}-load`);
  await load.more(200);
  await begin(old);
  const fresh = await sentinels.promoted(old);
  const promotedMs = performance.now();
  const followed = eventually('a replica follows the new master', async () =>
    /state=online/.test(String(await fresh.command('INFO', 'replication'))),
  ).then(() => performance.now());
  const [first, copied, followedMs] = await Promise.all([
    accepted(plain, prefix, fresh).then(async ({ id, atMs }) => {
      await eventually('it lands', async () => (await plain.find(id)).body['status'] === 'landed');
      return { atMs, landedMs: performance.now() };
    }),
    accepted(replicated, `${prefix}-copied`, fresh),
    followed,
  ]);
  await load.stop();
  const after = (ms: number): string => `${Math.round(ms - promotedMs)} ms`;
  const told = `after the promotion: accepted ${after(first.atMs)}, landed ${after(first.landedMs)}, a replica follows ${after(followedMs)}, accepted with one replica ${after(copied.atMs)}`;
  t.diagnostic(told);
  assert.ok(first.atMs - promotedMs < BACK_WITHIN_MS, told);
  assert.ok(first.landedMs - promotedMs < BACK_WITHIN_MS, told);
  assert.ok(copied.atMs - Math.max(promotedMs, followedMs) < BACK_WITHIN_MS, told);
}

describe(`events are accepted and land within ${BACK_WITHIN_MS / 1_000} s of the promotion`, () => {
  for (let round = 1; round <= ROUNDS; round += 1) {
    it(`of a replica whose master was killed (${round})`, async (t) => {
      const old = await sentinels.master();
      try {
        await failOver(t, `killed-${round}`, (master) => master.signal('SIGKILL'));
      } finally {
        await sentinels.rejoin(old, await sentinels.master());
      }
    });

    it(`in a planned fail-over (${round})`, (t) => failOver(t, `planned-${round}`, () => sentinels.failOver()));
  }
});
