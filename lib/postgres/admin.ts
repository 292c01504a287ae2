// The PostgreSQL warehouse as ingest-admin sees it: short calls on tables that the consumer has made.
//
// Limits: those of sessions.ts; one session.
import type pg from 'pg';
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
import type { Clock, ClockAndRandom } from '../process/clock.ts';
import { maskedUri } from '../process/masked-uri.ts';
import { insertEvents, refuses } from './landing.ts';
import { misconfigured } from './misconfigured.ts';
import { byMonthOf, whereId, type ByMonth } from './months.ts';
import { pruneBound } from './prune-months.ts';
import { prune } from './prune.ts';
import { openSessions, transacted } from './sessions.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const CALL_TIMEOUT_MS = 60_000;
/** Rows of one statement of a list. */
const PAGE = 1_000;
/** The same, with bodies. */
const BODIES_PAGE = 100;

const ms = (column: string, name: string): string => `round(extract(epoch FROM ${column}) * 1000)::float8 AS ${name}`;
const ABOUT = `entry, id, traceparent, producer, reason, octet_length(body) AS bytes,
  ${ms('accepted_at', 'accepted')}, ${ms('quarantined_at', 'quarantined')}`;
const CODE = `split_part(reason, ':', 1)`;
const MATCHES = `($1::text IS NULL OR ${CODE} = $1)
  AND ($2::float8 IS NULL OR quarantined_at >= to_timestamp($2 / 1000))`;

interface Landed extends pg.QueryResultRow {
  readonly id: string;
  readonly type: string;
  readonly producer: string;
  readonly accepted: number;
  readonly landed: number;
  readonly body: string;
}

interface Quarantined extends pg.QueryResultRow {
  readonly entry: string;
  readonly id: string | null;
  readonly traceparent: string | null;
  readonly producer: string;
  readonly reason: string;
  readonly accepted: number;
  readonly quarantined: number;
  readonly bytes: number;
  readonly body: Buffer;
}

interface Calls {
  /** Rejects with WarehouseFailed. */
  readonly ask: <R extends pg.QueryResultRow>(sql: string, ...values: readonly unknown[]) => Promise<pg.QueryResult<R>>;
  readonly rows: <R extends pg.QueryResultRow>(sql: string, ...values: readonly unknown[]) => Promise<R[]>;
  readonly byMonth: ByMonth;
  readonly close: () => Promise<void>;
}

export function createPostgresAdmin(uri: string, system: ClockAndRandom): WarehouseAdmin {
  const calls = callsOn(uri, system);
  return { place: maskedUri(uri), ...looks(calls), ...changes(calls, system.clock), close: () => calls.close() };
}

