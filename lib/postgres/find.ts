// Looks up one event: its row, or its quarantine row with the reason. The quarantine stores the producer's name as
// storableText encodes it. PostgreSQL cannot compare names as this project does, so the query returns candidates: its
// `lower` may change ASCII letters only.
import type pg from 'pg';
import { storableText, type WarehouseLookup } from '../ingest/warehouse.ts';
import type { ClockAndRandom } from '../process/clock.ts';
import { isSameProducer } from '../process/producer-name.ts';
import { transacted } from './sessions.ts';

const FIND = `
  SELECT true AS landed, producer, body::text AS text, NULL::bytea AS body, type, NULL AS reason,
    round(extract(epoch FROM accepted_at) * 1000)::float8 AS accepted,
    round(extract(epoch FROM landed_at) * 1000)::float8 AS ended, traceparent
  FROM events WHERE id = $1
  UNION ALL
  SELECT false, producer, NULL, body, NULL, reason,
    round(extract(epoch FROM accepted_at) * 1000)::float8, round(extract(epoch FROM quarantined_at) * 1000)::float8,
    traceparent
  FROM events_quarantine
  WHERE id = $1 AND (lower(producer) = lower($2) OR octet_length(producer) > length(producer))
  ORDER BY landed DESC, ended DESC
  LIMIT 8`;

type Found = { producer: string; accepted: number; ended: number; traceparent: string | null } & (
  | { landed: true; text: string; body: null; type: string; reason: null }
  | { landed: false; text: null; body: Buffer; type: null; reason: string }
);

/** Never rejects: a failure is `unavailable`. */
export async function find(
  pool: pg.Pool,
  system: ClockAndRandom,
  id: string,
  producer: string,
): Promise<WarehouseLookup> {
  if (!storable(id) || !producer.isWellFormed()) return { kind: 'unknown' };
  const quarantined = storableText(producer);
  try {
    const { rows } = await transacted(system, () => pool.query<Found>(FIND, [id, quarantined]));
    return lookup(rows.find((row) => isSameProducer(row.producer, row.landed ? producer : quarantined)));
  } catch {
    return { kind: 'unavailable' };
  }
}

function lookup(found: Found | undefined): WarehouseLookup {
  if (found === undefined) return { kind: 'unknown' };
  const { accepted: acceptedAtMs, ended, traceparent: kept } = found;
  const traceparent = kept ?? undefined;
  return found.landed
    ? { kind: 'landed', text: found.text, type: found.type, acceptedAtMs, landedAtMs: ended, traceparent }
    : {
        kind: 'rejected',
        body: found.body,
        reason: found.reason,
        acceptedAtMs,
        rejectedAtMs: ended,
        traceparent,
      };
}

/** A text column cannot store a NUL or a lone surrogate. */
const storable = (id: string): boolean => !id.includes('\0') && id.isWellFormed();
