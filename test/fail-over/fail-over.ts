// The long form of a fail-over: the master is killed at random, again and again, under load, and at the end every event that was
// answered 202 must have its row. It runs with an acknowledgement of one replica, which is held to that, and without, where what is lost
// is only told. `make fail-over`; FAIL_OVER_ROUNDS, FAIL_OVER_PER_SECOND and FAIL_OVER_REPLICAS bound and choose it.
import { describe, it } from 'node:test';
import { PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const ROUNDS = Number(process.env['FAIL_OVER_ROUNDS'] ?? 50);
const PER_SECOND = Number(process.env['FAIL_OVER_PER_SECOND'] ?? 2_000);
const REPLICAS = (process.env['FAIL_OVER_REPLICAS'] ?? '1 0').split(' ');
const PRODUCERS = 64;

describe(`${ROUNDS} masters killed at random under ${PER_SECOND} events a second`, () => {
  for (const replicas of REPLICAS)
    it(`with INGEST_QUEUE_REPLICAS=${replicas}`, async (t) => {
      const sentinels = await TestSentinels.start();
      const store = sqliteStore();
      const pipeline = await Pipeline.start({
        queueUri: sentinels.uri,
        warehouseUri: store.uri,
        env: { INGEST_QUEUE_REPLICAS: replicas, ...PATIENT },
      });
      atEnd(() => pipeline.stop());
      const load = new ProducerLoad(pipeline, 'event', PRODUCERS, (1_000 * PRODUCERS) / PER_SECOND);
      for (let round = 0; round < ROUNDS; round += 1) {
        await sentinels.whole();
        await load.more(100 + Math.floor(Math.random() * PER_SECOND));
        const master = await sentinels.master();
        await master.signal('SIGKILL');
        const fresh = await sentinels.promoted(master);
        await master.start();
        await master.command('REPLICAOF', '127.0.0.1', String(fresh.port));
      }
      await sentinels.whole();
      await load.more(100);
      await load.stop();
      if (replicas !== '0') await load.assertLanded(store);
      let missing = -1;
      await eventually('landing has come to rest', async () => {
        const before = missing;
        const there = new Set((await store.events()).map(({ id }) => id));
        missing = [...load.accepted.keys()].filter((id) => !there.has(id)).length;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        return missing === before;
      });
      t.diagnostic(`${load.accepted.size} events were answered 202, and ${missing} of them are lost`);
      await pipeline.stop();
    });
});
