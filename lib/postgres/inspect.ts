// Whether a consumer could make or use the schema of a database, for --check=connect. Nothing is made.
import type pg from 'pg';
import { TablesDiffer, WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { maskedUri } from '../process/masked-uri.ts';
import { schemaVersion, STEPS, type Partitions } from './migrations.ts';
import { misconfigured } from './misconfigured.ts';
import { byMonthOf } from './months.ts';
import { openSessions } from './sessions.ts';

/** What landing needs once the schema is complete. */
const RIGHTS = [
  ['events', 'SELECT'],
  ['events', 'INSERT'],
  ['events_quarantine', 'SELECT'],
  ['events_quarantine', 'INSERT'],
];
const RIGHTS_BY_MONTH = [...RIGHTS, ['events_ids', 'SELECT'], ['events_ids', 'INSERT'], ['events_ids', 'DELETE']];

/** Rejects with a WarehouseMisconfigured, or with why the database is away. */
export async function inspectPostgres(uri: string, partitions: Partitions): Promise<void> {
  const pool = openSessions({ uri, connectionsMax: 1, connectTimeoutMs: 3_000, callTimeoutMs: 5_000 });
  try {
    const lacks = await lacking(pool, uri, partitions);
    if (lacks.length > 0) throw new WarehouseMisconfigured(`${maskedUri(uri)}: the role lacks ${lacks.join(', ')}`);
  } catch (cause) {
    throw misconfigured(cause, uri);
  } finally {
    await pool.end();
  }
}

async function lacking(pool: pg.Pool, uri: string, partitions: Partitions): Promise<readonly string[]> {
  if ((await schemaVersion(pool, STEPS)) === 0) {
    const asked = `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may`;
    const { rows } = await pool.query<{ may: boolean }>(asked);
    return rows[0]?.may === true ? [] : ['CREATE on the schema that its tables are made in'];
  }
  const byMonth = await byMonthOf((sql) => pool.query(sql))();
  if (byMonth !== (partitions === 'month'))
    throw new TablesDiffer(maskedUri(uri), byMonth ? 'month' : 'none', partitions);
  const rights = byMonth ? RIGHTS_BY_MONTH : RIGHTS;
  const asked = rights.map(([table, right], at) => `has_table_privilege('${table}', '${right}') AS may${at}`);
  const { rows } = await pool.query<Record<string, boolean>>(`SELECT ${asked.join(', ')}`);
  return rights.flatMap(([table, right], at) => (rows[0]?.[`may${at}`] === true ? [] : [`${right} on ${table}`]));
}
