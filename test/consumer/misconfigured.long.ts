import assert from 'node:assert/strict';
import { after, before, it, describe } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
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

function itIsTold(what: string, warehouse: () => Promise<string>, reason: RegExp, checked = reason): void {
  it(`${what}: log, readiness and --check=connect say so, with the masked URI`, async (t) => {
    const env = environment(await warehouse());
    const program = new Program('ingest-consumer', { env });
    t.after(() => program.kill());
    const line = await program.line(WRONG);
    assert.match(line, reason);
    assert.match(line, /(postgres:\/\/|sqlite:)[^ ]*: /);
    const url = await program.listening();
    const ready = await fetch(`${url}/health/ready`);
    const { status, reason: told } = (await ready.json()) as Record<string, string>;
    assert.deepEqual([ready.status, status], [503, 'unavailable']);
    assert.match(told ?? '', WRONG);
    assert.match(told ?? '', reason);
    const check = new Program('ingest-consumer', { env, args: ['--check=connect'] });
    assert.equal(await check.ended, 5, check.output);
    assert.match(check.output, checked);
  });
}

describe('a warehouse that cannot work as configured', { concurrency: 2 }, () => {
  itIsTold('has no such database', async () => uriWith((uri) => (uri.pathname = '/nowhere')), /SQLSTATE 3D000/);
  itIsTold(
    'refuses the password',
    async () => {
      await postgres.query(database, `CREATE ROLE guest LOGIN PASSWORD 'right'`);
      const [{ hba_file: file }] = (await postgres.query(database, 'SHOW hba_file')) as [{ hba_file: string }];
      const rules = ['local all guest scram-sha-256', 'local all all trust', 'host all all all trust'];
      await postgres.query(database, `COPY (VALUES ${rules.map((rule) => `('${rule}')`).join()}) TO '${file}'`);
      await postgres.query(database, 'SELECT pg_reload_conf()');
      return uriWith((uri) => Object.assign(uri, { username: 'guest', password: 'hunter2' }));
    },
    /guest:\*\*\*@\S+: the server refused the password: .* \(SQLSTATE 28P01\)/,
  );
  itIsTold(
    'is a SQLite file with the schema of a newer program',
    () => {
      const path = `${temporaryFolder()}/newer.db`;
      const file = new DatabaseSync(path);
      file.exec('PRAGMA user_version = 99');
      file.close();
      return Promise.resolve(`sqlite:${path}`);
    },
    /the schema has version 99, and this program knows \d+/,
  );

  it('ends a consumer with exit 2 if its tables have an older form', async (t) => {
    const env = environment(await postgres.freshDatabase());
    await postgres.query(env['INGEST_WAREHOUSE_URI'] ?? '', MADE_BY_MONTH);
    const path = `${temporaryFolder()}/older.db`;
    const file = new DatabaseSync(path);
    file.exec('CREATE TABLE events (id TEXT PRIMARY KEY); PRAGMA user_version = 2');
    file.close();
    for (const [warehouse, why] of [
      [env['INGEST_WAREHOUSE_URI'] ?? '', /events is partitioned by month/],
      [`sqlite:${path}`, /events has no column producer/],
    ] as const)
      for (const args of [[], ['--check=connect']]) {
        const program = new Program('ingest-consumer', { env: environment(warehouse), args });
        t.after(() => program.kill());
        assert.equal(await program.ended, 2, program.output);
        assert.match(program.output, why);
        assert.match(
          program.output,
          /start the consumers on an empty warehouse, then copy the old rows into its tables/,
        );
      }
  });

  it('is retried without a log line for each attempt, and works after it was corrected', async (t) => {
    const program = new Program('ingest-consumer', { env: environment(uriWith((uri) => (uri.pathname = '/later'))) });
    t.after(() => program.kill());
    const url = await program.listening();
    const failures = async (): Promise<number> => {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      return Number(/^ingest_consumer_failures_total\{dependency="warehouse"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
    };
    await eventually('it has tried five times', async () => (await failures()) >= 5);
    assert.equal(program.lines.filter((line) => WRONG.test(line)).length, 1);
    await postgres.query(database, 'CREATE DATABASE later');
    await eventually('it is ready', async () => (await fetch(`${url}/health/ready`)).status === 200);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /^ingest_consumer_replicas \d+$/m);
    assert.match(metrics, /^ingest_queue_available 1$/m);
  });

  const cases: readonly (readonly [string, () => Promise<string>, RegExp, RegExp?])[] = [
    ['has no such role', async () => uriWith((uri) => (uri.username = 'nobody')), /SQLSTATE 28000/],
    [
      'gives the role no right',
      async () => {
        await postgres.query(database, `CREATE ROLE powerless LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
        return uriWith((uri) => (uri.username = 'powerless'));
      },
      /SQLSTATE (42501|3F000)/,
      /lacks CREATE on the schema/,
    ],
    [
      'has a schema of a newer program',
      async () => {
        const newer = await postgres.freshDatabase();
        const table = 'CREATE TABLE events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)';
        await postgres.query(newer, `${table}; INSERT INTO events_migrations VALUES (99, now())`);
        return newer;
      },
      /the schema has version 99, and this program knows \d+/,
    ],
    [
      'has another encoding than UTF8',
      async () => {
        await postgres.query(
          database,
          `CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`,
        );
        return uriWith((uri) => (uri.pathname = '/ascii'));
      },
      /encoding SQL_ASCII, and must have UTF8/,
    ],
  ];
  for (const [what, warehouse, reason, checked] of cases) itIsTold(what, warehouse, reason, checked);
});
