import assert from 'node:assert/strict';
import { after, before, it, describe } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { inspectWarehouse, openWarehouse } from '../../bin/warehouse-adapter.ts';
import { WarehouseMisconfigured } from '../../lib/ingest/warehouse.ts';
import { EXIT, StartFailure } from '../../lib/process/program.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

let redis: TestRedis;
let postgres: PostgresServer;
let database: string;

before(async () => {
  [redis, postgres] = await Promise.all([TestRedis.start(), startPostgres()]);
  database = await postgres.freshDatabase();
});
after(() => postgres.stop());

const uriWith = (change: (uri: URL) => void): string => {
  const uri = new URL(database);
  change(uri);
  return uri.href;
};

const environment = (warehouse: string): Record<string, string> => ({
  INGEST_QUEUE_URI: redis.uri,
  INGEST_WAREHOUSE_URI: warehouse,
  INGEST_CONSUMER_ADDR: '127.0.0.1:0',
});

const MADE_BY_MONTH = `
  CREATE TABLE events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL);
  INSERT INTO events_migrations VALUES (1, now()), (2, now());
  CREATE TABLE events (id text NOT NULL, type text, producer text, accepted_at timestamptz, landed_at timestamptz NOT NULL,
    body text, traceparent text) PARTITION BY RANGE (landed_at);
  CREATE TABLE events_ids (id text PRIMARY KEY, landed_at timestamptz NOT NULL)`;

const WRONG = /the warehouse cannot work as configured/;

/** A warehouse, the reason when it is prepared, and if it is another one, that of --check=connect. */
const CASES: Readonly<Record<string, readonly [() => Promise<string>, reason: RegExp, checked?: RegExp]>> = {
  'refuses the password': [
    async () => {
      await postgres.query(database, `CREATE ROLE guest LOGIN PASSWORD 'right'`);
      const [{ hba_file: file }] = (await postgres.query(database, 'SHOW hba_file')) as [{ hba_file: string }];
      const rules = ['local all guest scram-sha-256', 'local all all trust', 'host all all all trust'];
      await postgres.query(database, `COPY (VALUES ${rules.map((rule) => `('${rule}')`).join()}) TO '${file}'`);
      await postgres.query(database, 'SELECT pg_reload_conf()');
      return uriWith((uri) => Object.assign(uri, { username: 'guest', password: 'hunter2' }));
    },
    /guest:\*\*\*@\S+: the server refused the password: .* \(SQLSTATE 28P01\)/,
  ],
  'gives the role no right': [
    async () => {
      await postgres.query(database, `CREATE ROLE powerless LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
      return uriWith((uri) => (uri.username = 'powerless'));
    },
    /SQLSTATE (42501|3F000)/,
    /lacks CREATE on the schema/,
  ],
  'has a schema of a newer program': [
    async () => {
      const newer = await postgres.freshDatabase();
      const table = 'CREATE TABLE events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)';
      await postgres.query(newer, `${table}; INSERT INTO events_migrations VALUES (99, now())`);
      return newer;
    },
    /the schema has version 99, and this program knows \d+/,
  ],
  'has another encoding than UTF8': [
    async () => {
      const encoding = `TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`;
      await postgres.query(database, `CREATE DATABASE ascii ${encoding}`);
      return uriWith((uri) => (uri.pathname = '/ascii'));
    },
    /encoding SQL_ASCII, and must have UTF8/,
  ],
};

function sqliteWith(statements: string): string {
  const path = `${temporaryFolder()}/other.db`;
  const file = new DatabaseSync(path);
  file.exec(statements);
  file.close();
  return `sqlite:${path}`;
}

describe('a warehouse that cannot work as configured', () => {
  for (const [what, [warehouse, reason, checked = reason]] of Object.entries(CASES))
    it(`${what}: it says so with the masked URI when it is prepared or checked`, async (t) => {
      const uri = await warehouse();
      const opened = openWarehouse(uri, 'consumer');
      t.after(() => opened.close());
      await assert.rejects(opened.prepare(), (cause: Error) => {
        assert.ok(cause instanceof WarehouseMisconfigured);
        for (const words of [reason, /^(postgres:\/\/|sqlite:)[^ ]*: /]) assert.match(cause.message, words);
        return true;
      });
      await assert.rejects(
        inspectWarehouse(uri, 'consumer'),
        (cause) => cause instanceof StartFailure && cause.exitCode === EXIT.warehouse && checked.test(cause.message),
      );
    });

  it('ends a consumer with exit 2 if its tables have an older form', async (t) => {
    const older = await postgres.freshDatabase();
    await postgres.query(older, MADE_BY_MONTH);
    const fewer = sqliteWith('CREATE TABLE events (id TEXT PRIMARY KEY); PRAGMA user_version = 2');
    for (const [warehouse, args, why] of [
      [older, [], /events is partitioned by month/],
      [fewer, ['--check=connect'], /events has no column producer/],
    ] as const) {
      const program = new Program('ingest-consumer', { env: environment(warehouse), args });
      t.after(() => program.kill());
      assert.equal(await program.ended, 2, program.output);
      for (const words of [why, /start the consumers on an empty warehouse, then copy the old rows into its tables/])
        assert.match(program.output, words);
    }
  });

  it('is in the log once, in readiness and in --check=connect, and works after it was corrected', async (t) => {
    const env = environment(uriWith((uri) => (uri.pathname = '/later')));
    const program = new Program('ingest-consumer', { env });
    t.after(() => program.kill());
    const url = await program.listening();
    const metrics = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
    await eventually('it has tried five times', async () =>
      /^ingest_consumer_failures_total\{dependency="warehouse"\} ([5-9]|\d\d+)$/m.test(await metrics()),
    );
    const [line = '', ...more] = program.lines.filter((one) => WRONG.test(one));
    assert.deepEqual(more, []);
    const ready = await fetch(`${url}/health/ready`);
    const { status, reason = '' } = (await ready.json()) as Record<string, string>;
    assert.deepEqual([ready.status, status], [503, 'unavailable']);
    for (const text of [line, reason]) for (const words of [WRONG, /SQLSTATE 3D000/]) assert.match(text, words);
    const check = new Program('ingest-consumer', { env, args: ['--check=connect'] });
    assert.equal(await check.ended, 5, check.output);
    assert.match(check.output, /SQLSTATE 3D000/);
    await postgres.query(database, 'CREATE DATABASE later');
    await eventually('it is ready', async () => (await fetch(`${url}/health/ready`)).status === 200);
    assert.match(await metrics(), /^ingest_queue_available 1$/m);
  });
});
