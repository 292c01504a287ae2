// The gauges of the queue's size without the queue: for as long as the last reading counts.
import { describe, it } from 'node:test';
import { join } from 'node:path';
import { metricOf } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

describe('the size of the queue', () => {
  it('is not in the gauges any more when the queue has been away for a while', async () => {
    const redis = await TestRedis.start();
    const program = new Program('ingest-consumer', {
      env: {
        INGEST_QUEUE_URI: redis.uri,
        INGEST_CONSUMER_ADDR: '127.0.0.1:0',
        INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
      },
    });
    const replica = { program, url: await program.listening() };
    await eventually('a reading', async () => (await metricOf(replica, 'ingest_queue_memory_bytes')) > 0);
    await redis.signal('SIGKILL');
    await eventually(
      'no reading',
      async () => Number.isNaN(await metricOf(replica, 'ingest_queue_memory_bytes')),
      40_000,
    );
  });
});
