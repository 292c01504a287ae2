// Finds the envelope of a plain event in its bytes.
//
// Fact: JSON.parse creates every member of an event, although only two are needed. With a backlog of 250 KiB bodies,
// that garbage takes a consumer over 300 MiB (test/end-to-end/large-bodies.long.ts). Choice: one pass over the bytes,
// following the grammar of RFC 8259, that creates only `id` and `type`.
//
// Invariant: a returned envelope equals the one that parseEvent returns. The caller uses parseEvent if the result is
// `undefined`: for a body that is not an event, repeats `id` or `type`, or has an escape in one of them or a
// top-level key.
import { isUtf8 } from 'node:buffer';
import { DEPTH_MAX, isEnvelope, type Envelope } from './event.ts';

const QUOTE = 0x22;
const PLUS = 0x2b;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OBJECT_OPENS = 0x7b;
const OBJECT_ENDS = 0x7d;
const ARRAY_OPENS = 0x5b;
const ARRAY_ENDS = 0x5d;

// A table lookup is faster than comparisons. Every table is false for 0, which `bytes[at] ?? 0` reads at the end of
// the body.
const tableOf = (has: (character: string) => boolean): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, unit) => Number(has(String.fromCharCode(unit))));
const IS_SPACE = tableOf((character) => ' \t\n\r'.includes(character));
const IS_BARE = tableOf((character) => character >= ' ' && !'"\\'.includes(character));
const IS_DIGIT = tableOf((character) => '0123456789'.includes(character));
const ESCAPE = /^(?:["\\/bfnrt]|u[\dA-Fa-f]{4})/;

const MEMBERS = ['id', 'type'] as const;
const LITERALS = ['true', 'false', 'null'] as const;

/** Returned instead of a position for bytes that are not JSON or that only parseEvent handles. */
const NONE = -1;

let bytes: Buffer = Buffer.alloc(0);
let names: { id: string | undefined; type: string | undefined };
/** Whether the last scanned string has an escape. */
let hasEscape = false;

/** Returns the envelope, or `undefined` if parseEvent must decide. */
export function scanEnvelope(body: Buffer): Envelope | undefined {
  bytes = body;
  names = { id: undefined, type: undefined };
  const at = afterSpace(0);
  if (bytes[at] !== OBJECT_OPENS || !isUtf8(body)) return undefined;
  return afterSpace(afterValue(at, 0)) === body.length && isEnvelope(names) ? names : undefined;
}

function afterSpace(from: number): number {
  let at = from;
  while (IS_SPACE[bytes[at] ?? 0] === 1) at += 1;
  return at;
}

function afterValue(from: number, depth: number): number {
  const unit = bytes[from];
  if (unit === QUOTE) return afterString(from);
  if (unit !== OBJECT_OPENS && unit !== ARRAY_OPENS) return afterScalar(from);
  if (depth === DEPTH_MAX) return NONE;
  const end = unit === OBJECT_OPENS ? OBJECT_ENDS : ARRAY_ENDS;
  let at = afterSpace(from + 1);
  if (bytes[at] === end) return at + 1;
  for (;;) {
    at = end === OBJECT_ENDS ? afterMember(at, depth + 1) : afterValue(at, depth + 1);
    if (at === NONE) return NONE;
    at = afterSpace(at);
    if (bytes[at] === end) return at + 1;
    if (bytes[at] !== COMMA) return NONE;
    at = afterSpace(at + 1);
  }
}

function afterMember(from: number, depth: number): number {
  const keyEnd = afterString(from);
  if (keyEnd === NONE) return NONE;
  const key = depth > 1 ? '' : nameOf(from, keyEnd);
  const colon = afterSpace(keyEnd);
  if (bytes[colon] !== COLON || key === undefined) return NONE;
  const at = afterSpace(colon + 1);
  if (key === '') return afterValue(at, depth);
  const end = afterString(at);
  if (end === NONE || hasEscape || names[key] !== undefined) return NONE;
  names[key] = bytes.toString('utf8', at + 1, end - 1);
  return end;
}

/** Returns '' for a key that is not in the envelope, and `undefined` for a key with an escape. */
function nameOf(from: number, end: number): 'id' | 'type' | '' | undefined {
  if (hasEscape) return undefined;
  for (const name of MEMBERS) if (end - from === name.length + 2 && holds(name, from + 1)) return name;
  return '';
}

function holds(word: string, from: number): boolean {
  for (let at = 0; at < word.length; at += 1) if (bytes[from + at] !== word.charCodeAt(at)) return false;
  return true;
}

function afterString(from: number): number {
  if (bytes[from] !== QUOTE) return NONE;
  hasEscape = false;
  let at = from + 1;
  for (;;) {
    while (IS_BARE[bytes[at] ?? 0] === 1) at += 1;
    if (bytes[at] === QUOTE) return at + 1;
    hasEscape = true;
    const escape = bytes[at] === BACKSLASH ? ESCAPE.exec(bytes.toString('latin1', at + 1, at + 6)) : null;
    if (escape === null) return NONE;
    at += 1 + escape[0].length;
  }
}

function afterScalar(from: number): number {
  for (const word of LITERALS) if (holds(word, from)) return from + word.length;
  const first = bytes[from] === MINUS ? from + 1 : from;
  let at = bytes[first] === ZERO ? first + 1 : afterDigits(first);
  if (at !== NONE && bytes[at] === DOT) at = afterDigits(at + 1);
  // The codes of `e` and `E` differ in one bit.
  if (at !== NONE && ((bytes[at] ?? 0) | 0x20) === 0x65)
    at = afterDigits(bytes[at + 1] === MINUS || bytes[at + 1] === PLUS ? at + 2 : at + 1);
  return at;
}

function afterDigits(from: number): number {
  let at = from;
  while (IS_DIGIT[bytes[at] ?? 0] === 1) at += 1;
  return at === from ? NONE : at;
}
