// Parses the entries of a stream from a reply.
import type { Delivery, EventNotes } from '../../ingest/queue.ts';
import { isUtf8 } from 'node:buffer';
import { TIME_MS_MAX } from '../../ingest/warehouse.ts';
import type { RedisBytes } from '../wire/values.ts';
import { Script } from '../wire/script.ts';

/** Accepts events. A call without events is a probe, which is refused like a write. */
export const ACCEPT = new Script('accept.lua', 'index-value.lua', 'retained.lua');

/** Finds entries by id. */
export const FIND = new Script('find-by-id.lua', 'index-value.lua', 'retained.lua');

const TIME_DIGITS_MAX = String(TIME_MS_MAX).length;

/** A valid name of a quarantine row. Entries of other writers may have any value in `replayOf`. */
const ROW_NAME = /^[^\p{Cc}]{1,256}$/u;

/** The entries of one reply. Deleted entries, which have only a name, are left out. */
export interface ReadEntries {
  readonly deliveries: readonly Delivery[];
  /** The name of the last entry, even if it was deleted. */
  readonly last: string | undefined;
}

type Entry = readonly [name: Buffer, members: readonly Buffer[] | null];

/** `reply` is a list of entries, or null. `latestMs` is the later of this process's clock and the server's. */
export function entriesOf(reply: RedisBytes, source: string, latestMs = Number.POSITIVE_INFINITY): ReadEntries {
  const entries = (reply ?? []) as readonly Entry[];
  const deliveries: Delivery[] = [];
  for (const [name, members] of entries)
    if (members !== null) deliveries.push(deliveryOf(name.toString('latin1'), members, source, latestMs));
  return { deliveries, last: entries.at(-1)?.[0].toString('latin1') };
}

function deliveryOf(entry: string, members: readonly Buffer[], source: string, latestMs: number): Delivery {
  let producer: string | undefined;
  let body: Buffer | undefined;
  let acceptedMs: number | undefined;
  let clockMs: number | undefined;
  let row = '';
  let notes: EventNotes = {};
  for (let at = 0; at + 1 < members.length; at += 2) {
    const [name, value] = [(members[at] as Buffer).toString('latin1'), members[at + 1] as Buffer];
    if (name === 'body') body = value;
    else if (name === 'producer') producer = isUtf8(value) ? value.toString('utf8') : undefined;
    else if (name === 'acceptedAt') acceptedMs = timeOf(value);
    else if (name === 'replayOf') row = value.toString('utf8');
    else if (name === 'clock') clockMs = timeOf(value);
    else if (name === 'id' || name === 'traceparent' || name === 'tracestate')
      notes = { ...notes, [name]: value.toString('utf8') };
  }
  const acceptedAtMs = acceptedMs ?? namedAtMs(entry, clockMs, latestMs);
  const delivery = { entry, source, producer, body, notes, acceptedAtMs };
  return ROW_NAME.test(row) ? { ...delivery, replayOf: row } : delivery;
}

function timeOf(member: Buffer): number | undefined {
  const text = member.length > TIME_DIGITS_MAX ? '' : member.toString('latin1');
  return /^\d+$/.test(text) ? Math.min(Number(text), TIME_MS_MAX) : undefined;
}

/** A name may be this much later than the clocks. */
const AHEAD_MS = 1_000;

/**
 * Returns the time in the entry's name, unless the name is later than both clocks: after the server's clock was ahead
 * for a time, Redis names entries ahead until the clock has caught up. accept.lua then notes the clock.
 */
function namedAtMs(entry: string, clockMs: number | undefined, latestMs: number): number {
  const namedMs = Math.min(Number.parseInt(entry, 10), TIME_MS_MAX);
  return namedMs <= latestMs + AHEAD_MS ? namedMs : Math.min(clockMs ?? latestMs, latestMs);
}
