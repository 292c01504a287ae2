// What a server's settings for streams cost, asked of a real one.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createLog } from '../../lib/process/log.ts';
import type { Server } from '../../lib/redis/client.ts';
import { valueConnection } from '../../lib/redis/node-redis.ts';
import { costlySettings } from '../../lib/redis/stream-memory.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';

const LOG = createLog('test', 'error').child({}, { level: 'silent' });

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

async function connected(uri: string): Promise<Server> {
  const connection = valueConnection({ uri, name: 'test', log: LOG });
  atEnd(() => connection.close());
  connection.open();
  await eventually('it is connected', () => connection.ready);
  return connection;
}

describe('settings of a server that cost memory', () => {
  it('are named while they apply, in words that say what to set', async () => {
    const server = await connected(redis.uri);
    const [bytes, ...none] = await costlySettings(server, 'ingest');
    assert.deepEqual(none, []);
    assert.match(bytes ?? '', /^stream-node-max-bytes is 4096: with 32768 /);
    await redis.command('CONFIG', 'SET', 'stream-node-max-bytes', '32768', 'stream-node-max-entries', '10');
    assert.match((await costlySettings(server, 'ingest')).join(), /^stream-node-max-entries is 10: with 1000 /);
    for (const value of ['1000', '0']) {
      await redis.command('CONFIG', 'SET', 'stream-node-max-entries', value);
      assert.deepEqual(await costlySettings(server, 'ingest'), []);
    }
  });

  it('are not named to a user without the right to read them', async () => {
    const own = await TestRedis.start();
    await own.command('ACL', 'SETUSER', 'least', 'on', '>secret', '~*', '+@all', '-config');
    const server = await connected(own.uri.replace('//', '//least:secret@'));
    assert.deepEqual(await costlySettings(server, 'ingest'), []);
    assert.deepEqual(await own.command('ACL', 'LOG'), [], 'and nobody was refused anything');
  });

  it('are a warning of a gateway at its start', async () => {
    const own = await TestRedis.start();
    const state = { INGEST_STATE_DIR: temporaryFolder(), INGEST_GATEWAY_ADDR: '127.0.0.1:0' };
    const gateway = new Program('ingest-gateway', { env: { INGEST_QUEUE_URI: own.uri, ...state } });
    await gateway.listening();
    await gateway.line(/stream-node-max-bytes is 4096.*the queue takes more memory than it must/);
    await gateway.kill();
  });
});
