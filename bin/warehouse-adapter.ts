// Selects the SQLite or the PostgreSQL adapter from the warehouse's URI.
import type { WarehouseAdmin } from '../lib/ingest/warehouse-admin.ts';
import { TablesDiffer, type Warehouse } from '../lib/ingest/warehouse.ts';
import { maskedUri, sqlitePath, sqliteUri } from '../lib/process/uri.ts';
import { messageOf } from '../lib/process/message-of.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import { createPostgresAdmin } from '../lib/postgres/admin.ts';
import { inspectPostgres } from '../lib/postgres/inspect.ts';
import { createPostgresWarehouse } from '../lib/postgres/warehouse.ts';
import { createSqliteAdmin } from '../lib/sqlite/admin.ts';
import { fileFault, inspectSqlite, NO_FILE } from '../lib/sqlite/file.ts';
import { createSqliteWarehouse } from '../lib/sqlite/warehouse.ts';
import { SYSTEM } from '../lib/process/clock.ts';

/** Opens the warehouse at `uri`: `sqlite:<path>`, `postgres://…` or `postgresql://…`. It connects on first use. */
export function openWarehouse(uri: string, role: 'consumer' | 'gateway'): Warehouse {
  const path = sqlitePath(uri);
  if (path !== undefined) return createSqliteWarehouse({ path, readOnly: role === 'gateway' });
  // A consumer runs up to three landings and a probe at the same time, and a gateway up to eight lookups.
  return createPostgresWarehouse(
    role === 'consumer'
      ? { ...SYSTEM, uri, connectionsMax: 4 }
      : { ...SYSTEM, uri, connectionsMax: 8, connectTimeoutMs: 1_000, callTimeoutMs: 1_500, readOnly: true },
  );
}

/** Returns a sentence about the warehouse. Rejects with a StartFailure: exit code 2 for TablesDiffer, otherwise 5. */
export async function inspectWarehouse(uri: string, role: 'consumer' | 'gateway'): Promise<string> {
  const name = `warehouse ${maskedUri(uri)}`;
  const path = sqlitePath(uri);
  const fault = path === undefined ? undefined : fileFault(path, role === 'consumer');
  if (fault !== undefined && (fault !== NO_FILE || role === 'gateway')) throw warehouseFailure(uri, fault);
  if (fault === NO_FILE) return `${name}: ${NO_FILE}`;
  const warehouse = openWarehouse(uri, role);
  try {
    const hasTables =
      path === undefined ? await inspectPostgres(uri, role) : role === 'gateway' || inspectSqlite(path) > 0;
    if (!hasTables) return `${name}: no tables yet; the consumer creates them when it starts`;
    await warehouse.probe();
    return `${name}: answers`;
  } catch (cause) {
    const why = messageOf(cause);
    throw cause instanceof TablesDiffer ? new StartFailure(EXIT.configuration, why) : warehouseFailure(uri, why);
  } finally {
    await warehouse.close();
  }
}

/** The message of a WarehouseMisconfigured already begins with this name, so that prefix is removed. */
const warehouseFailure = (uri: string, why: string): StartFailure => {
  const path = sqlitePath(uri);
  const name = `${path === undefined ? maskedUri(uri) : sqliteUri(path)}: `;
  return new StartFailure(
    EXIT.warehouse,
    `INGEST_WAREHOUSE_URI=${name}${why.startsWith(name) ? why.slice(name.length) : why}`,
  );
};

export function openWarehouseAdmin(uri: string): WarehouseAdmin {
  const path = sqlitePath(uri);
  return path === undefined ? createPostgresAdmin(uri, SYSTEM) : createSqliteAdmin(path, SYSTEM.clock);
}
