// The SQL that SQLite and PostgreSQL share: lookups, and everything that ingest-admin runs. Its parameters are $1, $2
// and so on.
import { isErased } from './erased.ts';
import { originalText, PRUNED_TABLES, storableText, type WarehouseLookup } from './warehouse.ts';
import type { LandedRow, QuarantineBody, QuarantineFilter, QuarantineRow, RowDigest } from './warehouse-admin.ts';
import { COUNT_EXACT_MAX, type WarehouseAdmin } from './warehouse-admin.ts';

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
  readonly timeValue: (column: string) => string;
  /** Converts a time column to text that `time` reads without loss. */
  readonly exactTime: (column: string) => string;
  /** Converts a parameter (RFC 3339, or text from `exact`) to a time. */
  readonly time: (parameter: string) => string;
  readonly afterAllTimes: string;
  readonly nowMs: () => number;
  /** True if an error, the cause of a WarehouseFailed, means that the warehouse refuses some content of a row. */
  readonly refuses: (cause: unknown) => boolean;
  /** A condition: the column is in the JSON array of texts. It must use the column's index. */
  readonly isIn: (column: string, parameter: string) => string;
  /** The SHA-256 of a text column, in hexadecimal. */
  readonly digest: (column: string) => string;
}

type Shared = Omit<WarehouseAdmin, 'uri' | 'clock' | 'eraseTraces' | 'close'>;

export function adminOfTables(dialect: Dialect): Shared {
  return { ...landedRows(dialect), ...quarantineRows(dialect), ...auditRows(dialect), ...changes(dialect) };
}

function landedRows({ rows, change, code, estimate, timeValue, exactTime, time, isIn, digest }: Dialect) {
  return {
    async counts() {
      const count = async (sql: string): Promise<number> => Number((await rows(sql))[0]?.['rows']);
      const about = await count(estimate);
      const estimated = about > COUNT_EXACT_MAX;
      const events = estimated ? about : await count('SELECT count(*) AS rows FROM events');
      const codes = await rows(
        `SELECT ${code} AS code, count(*) AS rows FROM events_quarantine GROUP BY 1 ORDER BY 2 DESC, 1`,
      );
      const quarantine = codes.map((row) => ({ code: String(row['code']), rows: Number(row['rows']) }));
      return { events, estimated, quarantine };
    },
    async landed(id) {
      const times = `${timeValue('accepted_at')} AS "acceptedAtMs", ${timeValue('landed_at')} AS "landedAtMs"`;
      const [row] = await rows(
        `SELECT id, type, producer, ${times}, CAST(body AS text) AS body FROM events WHERE id = $1`,
        id,
      );
      return row && (plain(row) as LandedRow);
    },
    async rowsOf(ids) {
      const sql = `SELECT id, producer, ${timeValue('accepted_at')} AS "acceptedAtMs", ${digest('body')} AS digest,
        CASE WHEN length(body) < ${ERASED_LENGTH_MAX} AND body LIKE '%"erased":true}' THEN body END AS erased
        FROM events WHERE ${isIn('id', '$1')}`;
      return (await rows(sql, JSON.stringify(ids))).map((row) => {
        const { erased = '', ...digests } = plain(row) as Omit<RowDigest, 'erased'> & { erased?: string };
        return { ...digests, erased: isErased(erased) };
      });
    },
    async *landedSince(type, sinceMs) {
      const sql = `SELECT id AS key, body, ${exactTime('landed_at')} AS at FROM events
        WHERE (landed_at, id) > (${time('$1')}, $2) AND type = $3 ORDER BY landed_at, id LIMIT ${BODIES_PAGE}`;
      for await (const page of paged(timeText(sinceMs), BODIES_PAGE, (...after) => rows(sql, ...after, type)))
        yield page.map(({ key, body }) => ({ id: String(key), body: String(body) }));
    },
    overwriteLanded: async (id, body) => void (await change('UPDATE events SET body = $2 WHERE id = $1', id, body)),
  } satisfies Partial<WarehouseAdmin>;
}

