// An entry of the stream: its further members as accept.lua takes them, and entries read as deliveries from the bytes
// of Redis' answer.
//
// A body may be compressed. The entry's member `encoding` says so, and names how: `zstd`. Programs read both kinds at
// any time; whether a gateway compresses is its own setting. A few bytes can be a frame of gigabytes, so none is
// decompressed beyond the longest body that gateways accept.
//
// Fact: at level 1 a webhook of 9.5 kB takes 60 us to compress and 45 to decompress; higher levels save no more, and
// negative ones are no faster. Choice: level 1. Effect: 0.17 of Redis' memory at 1.4 times the CPU time from the queue
// code to the warehouse, and at less with the request's way before it (`BENCH_CASES=compression make bench`).
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Delivery, EventNotes } from '../../ingest/queue.ts';
import { isUtf8 } from 'node:buffer';
import { TIME_MS_MAX } from '../../ingest/warehouse.ts';
import type { Reply } from '../wire/reply.ts';

const ZSTD = 'zstd';
/** The member that marks such an entry, as accept.lua takes it. */
export const ENCODED_MEMBER = `encoding\n${ZSTD}\n`;

/** Shorter bodies are not worth it: without a dictionary an event of 300 bytes keeps most of them. */
const CHARACTERS_MIN = 512;
/** The longest body where no gateway has published its own limit: the default of INGEST_BODY_BYTES_MAX. */
const BODY_BYTES_MAX = 256 << 10;

const OPTIONS = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

/** Whether `compressed` would try. */
export const isCompressible = (text: string): boolean => text.length >= CHARACTERS_MIN;

/** The text as stored on the queue; undefined where compressing would save less than a tenth. */
export function compressed(text: string): Buffer | undefined {
  if (!isCompressible(text)) return undefined;
  const bytes = Buffer.from(text);
  const smaller = zstdCompressSync(bytes, OPTIONS);
  return smaller.length < 0.9 * bytes.length ? smaller : undefined;
}

/**
 * The body of an entry whose member `encoding` is this; as it is on the queue where it cannot be decoded, because then
 * it is no event. Undefined where it would be longer than `bytesMax`; no more than that is allocated.
 */
export function decoded(body: Buffer, encoding: string | undefined, bytesMax = BODY_BYTES_MAX): Buffer | undefined {
  if (encoding !== ZSTD) return body;
  try {
    return zstdDecompressSync(body, { maxOutputLength: bytesMax });
  } catch (cause) {
    return cause instanceof RangeError ? undefined : body;
  }
}

/** The further members of an entry: names and values by turns, each ended by a line feed. */
export const membersOf = (notes: EventNotes = {}): string =>
  Object.entries(notes)
    .map(([name, value]) => `${name}\n${value}\n`)
    .join('');

const TIME_DIGITS_MAX = String(TIME_MS_MAX).length;

/** Names of an entry's members: those of every entry, of one that an operator put there, and those that are notes. */
const NOTES = ['id', 'traceparent', 'tracestate'] as const satisfies readonly (keyof EventNotes)[];
const MEMBERS = ['body', 'producer', 'acceptedAt', 'replayOf', 'encoding', ...NOTES].map((name) => Buffer.from(name));
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

/** An array of entries. `source`: see Delivery; `bytesMax`: see `decoded`. */
export function entriesOf(reply: Reply, source: string, bytesMax: number | undefined): ReadEntries {
  const deliveries: Delivery[] = [];
  let last: string | undefined;
  for (let left = reply.array() ?? 0; left > 0; left -= 1) {
    reply.array();
    last = reply.text();
    const delivery = deliveryOf(reply, last, source, bytesMax);
    if (delivery !== undefined) deliveries.push(delivery);
  }
  return { deliveries, last };
}

/** The same deliveries with the number of the server that they were read from: see Delivery. */
export const readFrom = (servers: number, deliveries: readonly Delivery[]): readonly Delivery[] =>
  servers === 0 ? deliveries : deliveries.map((delivery) => ({ ...delivery, servers }));

/** An entry's names and values, by turns; undefined if it was deleted. */
function deliveryOf(reply: Reply, entry: string, source: string, bytesMax: number | undefined): Delivery | undefined {
  const members = reply.array();
  if (members === undefined) return undefined;
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
