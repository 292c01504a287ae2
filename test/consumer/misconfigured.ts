// A warehouse that answers and cannot work as it is configured is not one that is away: it is told apart, without the
// password, tried again without flooding the log, and works once it has been put right.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startPostgres, type PostgresServer } from '../../bench/peers/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

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

const WRONG = /the warehouse cannot work as configured/;

describe('a warehouse that cannot work as configured', { concurrency: 2 }, () => {
  const cases: readonly (readonly [string, () => Promise<string>, RegExp])[] = [
    ['has no such database', async () => uriWith((uri) => (uri.pathname = '/nowhere')), /SQLSTATE 3D000/],
    ['has no such role', async () => uriWith((uri) => (uri.username = 'nobody')), /SQLSTATE 28000/],
    [
      'gives the role no right',
      async () => {
        await postgres.query(database, `CREATE ROLE powerless LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
        return uriWith((uri) => (uri.username = 'powerless'));
      },
      /SQLSTATE (42501|3F000)/,
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
  for (const [what, warehouse, reason] of cases) {
    it(`${what}: log, readiness and --check=connect say so, with the masked URI`, async (t) => {
      const env = environment(await warehouse());
      const program = new Program('ingest-consumer', { env });
      t.after(() => program.kill());
      const line = await program.line(WRONG);
      assert.match(line, reason);
      assert.match(line, /postgres:\/\/[^ ]*: /);
      const url = await program.listening();
      const ready = await fetch(`${url}/health/ready`);
      const { status, reason: told } = (await ready.json()) as Record<string, string>;
      assert.deepEqual([ready.status, status], [503, 'unavailable']);
      assert.match(told ?? '', WRONG);
      assert.match(told ?? '', reason);
      const check = new Program('ingest-consumer', { env, args: ['--check=connect'] });
      // The right to write is used, and so missed, by the start only.
      assert.equal(await check.ended, what === 'gives the role no right' ? 0 : 5, check.output);
    });
  }

  it('is tried again without a line for each try, and works once it was put right', async (t) => {
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
});
