// More rights that a program's Redis user may lack.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Program } from '../support/program.ts';
import { rule } from '../support/redis-rights.ts';
import { temporaryFolder } from '../support/scope.ts';
import { redis, start, uriOf } from './queue-rights.ts';

describe('a program whose Redis user lacks a right', () => {
  it('exits with 4 and names the key: a consumer without the keys beside the stream', async () => {
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

  it('exits with 4 where durability is required and INFO is not allowed, and starts where it is not required', async () => {
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
  });
});
