// The warehouse in PostgreSQL 14 or newer, and in what speaks its protocol and honours a primary key.
//
// Invariant: a batch is one COPY, or where that is refused, one INSERT ... ON CONFLICT DO NOTHING over arrays. Either
// is one transaction, and the primary key alone decides which event of an id is the row: COPY fails at a row that is
// there already, and nothing of it is kept. Rows go in sorted by id: two replicas with the same ids then wait for each
// other in one order and do not deadlock. Which row of a batch is bad is found by INSERT.
//
// Limits: those of sessions.ts. `client_encoding` is not looked at: pg always speaks UTF-8.
import pg from 'pg';
import {
  BatchRefused,
  BatchTooSlow,
  isRowOf,
  ownRowName,
  repeatOutcome,
  storableText,
  type FoundQuarantined,
  type FoundRow,
  type LandingEvent,
  type LandingOutcome,
  type QuarantinedEntry,
  type QuarantinedEvent,
  type RepeatOutcome,
  type Warehouse,
} from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import type { Credentials } from '../process/credentials.ts';
import { byteaArray, textArray, timeArray } from './binary-array.ts';
import { copyEvents } from './copy.ts';
import { find } from './find.ts';
import { migrate, WrongEncoding, type Step } from './migrations.ts';
import { misconfigured } from './misconfigured.ts';
import { prune } from './prune.ts';
import { openSessions, sqlstateClass, timedOut, transacted } from './sessions.ts';

const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 15_000;
/**
 * After a COPY that was refused: a row that is not new seldom comes alone, and what was copied before it is thrown
 * away.
 */
const COPY_PAUSE_MS = 1_000;

export interface PostgresWarehouseOptions extends ClockAndRandom {
  readonly uri: string;
  readonly credentials?: Credentials | undefined;
  /** Sessions with the server at most. */
  readonly connectionsMax: number;
  /** A look-up that finds a warehouse away must not hold the gateway's answer for long; landing may wait longer. */
  readonly connectTimeoutMs?: number;
  readonly callTimeoutMs?: number;
  /** Of the schema: STEPS by default. */
  readonly steps?: readonly Step[];
}

const LAND = `
  INSERT INTO events (id, type, producer, accepted_at, landed_at, body, traceparent)
  SELECT id, type, producer, accepted_at, clock_timestamp(), body, traceparent
  FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[])
    AS batch (id, type, producer, accepted_at, body, traceparent)
  ON CONFLICT (id) DO NOTHING
  RETURNING id`;

const FOUND_ROWS = `
  SELECT at, producer, NULLIF(events.body, batch.body) AS "otherBody"
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS batch (id, body, at) JOIN events USING (id)`;

const QUARANTINE = `
  INSERT INTO events_quarantine (entry, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
  SELECT entry, id, producer, reason, accepted_at, clock_timestamp(), body, traceparent
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bytea[], $7::text[])
    AS batch (entry, id, producer, reason, accepted_at, body, traceparent)
  ON CONFLICT (entry) DO NOTHING
  RETURNING entry`;

const FIND_QUARANTINED = 'SELECT entry, id, producer, body FROM events_quarantine WHERE entry = ANY ($1::text[])';
const RELEASE = 'DELETE FROM events_quarantine WHERE entry = ANY ($1::text[])';

