import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { openLink } from '../support/link.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { event } from '../support/gateway.ts';
import { ProducerLoad } from '../support/load.ts';

let sentinels: TestSentinels;
let store: WarehouseStore;
let pipeline: Pipeline;
before(async () => {
  sentinels = await TestSentinels.start();
  store = sqliteStore();
  pipeline = await Pipeline.start({
    queueUri: sentinels.uri,
    warehouseUri: store.uri,
    env: { INGEST_QUEUE_REPLICAS: '1', INGEST_ENQUEUE_TIMEOUT_MS: '1500' },
  });
  atEnd(() => pipeline.stop());
});

describe('replicas that do not acknowledge in time', () => {
  it('cause 503 for an event and its retry, and the retry is a duplicate once a replica has the event', async () => {
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
});

describe('sentinels that do not answer', { tags: ['long'] }, () => {
  it('do not stop the programs, which ask again after the next fail-over', async () => {
    await sentinels.whole();
    const ports = [...sentinels.uri.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port));
    const links = await Promise.all(ports.map((port) => openLink({ host: '127.0.0.1', port })));
    const uri = sentinels.uri.replace(/\/\/.*\//, `//${links.map(({ port }) => `127.0.0.1:${port}`).join()}/`);
    const beside = await Pipeline.start({
      queueUri: uri,
      warehouseUri: store.uri,
      env: { INGEST_QUEUE_REPLICAS: '1', INGEST_ENQUEUE_TIMEOUT_MS: '1500' },
    });
    atEnd(async () => {
      await beside.stop();
      await Promise.all(links.map((link) => link.close()));
    });
    const load = new ProducerLoad(beside, 'unanswered');
    await load.more(50);
    for (const link of links) link.hold('from the server');
    await load.more(500);
    const old = await sentinels.master();
    await old.signal('SIGKILL');
    const fresh = await sentinels.promoted(old);
    for (const link of links) link.mend();
    await load.more(100);
    await load.stop();
    await load.assertLanded(store);
    await sentinels.rejoin(old, fresh);
  });
});
