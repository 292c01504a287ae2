import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Pipeline } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

describe('replicas of the consumer', () => {
  let pipeline: Pipeline;
  before(async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: sqliteStore().uri, replicas: 2 });
  });
  after(() => pipeline.stop());

  it('are six at most: the seventh says which key lifts the limit, and starts when one has left', async () => {
    await Promise.all(Array.from({ length: 4 }, () => pipeline.startConsumer()));
    const seventh = pipeline.beginConsumer();
    assert.equal(await seventh.ended, 5, seventh.output);
    assert.match(seventh.output, /INGEST_CONSUMER_REPLICAS_MAX=6: as many replicas run already/);

    const lifted = await pipeline.startConsumer({ INGEST_CONSUMER_REPLICAS_MAX: '7' });
    lifted.program.signal('SIGTERM');
    assert.equal(await lifted.program.ended, 0, lifted.program.output);
    const leaving = pipeline.replicas[2];
    leaving?.program.signal('SIGTERM');
    assert.equal(await leaving?.program.ended, 0);
    await pipeline.startConsumer();
  });
});
