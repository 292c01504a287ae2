// A queue that moves from one Redis to another; queue-move.long.ts moves one under load.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

describe('a gateway of a queue that moves', () => {
  it('accepts nothing while the old queue cannot be asked', async () => {
    const [away, current] = [await TestRedis.start(), await TestRedis.start()];
    const store = sqliteStore();
    const pipeline = await Pipeline.start({
      queueUri: current.uri,
      warehouseUri: store.uri,
      env: { ...PATIENT, INGEST_QUEUE_PREVIOUS_URI: away.uri },
    });
    atEnd(() => pipeline.stop());
    await eventually('an event is accepted', async () => (await pipeline.post(event('asked'))).status === 202);
    await away.signal('SIGKILL');
    const { status, body } = await pipeline.post(event('not-asked'));
    assert.deepEqual([status, body['code']], [503, 'QUEUE_UNAVAILABLE']);
    assert.equal((await pipeline.ready()).status, 503);
    await away.start();
    await eventually('it is accepted', async () => (await pipeline.post(event('not-asked'))).status === 202);
    await eventually('both land', async () => {
      const ids = new Set((await store.events()).map(({ id }) => id));
      return ids.has('asked') && ids.has('not-asked');
    });
  });
});
