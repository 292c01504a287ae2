// Checks that a role can create or use the tables, for --check=connect. Creates nothing.
import type pg from 'pg';
import { WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { maskedUri } from '../process/uri.ts';
import { schemaVersion } from './migrations.ts';
import { assertOwnSessions, assertUtf8, misconfigured, openSessions } from './sessions.ts';

type Role = 'consumer' | 'gateway';

/** Rights on existing tables. The consumer deletes a quarantine row when its replayed event lands. */
const READ = ['SELECT on events', 'SELECT on events_quarantine'];
const WRITE = ['INSERT on events', 'INSERT on events_quarantine', 'DELETE on events_quarantine'];
const RIGHTS: Readonly<Record<Role, readonly string[]>> = { consumer: [...READ, ...WRITE], gateway: READ };

/** Returns false if there are no tables yet. Rejects with a WarehouseMisconfigured that names the missing rights. */
export async function inspectPostgres(uri: string, role: Role): Promise<boolean> {
  const pool = openSessions({ uri, connectionsMax: 2, connectTimeoutMs: 3_000, callTimeoutMs: 5_000 });
  try {
    await assertOwnSessions(pool);
    const { rows } = await pool.query<{ exists: boolean; encoding: string }>(
      `SELECT to_regclass('events') IS NOT NULL AS "exists", current_setting('server_encoding') AS encoding`,
    );
    assertUtf8(rows[0]?.encoding);
    const missing = await missingRights(pool, role);
    if (missing.length > 0) throw new WarehouseMisconfigured(`${maskedUri(uri)}: the role lacks ${missing.join(', ')}`);
    return rows[0]?.exists === true;
  } catch (cause) {
    throw misconfigured(cause, uri);
  } finally {
    await pool.end();
  }
}

async function missingRights(pool: pg.Pool, role: Role): Promise<readonly string[]> {
  // Only the consumer creates missing tables. A gateway may start before they exist.
  if (role === 'consumer' && (await schemaVersion(pool)) === 0) {
    const sql = `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may,
      current_setting('transaction_read_only') AS read_only`;
    const { rows } = await pool.query<{ may: boolean; read_only: string }>(sql);
    if (rows[0]?.read_only === 'on') throw new Error('the warehouse is read-only');
    return rows[0]?.may === true ? [] : ['CREATE on the schema that its tables are made in'];
  }
  const checks = RIGHTS[role].map((name) => {
    const [right, table] = name.split(' on ');
    return `has_table_privilege(to_regclass('${table}')::oid, '${right}') AS "${name}"`;
  });
  const { rows } = await pool.query<Record<string, boolean | string | null>>(
    `SELECT current_schema() AS schema, ${checks.join(', ')}`,
  );
  if (rows[0]?.['schema'] === null) return ['USAGE on the schema of its tables'];
  return RIGHTS[role].filter((name) => rows[0]?.[name] === false);
}
