// How a batch of events becomes rows.
//
// Invariant: a batch is one COPY, or where that is refused, one INSERT ... ON CONFLICT DO NOTHING over arrays. Either
// is one transaction, and the primary key alone decides which event of an id is the row: COPY fails at a row that is
// there already, and nothing of it is kept. Rows go in sorted by id: two replicas with the same ids then wait for each
// other in one order and do not deadlock. Which row of a batch is bad is found by INSERT.
import pg from 'pg';
import {
  BatchRefused,
  BatchTooSlow,
  repeatOutcome,
  type FoundRow,
  type LandingEvent,
  type LandingOutcome,
  type RepeatOutcome,
} from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { textArray, timeArray } from './binary-array.ts';
import { copyEvents } from './copy.ts';
import { lacksMonth, type ByMonth, type Months } from './months.ts';
import { sqlstateClass, timedOut, transacted } from './sessions.ts';

/**
 * After a COPY that was refused: a row that is not new seldom comes alone, and what was copied before it is thrown
 * away.
 */
const COPY_PAUSE_MS = 1_000;

const BATCH = `unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[])
    AS batch (id, type, producer, accepted_at, body, traceparent)`;
const ROWS = `
  INSERT INTO events (id, type, producer, accepted_at, landed_at, body, traceparent)
  SELECT id, type, producer, accepted_at, $7::timestamptz, body, traceparent FROM ${BATCH}`;
const LAND = `${ROWS} ON CONFLICT (id) DO NOTHING RETURNING id`;
const LAND_BY_MONTH = `
  WITH fresh AS (
    INSERT INTO events_ids (id, landed_at) SELECT id, $7::timestamptz FROM ${BATCH}
    ON CONFLICT (id) DO NOTHING RETURNING id
  ) ${ROWS} WHERE id IN (SELECT id FROM fresh) RETURNING id`;

/** Makes the rows of events whose ids have none, and gives those ids. */
export async function insertEvents(
  query: (sql: string, values: unknown[]) => Promise<pg.QueryResult<{ id: string }>>,
  events: readonly LandingEvent[],
  landedAtMs: number,
  byMonth: boolean,
): Promise<ReadonlySet<string>> {
  const values = [...landingArrays(events), new Date(landedAtMs).toISOString()];
  const { rows } = await query(byMonth ? LAND_BY_MONTH : LAND, values);
  return new Set(rows.map(({ id }) => id));
}

const FOUND = `
  SELECT batch.at, found.producer, NULLIF(found.body, batch.body) AS "otherBody"
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS batch (id, body, at)`;
const FOUND_ROWS = `${FOUND} JOIN events AS found USING (id)`;
// OFFSET 0 keeps the planner from reading through all months for many rows at a time.
const FOUND_ROWS_BY_MONTH = `${FOUND} JOIN events_ids AS line USING (id) CROSS JOIN LATERAL (
    SELECT producer, body FROM events WHERE events.landed_at = line.landed_at AND events.id = line.id OFFSET 0
  ) AS found`;

// A line and its row are written and removed in one transaction, and a line never changes: where one snapshot has the
// line alone, its row is gone for good.
const FREE_IDS = `
  DELETE FROM events_ids AS line WHERE id = ANY ($1::text[]) AND (
    SELECT 1 FROM events WHERE events.landed_at = line.landed_at AND events.id = line.id LIMIT 1) IS NULL`;

export class Landing {
  readonly #pool: pg.Pool;
  readonly #system: ClockAndRandom;
  readonly #byMonth: ByMonth;
  readonly #months: Months;
  #copyAtMs = Number.NEGATIVE_INFINITY;

  constructor(pool: pg.Pool, system: ClockAndRandom, byMonth: ByMonth, months: Months) {
    this.#pool = pool;
    this.#system = system;
    this.#byMonth = byMonth;
    this.#months = months;
  }