function changes({ rows, change, exactTime, time, isIn, nowMs, refuses }: Dialect) {
  return {
    async land({ id, type, producer, acceptedAtMs, body, traceparent = null }) {
      const sql = `INSERT INTO events (id, type, producer, accepted_at, landed_at, body, traceparent)
        VALUES ($1, $2, $3, ${time('$4')}, ${time('$5')}, CAST($6 AS text), $7) ON CONFLICT (id) DO NOTHING`;
      const times = [timeText(acceptedAtMs), timeText(nowMs())];
      await change(sql, id, type, producer, ...times, body, traceparent).catch((cause: Error) => {
        if (!refuses(cause.cause)) throw cause;
      });
    },
    async prune({ table, beforeMs, type }, from, limit) {
      const { name, at, key } = PRUNED_TABLES[table];
      const before = timeText(beforeMs);
      const page = await rows(
        `SELECT ${exactTime(at)} AS at, ${key} AS key FROM ${name}
         WHERE ${at} < ${time('$1')} AND (${at}, ${key}) > (${time('$2')}, $3) ORDER BY ${at}, ${key} LIMIT $4`,
        ...[before, ...(from ?? [timeText(0), '']), limit],
      );
      const last = page.at(-1);
      if (last === undefined) return { removed: 0, next: undefined };
      const keys = JSON.stringify(page.map((row) => row['key']));
      const removed = await change(
        `DELETE FROM ${name} WHERE ${isIn(key, '$1')} AND ${at} < ${time('$2')} AND accepted_at < ${time('$2')}
         ${type === undefined ? '' : 'AND type = $3'}`,
        ...[keys, before, ...(type === undefined ? [] : [type])],
      );
      return { removed, next: [String(last['at']), String(last['key'])] };
    },
  } satisfies Partial<WarehouseAdmin>;
}

