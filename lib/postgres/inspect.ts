// Checks that a role can create or use the tables, for --check=connect. Creates nothing.
import type pg from 'pg';
import { WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { maskedUri } from '../process/uri.ts';
import { schemaVersion, STEPS } from './migrations.ts';
import { assertOwnSessions, misconfigured, openSessions, wrongEncoding } from './sessions.ts';

type Role = 'consumer' | 'gateway';

/** Rights on existing tables. The consumer deletes a quarantine row when its replayed event lands. */
const RIGHTS: Readonly<Record<Role, readonly (readonly [table: string, right: string])[]>> = {
  consumer: [
    ['events', 'SELECT'],
    ['events', 'INSERT'],
    ['events_quarantine', 'SELECT'],
    ['events_quarantine', 'INSERT'],
    ['events_quarantine', 'DELETE'],
  ],
  gateway: [
    ['events', 'SELECT'],
    ['events_quarantine', 'SELECT'],
  ],
};

/**
 * Returns false if there are no tables yet. Rejects with a WarehouseMisconfigured that names the missing rights, or
 * with the connection's failure.
 */
export async function inspectPostgres(uri: string, role: Role): Promise<boolean> {
  const pool = openSessions({ uri, connectionsMax: 2, connectTimeoutMs: 3_000, callTimeoutMs: 5_000 });
  try {
    await assertOwnSessions(pool);
    const { rows } = await pool.query<{ found: boolean; encoding: string }>(
      `SELECT to_regclass('events') IS NOT NULL AS found, current_setting('server_encoding') AS encoding`,
    );
    if (rows[0]?.encoding !== 'UTF8') throw wrongEncoding(rows[0]?.encoding);
    const lacks = await lacking(pool, role);
    if (lacks.length > 0) throw new WarehouseMisconfigured(`${maskedUri(uri)}: the role lacks ${lacks.join(', ')}`);
    return rows[0].found;
  } catch (cause) {
    throw misconfigured(cause, uri);
  } finally {
    await pool.end();
  }
}

async function lacking(pool: pg.Pool, role: Role): Promise<readonly string[]> {
  // Only the consumer creates missing tables. A gateway may start before they exist.
  if (role === 'consumer' && (await schemaVersion(pool, STEPS)) === 0) {
    const asked = `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may,
      current_setting('transaction_read_only') AS read_only`;
    const { rows } = await pool.query<{ may: boolean; read_only: string }>(asked);
    if (rows[0]?.read_only === 'on') throw new Error('the warehouse is read-only');
    return rows[0]?.may === true ? [] : ['CREATE on the schema that its tables are made in'];
  }
  const asked = RIGHTS[role].map(
    ([table, right], at) => `has_table_privilege(to_regclass('${table}')::oid, '${right}') AS may${at}`,
  );
  const { rows } = await pool.query<Record<string, boolean | string | null>>(
    `SELECT current_schema() AS schema, ${asked.join(', ')}`,
  );
  if (rows[0]?.['schema'] === null) return ['USAGE on the schema of its tables'];
  return RIGHTS[role].flatMap(([table, right], at) =>
    rows[0]?.[`may${at}`] === false ? [`${right} on ${table}`] : [],
  );
}
