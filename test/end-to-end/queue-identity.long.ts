import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

const programOn = (name: 'ingest-gateway' | 'ingest-consumer', server: TestRedis): Program =>
  new Program(name, {
    env: {
      INGEST_QUEUE_URI: server.uri,
      INGEST_STATE_DIR: temporaryFolder(),
      INGEST_GATEWAY_ADDR: '127.0.0.1:0',
      INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
    },
  });

describe('a program on a queue with another number of partitions', () => {
  for (const name of ['ingest-gateway', 'ingest-consumer'] as const) {
    it(`refuses to start with exit code 2 and names both numbers: ${name}`, async () => {
      const own = await TestRedis.start();
      await own.command('HSET', '{ingest}:queue', 'format', '4', 'partitions', '8', 'id', 'x', 'secret', 's');
      const program = programOn(name, own);
      assert.equal(await program.ended, 2, program.output);
      assert.match(program.output, /8 partitions.* 1 partition/);
      assert.deepEqual(await own.command('KEYS', '*'), ['{ingest}:queue'], 'nothing was touched');
    });
  }
});

describe('a program on a queue of another format version', () => {
  for (const name of ['ingest-gateway', 'ingest-consumer'] as const) {
    it(`refuses to start with exit code 4 and names both versions: ${name}`, async () => {
      const own = await TestRedis.start();
      await own.command('HSET', '{ingest}:queue', 'format', '7', 'partitions', '1', 'id', 'x');
      const program = programOn(name, own);
      assert.equal(await program.ended, 4, program.output);
      assert.match(program.output, /format 7.*format 4/);
      assert.deepEqual(await own.command('KEYS', '*'), ['{ingest}:queue'], 'nothing was touched');
    });
  }
});
