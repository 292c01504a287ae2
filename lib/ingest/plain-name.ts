// The id or the type of a plain envelope (envelope-scan.ts), as text made of its bytes.
//
// Invariant: what is given keeps the rules of event.ts; `undefined` says nothing of the value.
import { NAME_CHARACTERS_MAX } from './event.ts';

const BACKSLASH = 0x5c;
const DOT = 0x2e;

// One table for one question, because a look-up costs less than the comparisons.
const IS_WORD = new Uint8Array(256);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-')
  IS_WORD[character.charCodeAt(0)] = 1;

// Fact: a string made of bytes costs more than a comparison of them. Choice: the last type is kept; most events have
// it.
let lastType = '';
const LAST_TYPE = new Uint8Array(NAME_CHARACTERS_MAX);

/**
 * The value between `from` and `to` as an id or a type, where it is one and needs no decoding. `bytes` begin with those
 * of `body`. It is made of the bytes, because a slice of the text would keep the text.
 */
export function plainName(
  body: Buffer,
  bytes: Uint8Array,
  name: 'id' | 'type',
  from: number,
  to: number,
): string | undefined {
  if (to <= from || to - from > NAME_CHARACTERS_MAX) return undefined;
  if (name === 'id') return isPlainId(bytes, from, to) ? body.toString('latin1', from, to) : undefined;
  if (isLastType(bytes, from, to)) return lastType;
  if (!isPlainType(bytes, from, to)) return undefined;
  LAST_TYPE.set(bytes.subarray(from, to));
  return (lastType = body.toString('latin1', from, to));
}

function isLastType(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from !== lastType.length) return false;
  for (let at = from; at < to; at += 1) if (bytes[at] !== LAST_TYPE[at - from]) return false;
  return true;
}

/** Printable ASCII without an escape. */
function isPlainId(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if ((bytes[at] ?? 0) > 0x7e || bytes[at] === BACKSLASH) return false;
  return true;
}

/** Dotted words. */
function isPlainType(bytes: Uint8Array, from: number, to: number): boolean {
  let wordFrom = from;
  for (let at = from; at < to; at += 1) {
    if (IS_WORD[bytes[at] ?? 0] === 1) continue;
    if (bytes[at] !== DOT || at === wordFrom) return false;
    wordFrom = at + 1;
  }
  return wordFrom < to;
}
