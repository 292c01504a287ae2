// Entries of a stream as deliveries, read from the bytes of Redis' answer.
import { isUtf8 } from 'node:buffer';
import type { Delivery, EventNotes } from '../../ingest/queue.ts';
import { TIME_MS_MAX } from '../../ingest/warehouse.ts';
import { decoded, ZSTD } from './body-encoding.ts';
import type { Reply } from '../wire/reply.ts';

const TIME_DIGITS_MAX = String(TIME_MS_MAX).length;

/** Names of an entry's members: those of every entry, of one that an operator put there, and those that are notes. */
const NOTES = ['id', 'traceparent', 'tracestate'] as const satisfies readonly (keyof EventNotes)[];
const MEMBERS = ['body', 'producer', 'acceptedAt', 'replayOf', 'encoding', ...NOTES].map((name) => Buffer.from(name));
const NOTES_FROM = MEMBERS.length - NOTES.length;
/**
 * What a quarantine row can be called: every warehouse can hold it and index it. What stands in an entry's `replayOf`
 * by other hands and is none names no row, so there is none to remove.
 */
const ROW_NAME = /^[^\p{Cc}]{1,256}$/u;
/** Nearly every entry's. */
const NO_NOTES: EventNotes = Object.freeze({});

/** An array of entries. `source`: see Delivery; `bytesMax`: see `decoded`. */
export const deliveriesOf = (reply: Reply, source: string, bytesMax: number | undefined): Delivery[] =>
  elementsOf(reply, () => deliveryOf(reply, source, bytesMax));

/** What `read` makes of each element of the array that comes next. */
export function elementsOf<T>(reply: Reply, read: () => T): T[] {
  const elements: T[] = [];
  for (let left = reply.array() ?? 0; left > 0; left -= 1) elements.push(read());
  return elements;
}

/** One entry: its name, and names and values by turns; no array of them where the entry is gone. */
export function deliveryOf(reply: Reply, source: string, bytesMax: number | undefined): Delivery {
  reply.array();
  const entry = reply.text();
  const members = reply.array();
  if (members === undefined) return droppedDelivery(entry, source);
  let producer: string | undefined;
  let body: Buffer | undefined;
  let acceptedAt: Buffer | undefined;
  let replayOf: Buffer | undefined;
  let encoding: string | undefined;
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
    else if (member === 4) encoding = value.toString('utf8');
    else if (note !== undefined) notes = { ...notes, [note]: value.toString('utf8') };
  }
  const delivery = {
    entry,
    source,
    producer,
    body,
    notes,
    dropped: false,
    acceptedAtMs: firstAcceptedAtMs(entry, acceptedAt),
  };
  const row = replayOf?.toString('utf8') ?? '';
  const named = ROW_NAME.test(row) ? { ...delivery, replayOf: row } : delivery;
  return body === undefined || encoding === undefined ? named : decodedDelivery(named, encoding, bytesMax);
}

function decodedDelivery(delivery: Delivery, encoding: string, bytesMax: number | undefined): Delivery {
  const body = delivery.body && decoded(delivery.body, encoding, bytesMax);
  return body === undefined ? { ...delivery, oversize: true } : { ...delivery, body, oversize: false };
}

/** The same deliveries once longer bodies are known to be accepted. */
export const decodedAgain = (deliveries: readonly Delivery[], bytesMax: number | undefined): readonly Delivery[] =>
  deliveries.map((one) => (one.oversize === true ? decodedDelivery(one, ZSTD, bytesMax) : one));

/** What is left of an entry that the queue dropped. */
export const droppedDelivery = (entry: string, source: string): Delivery => ({
  entry,
  source,
  producer: undefined,
  body: undefined,
  notes: NO_NOTES,
  dropped: true,
  acceptedAtMs: acceptedAtMs(entry),
});

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
