// How an event's id is written in the id index of accept.lua: its field and its bucket hash.
//
// Both are part of the stored format: every gateway on a stream must compute them alike.
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Longest field, in bytes, that Redis keeps in the compact form of a hash (hash-max-listpack-value). */
const FIELD_BYTES_MAX = 64;

/**
 * The field: the id itself, or, when it is longer than 64 bytes, NUL and its SHA-256 in base64url. An id holds no NUL, so
 * the two kinds cannot meet.
 */
export function indexField(id: string): string {
  if (id.length * 3 <= FIELD_BYTES_MAX || Buffer.byteLength(id) <= FIELD_BYTES_MAX) return id;
  return `\0${createHash('sha256').update(id).digest('base64url')}`;
}

/** CRC-32 (RFC 1952) of the id's UTF-8 form, in decimal. It only spreads ids over buckets: a collision costs nothing. */
export function bucketHash(id: string): string {
  return String(crc32(id));
}
