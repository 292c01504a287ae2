// Gateway and consumer on a real master that real sentinels watch, under load: killed, and handed over as planned.
import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { Program } from '../support/program.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import type { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';

const BACK_WITHIN_MS = 5_000;

let sentinels: TestSentinels;
let store: WarehouseStore;
let pipeline: Pipeline;
/** Another gateway on the same queue, that waits for no replicas: how soon Sentinel brings those back is no matter of ours. */
let quick: Pipeline;
before(async () => {
  sentinels = await TestSentinels.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: sentinels.uri,
    warehouseUri: store.uri,
    env: { INGEST_QUEUE_REPLICAS: '1', ...PATIENT },
  });
  quick = await Pipeline.start({ queueUri: sentinels.uri, warehouseUri: store.uri, replicas: 0, env: { ...PATIENT } });
  atEnd(() => Promise.all([pipeline.stop(), quick.stop()]).then(() => undefined));
});

interface FailOver {
  readonly prefix: string;
  readonly begin: (master: TestRedis) => Promise<void>;
  /** Whether what was accepted while the masters changed is promised too. */
  readonly lossless: boolean;
}

/** Events are accepted and land again soon after the promotion, and what was promised has one row each. */
async function failOver(t: TestContext, { prefix, begin, lossless }: FailOver): Promise<TestRedis> {
  await sentinels.whole();
  const old = await sentinels.master();
  const load = new ProducerLoad(pipeline, prefix);
  await load.more(200);
  const begunMs = performance.now();
  await begin(old);
  const fresh = await sentinels.promoted(old);
  const promotedMs = performance.now();
  const last = `${prefix}-back`;
  await eventually('an event is accepted', async () => (await quick.post(event(last))).status === 202);
  const backMs = performance.now();
  const acceptedMs = backMs - promotedMs;
  await eventually('it lands', async () => (await quick.find(last)).body['status'] === 'landed');
  const landedMs = performance.now() - promotedMs;
  t.diagnostic(`accepted ${Math.round(acceptedMs)} ms and landed ${Math.round(landedMs)} ms after the promotion`);
  assert.ok(acceptedMs < BACK_WITHIN_MS && landedMs < 2 * BACK_WITHIN_MS, `${acceptedMs} ms, ${landedMs} ms`);
  await load.more(100);
  await load.stop();
  load.accepted.set(last, backMs);
  // Until the gateway has heard of a planned fail-over, the old master takes writes that Sentinel throws away.
  await load.assertLanded(store, (ms) => lossless || ms < begunMs || ms > backMs);
  return fresh;
}

describe('replicas that do not acknowledge in time', () => {
  it('make events 503, a retry too although its id is known, and a duplicate once a replica has it', async () => {
    await sentinels.whole();
    const master = await sentinels.master();
    const replicas = sentinels.servers.filter((server) => server !== master);
    for (const replica of replicas) await replica.signal('SIGSTOP');
    try {
      for (let times = 0; times < 2; times += 1) {
        const { status, body } = await pipeline.post(event('unreplicated'));
        assert.deepEqual([status, body['code'], body['retryable']], [503, 'QUEUE_UNAVAILABLE', true]);
      }
      await eventually('it is in the master', async () =>
        (await master.entries()).some(({ fields }) => fields['body'] === event('unreplicated')),
      );
      await eventually('the gateway is not ready', async () => (await pipeline.ready()).status === 503);
    } finally {
      for (const replica of replicas) await replica.signal('SIGCONT');
    }
    const answer = await eventually('it is accepted', async () => {
      const again = await pipeline.post(event('unreplicated'));
      return again.status === 202 && again;
    });
    assert.equal(answer.body['duplicate'], true);
  });

  it('are told of at the start, and refused where durability is required', async () => {
    await sentinels.whole();
    for (const [replicas, words] of [
      ['0', /has replicas \(2\) and INGEST_QUEUE_REPLICAS is 0/],
      ['3', /2 replicas are connected and INGEST_QUEUE_REPLICAS is 3/],
    ] as const) {
      const program = new Program('ingest-gateway', {
        env: {
          INGEST_QUEUE_URI: sentinels.uri,
          INGEST_QUEUE_REPLICAS: replicas,
          INGEST_QUEUE_DURABILITY: 'require',
          INGEST_GATEWAY_ADDR: '127.0.0.1:0',
          INGEST_STATE_DIR: temporaryFolder(),
        },
      });
      assert.equal(await program.ended, 4, program.output);
      assert.match(program.output, words);
    }
  });
});

describe('behind Sentinel, with an acknowledgement of one replica', () => {
  it('a master that is killed under load costs no event that was answered 202', async (t) => {
    const old = await sentinels.master();
    const fresh = await failOver(t, { prefix: 'killed', begin: (master) => master.signal('SIGKILL'), lossless: true });
    await old.start();
    await old.command('REPLICAOF', '127.0.0.1', String(fresh.port));
  });

  it('a planned fail-over under load is followed before the old master knows of it', async (t) => {
    await failOver(t, { prefix: 'planned', begin: () => sentinels.failOver(), lossless: false });
  });
});
