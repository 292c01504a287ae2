// The SQLite warehouse as ingest-admin sees it: short calls on an existing file, which is neither made nor migrated
// here.
//
// Node's SQLite is synchronous; nothing else waits in this program.
import { existsSync } from 'node:fs';
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import {
  COUNT_EXACT_MAX,
  WarehouseFailed,
  type LandedRow,
  type QuarantineBody,
  type QuarantineFilter,
  type QuarantineRow,
  type WarehouseAdmin,
} from '../ingest/warehouse-admin.ts';
import { originalText } from '../ingest/warehouse.ts';
import type { Clock } from '../process/clock.ts';
import { CODE, openFile } from './file.ts';
import { prune } from './prune.ts';
import { refuses } from './result-codes.ts';

type Row = Readonly<Record<string, unknown>>;

const ABOUT = 'entry, id, traceparent, producer, reason, accepted_at, quarantined_at, length(body) AS bytes';
/** Rows of one statement of a list. */
const PAGE = 1_000;
/** The same, with bodies. */
const BODIES_PAGE = 100;
/** Comes after each time of the warehouse, byte by byte. */
const AFTER_ALL_TIMES = 'after';
const LAND = `INSERT INTO events (id, type, producer, accepted_at, landed_at, body)
  VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT)) ON CONFLICT (id) DO NOTHING`;

interface Calls {
  /** Rejects with WarehouseFailed. */
  readonly telling: <T>(work: (database: DatabaseSync) => T) => Promise<T>;
  readonly all: (sql: string, ...values: readonly SQLInputValue[]) => Promise<readonly Row[]>;
  /** Gives how many rows were changed. */
  readonly change: (sql: string, ...values: readonly SQLInputValue[]) => Promise<number>;
  readonly close: () => Promise<void>;
}

export function createSqliteAdmin(path: string, clock: Clock): WarehouseAdmin {
  const calls = callsOn(path);
  return { place: `sqlite:${path}`, ...looks(calls), ...changes(path, clock, calls), close: () => calls.close() };
}

/** Calls on the file, which is opened by the first one that finds it. */
function callsOn(path: string): Calls {
  let opened: DatabaseSync | undefined;
  const open = (): DatabaseSync => {
    if (!existsSync(path)) throw new Error('there is no such file; the consumer makes it at its start');
    opened ??= openFile(path, false);
    return opened;
  };
  const telling = <T>(work: (database: DatabaseSync) => T): Promise<T> => {
    try {
      return Promise.resolve(work(open()));
    } catch (cause) {
      return Promise.reject(new WarehouseFailed(cause instanceof Error ? cause.message : 'unknown error', { cause }));
    }
  };
  const all = (sql: string, ...values: readonly SQLInputValue[]): Promise<readonly Row[]> =>
    telling((database) => database.prepare(sql).all(...values));
  const change = (sql: string, ...values: readonly SQLInputValue[]): Promise<number> =>
    telling((database) => Number(database.prepare(sql).run(...values).changes));

  return {
    telling,
    all,
    change,
    close: () => {
      opened?.close();
      return Promise.resolve();
    },
  };
}

type Looks = Pick<
  WarehouseAdmin,
  | 'counts'
  | 'landed'
  | 'landedSince'
  | 'quarantineOf'
  | 'quarantineRow'
  | 'quarantineList'
  | 'quarantineCount'
  | 'quarantineNames'
  | 'present'
>;

function looks({ all }: Calls): Looks {
  return {
    async counts() {
      // Rows are numbered as they land and leave this table from its beginning: the count, or a number that is too
      // high.
      const ends = (await all('SELECT (SELECT max(rowid) FROM events) - (SELECT min(rowid) FROM events) AS span'))[0];
      const about = Number(ends?.['span'] ?? 0) + 1;
      const estimated = about > COUNT_EXACT_MAX;
      const events = estimated ? about : Number((await all('SELECT count(*) AS rows FROM events'))[0]?.['rows']);
      const found = await all(
        `SELECT ${CODE} AS code, count(*) AS rows FROM events_quarantine GROUP BY 1 ORDER BY 2 DESC, 1`,
      );
      const quarantine = found.map(({ code, rows }) => ({ code: String(code), rows: Number(rows) }));
      return { events, estimated, quarantine };
    },

    landed: async (id) => landedRow((await all('SELECT * FROM events WHERE id = ?', id))[0]),
    quarantineOf: async (id) =>
      (await all(`SELECT ${ABOUT}, body FROM events_quarantine WHERE id = ? ORDER BY quarantined_at`, id)).map(bodyOf),
    quarantineRow: async (entry) =>
      (await all(`SELECT ${ABOUT}, body FROM events_quarantine WHERE entry = ?`, entry)).map(bodyOf)[0],

    async *landedSince(type, sinceMs) {
      const sql = `SELECT id, body, landed_at FROM events WHERE (landed_at, id) > (?, ?) AND type = ?
        ORDER BY landed_at, id LIMIT ${BODIES_PAGE}`;
      let last: readonly SQLInputValue[] = [new Date(sinceMs).toISOString(), ''];
      for (;;) {
        const rows = await all(sql, ...last, type);
        if (rows.length > 0) yield rows.map(({ id, body }) => ({ id: String(id), body: String(body) }));
        if (rows.length < BODIES_PAGE) return;
        last = [String(rows.at(-1)?.['landed_at']), String(rows.at(-1)?.['id'])];
      }
    },
    async *quarantineList(filter, limit) {
      const { where, values } = matching(filter);
      const sql = `SELECT ${ABOUT} FROM events_quarantine WHERE ${where} AND (quarantined_at, entry) < (?, ?)
        ORDER BY quarantined_at DESC, entry DESC LIMIT ?`;
      let last: readonly SQLInputValue[] = [AFTER_ALL_TIMES, ''];
      for (let left = limit; left > 0; left -= PAGE) {
        const rows = await all(sql, ...values, ...last, Math.min(left, PAGE));
        if (rows.length > 0) yield rows.map(rowOf);
        if (rows.length < PAGE) return;
        last = [String(rows.at(-1)?.['quarantined_at']), String(rows.at(-1)?.['entry'])];
      }
    },
    async quarantineCount(filter) {
      const { where, values } = matching(filter);
      const [row] = await all(`SELECT count(*) AS rows FROM events_quarantine WHERE ${where}`, ...values);
      return Number(row?.['rows']);
    },
    async quarantineNames(filter, after, limit) {
      const { where, values } = matching(filter);
      const sql = `SELECT entry FROM events_quarantine WHERE ${where} AND entry > ? ORDER BY entry LIMIT ?`;
      return (await all(sql, ...values, after, limit)).map(({ entry }) => String(entry));
    },

    async present(entries) {
      const sql = 'SELECT entry FROM events_quarantine WHERE entry IN (SELECT value FROM json_each(?))';
      return new Set((await all(sql, JSON.stringify(entries))).map(({ entry }) => String(entry)));
    },
  };
}

