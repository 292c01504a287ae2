// The SQL that ingest-admin runs on both SQLite and PostgreSQL. Its parameters are $1, $2 and so on.
import { isErased } from './erased.ts';
import { originalText } from './warehouse.ts';
import {
  COUNT_EXACT_MAX,
  type LandedRow,
  type QuarantineBody,
  type QuarantineFilter,
  type QuarantineRow,
  type WarehouseAdmin,
} from './warehouse-admin.ts';

const PAGE = 1_000;
const BODIES_PAGE = 100;
const REMOVALS_PAGE = 10;
/** Upper bound of the length of an erased body: an id and a type, escaped. */
const ERASED_LENGTH_MAX = 4_096;

export type SqlValue = string | number | Uint8Array | null;
export type SqlRow = Readonly<Record<string, unknown>>;

/** The differences between SQLite and PostgreSQL. `rows` and `change` reject with WarehouseFailed. */
export interface Dialect {
  readonly rows: (sql: string, ...values: readonly SqlValue[]) => Promise<readonly SqlRow[]>;
  readonly change: (sql: string, ...values: readonly SqlValue[]) => Promise<number>;
  /** An expression for a reason's code. It must equal the indexed expression, so that the index is used. */
  readonly code: string;
  /** A query whose column `rows` is an inexact but cheap number of events. */
  readonly estimate: string;
  /** Converts a time column to Unix milliseconds or RFC 3339. */
  readonly shown: (column: string) => string;
  /** Converts a time column to text that `time` reads without loss. */
  readonly exact: (column: string) => string;
  /** Converts a parameter (RFC 3339, or text from `exact`) to a time. */
  readonly time: (parameter: string) => string;
  readonly afterAllTimes: string;
  /** A condition: the column is in the JSON array of texts. It must use the column's index. */
  readonly isIn: (column: string, parameter: string) => string;
  /** The SHA-256 of a text column, in hexadecimal. */
  readonly digest: (column: string) => string;
}

type Shared = Omit<WarehouseAdmin, 'place' | 'clock' | 'prune' | 'land' | 'eraseTraces' | 'close'>;

export function adminOfTables(dialect: Dialect): Shared {
  return { ...landedRows(dialect), ...quarantineRows(dialect), ...changes(dialect), removals: removals(dialect) };
}

type Landed = Pick<WarehouseAdmin, 'counts' | 'landed' | 'landedSince' | 'rowsOf'>;

function landedRows({ rows, code, estimate, shown, exact, time, isIn, digest }: Dialect): Landed {
  return {
    async counts() {
      const count = async (sql: string): Promise<number> => Number((await rows(sql))[0]?.['rows']);
      const about = await count(estimate);
      const estimated = about > COUNT_EXACT_MAX;
      const events = estimated ? about : await count('SELECT count(*) AS rows FROM events');
      const found = await rows(
        `SELECT ${code} AS code, count(*) AS rows FROM events_quarantine GROUP BY 1 ORDER BY 2 DESC, 1`,
      );
      return {
        events,
        estimated,
        quarantine: found.map((row) => ({ code: String(row['code']), rows: Number(row['rows']) })),
      };
    },
    async landed(id) {
      const columns = `id, type, producer, ${shown('accepted_at')} AS accepted, ${shown('landed_at')} AS landed, body`;
      const [row] = await rows(`SELECT ${columns} FROM events WHERE id = $1`, id);
      return row && landedRow(row);
    },
    async rowsOf(ids) {
      const sql = `SELECT id, producer, ${shown('accepted_at')} AS accepted, ${digest('body')} AS digest,
        CASE WHEN length(body) < ${ERASED_LENGTH_MAX} AND body LIKE '%"erased":true}' THEN body END AS erased
        FROM events WHERE ${isIn('id', '$1')}`;
      return (await rows(sql, JSON.stringify(ids))).map((row) => ({
        id: String(row['id']),
        producer: String(row['producer']),
        acceptedAtMs: timeMs(row['accepted']),
        digest: String(row['digest']),
        erased: isErased(textOf(row['erased']) ?? ''),
      }));
    },
    async *landedSince(type, sinceMs) {
      const sql = `SELECT id, body, ${exact('landed_at')} AS at FROM events
        WHERE (landed_at, id) > (${time('$1')}, $2) AND type = $3 ORDER BY landed_at, id LIMIT ${BODIES_PAGE}`;
      for (let last = [timeText(sinceMs), '']; ;) {
        const page = await rows(sql, ...last, type);
        if (page.length > 0) yield page.map(({ id, body }) => ({ id: String(id), body: String(body) }));
        if (page.length < BODIES_PAGE) return;
        last = [String(page.at(-1)?.['at']), String(page.at(-1)?.['id'])];
      }
    },
  };
}

type Quarantined = Pick<
  WarehouseAdmin,
  | 'quarantineOf'
  | 'quarantineRow'
  | 'quarantineList'
  | 'quarantinedIds'
  | 'quarantineCount'
  | 'quarantineNames'
  | 'present'
>;

