// What SQLite's result codes say of a call that failed (sqlite.org/rescode.html).

/** What node:sqlite throws; `errcode` is SQLite's extended result code (sqlite.org/rescode.html). */
type SqliteError = Error & { readonly errcode: number };

const isSqliteError = (cause: unknown): cause is SqliteError =>
  cause instanceof Error && 'errcode' in cause && typeof cause.errcode === 'number';

const primaryCode = (cause: SqliteError): number => cause.errcode & 0xff;

/** SQLITE_BUSY, SQLITE_LOCKED: another process holds the file. */
export const busy = (cause: unknown): boolean => isSqliteError(cause) && [5, 6].includes(primaryCode(cause));

/** SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH: they speak of the data, and would say the same tomorrow. */
export const refuses = (cause: unknown): cause is SqliteError =>
  isSqliteError(cause) && [18, 19, 20].includes(primaryCode(cause));