export function createPostgresWarehouse(options: PostgresWarehouseOptions): Warehouse {
  const pool = openSessions({ connectTimeoutMs: CONNECT_TIMEOUT_MS, callTimeoutMs: CALL_TIMEOUT_MS, ...options });
  let closing: Promise<void> | undefined;
  let copyAtMs = Number.NEGATIVE_INFINITY;

  /** Rows that are all new, by COPY; undefined where the server would not have it, and nothing was written. */
  async function copied(events: readonly LandingEvent[]): Promise<ReadonlySet<string> | undefined> {
    if (options.clock.ms() < copyAtMs) return undefined;
    const client = await pool.connect();
    let broken = false;
    try {
      const rows = await copyEvents(client, events, options.clock.epochMs());
      if (rows === events.length) return new Set(events.map(({ id }) => id));
    } catch (cause) {
      const state = sqlstateClass(cause);
      broken = state === undefined;
      if (broken || SERVER_CLASSES.has(state ?? '')) throw cause;
    } finally {
      client.release(broken);
    }
    copyAtMs = options.clock.ms() + COPY_PAUSE_MS;
    return undefined;
  }

  /** Those of the rows that were new. */
  async function inserted(events: readonly LandingEvent[]): Promise<ReadonlySet<string>> {
    const { rows } = await pool.query<{ id: string }>(LAND, landingArrays(events));
    return new Set(rows.map(({ id }) => id));
  }

  async function land(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[]> {
    const firsts = firstOfEachId(batch);
    const landed = await telling(transacted(options, async () => (await copied(firsts)) ?? (await inserted(firsts))));
    if (landed.size === batch.length) return batch.map(() => 'landed');
    // Of an id that was inserted the first event has landed.
    const pending = new Set(landed);
    const isNew = batch.map(({ id }) => pending.delete(id));
    const repeats = batch.filter((_, at) => isNew[at] === false);
    const outcomes = (await transacted(options, () => repeatOutcomes(pool, repeats))).values();
    return isNew.map((landedNow) => (landedNow ? 'landed' : (outcomes.next().value as LandingOutcome)));
  }

  /** `work`, and a server that is there but cannot work as configured told apart from one that is away. */
  const configured = <T>(work: Promise<T>): Promise<T> =>
    work.catch((cause: unknown) => {
      throw misconfigured(cause, options.uri);
    });

  return {
    prepare: () => configured(prepare(pool, options)),

    land: (batch) => configured(land(batch)),

    quarantine: (entries) => configured(quarantine(pool, options, entries)),

    release: (events) => release(pool, options, events),

    prune: (...step) => configured(prune((sql, values) => transacted(options, () => pool.query(sql, values)), ...step)),
    find: (id, producer) => find(pool, options, id, producer),

    probe: () => configured(probe(pool)),

    close: () => (closing ??= pool.end()),
  };
}

async function quarantine(pool: pg.Pool, system: ClockAndRandom, entries: readonly QuarantinedEntry[]): Promise<void> {
  const known = await quarantineNew(pool, system, entries);
  const rows = await quarantinedRows(pool, system, known);
  const others = known.filter((entry) => {
    const row = rows.get(entry.entry);
    if (row === undefined) throw new Error('a quarantine row vanished while an entry was written');
    return !isRowOf(row, entry);
  });
  const named = others.map((entry) => ({ ...entry, entry: ownRowName(entry) }));
  await quarantineNew(pool, system, named);
}

async function release(pool: pg.Pool, system: ClockAndRandom, events: readonly QuarantinedEvent[]): Promise<void> {
  const rows = await quarantinedRows(pool, system, events);
  const own = events.filter((event) => {
    const row = rows.get(event.entry);
    return row !== undefined && isRowOf(row, event);
  });
  const names = own.map(({ entry }) => entry).toSorted();
  if (names.length > 0) await transacted(system, () => pool.query(RELEASE, [textArray(names)]));
}

/** Gives those whose name a row had already. */
async function quarantineNew(
  pool: pg.Pool,
  system: ClockAndRandom,
  entries: readonly QuarantinedEntry[],
): Promise<readonly QuarantinedEntry[]> {
  if (entries.length === 0) return [];
  const sorted = inOrder(entries);
  const { rows } = await transacted(system, () => pool.query<{ entry: string }>(QUARANTINE, quarantineArrays(sorted)));
  const fresh = new Set(rows.map(({ entry }) => entry));
  return sorted.filter(({ entry }) => !fresh.delete(entry));
}

async function quarantinedRows(
  pool: pg.Pool,
  system: ClockAndRandom,
  events: readonly QuarantinedEvent[],
): Promise<ReadonlyMap<string, FoundQuarantined>> {
  if (events.length === 0) return new Map();
  const names = textArray(events.map(({ entry }) => entry));
  const { rows } = await transacted(system, () =>
    pool.query<FoundQuarantined & pg.QueryResultRow>(FIND_QUARANTINED, [names]),
  );
  return new Map(rows.map((row) => [row.entry, row]));
}

async function prepare(pool: pg.Pool, options: PostgresWarehouseOptions): Promise<string | undefined> {
  const client = await pool.connect();
  let broken = true;
  try {
    const waits = await migrate(client, options, options.steps);
    broken = false;
    return waits;
  } finally {
    client.release(broken);
  }
}

async function probe(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ read_only: string; encoding: string }>(
    `SELECT current_setting('transaction_read_only') AS read_only, current_setting('server_encoding') AS encoding`,
  );
  if (rows[0]?.encoding !== 'UTF8') throw new WrongEncoding(rows[0]?.encoding);
  if (rows[0].read_only !== 'off') throw new Error('the warehouse is read-only');
}

