// Arrays in PostgreSQL's binary format: one parameter per column of a batch.
//
// Fact: pg sends an array parameter as a text literal. It escapes every quote and backslash of a JSON body and writes
// bytes as hex, and the server reverses both. Choice: the binary format (array_recv in the server's
// src/backend/utils/adt/arrayfuncs.c), in which each element is its length and its bytes. pg sends a Buffer as a
// binary parameter. The server still refuses a NUL or invalid UTF-8 in text elements.
const OID = { bytea: 17, text: 25, timestamptz: 1184 };
const HEADER_BYTES = 20;
const EMPTY_HEADER_BYTES = 12;

/** PostgreSQL stores microseconds since 2000-01-01 UTC. */
const EPOCH_MS = Date.UTC(2000, 0, 1);

export const timestamp = (valueMs: number): bigint => BigInt(valueMs - EPOCH_MS) * 1000n;

/** Returns a `text[]`. A Buffer must contain UTF-8. */
export const textArray = (values: readonly (string | Buffer | undefined)[]): Buffer => bytesArray(OID.text, values);

export const byteaArray = (values: readonly Buffer[]): Buffer => bytesArray(OID.bytea, values);

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

/** Allocates an array and writes its header: dimensions, whether it has nulls, element type, length and lower bound. */
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