  /** `again`: ids without a row that are taken were freed before. */
  async land(batch: readonly LandingEvent[], again = false): Promise<readonly LandingOutcome[]> {
    const landedAtMs = this.#system.clock.epochMs();
    const byMonth = await this.#byMonth();
    if (byMonth) await this.#months.ready(landedAtMs);
    const firsts = firstOfEachId(batch);
    const query = (sql: string, values: unknown[]): Promise<pg.QueryResult<{ id: string }>> =>
      this.#pool.query(sql, values);
    const landed = await telling(
      transacted(
        this.#system,
        async () =>
          (await this.#copied(firsts, landedAtMs, byMonth)) ?? insertEvents(query, firsts, landedAtMs, byMonth),
      ),
    ).catch((cause: unknown) => {
      if (lacksMonth(cause)) this.#months.forget();
      throw cause;
    });
    if (landed.size === batch.length) return batch.map(() => 'landed');
    // Of an id that was inserted the first event has landed.
    const pending = new Set(landed);
    const isNew = batch.map(({ id }) => pending.delete(id));
    const repeats = batch.filter((_, at) => isNew[at] === false);
    const outcomes = (await this.#repeated(repeats, byMonth, again)).values();
    return isNew.map((landedNow) => (landedNow ? 'landed' : (outcomes.next().value as LandingOutcome)));
  }

  /** What became of events whose ids were taken. */
  async #repeated(
    repeats: readonly LandingEvent[],
    byMonth: boolean,
    again: boolean,
  ): Promise<readonly LandingOutcome[]> {
    const found = await transacted(this.#system, () => repeatOutcomes(this.#pool, repeats, byMonth));
    const gone = repeats.filter((_, at) => found[at] === undefined);
    if (gone.length > 0 && (again || !byMonth)) throw new Error('a row vanished while its batch landed');
    if (gone.length > 0) await this.#pool.query(FREE_IDS, [textArray(gone.map(({ id }) => id))]);
    const landed = (gone.length > 0 ? await this.land(gone, true) : []).values();
    return found.map((outcome) => outcome ?? (landed.next().value as LandingOutcome));
  }

  /** Rows that are all new, by COPY; undefined where the server would not have it, and nothing was written. */
  async #copied(
    events: readonly LandingEvent[],
    landedAtMs: number,
    byMonth: boolean,
  ): Promise<ReadonlySet<string> | undefined> {
    const { clock } = this.#system;
    if (clock.ms() < this.#copyAtMs) return undefined;
    const client = await this.#pool.connect();
    let broken = false;
    try {
      const rows = await copyEvents(client, events, landedAtMs, byMonth);
      if (rows === events.length) return new Set(events.map(({ id }) => id));
    } catch (cause) {
      const state = sqlstateClass(cause);
      broken = state === undefined;
      if (broken || SERVER_CLASSES.has(state ?? '')) throw cause;
    } finally {
      client.release(broken);
    }
    this.#copyAtMs = clock.ms() + COPY_PAUSE_MS;
    return undefined;
  }
}

/** The first event of each id, in the order of their ids. */
function firstOfEachId(batch: readonly LandingEvent[]): LandingEvent[] {
  const firsts = new Map<string, LandingEvent>();
  for (const event of batch) if (!firsts.has(event.id)) firsts.set(event.id, event);
  return [...firsts.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
}

const landingArrays = (events: readonly LandingEvent[]): Buffer[] => [
  textArray(events.map((event) => event.id)),
  textArray(events.map((event) => event.type)),
  textArray(events.map((event) => event.producer)),
  timeArray(events.map((event) => event.acceptedAtMs)),
  textArray(events.map((event) => event.body)),
  textArray(events.map((event) => event.traceparent)),
];

/**
 * What became of events whose ids had rows; undefined where there is none any more. A statement of its own, because a
 * row that another transaction committed while ours waited for it is not in the INSERT's snapshot.
 */
async function repeatOutcomes(
  pool: pg.Pool,
  repeats: readonly LandingEvent[],
  byMonth: boolean,
): Promise<readonly (RepeatOutcome | undefined)[]> {
  const sql = byMonth ? FOUND_ROWS_BY_MONTH : FOUND_ROWS;
  const { rows } = await pool.query<FoundRow & { at: string }>(sql, [
    textArray(repeats.map(({ id }) => id)),
    textArray(repeats.map(({ body }) => body)),
  ]);
  const found = new Map(rows.map((row) => [Number(row.at), row]));
  return repeats.map(({ producer, body }, at) => {
    const row = found.get(at + 1);
    return row && repeatOutcome(producer, body, row);
  });
}

// Classes of SQLSTATE (PostgreSQL manual, appendix A) that speak of the data and would say the same tomorrow: data
// exception, constraint violation, WITH CHECK OPTION, program limit, and an error that a trigger raised.
const REFUSING_CLASSES = new Set(['22', '23', '44', '54', 'P0']);
export const refuses = (cause: unknown): cause is pg.DatabaseError =>
  cause instanceof pg.DatabaseError && REFUSING_CLASSES.has(sqlstateClass(cause) ?? '') && !lacksMonth(cause);
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
