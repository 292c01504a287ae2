// The warehouse in PostgreSQL 15 or newer, and in compatible engines that enforce a primary key.
import type pg from 'pg';
import { isErased } from '../ingest/erased.ts';
import { storableText, type QuarantinedEntry, type Warehouse } from '../ingest/warehouse.ts';
import { findSql, lookupOf, type SqlRow } from '../ingest/warehouse-tables.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { BatchLanding, landingFailure } from './landing.ts';
import { migrate } from './migrations.ts';
import {
  assertOwnSessions,
  assertUtf8,
  inSession,
  isIn,
  misconfigured,
  openSessions,
  transacted,
  unixMs,
} from './sessions.ts';

const CONNECT_TIMEOUT_MS = 3_000;
const CALL_TIMEOUT_MS = 15_000;

export interface PostgresWarehouseOptions extends ClockAndRandom {
  readonly uri: string;
  readonly connectionsMax: number;
  /** A gateway sets a shorter one, because its answers must not wait long for an unavailable warehouse. */
  readonly connectTimeoutMs?: number;
  readonly callTimeoutMs?: number;
  /** Only looks up events, so the server may be a standby. */
  readonly readOnly?: boolean;
}

// The condition makes the server delete before it inserts.
const QUARANTINE = `
  WITH replaced AS (DELETE FROM events_quarantine WHERE ${isIn('entry', '$3')} RETURNING entry)
  INSERT INTO events_quarantine (entry, id, producer, reason, accepted_at, quarantined_at, body, traceparent)
  SELECT entry, id, producer, reason, to_timestamp("acceptedAtMs" / 1000), $2::timestamptz, decode(body, 'base64'),
    traceparent
  FROM json_to_recordset($1::json) AS batch
    (entry text, id text, producer text, reason text, "acceptedAtMs" float8, body text, traceparent text)
  WHERE (SELECT count(*) FROM replaced) >= 0
  ON CONFLICT (entry) DO NOTHING`;

/** COPY does not need the primary key, without which an event that is delivered again would get a second row. */
const KEYED = `EXPLAIN INSERT INTO events (id) VALUES ('') ON CONFLICT (id) DO NOTHING`;

const FIND = findSql(unixMs);

const RELEASE = `DELETE FROM events_quarantine WHERE ${isIn('entry', '$1')}`;

export function createPostgresWarehouse(options: PostgresWarehouseOptions): Warehouse {
  const limits = { connectTimeoutMs: CONNECT_TIMEOUT_MS, callTimeoutMs: CALL_TIMEOUT_MS, ...options };
  const pool = openSessions(limits);
  const landing = new BatchLanding(pool, options, limits.callTimeoutMs);
  let closing: Promise<void> | undefined;

  const configured = <T>(work: Promise<T>): Promise<T> =>
    work.catch((cause: unknown) => {
      throw misconfigured(cause, options.uri);
    });
  const landed = <T>(work: Promise<T>): Promise<T> =>
    work.catch((cause: unknown) => {
      throw misconfigured(landingFailure(cause), options.uri);
    });

  return {
    prepare: () => configured(prepare(pool, options)),
    land: (batch) => landed(landing.land(batch)),
    quarantine: (entries) => configured(quarantine(pool, options, entries)),
    haveLanded: (events) => landed(landing.haveLanded(events)),
    release: (rows) => configured(release(pool, options, rows)),
    find: async (id, producer) => {
      // A text column cannot store a NUL or a lone surrogate.
      if (id.includes('\0') || !id.isWellFormed() || !producer.isWellFormed()) return { kind: 'unknown' };
      try {
        const values = [id, storableText(producer)];
        const { rows } = await transacted(options, () => pool.query<SqlRow>(FIND, values));
        return lookupOf(rows, producer, isSameProducer);
      } catch {
        return { kind: 'unavailable' };
      }
    },
    probe: async () => {
      const probing = configured(probe(pool, options.readOnly === true));
      landing.mayCopy = await probing.then(
        () => true,
        () => false,
      );
      return probing;
    },
    close: () => (closing ??= pool.end()),
  };
}

async function quarantine(pool: pg.Pool, system: ClockAndRandom, entries: readonly QuarantinedEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const sorted = entries.toSorted((one, other) => (one.entry < other.entry ? -1 : 1));
  const now = new Date(system.clock.epochMs()).toISOString();
  const erased = sorted.filter(({ body }) => isErased(body)).map(({ entry }) => entry);
  const batch = sorted.map((entry) => ({
    ...entry,
    id: entry.id?.toWellFormed(),
    producer: storableText(entry.producer).toWellFormed(),
    reason: entry.reason.toWellFormed(),
    body: entry.body.toString('base64'),
  }));
  await transacted(system, () => pool.query(QUARANTINE, [JSON.stringify(batch), now, JSON.stringify(erased)]));
}

async function release(pool: pg.Pool, system: ClockAndRandom, rows: readonly string[]): Promise<void> {
  if (rows.length > 0) await transacted(system, () => pool.query(RELEASE, [JSON.stringify(rows.toSorted())]));
}

async function prepare(pool: pg.Pool, options: PostgresWarehouseOptions): Promise<string | undefined> {
  await assertOwnSessions(pool);
  return inSession(pool, async (client) => {
    const reason = await migrate(client, options);
    if (reason === undefined) await client.query(KEYED);
    return reason;
  });
}

/**
 * Rejects if a table or the primary key of events is missing, or if a table is locked or may not be read. Ends a
 * session that is read-only: it stays so after the default of the database has changed back.
 */
const probe = (pool: pg.Pool, readOnly: boolean): Promise<void> =>
  inSession(pool, async (client) => {
    const { rows } = await client.query<{ read_only: string; encoding: string }>(
      `SELECT current_setting('transaction_read_only') AS read_only, current_setting('server_encoding') AS encoding,
        (SELECT count(*) FROM events WHERE false), (SELECT count(*) FROM events_quarantine WHERE false)`,
    );
    assertUtf8(rows[0]?.encoding);
    if (readOnly) return;
    if (rows[0]?.read_only !== 'off') throw new Error('the warehouse is read-only');
    await client.query(KEYED);
  });
