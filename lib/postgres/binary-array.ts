// Arrays in PostgreSQL's binary format: one parameter for each column of a batch.
//
// Fact: pg writes an array parameter as a text literal: every quote and backslash of a JSON body is escaped, bytes
// become hex, and the server reverses both. Choice: the binary format (array_recv in the server's
// src/backend/utils/adt/arrayfuncs.c): each element is its length and its bytes. pg sends a Buffer as a binary
// parameter. The server still checks the encoding of text elements, and refuses a NUL or invalid UTF-8.
const OID = { bytea: 17, text: 25, timestamptz: 1184 };
const HEADER_BYTES = 20;
const EMPTY_HEADER_BYTES = 12;

/** PostgreSQL stores microseconds since 2000-01-01 UTC. */
const EPOCH_MS = Date.UTC(2000, 0, 1);

/** A timestamptz from Unix milliseconds. */
export const timestamp = (valueMs: number): bigint => BigInt(valueMs - EPOCH_MS) * 1000n;

/** `text[]`. A Buffer must hold UTF-8. */
export const textArray = (values: readonly (string | Buffer | undefined)[]): Buffer => bytesArray(OID.text, values);

/** `bytea[]`. */
export const byteaArray = (values: readonly Buffer[]): Buffer => bytesArray(OID.bytea, values);

/** `timestamptz[]` from Unix milliseconds. */
export function timeArray(valuesMs: readonly number[]): Buffer {
  const array = header(OID.timestamptz, valuesMs.length, valuesMs.length * 12, false);
  let at = HEADER_BYTES;
  for (const valueMs of valuesMs) {
    at = array.writeInt32BE(8, at);
    at = array.writeBigInt64BE(timestamp(valueMs), at);
  }
  return array;
}

function bytesArray(oid: number, values: readonly (string | Buffer | undefined)[]): Buffer {
  let elementsBytes = 0;
  for (const value of values) elementsBytes += 4 + (value === undefined ? 0 : Buffer.byteLength(value));
  const array = header(oid, values.length, elementsBytes, values.includes(undefined));
  let at = HEADER_BYTES;
  for (const value of values) {
    const start = at + 4;
    let end = start;
    if (typeof value === 'string') end += array.write(value, start, 'utf8');
    else if (value !== undefined) end += value.copy(array, start);
    array.writeInt32BE(value === undefined ? -1 : end - start, at);
    at = end;
  }
  return array;
}

/** Allocates the array and writes its header: dimensions, "has nulls", element type, length, lower bound. */
function header(oid: number, length: number, elementsBytes: number, hasNulls: boolean): Buffer {
  const array = Buffer.allocUnsafe(length === 0 ? EMPTY_HEADER_BYTES : HEADER_BYTES + elementsBytes);
  array.writeInt32BE(length === 0 ? 0 : 1, 0);
  array.writeInt32BE(hasNulls ? 1 : 0, 4);
  array.writeInt32BE(oid, 8);
  if (length > 0) {
    array.writeInt32BE(length, 12);
    array.writeInt32BE(1, 16);
  }
  return array;
}