function changes(
  path: string,
  clock: Clock,
  { telling, change }: Calls,
): Omit<WarehouseAdmin, keyof Looks | 'place' | 'close'> {
  return {
    drop: (entries) =>
      change('DELETE FROM events_quarantine WHERE entry IN (SELECT value FROM json_each(?))', JSON.stringify(entries)),

    pruneBound: ({ beforeMs }) => Promise.resolve(beforeMs),
    prune: (...step) => telling((database) => prune(database, ...step)),

    land: ({ id, type, producer, acceptedAtMs, body }) =>
      telling((database) => {
        const times = [new Date(acceptedAtMs).toISOString(), new Date(clock.epochMs()).toISOString()];
        try {
          database.prepare(LAND).run(id, type, producer, ...times, body);
        } catch (cause) {
          if (!refuses(cause)) throw cause;
        }
      }),
    overwriteLanded: async (id, body) => void (await change('UPDATE events SET body = ? WHERE id = ?', body, id)),
    overwriteQuarantined: async (entry, body) =>
      void (await change('UPDATE events_quarantine SET body = CAST(? AS BLOB) WHERE entry = ?', body, entry)),

    eraseTraces: () =>
      telling((database) => {
        // A checkpoint that is in a reader's way gives 1 for `busy`, after it has waited for some time.
        const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { readonly busy: number };
        if (busy !== 0) throw new Error(`${path}-wal is in use and still has the bodies: run the same command again`);
        return undefined;
      }),

    async audit({ id, atMs, actor, command, what, changed = null }) {
      const sql = `INSERT INTO ingest_audit (id, at, actor, command, what, changed) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET changed = excluded.changed`;
      await change(sql, id, new Date(atMs).toISOString(), actor, command, what, changed);
    },
  };
}

/** The rows of a filter. Only what is given is in the condition, so that an index of it is used. */
function matching({ reason, sinceMs }: QuarantineFilter): { where: string; values: SQLInputValue[] } {
  const where = ['TRUE'];
  const values: SQLInputValue[] = [];
  if (reason !== undefined) {
    where.push(`${CODE} = ?`);
    values.push(reason);
  }
  if (sinceMs !== undefined) {
    where.push('quarantined_at >= ?');
    values.push(new Date(sinceMs).toISOString());
  }
  return { where: where.join(' AND '), values };
}

const timeMs = (text: unknown): number => Date.parse(String(text));

function landedRow(row: Row | undefined): LandedRow | undefined {
  if (row === undefined) return undefined;
  return {
    id: String(row['id']),
    type: String(row['type']),
    producer: String(row['producer']),
    acceptedAtMs: timeMs(row['accepted_at']),
    landedAtMs: timeMs(row['landed_at']),
    body: String(row['body']),
  };
}

const rowOf = (row: Row): QuarantineRow => ({
  entry: String(row['entry']),
  id: typeof row['id'] === 'string' ? row['id'] : undefined,
  traceparent: typeof row['traceparent'] === 'string' ? row['traceparent'] : undefined,
  producer: originalText(String(row['producer'])),
  reason: String(row['reason']),
  acceptedAtMs: timeMs(row['accepted_at']),
  quarantinedAtMs: timeMs(row['quarantined_at']),
  bodyBytes: Number(row['bytes']),
});

const bodyOf = (row: Row): QuarantineBody => ({ ...rowOf(row), body: Buffer.from(row['body'] as Uint8Array) });
