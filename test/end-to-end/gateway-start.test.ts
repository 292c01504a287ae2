// Log lines of a starting gateway about its queue and its warehouse.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

const withUser = (uri: string, user: string): string => uri.replace(/\/\/([^@/]*@)?/, `//${user}@`);

describe('a gateway at its start', () => {
  const env = (more: Readonly<Record<string, string>>): Record<string, string> => ({
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_STATE_DIR: temporaryFolder(),
    ...more,
  });

  it('says that Redis refused the password, without the password', async () => {
    await redis.command('ACL', 'SETUSER', 'shy', 'on', '>right', '~*', '+@all');
    const gateway = new Program('ingest-gateway', {
      env: env({ INGEST_QUEUE_URI: withUser(redis.uri, 'shy:wrong-word') }),
    });
    assert.equal(await gateway.ended, 4);
    assert.match(gateway.output, /"level":"fatal".*refused the password/);
    assert.ok(!gateway.output.includes('wrong-word'));
  });

  it('says that the warehouse is away, and later that it is back', { tags: ['long'] }, async () => {
    const store = sqliteStore();
    const gateway = new Program('ingest-gateway', {
      env: env({ INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri }),
    });
    await gateway.line(/the warehouse is away: look-ups fail/);
    assert.doesNotMatch(gateway.output, /is back/);
    const warehouse = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
    await warehouse.prepare();
    await warehouse.close();
    await gateway.line(/the warehouse is back/);
    gateway.signal('SIGTERM');
    assert.equal(await gateway.ended, 0);
  });
});
