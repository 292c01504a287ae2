// The events of an accepting call without their bodies, as one argument of accept.lua.
//
// Fact: the package `redis` builds one string from several parts of each text argument, and copies it to write it.
// Choice: one Buffer holds all short texts, and each body is the Buffer that arrived. Effect: 0.7 kB less JavaScript
// heap per event (`BENCH_CASES=allocation make bench`). Each body stays an argument, because a script hashes every byte
// of a string that it makes: with the bodies in the first Buffer, an event costs Redis 5 % more.
import type { EventNotes, Submission } from '../../ingest/queue.ts';
import { DIGEST_CHARACTERS, FIELD_CHARACTERS, type IdIndex } from '../stream/id-index.ts';

const LENGTH_BYTES = 4;

/** Returns the index field of each event, then for each its digests, and with their lengths its producer and notes. */
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