function quarantineRows({ rows, change, code, timeValue, exactTime, time, afterAllTimes, isIn }: Dialect) {
  const ABOUT = `entry, id, traceparent, producer, reason, ${timeValue('accepted_at')} AS "acceptedAtMs",
    ${timeValue('quarantined_at')} AS "quarantinedAtMs", length(body) AS "bodyBytes"`;
  const entries = async (sql: string, ...values: readonly SqlValue[]): Promise<readonly string[]> =>
    (await rows(`SELECT entry FROM events_quarantine WHERE ${sql}`, ...values)).map(({ entry }) => String(entry));
  const bodies = async (where: string, value: string): Promise<readonly QuarantineBody[]> =>
    (await rows(`SELECT ${ABOUT}, body FROM events_quarantine WHERE ${where}`, value)).map(bodyOf);
  /** Includes only the filters that are set, so that the database can use an index. */
  const matches = ({ reason, sinceMs }: QuarantineFilter, values: SqlValue[]): string => {
    const parameter = (value: string): string => `$${values.push(value)}`;
    const byReason = reason === undefined ? 'TRUE' : `${code} = ${parameter(reason)}`;
    return sinceMs === undefined ? byReason : `${byReason} AND quarantined_at >= ${time(parameter(timeText(sinceMs)))}`;
  };

  return {
    quarantineOf: (id) => bodies('id = $1 ORDER BY quarantined_at', id),
    quarantineRow: async (entry) => (await bodies('entry = $1', entry))[0],

    async *quarantineList(filter) {
      const next = (...after: readonly string[]): Promise<readonly SqlRow[]> => {
        const values: SqlValue[] = [...after];
        const sql = `SELECT ${ABOUT}, entry AS key, ${exactTime('quarantined_at')} AS at FROM events_quarantine
          WHERE (quarantined_at, entry) < (${time('$1')}, $2) AND ${matches(filter, values)}
          ORDER BY quarantined_at DESC, entry DESC LIMIT ${PAGE}`;
        return rows(sql, ...values);
      };
      for await (const page of paged(afterAllTimes, PAGE, next))
        yield page.map(({ at: _, key: _key, ...row }) => rowOf(row));
    },
    async quarantinedIds(ids) {
      const page = await rows(`SELECT id FROM events_quarantine WHERE ${isIn('id', '$1')}`, JSON.stringify(ids));
      return new Set(page.map(({ id }) => String(id)));
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
    drop: (names) => change(`DELETE FROM events_quarantine WHERE ${isIn('entry', '$1')}`, JSON.stringify(names)),
    overwriteQuarantined: async (entry, body) =>
      void (await change('UPDATE events_quarantine SET body = $2 WHERE entry = $1', entry, Buffer.from(body))),
  } satisfies Partial<WarehouseAdmin>;
}

function auditRows({ rows, change, timeValue, exactTime, time }: Dialect) {
  return {
    async audit({ id, atMs, actor, command, what, changed = null }) {
      const sql = `INSERT INTO ingest_audit (id, at, actor, command, what, changed)
        VALUES ($1, ${time('$2')}, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET changed = excluded.changed`;
      await change(sql, id, timeText(atMs), actor, command, what, changed);
    },
    async *removals(command, sinceMs) {
      const sql = `SELECT id AS key, what, changed IS NULL AS open, ${timeValue('at')} AS "atMs", ${exactTime('at')} AS at
        FROM ingest_audit
        WHERE (at, id) > (${time('$1')}, $2) AND command = $3 ORDER BY at, id LIMIT ${REMOVALS_PAGE}`;
      for await (const page of paged(timeText(sinceMs), REMOVALS_PAGE, (...after) => rows(sql, ...after, command)))
        yield* page.map(({ what, atMs: at, open }) => {
          return { names: namesOf(String(what)), atMs: timeMs(at), isOpen: Boolean(open) };
        });
    },
  } satisfies Partial<WarehouseAdmin>;
}

/**
 * The types of an engine. `exists` is IF NOT EXISTS if an interrupted step may run again. `name` compares byte by byte,
 * because no locale may decide which ids are equal.
 */
type Types = Readonly<Record<'exists' | 'name' | 'producer' | 'time' | 'bytes' | 'count' | 'options', string>>;

/**
 * The steps that make the schema, a list that only grows. Each is additive, so older programs work with newer schemas
 * and vice versa. `body` has the type text, which stores each byte; `jsonb` would refuse `\u0000` and reorder members.
 */
export const schemaSteps = ({ exists, name, producer, time, bytes, count, options }: Types, code: string) => [
  `
  CREATE TABLE ${exists} events (
    id          ${name} NOT NULL PRIMARY KEY,
    type        text NOT NULL,
    producer    ${producer} NOT NULL,
    accepted_at ${time} NOT NULL,
    landed_at   ${time} NOT NULL,
    body        text NOT NULL,
    traceparent text
  ) ${options};
  CREATE INDEX ${exists} events_landed_at ON events (landed_at);
  CREATE TABLE ${exists} events_quarantine (
    entry          ${name} NOT NULL PRIMARY KEY,
    id             ${name},
    producer       ${name} NOT NULL,
    reason         text NOT NULL,
    accepted_at    ${time} NOT NULL,
    quarantined_at ${time} NOT NULL,
    body           ${bytes} NOT NULL,
    traceparent    text
  ) ${options};
  CREATE INDEX ${exists} events_quarantine_id ON events_quarantine (id);
  CREATE INDEX ${exists} events_quarantine_quarantined_at ON events_quarantine (quarantined_at, entry);
  CREATE TABLE ${exists} ingest_audit (
    id      text NOT NULL PRIMARY KEY,
    at      ${time} NOT NULL,
    actor   text NOT NULL,
    command text NOT NULL,
    what    text NOT NULL,
    changed ${count}
  ) ${options};`,
  // Without this index, finding rows with a rare reason among a million took 7 s.
  `CREATE INDEX ${exists} events_quarantine_code ON events_quarantine (${code}, quarantined_at, entry);`,
];

/**
 * A query for the row and the quarantine rows of the id $1. SQL cannot compare names as this project does, so it
 * returns candidates for the producer $2: `lower` may change ASCII letters only.
 */
export const findSql = (timeValue: Dialect['timeValue']): string => `
  SELECT 1 AS landed, producer, CAST(body AS text) AS text, NULL AS body, type, NULL AS reason,
    ${timeValue('accepted_at')} AS "acceptedAtMs", ${timeValue('landed_at')} AS "endAtMs", traceparent
  FROM events WHERE id = $1
  UNION ALL
  SELECT 0, producer, NULL, body, NULL, reason, ${timeValue('accepted_at')}, ${timeValue('quarantined_at')}, traceparent
  FROM events_quarantine
  WHERE id = $1 AND (lower(producer) = lower($2) OR octet_length(producer) > length(producer))
  ORDER BY landed DESC, "endAtMs" DESC LIMIT 8`;

type Candidate = Readonly<Record<'text' | 'type' | 'reason', string> & Record<'acceptedAtMs' | 'endAtMs', number>> & {
  readonly landed: number;
  readonly body: Uint8Array;
  readonly traceparent: string | undefined;
};

/** Selects the producer's row from the result of `findSql`. A quarantine row has the name as `storableText`. */
export function lookupOf(
  candidates: readonly SqlRow[],
  producer: string,
  isSameProducer: (one: string, other: string) => boolean,
): WarehouseLookup {
  const match = candidates.find(({ landed, producer: name }) =>
    isSameProducer(String(name), landed === 1 ? producer : storableText(producer)),
  );
  if (match === undefined) return { kind: 'unknown' };
  const { landed, text, type, body, reason, acceptedAtMs, endAtMs, traceparent } = plain(match) as Candidate;
  if (landed === 1) return { kind: 'landed', text, type, acceptedAtMs, landedAtMs: endAtMs, traceparent };
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return { kind: 'rejected', body: bytes, reason, acceptedAtMs, rejectedAtMs: endAtMs, traceparent };
}

/** Yields pages of rows, each after the last row of the page before, which its columns `at` and `key` name. */
async function* paged(from: string, size: number, next: (at: string, key: string) => Promise<readonly SqlRow[]>) {
  for (let [at, key] = [from, '']; ;) {
    const page = await next(at, key);
    if (page.length > 0) yield page;
    if (page.length < size) return;
    [at, key] = [String(page.at(-1)?.['at']), String(page.at(-1)?.['key'])];
  }
}

/** Earlier versions separated names with spaces, which ids may contain, so only a single id without one is certain. */
const namesOf = (what: string): readonly string[] =>
  what.endsWith('\n') ? what.slice(0, -1).split('\n') : what.includes(' ') ? [] : [what];

/** Clamps to 1970, because PostgreSQL does not parse negative years in this form. No row is older. */
const timeText = (ms: number): string => new Date(Math.max(0, ms)).toISOString();

const timeMs = (value: unknown): number => (typeof value === 'number' ? value : Date.parse(String(value)));

/** Converts times to Unix milliseconds, and NULL to undefined. */
const plain = (row: SqlRow): object =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, name.endsWith('AtMs') ? timeMs(value) : (value ?? undefined)]),
  );

function rowOf(row: SqlRow): QuarantineRow {
  const { producer, ...rest } = plain(row) as QuarantineRow;
  return { ...rest, producer: originalText(producer) };
}

const bodyOf = ({ body, ...row }: SqlRow): QuarantineBody => ({ ...rowOf(row), body: Buffer.from(body as Uint8Array) });
