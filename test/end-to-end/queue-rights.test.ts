// Redis users with few rights: the README's rules are enough, each one is needed, and a program that lacks one says so
// at its start.
import { before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { Program, type ProgramName } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder, eventually } from '../support/scope.ts';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { rule } from '../support/redis-rights.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

const uriOf = (user: string): string => `redis://${user}:secret@127.0.0.1:${redis.port}`;

function start(name: ProgramName, user: string): Program {
  return new Program(name, {
    env: {
      INGEST_QUEUE_URI: uriOf(user),
      INGEST_STATE_DIR: temporaryFolder(),
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
    },
  });
}

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

describe('a program whose Redis user lacks a right', () => {
  it('exits with 4 and names the command: a gateway without HSET appends nothing', { tags: ['long'] }, async () => {
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

  it('exits with 4 and names the key: a consumer without the keys beside the stream', { tags: ['long'] }, async () => {
    await redis.command(
      'ACL',
      'SETUSER',
      'no-keys',
      'reset',
      ...rule('ingest-consumer').filter((word) => word !== '~{ingest}:*'),
    );
    const program = start('ingest-consumer', 'no-keys');
    assert.equal(await program.ended, 4, program.output);
    assert.match(program.output, /lacks rights.*zadd on \{ingest\}:replicas/);
  });

  it(
    'exits with 4 where durability is required and INFO is not allowed, and starts where it is not required',
    { tags: ['long'] },
    async () => {
      await redis.command(
        'ACL',
        'SETUSER',
        'no-info',
        'reset',
        ...rule('ingest-gateway').filter((word) => word !== '+info'),
      );
      const env = {
        INGEST_QUEUE_URI: uriOf('no-info'),
        INGEST_STATE_DIR: temporaryFolder(),
        INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      };
      const required = new Program('ingest-gateway', { env: { ...env, INGEST_QUEUE_DURABILITY: 'require' } });
      assert.equal(await required.ended, 4, required.output);
      assert.match(required.output, /INGEST_QUEUE_DURABILITY=require: the server does not tell/);
      const warned = new Program('ingest-gateway', { env });
      await warned.listening();
      assert.match(warned.output, /the server does not tell/);
      await warned.kill();
    },
  );
});
