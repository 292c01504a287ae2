// Whether a consumer could make or use the schema of a database, for --check=connect. Nothing is made.
import type pg from 'pg';
import { WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { maskedUri } from '../process/masked-uri.ts';
import { schemaVersion, STEPS } from './migrations.ts';
import { misconfigured } from './misconfigured.ts';
import { openSessions } from './sessions.ts';

/** What landing needs once the schema is complete. */
const RIGHTS = [
  ['events', 'SELECT'],
  ['events', 'INSERT'],
  ['events_quarantine', 'SELECT'],
  ['events_quarantine', 'INSERT'],
];

/** Rejects with a WarehouseMisconfigured, or with why the database is away. */
export async function inspectPostgres(uri: string): Promise<void> {
  const pool = openSessions({ uri, connectionsMax: 1, connectTimeoutMs: 3_000, callTimeoutMs: 5_000 });
  try {
    const lacks = await lacking(pool);
    if (lacks.length > 0) throw new WarehouseMisconfigured(`${maskedUri(uri)}: the role lacks ${lacks.join(', ')}`);
  } catch (cause) {
    throw misconfigured(cause, uri);
  } finally {
    await pool.end();
  }
}

async function lacking(pool: pg.Pool): Promise<readonly string[]> {
  if ((await schemaVersion(pool, STEPS)) === 0) {
    const asked = `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may`;
    const { rows } = await pool.query<{ may: boolean }>(asked);
    return rows[0]?.may === true ? [] : ['CREATE on the schema that its tables are made in'];
  }
  const asked = RIGHTS.map(([table, right], at) => `has_table_privilege('${table}', '${right}') AS may${at}`);
  const { rows } = await pool.query<Record<string, boolean>>(`SELECT ${asked.join(', ')}`);
  return RIGHTS.flatMap(([table, right], at) => (rows[0]?.[`may${at}`] === true ? [] : [`${right} on ${table}`]));
}
