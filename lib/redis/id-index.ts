// How an event's id is written in the id index of accept.lua: its field.
//
// It is part of the stored format: every gateway on a stream must write an id alike.
import { createHash } from 'node:crypto';

/** Longest field in bytes. It bounds what an id takes of Redis' memory. */
const FIELD_BYTES_MAX = 64;

/**
 * The field: the id itself, or, when it is longer than 64 bytes, NUL and its SHA-256 in base64url. An id holds no NUL, so
 * the two kinds cannot meet.
 */
export function indexField(id: string): string {
  if (id.length * 3 <= FIELD_BYTES_MAX || Buffer.byteLength(id) <= FIELD_BYTES_MAX) return id;
  return `\0${createHash('sha256').update(id).digest('base64url')}`;
}
