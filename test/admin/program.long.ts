// ingest-admin with PostgreSQL, and with a Redis user of few rights.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { startPostgres, type PostgresServer } from '../../bench/peers/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { describeAdmin } from './program.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

describeAdmin('PostgreSQL', () => postgresStore(postgres));

describe("the README's rule for a Redis user of ingest-admin", () => {
  it('lets every command pass, and another key is refused', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = sqliteStore();
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    const [, rule = ''] = /ACL SETUSER ingest-admin (.+)/.exec(readme) ?? [];
    await redis.command('ACL', 'SETUSER', 'ingest-admin', ...rule.replace('>PASSWORD', '>secret').split(' '));
    const consumer = new Program('ingest-consumer', {
      env: { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
    });
    await consumer.listening();
    await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', '{"id":"one","type":"t"}');
    await redis.command('XADD', 'ingest', '*', 'producer', 'other', 'body', '{"id":"one","type":"t"}');
    await eventually('they are there', async () => (await store.quarantine().catch(() => [])).length === 1);
    const admin = new Admin({ uri: redis.uri.replace('//', '//ingest-admin:secret@') }, store);
    const file = join(temporaryFolder(), 'events.ndjson');
    writeFileSync(file, '{"id":"one","type":"t"}\n');
    for (const [code, ...line] of [
      [0, 'status'],
      [0, 'event', 'one'],
      [1, 'quarantine', 'replay', '--all', '--yes'],
      [0, 'erase', 'one', '--yes'],
      [0, 'quarantine', 'drop', '--all', '--yes'],
      [0, 'size', file],
    ] as const) {
      const ended = await admin.run(...line);
      assert.equal(ended.code, code, `${line.join(' ')}: ${ended.out}${ended.err}`);
      assert.doesNotMatch(ended.out + ended.err, /NOPERM|unknown/);
    }
    assert.equal(await redis.command('EXISTS', 'ingest'), 1);
    await consumer.kill();
  });
});
