// The schema in PostgreSQL, as a list of steps that only grows.
//
// Invariant: step n has run exactly once where events_migrations says n or more. A session that finds the newest
// version does nothing else, so a role that may only read and insert is enough once the schema stands. Several
// replicas that start together queue up behind one advisory lock, which ends with its transaction.
//
// Why these column types: a body that landed is UTF-8 JSON text, which cannot hold a raw NUL, so `text` keeps it byte for
// byte and people can read it (`body::json`; `jsonb` would refuse `\u0000` and reorder members). What is quarantined may
// be any bytes: `bytea`. Collation "C" compares bytes, so that no locale decides which ids are one.
import type { PoolClient } from 'pg';

/** Any constant: it only has to differ from other programs' advisory locks in the same database. */
export const LOCK_KEY = 0x1a6e57;

const STEPS: readonly string[] = [
  `CREATE TABLE events (
     id          text COLLATE "C" PRIMARY KEY,
     type        text NOT NULL,
     producer    text COLLATE "C" NOT NULL,
     accepted_at timestamptz NOT NULL,
     landed_at   timestamptz NOT NULL,
     body        text NOT NULL
   );
   CREATE TABLE events_quarantine (
     entry          text COLLATE "C" PRIMARY KEY,
     id             text COLLATE "C",
     producer       text COLLATE "C" NOT NULL,
     reason         text NOT NULL,
     accepted_at    timestamptz NOT NULL,
     quarantined_at timestamptz NOT NULL,
     body           bytea NOT NULL
   );
   CREATE INDEX events_quarantine_id ON events_quarantine (id);`,
];

/** The database has another encoding than UTF8. */
export class WrongEncoding extends Error {
  constructor(found: string | undefined) {
    super(`the database has the encoding ${found}, and must have UTF8 to keep any event`);
  }
}

/** Brings the schema up to date. Throws WrongEncoding, or where the schema is newer than this program. */
export async function migrate(client: PoolClient): Promise<void> {
  const encoding = await client.query<{ server_encoding: string }>('SHOW server_encoding');
  const found = encoding.rows[0]?.server_encoding;
  if (found !== 'UTF8') throw new WrongEncoding(found);
  if ((await version(client)) === STEPS.length) return;
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK_KEY]);
    await client.query(
      'CREATE TABLE IF NOT EXISTS events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL)',
    );
    const done = await version(client);
    if (done > STEPS.length) throw new Error(`the schema has version ${done}, and this program knows ${STEPS.length}`);
    for (const [at, step] of STEPS.entries()) {
      if (at < done) continue;
      await client.query(step);
      await client.query('INSERT INTO events_migrations VALUES ($1, statement_timestamp())', [at + 1]);
    }
    await client.query('COMMIT');
  } catch (cause) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw cause;
  }
}

/** The newest step that has run; 0 in a database that has none. */
async function version(client: PoolClient): Promise<number> {
  const table = await client.query<{ found: boolean }>(`SELECT to_regclass('events_migrations') IS NOT NULL AS found`);
  if (table.rows[0]?.found !== true) return 0;
  const newest = await client.query<{ version: number | null }>(
    'SELECT max(version) AS version FROM events_migrations',
  );
  return newest.rows[0]?.version ?? 0;
}
