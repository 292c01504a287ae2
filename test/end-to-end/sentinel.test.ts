// Replicas that do not acknowledge, and a master that is killed.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event } from '../support/gateway.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { eventually } from '../support/scope.ts';
import { pipeline, sentinels, store } from './sentinel.ts';

describe('replicas that do not acknowledge in time', () => {
  it('make events 503, a retry too although its id is known, and a duplicate once a replica has it', async () => {
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

describe('each event that was answered 202 has its row', () => {
  it('after a master was killed under load', { tags: ['long'] }, async () => {
    await sentinels.whole();
    const old = await sentinels.master();
    const load = new ProducerLoad(pipeline, 'killed');
    await load.more(100);
    await old.signal('SIGKILL');
    const fresh = await sentinels.promoted(old);
    await load.more(100);
    await load.stop();
    await load.assertLanded(store);
    await sentinels.rejoin(old, fresh);
  });
});
