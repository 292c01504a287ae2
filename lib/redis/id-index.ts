// How an event's id is written in the id index of accept.lua: its field.
//
// It is part of the stored format: every gateway on a stream must write an id alike, so the queue's identity
// (queue-identity.ts) says which format it has. Both are known here; a queue keeps the one that it was made with.
import { createHash, hash } from 'node:crypto';

/** Versions of the stored format. They differ in this field alone. */
export type StoredFormat = 1 | 2;

export type IndexField = (id: string) => string;

/** Longest field in bytes of format 1. */
const FIELD_BYTES_MAX = 64;

/** Characters of a hash in format 2: 84 bits. */
const HASH_CHARACTERS = 14;

export const INDEX_FIELD: Readonly<Record<StoredFormat, IndexField>> = { 1: longField, 2: shortField };

/**
 * The id itself, or, when it is longer than 64 bytes, NUL and its SHA-256 in base64url. An id holds no NUL, so the two
 * kinds cannot meet.
 */
function longField(id: string): string {
  if (id.length * 3 <= FIELD_BYTES_MAX || Buffer.byteLength(id) <= FIELD_BYTES_MAX) return id;
  return `\0${createHash('sha256').update(id).digest('base64url')}`;
}

/**
 * An id of fewer than 14 bytes itself, of any other one the first 14 characters of its SHA-256 in base64url; the two
 * kinds differ in length. Among 172 million ids (2,000 a second for 24 hours) two of one hash are less likely than 1 in
 * 10 ^ 9.
 *
 * Fact: Redis gives a field of 15 to 31 bytes 32 or more, and one of 36 bytes 48. Choice: 14 characters, which take 16.
 * Effect: an id of 36 bytes takes 74 bytes of the index instead of 107 (`BENCH_CASES=queue-memory make bench`).
 */
function shortField(id: string): string {
  if (id.length < HASH_CHARACTERS && Buffer.byteLength(id) < HASH_CHARACTERS) return id;
  return hash('sha256', id, 'base64url').slice(0, HASH_CHARACTERS);
}
