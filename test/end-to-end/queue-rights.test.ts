import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { rule } from '../support/redis-rights.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

const uriOf = (user: string): string => `redis://${user}:secret@127.0.0.1:${redis.port}`;

describe('under the documented rules', () => {
  it('events are accepted, found, land, and leave the queue', async () => {
    for (const name of ['ingest-gateway', 'ingest-consumer'])
      await redis.command('ACL', 'SETUSER', name, 'reset', ...rule(name));
    await redis.command('ACL', 'LOG', 'RESET');
    await redis.command('XADD', 'ingest', String(Date.now() - 25 * 3_600_000), 'producer', 'p', 'body', event('old'));
    const store = sqliteStore();
    const pipeline = await Pipeline.start({
      queueUri: uriOf('ingest-gateway'),
      warehouseUri: store.uri,
      replicas: 0,
      env: PATIENT,
    });
    const replica = await pipeline.startConsumer({ INGEST_QUEUE_URI: uriOf('ingest-consumer') });
    assert.equal((await pipeline.post(event('one'))).status, 202);
    assert.equal((await pipeline.post(event('one'))).body['duplicate'], true);
    await eventually('it has landed', async () => (await metricOf(replica, 'ingest_landed_total')) >= 1);
    assert.equal((await pipeline.find('one')).status, 200);
    replica.program.signal('SIGTERM');
    assert.equal(await replica.program.ended, 0);
    await pipeline.stop();
    assert.deepEqual(await redis.command('ACL', 'LOG'), [], 'nothing was refused');
  });
});
