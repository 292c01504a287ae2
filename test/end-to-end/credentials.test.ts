// Users and passwords in the files of INGEST_QUEUE_URI_FILE and INGEST_WAREHOUSE_URI_FILE change while producers send,
// with the real programs on a real Redis and a real PostgreSQL: no event is refused, and none is lost.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { Pipeline } from '../support/pipeline.ts';
import { PATIENT } from '../support/gateway.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';

let server: PostgresServer;
let redis: TestRedis;
before(async () => {
  [server, redis] = await Promise.all([startPostgres(), TestRedis.start()]);
});
after(() => server.stop());

const withUser = (uri: string, user: string): string => uri.replace(/\/\/([^@/]*@)?/, `//${user}@`);

describe('users and passwords that change under load', { tags: ['long'] }, () => {
  const folder = temporaryFolder('ingest-secrets-');
  const queueFile = join(folder, 'queue');
  const warehouseFile = join(folder, 'warehouse');
  const put = (file: string, text: string): void => {
    writeFileSync(`${file}.new`, `${text}\n`);
    renameSync(`${file}.new`, file);
  };
  /** Those of the programs' connections. */
  const redisUsers = async (): Promise<string[]> => {
    const clients = String(await redis.command('CLIENT', 'LIST')).split('\n');
    return [...new Set(clients.flatMap((line) => / name=ingest-\S* .*\buser=(\S+)/.exec(line)?.[1] ?? []))];
  };

  it('are those of all connections soon, no event is refused, and the old ones can be removed', async () => {
    const store = await postgresStore(server);
    for (const role of ['first', 'second']) await server.query(store.uri, `CREATE ROLE ${role} SUPERUSER LOGIN`);
    await redis.command('ACL', 'SETUSER', 'first', 'on', '>one', '~*', '&*', '+@all');
    put(queueFile, withUser(redis.uri, 'first:one'));
    put(warehouseFile, withUser(store.uri, 'first'));
    const pipeline = await Pipeline.start({
      queueUri: '',
      warehouseUri: '',
      env: { ...PATIENT, INGEST_QUEUE_URI_FILE: queueFile, INGEST_WAREHOUSE_URI_FILE: warehouseFile },
    });
    const [replica] = pipeline.replicas;
    assert.ok(replica !== undefined);
    const programs: readonly Program[] = [pipeline.gateway, replica.program];
    const load = new ProducerLoad(pipeline, 'rotated', 8, 2);
    await load.more(200);
    assert.deepEqual(await redisUsers(), ['first']);

    // The file comes first: its user is not there yet.
    put(queueFile, withUser(redis.uri, 'second:two'));
    for (const program of programs) await program.line(/the queue: the new user and password do not work yet/);
    await load.more(100);
    await redis.command('ACL', 'SETUSER', 'second', 'on', '>two', '~*', '&*', '+@all');
    for (const program of programs) await program.line(/the queue: all connections have the new user and password/);
    await eventually('no connection is of the first user', async () => (await redisUsers()).join() === 'second');
    await redis.command('ACL', 'DELUSER', 'first');
    await load.more(100);

    put(warehouseFile, withUser(store.uri, 'second'));
    replica.program.signal('SIGHUP');
    for (const program of programs) await program.line(/the warehouse: all connections have the new user and password/);
    const sql = `SELECT DISTINCT usename AS role FROM pg_stat_activity WHERE application_name = 'ingest'`;
    await eventually('no session is of the first role', async () => {
      const found = await server.query<{ role: string }>(store.uri, sql);
      return found.map(({ role }) => role).join() === 'second';
    });
    await server.query(store.uri, 'ALTER ROLE first NOLOGIN');
    await load.more(100);

    await load.stop();
    assert.deepEqual([...load.statuses.keys()], [202], 'no event was refused');
    await load.assertLanded(store);
    for (const program of programs) assert.doesNotMatch(program.output, /"level":"error"|one@|two@/);

    put(queueFile, 'redis://elsewhere:1');
    await pipeline.gateway.line(/names another place now: that takes a restart/);
    put(queueFile, 'redis//broken');
    await pipeline.gateway.line(/the configuration changed and cannot be used: INGEST_QUEUE_URI/);
    await pipeline.stop();
  });
});

describe('what a gateway says at its start', () => {
  const env = (more: Readonly<Record<string, string>>): Record<string, string> => ({
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_STATE_DIR: temporaryFolder(),
    ...more,
  });

  it('is that Redis refused the password, where it is wrong, without the password', async () => {
    await redis.command('ACL', 'SETUSER', 'shy', 'on', '>right', '~*', '+@all');
    const gateway = new Program('ingest-gateway', {
      env: env({ INGEST_QUEUE_URI: withUser(redis.uri, 'shy:wrong-word') }),
    });
    assert.equal(await gateway.ended, 4);
    assert.match(gateway.output, /"level":"fatal".*refused the password/);
    assert.ok(!gateway.output.includes('wrong-word'));
  });

  it('is that the warehouse is away, and later that it is back', { tags: ['long'] }, async () => {
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
