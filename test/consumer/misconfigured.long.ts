import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import { Program } from '../support/program.ts';
import { database, environment, itIsTold, postgres, uriWith } from './misconfigured.ts';
import { SYSTEM } from '../support/system.ts';

// misconfigured.test.ts has one more.
describe('a warehouse that cannot work as configured', { concurrency: 2 }, () => {
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

  it('gives the role too few rights on the tables: --check=connect says so', async () => {
    const uri = await postgres.freshDatabase();
    const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 });
    await warehouse.prepare();
    await warehouse.close();
    await postgres.query(uri, 'CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader');
    const asReader = new URL(uri);
    asReader.username = 'reader';
    const check = new Program('ingest-consumer', { env: environment(asReader.href), args: ['--check=connect'] });
    assert.equal(await check.ended, 5, check.output);
    assert.match(check.output, /lacks INSERT on events, INSERT on events_quarantine/);
  });
});
