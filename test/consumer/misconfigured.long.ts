import { describe } from 'node:test';
import { database, itIsTold, postgres, uriWith } from './misconfigured.ts';

// misconfigured.test.ts has one more.
describe('a warehouse that cannot work as configured', { concurrency: 2 }, () => {
  const cases: readonly (readonly [string, () => Promise<string>, RegExp])[] = [
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
  for (const [what, warehouse, reason] of cases) itIsTold(what, warehouse, reason);
});
