import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { before, describe, it } from 'node:test';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import { Pki } from '../support/pki.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { rule } from '../support/redis-rights.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { startPostgres } from '../support/postgres.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

let redis: TestRedis;
let pki: Pki;
before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
});

interface Ended {
  readonly code: number | NodeJS.Signals;
  readonly output: string;
}

async function run(name: ProgramName, env: Readonly<Record<string, string>>, args: readonly string[]): Promise<Ended> {
  const program = new Program(name, { env: { ...pki.environment, ...env }, args });
  return { code: await program.ended, output: program.output };
}

const check = (name: ProgramName, env: Readonly<Record<string, string>>): Promise<Ended> =>
  run(name, env, ['--check=connect']);

async function loneNode(): Promise<TestRedis> {
  const node = await TestRedis.start(['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]);
  await node.command('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await eventually('the cluster is whole', async () =>
    String(await node.command('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  );
  return node;
}

describe('a check', () => {
  it('creates no key on an empty queue', { tags: ['long'] }, async () => {
    const [node, current] = await Promise.all([loneNode(), TestRedis.start()]);
    const cluster = `redis+cluster://127.0.0.1:${node.port}`;
    const [good, warehouse] = [/the configuration is good/, `sqlite:${temporaryFolder()}/warehouse.db`];
    // The checks run one by one, because four at once may exceed their five seconds on a busy machine.
    for (const [name, env] of [
      ['ingest-gateway', { INGEST_QUEUE_URI: cluster, INGEST_QUEUE_PARTITIONS: '4' }],
      ['ingest-gateway', { INGEST_QUEUE_URI: current.uri }],
      ['ingest-consumer', { INGEST_QUEUE_URI: cluster, INGEST_WAREHOUSE_URI: warehouse }],
      ['ingest-consumer', { INGEST_QUEUE_URI: current.uri, INGEST_WAREHOUSE_URI: warehouse }],
      ['ingest-gateway', { INGEST_QUEUE_URI: `dispatcher://127.0.0.1:${current.port},127.0.0.1:${current.port}` }],
    ] as const) {
      const { code, output } = await check(name, env);
      assert.equal(code, 0, output);
      assert.match(output, good);
    }
    for (const server of [node, current]) assert.deepEqual(await server.command('KEYS', '*'), []);
  });

  it('passes with the rights in install.md, and names a missing right', async () => {
    for (const name of ['ingest-gateway', 'ingest-consumer'])
      await redis.command('ACL', 'SETUSER', name, 'reset', 'on', ...rule(name));
    await redis.command('ACL', 'SETUSER', 'few', 'reset', 'on', ...rule('ingest-consumer'), '-xack');
    const env = (user: string): Record<string, string> => ({
      INGEST_QUEUE_URI: `redis://${user}:secret@127.0.0.1:${redis.port}`,
      INGEST_WAREHOUSE_URI: `sqlite:${temporaryFolder()}/warehouse.db`,
    });
    const { INGEST_WAREHOUSE_URI: _, ...queueOnly } = env('ingest-gateway');
    const gateway = await check('ingest-gateway', queueOnly);
    const consumer = await check('ingest-consumer', env('ingest-consumer'));
    const few = await check('ingest-consumer', env('few'));
    assert.equal(gateway.code, 0, gateway.output);
    assert.equal(consumer.code, 0, consumer.output);
    assert.equal(few.code, 4, few.output);
    assert.match(few.output, /lacks rights that this program needs: xack on ingest/);
  });

  it('of a gateway names the right that the role of its warehouse lacks', { tags: ['long'] }, async () => {
    const postgres = await startPostgres();
    atEnd(() => postgres.stop());
    const uri = await postgres.freshDatabase();
    const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 });
    await warehouse.prepare();
    await warehouse.close();
    const role = `ingest_test_check_${process.pid}`;
    await postgres.query(uri, `CREATE ROLE ${role}; GRANT SELECT ON events TO ${role}`);
    const asRole = new URL(uri);
    asRole.searchParams.set('options', `-c role=${role}`);
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: asRole.href };
    const few = await check('ingest-gateway', env);
    await postgres.query(uri, `GRANT SELECT ON events_quarantine TO ${role}`);
    const enough = await check('ingest-gateway', env);
    await postgres.query(uri, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
    assert.equal(few.code, 5, few.output);
    assert.match(few.output, /INGEST_WAREHOUSE_URI=.*the role lacks SELECT on events_quarantine$/m);
    assert.equal(enough.code, 0, enough.output);
    assert.match(enough.output, /warehouse .*: answers/);
  });
});

describe('a SQLite file', () => {
  it('passes if it can be created or migrated, and is not changed', { tags: ['long'] }, async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'file'), '');
    const other = temporaryFolder();
    const database = new DatabaseSync(`${other}/newer file.db`);
    database.exec('PRAGMA user_version = 99');
    database.close();
    const cases = [
      [`${folder}/yet.db`, 0, /no file yet; the consumer creates it when it starts/],
      [`${folder}/missing/yet.db`, 5, /no file can be created in .*\/missing \(ENOENT\)/],
      [`${folder}/file/yet.db`, 5, /no file can be created in .*\/file \(ENOTDIR\)/],
      [folder, 5, /is a directory/],
      [`${folder}/file`, 0, /no tables yet; the consumer creates them when it starts/],
      [
        `${other}/newer%20file.db`,
        5,
        /=sqlite:[^ ]*newer%20file.db: the schema has version 99, and this program knows \d+/,
      ],
    ] as const;
    const ended = await Promise.all(
      cases.map(([path]) =>
        check('ingest-consumer', { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: `sqlite:${path}` }),
      ),
    );
    for (const [at, { code, output }] of ended.entries()) {
      assert.equal(code, cases[at]?.[1], output);
      assert.match(output, cases[at]?.[2] ?? /$^/);
    }
    assert.deepEqual(readdirSync(folder), ['file']);
  });
});
