// Lands batches of events.
//
// Invariant: a batch is one COPY or, if COPY is refused, one INSERT ... ON CONFLICT DO NOTHING of a JSON array. Each is
// one transaction, and the primary key alone decides which event with an id becomes the row: COPY fails as a whole if
// an id has a row. Rows are sorted by id, so that two replicas with the same ids lock them in the same order and do
// not deadlock.
import pg from 'pg';
import {
  BatchRefused,
  BatchTooSlow,
  NO_ROW,
  repeatOutcome,
  erasedBodySql,
  type ComparedRow,
  type LandedBefore,
  type LandingEvent,
  type LandingOutcome,
} from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { TimeLimits } from '../process/time-limits.ts';
import { copyEvents } from './copy.ts';
import { SILENT, sqlstateClass, timedOut, transacted } from './sessions.ts';

/** After a refused COPY, only INSERT is used for this long, because repeated events seldom arrive alone. */
const COPY_PAUSE_MS = 1_000;

const LAND = `
  INSERT INTO events (id, type, producer, accepted_at, landed_at, body, traceparent)
  SELECT id, type, producer, to_timestamp("acceptedAtMs" / 1000), $2::timestamptz, body, traceparent
  FROM json_to_recordset($1::json)
    AS batch (id text, type text, producer text, "acceptedAtMs" float8, body text, traceparent text)
  ON CONFLICT (id) DO NOTHING RETURNING id`;

const COMPARED = `
  SELECT batch.at, events.producer,
    events.body = batch.body OR events.body = ${erasedBodySql('batch.quoted', 'events.type')} AS same
  FROM json_to_recordset($1::json) AS batch (at int, id text, quoted text, body text) JOIN events USING (id)`;

export class BatchLanding {
  readonly #pool: pg.Pool;
  readonly #system: ClockAndRandom;
  readonly #limit: { readonly limits: TimeLimits; readonly timeoutMs: number };
  #copyAtMs = Number.NEGATIVE_INFINITY;
  /** False if the last probe failed. COPY would not notice a missing primary key, and land an event again. */
  mayCopy = true;

  constructor(pool: pg.Pool, system: ClockAndRandom, timeoutMs: number) {
    this.#pool = pool;
    this.#system = system;
    this.#limit = { limits: new TimeLimits(system.clock), timeoutMs };
  }

  async land(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[]> {
    // A row may be deleted between the two statements, but hardly twice.
    const outcomes = (await this.#landed(batch)) ?? (await this.#landed(batch));
    if (outcomes === undefined) throw new BatchRefused(NO_ROW);
    return outcomes;
  }

  /** Resolves with `undefined` if an event has no row afterwards. */
  async #landed(batch: readonly LandingEvent[]): Promise<readonly LandingOutcome[] | undefined> {
    const landedAtMs = this.#system.clock.epochMs();
    const firsts = firstOfEachId(batch);
    const landed = await transacted(this.#system, () => this.#insert(firsts, landedAtMs));
    if (landed.size === batch.length) return batch.map(() => 'landed');
    // Only the first event with an inserted id has landed. The others are repeats.
    const pending = new Set(landed);
    const isNew = batch.map(({ id }) => pending.delete(id));
    const repeats = batch.filter((_, at) => isNew[at] === false);
    const rows = await this.#compared(repeats);
    const outcomes = repeats.flatMap(({ body }, at): LandingOutcome[] => {
      const row = rows.get(at);
      return row === undefined ? [] : [repeatOutcome(body, row)];
    });
    if (outcomes.length < repeats.length) return undefined;
    return isNew.map((landedNow) => (landedNow ? 'landed' : (outcomes.shift() ?? 'duplicate')));
  }

  async haveLanded(events: readonly LandedBefore[]): Promise<readonly boolean[]> {
    // JSON of PostgreSQL holds no NUL and no lone surrogate.
    const storable = events.filter(({ id, producer }) => /^[^\0\ud800-\udfff]*$/u.test(id + producer));
    const rows = await this.#compared(storable);
    const landed = new Set(storable.filter((_, at) => rows.get(at)?.own === true && rows.get(at)?.same === true));
    return events.map((event) => landed.has(event));
  }

  /** Lands new rows by COPY, unless it or a probe was refused lately. */
  async #insert(events: readonly LandingEvent[], landedAtMs: number): Promise<ReadonlySet<string>> {
    const { clock } = this.#system;
    if (this.mayCopy && clock.ms() >= this.#copyAtMs) {
      const client = await this.#pool.connect();
      let broken = false;
      try {
        const rows = await copyEvents(client, events, landedAtMs, this.#limit);
        if (rows === events.length) return new Set(events.map(({ id }) => id));
      } catch (cause) {
        const state = sqlstateClass(cause);
        broken = state === undefined;
        if (broken || SERVER_CLASSES.has(state ?? '')) throw cause;
      } finally {
        client.release(broken);
      }
      this.#copyAtMs = clock.ms() + COPY_PAUSE_MS;
    }
    const batch = JSON.stringify(events.map((event) => ({ ...event, body: event.body.toString() })));
    const { rows } = await this.#pool.query<{ id: string }>(LAND, [batch, new Date(landedAtMs).toISOString()]);
    return new Set(rows.map(({ id }) => id));
  }

  /**
   * Compares each event with the row that has its id; the result is keyed by the event's index. This is a separate
   * statement, because the INSERT's snapshot lacks a row that another transaction committed while the INSERT waited.
   */
  async #compared(events: readonly LandedBefore[]): Promise<ReadonlyMap<number, ComparedRow>> {
    const batch = events.map(({ id, body }, at) => ({ at, id, quoted: JSON.stringify(id), body: body.toString() }));
    const { rows } = await transacted(this.#system, () =>
      this.#pool.query<{ at: number; producer: string; same: boolean }>(COMPARED, [JSON.stringify(batch)]),
    );
    return new Map(
      rows.map(({ at, producer, same }) => {
        const event = events[at];
        return [at, { own: event !== undefined && isSameProducer(producer, event.producer), same }];
      }),
    );
  }
}

function firstOfEachId(batch: readonly LandingEvent[]): LandingEvent[] {
  const firsts = new Map<string, LandingEvent>();
  for (const event of batch) if (!firsts.has(event.id)) firsts.set(event.id, event);
  return [...firsts.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
}

// Classes of SQLSTATE (PostgreSQL manual, appendix A) that blame the data: data exception, constraint violation, WITH
// CHECK OPTION violation, program limit exceeded, and an error that a trigger raised.
const REFUSING_CLASSES = new Set(['22', '23', '44', '54', 'P0']);
export const refuses = (cause: unknown): cause is pg.DatabaseError =>
  cause instanceof pg.DatabaseError && REFUSING_CLASSES.has(sqlstateClass(cause) ?? '');
// Classes that blame the server or another transaction, so INSERT would fail too.
const SERVER_CLASSES = new Set(['08', '40', '53', '55', '57', '58']);

export function landingFailure(cause: unknown): unknown {
  if (refuses(cause)) return new BatchRefused(cause.code, { cause });
  if (!timedOut(cause)) return cause;
  return new BatchTooSlow(cause instanceof pg.DatabaseError ? 'the batch took too long' : SILENT, { cause });
}
