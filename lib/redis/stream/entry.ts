// An entry of the stream: its further members as accept.lua takes them, and entries read as deliveries from the bytes
// of Redis' answer.
import type { Delivery, EventNotes } from '../../ingest/queue.ts';
import { isUtf8 } from 'node:buffer';
import { TIME_MS_MAX } from '../../ingest/warehouse.ts';
import type { Reply } from '../wire/reply.ts';

/** The further members of an entry: names and values by turns, each ended by a line feed. */
export const membersOf = (notes: EventNotes = {}): string =>
  Object.entries(notes)
    .map(([name, value]) => `${name}\n${value}\n`)
    .join('');

const TIME_DIGITS_MAX = String(TIME_MS_MAX).length;

/** Names of an entry's members: those of every entry, of one that an operator put there, and those that are notes. */
const NOTES = ['id', 'traceparent', 'tracestate'] as const satisfies readonly (keyof EventNotes)[];
const MEMBERS = ['body', 'producer', 'acceptedAt', 'replayOf', ...NOTES].map((name) => Buffer.from(name));
const NOTES_FROM = MEMBERS.length - NOTES.length;
/**
 * What a quarantine row can be called: every warehouse can hold it and index it. The value of an entry's `replayOf`
 * by other hands and is none names no row, so there is none to remove.
 */
const ROW_NAME = /^[^\p{Cc}]{1,256}$/u;
/** Nearly every entry's. */
const NO_NOTES: EventNotes = Object.freeze({});

/** Entries of one answer, without those that were deleted, of which only the names are left. */
export interface ReadEntries {
  readonly deliveries: readonly Delivery[];
  /** The last entry's name, deleted or not; undefined if there were no entries. */
  readonly last: string | undefined;
}

/** An array of entries. `source`: see Delivery. */
export function entriesOf(reply: Reply, source: string): ReadEntries {
  const deliveries: Delivery[] = [];
  let last: string | undefined;
  for (let left = reply.array() ?? 0; left > 0; left -= 1) {
    reply.array();
    last = reply.text();
    const delivery = deliveryOf(reply, last, source);
    if (delivery !== undefined) deliveries.push(delivery);
  }
  return { deliveries, last };
}

/** The same deliveries with the number of the server that they were read from: see Delivery. */
export const readFrom = (servers: number, deliveries: readonly Delivery[]): readonly Delivery[] =>
  servers === 0 ? deliveries : deliveries.map((delivery) => ({ ...delivery, servers }));

/** An entry's names and values, by turns; undefined if it was deleted. */
function deliveryOf(reply: Reply, entry: string, source: string): Delivery | undefined {
  const members = reply.array();
  if (members === undefined) return undefined;
  let producer: string | undefined;
  let body: Buffer | undefined;
  let acceptedAt: Buffer | undefined;
  let replayOf: Buffer | undefined;
  let notes = NO_NOTES;
  for (let left = members; left > 0; left -= 2) {
    const member = reply.oneOf(MEMBERS);
    if (member === 1) {
      producer = producerOf(reply);
      continue;
    }
    const value = reply.bytes();
    const note = NOTES[member - NOTES_FROM];
    if (member === 0) body = value;
    else if (member === 2) acceptedAt = value;
    else if (member === 3) replayOf = value;
    else if (note !== undefined) notes = { ...notes, [note]: value.toString('utf8') };
  }
  const delivery = {
    entry,
    source,
    producer,
    body,
    notes,
    acceptedAtMs: firstAcceptedAtMs(entry, acceptedAt),
  };
  const row = replayOf?.toString('utf8') ?? '';
  return ROW_NAME.test(row) ? { ...delivery, replayOf: row } : delivery;
}

/** What the entry's member `acceptedAt` says, where it has one that is a time; else when it was appended. */
function firstAcceptedAtMs(entry: string, member: Buffer | undefined): number {
  const text = member === undefined || member.length > TIME_DIGITS_MAX ? '' : member.toString('latin1');
  return /^\d+$/.test(text) ? Math.min(Number(text), TIME_MS_MAX) : acceptedAtMs(entry);
}

const acceptedAtMs = (entry: string): number => Math.min(Number.parseInt(entry, 10), TIME_MS_MAX);

// Fact: a producer sends many events, and a string made of bytes costs more than a comparison of them. Choice: the last
// one is kept, in a copy, because the bytes are a part of an answer that may be large.
let lastBytes: Buffer = Buffer.alloc(0);
let lastProducer: string | undefined = '';
function producerOf(reply: Reply): string | undefined {
  if (!reply.passes(lastBytes)) {
    lastBytes = Buffer.from(reply.bytes());
    lastProducer = isUtf8(lastBytes) ? lastBytes.toString('utf8') : undefined;
  }
  return lastProducer;
}