function callsOn(uri: string, system: ClockAndRandom): Calls {
  const pool = openSessions({
    uri,
    clock: system.clock,
    connectionsMax: 1,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    callTimeoutMs: CALL_TIMEOUT_MS,
  });
  const ask = async <R extends pg.QueryResultRow>(
    sql: string,
    ...values: readonly unknown[]
  ): Promise<pg.QueryResult<R>> => {
    try {
      return await transacted(system, () => pool.query<R>(sql, [...values]));
    } catch (cause) {
      const told = misconfigured(cause, uri);
      throw new WarehouseFailed(told instanceof Error ? messageOf(told) : 'unknown error', { cause });
    }
  };
  const rows = async <R extends pg.QueryResultRow>(sql: string, ...values: readonly unknown[]): Promise<R[]> =>
    (await ask<R>(sql, ...values)).rows;

  return { ask, rows, byMonth: byMonthOf((sql) => ask(sql)), close: () => pool.end() };
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

function looks({ rows, byMonth }: Calls): Looks {
  return {
    async counts() {
      // What the server has noted at its last look through the table; -1 before the first one.
      const estimate = `SELECT reltuples::float8 AS rows FROM pg_class
        WHERE oid = coalesce(to_regclass('events_ids'), to_regclass('events'))`;
      const about = Number((await rows<{ rows: number }>(estimate))[0]?.rows ?? 0);
      const estimated = about > COUNT_EXACT_MAX;
      const count = 'SELECT count(*)::float8 AS rows FROM events';
      const events = estimated ? about : Number((await rows<{ rows: number }>(count))[0]?.rows);
      const quarantine = await rows<{ code: string; rows: number }>(
        `SELECT ${CODE} AS code, count(*)::float8 AS rows FROM events_quarantine GROUP BY 1 ORDER BY 2 DESC, 1`,
      );
      return { events, estimated, quarantine };
    },

    async landed(id) {
      const times = `${ms('accepted_at', 'accepted')}, ${ms('landed_at', 'landed')}`;
      const sql = `SELECT id, type, producer, ${times}, body FROM events WHERE ${whereId('$1', await byMonth())}`;
      return landedRow((await rows<Landed>(sql, id))[0]);
    },
    async quarantineOf(id) {
      const sql = `SELECT ${ABOUT}, body FROM events_quarantine WHERE id = $1 ORDER BY quarantined_at`;
      return (await rows<Quarantined>(sql, id)).map(bodyOf);
    },
    quarantineRow: async (entry) =>
      (await rows<Quarantined>(`SELECT ${ABOUT}, body FROM events_quarantine WHERE entry = $1`, entry)).map(bodyOf)[0],

    landedSince: (type, sinceMs) => landedSince(rows, type, sinceMs),
    async *quarantineList(filter, limit) {
      const sql = `SELECT ${ABOUT}, quarantined_at::text AS at FROM events_quarantine
        WHERE ${MATCHES} AND (quarantined_at, entry) < ($3::timestamptz, $4)
        ORDER BY quarantined_at DESC, entry DESC LIMIT $5`;
      let last = ['infinity', ''];
      for (let left = limit; left > 0; left -= PAGE) {
        const page = await rows<Quarantined & { readonly at: string }>(
          sql,
          ...given(filter),
          ...last,
          Math.min(left, PAGE),
        );
        if (page.length > 0) yield page.map(rowOf);
        if (page.length < PAGE) return;
        last = [page.at(-1)?.at ?? '', page.at(-1)?.entry ?? ''];
      }
    },
    async quarantineCount(filter) {
      const sql = `SELECT count(*)::float8 AS rows FROM events_quarantine WHERE ${MATCHES}`;
      return Number((await rows<{ rows: number }>(sql, ...given(filter)))[0]?.rows);
    },
    async quarantineNames(filter, after, limit) {
      const sql = `SELECT entry FROM events_quarantine WHERE ${MATCHES} AND entry > $3 ORDER BY entry LIMIT $4`;
      return (await rows<{ entry: string }>(sql, ...given(filter), after, limit)).map(({ entry }) => entry);
    },

    async present(entries) {
      const sql = 'SELECT entry FROM events_quarantine WHERE entry = ANY ($1::text[])';
      return new Set((await rows<{ entry: string }>(sql, entries)).map(({ entry }) => entry));
    },
  };
}

async function* landedSince(
  rows: Calls['rows'],
  type: string,
  sinceMs: number,
): AsyncGenerator<readonly Pick<LandedRow, 'id' | 'body'>[]> {
  const sql = `SELECT id, body, landed_at::text AS at FROM events
    WHERE (landed_at, id) > ($1::timestamptz, $2) AND type = $3 ORDER BY landed_at, id LIMIT ${BODIES_PAGE}`;
  let last = [new Date(sinceMs).toISOString(), ''];
  for (;;) {
    const page = await rows<{ id: string; body: string; at: string }>(sql, ...last, type);
    if (page.length > 0) yield page;
    if (page.length < BODIES_PAGE) return;
    last = [page.at(-1)?.at ?? '', page.at(-1)?.id ?? ''];
  }
}

function changes({ ask, byMonth }: Calls, clock: Clock): Omit<WarehouseAdmin, keyof Looks | 'place' | 'close'> {
  return {
    drop: async (entries) =>
      (await ask('DELETE FROM events_quarantine WHERE entry = ANY ($1::text[])', entries)).rowCount ?? 0,

    prune: async (...step) => prune((sql, values) => ask(sql, ...values), await byMonth(), clock.epochMs(), ...step),
    pruneBound: async (pruning) => pruneBound(pruning, await byMonth(), clock.epochMs()),

    async land(event) {
      const query = (sql: string, values: unknown[]): Promise<pg.QueryResult<{ id: string }>> => ask(sql, ...values);
      await insertEvents(query, [event], clock.epochMs(), await byMonth()).catch((cause: unknown) => {
        if (!(cause instanceof WarehouseFailed && refuses(cause.cause))) throw cause;
      });
    },
    overwriteLanded: async (id, body) =>
      void (await ask(`UPDATE events SET body = $2 WHERE ${whereId('$1', await byMonth())}`, id, body)),
    overwriteQuarantined: async (entry, body) =>
      void (await ask('UPDATE events_quarantine SET body = $2 WHERE entry = $1', entry, Buffer.from(body))),

    eraseTraces: () =>
      Promise.resolve(
        'the row as it was is in the files of PostgreSQL until VACUUM FULL events, events_quarantine, ' +
          'and in its log until that is recycled',
      ),

    async audit({ id, atMs, actor, command, what, changed }) {
      const sql = `INSERT INTO ingest_audit (id, at, actor, command, what, changed)
        VALUES ($1, to_timestamp($2::float8 / 1000), $3, $4, $5, $6)
        ON CONFLICT (id) DO UPDATE SET changed = excluded.changed`;
      await ask(sql, id, atMs, actor, command, what, changed ?? null);
    },
  };
}

/** The values of MATCHES. */
const given = ({ reason, sinceMs }: QuarantineFilter): unknown[] => [reason ?? null, sinceMs ?? null];

/** pg has errors without a message, for a name with several addresses. */
const messageOf = (cause: Error): string => (cause.message === '' ? cause.name : cause.message);

const landedRow = (row: Landed | undefined): LandedRow | undefined =>
  row && {
    id: row.id,
    type: row.type,
    producer: row.producer,
    acceptedAtMs: row.accepted,
    landedAtMs: row.landed,
    body: row.body,
  };

const rowOf = (row: Quarantined): QuarantineRow => ({
  entry: row.entry,
  id: row.id ?? undefined,
  traceparent: row.traceparent ?? undefined,
  producer: originalText(row.producer),
  reason: row.reason,
  acceptedAtMs: row.accepted,
  quarantinedAtMs: row.quarantined,
  bodyBytes: row.bytes,
});

const bodyOf = (row: Quarantined): QuarantineBody => ({ ...rowOf(row), body: row.body });