function quarantineRows({ rows, code, shown, exact, time, afterAllTimes, isIn }: Dialect): Quarantined {
  const ABOUT = `entry, id, traceparent, producer, reason, length(body) AS bytes,
    ${shown('accepted_at')} AS accepted, ${shown('quarantined_at')} AS quarantined`;
  const entries = async (sql: string, ...values: readonly SqlValue[]): Promise<readonly string[]> =>
    (await rows(`SELECT entry FROM events_quarantine WHERE ${sql}`, ...values)).map(({ entry }) => String(entry));
  const bodies = async (where: string, value: string): Promise<readonly QuarantineBody[]> =>
    (await rows(`SELECT ${ABOUT}, body FROM events_quarantine WHERE ${where}`, value)).map(bodyOf);
  /** Includes only the filters that are set, so that the database can use an index. */
  const matches = ({ reason, sinceMs }: QuarantineFilter, values: SqlValue[]): string => {
    const given = (value: string): string => `$${values.push(value)}`;
    const byReason = reason === undefined ? 'TRUE' : `${code} = ${given(reason)}`;
    return sinceMs === undefined ? byReason : `${byReason} AND quarantined_at >= ${time(given(timeText(sinceMs)))}`;
  };

  return {
    quarantineOf: (id) => bodies('id = $1 ORDER BY quarantined_at', id),
    quarantineRow: async (entry) => (await bodies('entry = $1', entry))[0],

    async *quarantineList(filter, limit) {
      let last = [afterAllTimes, ''];
      for (let left = limit; left > 0; left -= PAGE) {
        const values = [...last, Math.min(left, PAGE)];
        const page = await rows(
          `SELECT ${ABOUT}, ${exact('quarantined_at')} AS at FROM events_quarantine
           WHERE (quarantined_at, entry) < (${time('$1')}, $2) AND ${matches(filter, values)}
           ORDER BY quarantined_at DESC, entry DESC LIMIT $3`,
          ...values,
        );
        if (page.length > 0) yield page.map(rowOf);
        if (page.length < PAGE) return;
        last = [String(page.at(-1)?.['at']), String(page.at(-1)?.['entry'])];
      }
    },
    async quarantinedIds(ids) {
      const found = await rows(`SELECT id FROM events_quarantine WHERE ${isIn('id', '$1')}`, JSON.stringify(ids));
      return new Set(found.map(({ id }) => String(id)));
    },
    async quarantineCount(filter) {
      const values: SqlValue[] = [];
      const sql = `SELECT count(*) AS rows FROM events_quarantine WHERE ${matches(filter, values)}`;
      return Number((await rows(sql, ...values))[0]?.['rows']);
    },
    quarantineNames: (filter, after, limit) => {
      const values: SqlValue[] = [after, limit];
      return entries(`entry > $1 AND ${matches(filter, values)} ORDER BY entry LIMIT $2`, ...values);
    },
    present: async (names) => new Set(await entries(isIn('entry', '$1'), JSON.stringify(names))),
  };
}

function changes({
  change,
  time,
  isIn,
}: Dialect): Pick<WarehouseAdmin, 'drop' | 'overwriteLanded' | 'overwriteQuarantined' | 'audit'> {
  return {
    drop: (entries) => change(`DELETE FROM events_quarantine WHERE ${isIn('entry', '$1')}`, JSON.stringify(entries)),
    overwriteLanded: async (id, body) => void (await change('UPDATE events SET body = $2 WHERE id = $1', id, body)),
    overwriteQuarantined: async (entry, body) =>
      void (await change('UPDATE events_quarantine SET body = $2 WHERE entry = $1', entry, Buffer.from(body))),
    async audit({ id, atMs, actor, command, what, changed = null }) {
      const sql = `INSERT INTO ingest_audit (id, at, actor, command, what, changed)
        VALUES ($1, ${time('$2')}, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET changed = excluded.changed`;
      await change(sql, id, timeText(atMs), actor, command, what, changed);
    },
  };
}

const removals = ({ rows, shown, exact, time }: Dialect): WarehouseAdmin['removals'] =>
  async function (command, from) {
    const after = typeof from === 'number' ? [timeText(from), ''] : from;
    const found = await rows(
      `SELECT id, what, ${shown('at')} AS shown, ${exact('at')} AS at FROM ingest_audit
       WHERE command = $1 AND (at, id) > (${time('$2')}, $3) ORDER BY at, id LIMIT ${REMOVALS_PAGE}`,
      ...[command, ...after],
    );
    const last = found.length < REMOVALS_PAGE ? undefined : found.at(-1);
    return {
      page: found.map(({ what, shown: at }) => ({ names: namesOf(String(what)), atMs: timeMs(at) })),
      next: last && [String(last['at']), String(last['id'])],
    };
  };

/** Earlier versions separated names with spaces, which ids may contain, so only a single id without one is certain. */
const namesOf = (what: string): readonly string[] =>
  what.endsWith('\n') ? what.slice(0, -1).split('\n') : what.includes(' ') ? [] : [what];

/** Clamps to 1970, because PostgreSQL does not parse negative years in this form. No row is older. */
const timeText = (ms: number): string => new Date(Math.max(0, ms)).toISOString();

const timeMs = (shown: unknown): number => (typeof shown === 'number' ? shown : Date.parse(String(shown)));

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const landedRow = (row: SqlRow): LandedRow => ({
  id: String(row['id']),
  type: String(row['type']),
  producer: String(row['producer']),
  acceptedAtMs: timeMs(row['accepted']),
  landedAtMs: timeMs(row['landed']),
  body: String(row['body']),
});

const rowOf = (row: SqlRow): QuarantineRow => ({
  entry: String(row['entry']),
  id: textOf(row['id']),
  traceparent: textOf(row['traceparent']),
  producer: originalText(String(row['producer'])),
  reason: String(row['reason']),
  acceptedAtMs: timeMs(row['accepted']),
  quarantinedAtMs: timeMs(row['quarantined']),
  bodyBytes: Number(row['bytes']),
});

const bodyOf = (row: SqlRow): QuarantineBody => ({ ...rowOf(row), body: Buffer.from(row['body'] as Uint8Array) });
