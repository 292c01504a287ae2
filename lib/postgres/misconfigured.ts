// Distinguishes a misconfigured PostgreSQL server from an unavailable one.
import pg from 'pg';
import { tablesDiffer, WarehouseMisconfigured } from '../ingest/warehouse.ts';
import { maskedUri } from '../process/uri.ts';
import { NewerSchema, OlderTables, WrongEncoding } from './migrations.ts';
import { SharedSessions } from './sessions.ts';

// Classes of SQLSTATE (PostgreSQL manual, appendix A): invalid authorization, invalid catalog name (database),
// invalid schema name.
const CLASSES = new Set(['28', '3D', '3F']);
const INVALID_PASSWORD = '28P01';
const INSUFFICIENT_PRIVILEGE = '42501';

/** Converts `cause` to a WarehouseMisconfigured if the configuration is at fault; otherwise returns it unchanged. */
export function misconfigured(cause: unknown, uri: string): unknown {
  if (cause instanceof OlderTables) return tablesDiffer(maskedUri(uri), cause.message);
  if (cause instanceof WrongEncoding || cause instanceof NewerSchema || cause instanceof SharedSessions)
    return new WarehouseMisconfigured(`${maskedUri(uri)}: ${cause.message}`, { cause });
  if (!(cause instanceof pg.DatabaseError) || cause.code === undefined) return cause;
  if (!CLASSES.has(cause.code.slice(0, 2)) && cause.code !== INSUFFICIENT_PRIVILEGE) return cause;
  const what = cause.code === INVALID_PASSWORD ? 'the server refused the password: ' : '';
  return new WarehouseMisconfigured(`${maskedUri(uri)}: ${what}${cause.message} (SQLSTATE ${cause.code})`, { cause });
}
