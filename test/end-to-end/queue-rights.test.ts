// Redis users with few rights: the README's rules are enough, each one is needed, and a program that lacks one says so
// at its start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { rule } from '../support/redis-rights.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { redis, start, uriOf } from './queue-rights.ts';

describe('under the rules of the README', () => {
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

describe('a program whose Redis user lacks a right', () => {
  it('exits with 4 and names the command: a gateway without HSET appends nothing', async () => {
    await redis.command(
      'ACL',
      'SETUSER',
      'no-hset',
      'reset',
      ...rule('ingest-gateway').filter((word) => word !== '+hset'),
    );
    const program = start('ingest-gateway', 'no-hset');
    assert.equal(await program.ended, 4, program.output);
    assert.match(program.output, /lacks rights.*hset/);
  });
});
