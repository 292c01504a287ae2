// An accepting call: events of one turn of the event loop, and the arguments of accept.lua.
import type { EventNotes, Outcome, Submission } from '../../ingest/queue.ts';
import type { TimeLimit } from '../../process/time-limits.ts';
import { DIGEST_CHARACTERS, FIELD_CHARACTERS, type IdIndex } from '../stream/id-index.ts';

// Fact: Redis runs one script at a time, at about 8 µs per event, and a long call delays the others.
// Choice: calls are limited in events and bytes. A single event may exceed the limit of bytes.
const CALL_EVENTS_MAX = 256;
const CALL_BYTES_MAX = 1 << 20;

export interface Call {
  readonly submissions: Submission[];
  /** Length of the bodies. */
  bytes: number;
  /** When the client wrote the call; before that, when its first submission arrived. */
  sinceMs: number;
  /** For the reply; before the call is written, for its writing. */
  readonly limit: TimeLimit;
  settled: boolean;
}

/** Adds a submission to a call that is not written yet. Returns false if the call may not carry it. */
export function join(call: Call, submission: Submission): boolean {
  const bytes = call.bytes + submission.body.length;
  if (call.settled || call.submissions.length === CALL_EVENTS_MAX || bytes > CALL_BYTES_MAX) return false;
  call.submissions.push(submission);
  call.bytes = bytes;
  return true;
}

export function settleAll(call: Call, outcome: Outcome): void {
  if (call.settled) return;
  call.settled = true;
  for (const submission of call.submissions) submission.settle(outcome);
}

const LENGTH_BYTES = 4;

/**
 * Returns the index field of each event, then for each its digests, and with their lengths its producer and notes.
 *
 * Fact: the package `redis` builds one string from several parts of each text argument, and copies it to write it.
 * Choice: one Buffer holds all short texts, and each body is the Buffer that arrived. Effect: 0.7 kB less JavaScript
 * heap per event (`BENCH_CASES=saturation make bench`). Each body stays an argument, because a script hashes every byte
 * of a string that it makes: with the bodies in the first Buffer, an event costs Redis 5 % more.
 */
export function packEvents(index: IdIndex, submissions: readonly Submission[]): Buffer {
  let size = submissions.length * (FIELD_CHARACTERS + 2 * DIGEST_CHARACTERS + 2 * LENGTH_BYTES);
  for (const { producer, notes } of submissions)
    size += Buffer.byteLength(producer) + (notes === undefined ? 0 : Buffer.byteLength(membersOf(notes)));
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const { id } of submissions) at += bytes.write(index.idHash(id), at, FIELD_CHARACTERS, 'latin1');
  for (const { producer, body, notes } of submissions) {
    at += bytes.write(index.producerHash(producer), at, DIGEST_CHARACTERS, 'latin1');
    at += bytes.write(index.bodyHash(body), at, DIGEST_CHARACTERS, 'latin1');
    at = write(bytes, at, producer);
    at = notes === undefined ? bytes.writeUInt32BE(0, at) : write(bytes, at, membersOf(notes));
  }
  return bytes;
}

function write(bytes: Buffer, at: number, text: string): number {
  const length = bytes.write(text, at + LENGTH_BYTES);
  return bytes.writeUInt32BE(length, at) + length;
}

/** Formats further members of an entry: alternating names and values, each followed by a line feed. */
const membersOf = (notes: EventNotes): string =>
  Object.entries(notes)
    .map(([name, value]) => `${name}\n${value}\n`)
    .join('');