/** The first event of each id, in the order of their ids. */
function firstOfEachId(batch: readonly LandingEvent[]): LandingEvent[] {
  const firsts = new Map<string, LandingEvent>();
  for (const event of batch) if (!firsts.has(event.id)) firsts.set(event.id, event);
  return [...firsts.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
}

const inOrder = (entries: readonly QuarantinedEntry[]): QuarantinedEntry[] =>
  entries.toSorted((one, other) => (one.entry < other.entry ? -1 : 1));

const landingArrays = (events: readonly LandingEvent[]): Buffer[] => [
  textArray(events.map((event) => event.id)),
  textArray(events.map((event) => event.type)),
  textArray(events.map((event) => event.producer)),
  timeArray(events.map((event) => event.acceptedAtMs)),
  textArray(events.map((event) => event.body)),
  textArray(events.map((event) => event.traceparent)),
];

const quarantineArrays = (entries: readonly QuarantinedEntry[]): Buffer[] => [
  textArray(entries.map((entry) => entry.entry)),
  textArray(entries.map((entry) => entry.id)),
  textArray(entries.map((entry) => storableText(entry.producer))),
  textArray(entries.map((entry) => entry.reason)),
  timeArray(entries.map((entry) => entry.acceptedAtMs)),
  byteaArray(entries.map((entry) => entry.body)),
  textArray(entries.map((entry) => entry.traceparent)),
];

/**
 * What became of events whose ids had rows. A statement of its own, because a row that another transaction committed
 * while ours waited for it is not in the INSERT's snapshot.
 */
async function repeatOutcomes(pool: pg.Pool, repeats: readonly LandingEvent[]): Promise<readonly RepeatOutcome[]> {
  const { rows } = await pool.query<FoundRow & { at: string }>(FOUND_ROWS, [
    textArray(repeats.map(({ id }) => id)),
    textArray(repeats.map(({ body }) => body)),
  ]);
  const found = new Map(rows.map((row) => [Number(row.at), row]));
  return repeats.map(({ producer, body }, at) => {
    const row = found.get(at + 1);
    if (row === undefined) throw new Error('a row vanished while its batch landed');
    return repeatOutcome(producer, body, row);
  });
}

// Classes of SQLSTATE (PostgreSQL manual, appendix A) that speak of the data and would say the same tomorrow: data
// exception, constraint violation, WITH CHECK OPTION, program limit, and an error that a trigger raised.
const REFUSING_CLASSES = new Set(['22', '23', '44', '54', 'P0']);
export const refuses = (cause: unknown): cause is pg.DatabaseError =>
  cause instanceof pg.DatabaseError && REFUSING_CLASSES.has(sqlstateClass(cause) ?? '');
// Classes that speak of the server or of another transaction: INSERT would meet the same.
const SERVER_CLASSES = new Set(['08', '40', '53', '55', '57', '58', 'XX']);

/** What a batch met, in the port's words. */
async function telling<T>(landing: Promise<T>): Promise<T> {
  try {
    return await landing;
  } catch (cause) {
    if (refuses(cause)) throw new BatchRefused(cause.code, { cause });
    if (timedOut(cause)) throw new BatchTooSlow('the batch took too long', { cause });
    throw cause;
  }
}
