// Counts the occurrences of fingerprints in a stream of findings, and remembers to which (rule, scope, path) each
// belongs, without keeping a string.
//
// Fact: a Map from a million fingerprints of 64 characters to counts adds 207 MB to the peak memory, and 2.4 s of CPU;
// validating that many has a limit of 300 MB in all. Choice: an open-addressing table in typed arrays, 28 bytes a slot,
// keyed by 128 bits: two pieces of each half of a fingerprint of 64 hex digits, which are SHA-256 already, and SHA-256
// for any other text. Measured effect (bench/toollint/structures.ts): 100 MB and 1.2 s.
//
// Limit: two fingerprints that agree in those 128 bits count as one.
import { hash } from 'node:crypto';

const FIRST_SLOTS = 1 << 12;
const KEY_WORDS = 4;
const FULLEST = 0.7;

/** What a table knows of a fingerprint after one more finding with it. */
export interface Tally {
  /** Which finding of this fingerprint it was, beginning with 1. */
  readonly count: number;
  /** Whether rule, scope and path are those of the first. */
  readonly sameOwner: boolean;
}

/** Growing table of fingerprints. */
export class FingerprintTable {
  #slots = FIRST_SLOTS;
  #used = 0;
  #keys = new Uint32Array(FIRST_SLOTS * KEY_WORDS);
  #owners = new Uint32Array(FIRST_SLOTS * 2);
  #counts = new Uint32Array(FIRST_SLOTS);
  readonly #key = new Uint32Array(KEY_WORDS);

  /** Counts one finding. */
  add(fingerprint: string, ruleId: string, scope: string, path: string): Tally {
    readKey(fingerprint, this.#key);
    const low = textHash(path, textHash(ruleId, scope === 'file' ? 0x811c9dc5 : 0x01000193));
    const high = textHash(ruleId, textHash(path, scope === 'file' ? 0x9747b28c : 0x85ebca6b));
    const slot = this.#find(this.#keys, this.#counts, this.#slots, this.#key, 0);
    const count = (this.#counts[slot] ?? 0) + 1;
    this.#counts[slot] = count;
    if (count > 1) return { count, sameOwner: this.#owners[slot * 2] === low && this.#owners[slot * 2 + 1] === high };
    this.#keys.set(this.#key, slot * KEY_WORDS);
    this.#owners[slot * 2] = low;
    this.#owners[slot * 2 + 1] = high;
    this.#used += 1;
    if (this.#used > this.#slots * FULLEST) this.#grow();
    return { count, sameOwner: true };
  }

  #find(keys: Uint32Array, counts: Uint32Array, slots: number, source: Uint32Array, at: number): number {
    const mask = slots - 1;
    let slot = ((source[at] ?? 0) ^ (source[at + 2] ?? 0)) & mask;
    while (counts[slot] !== 0) {
      const base = slot * KEY_WORDS;
      if (
        keys[base] === source[at] &&
        keys[base + 1] === source[at + 1] &&
        keys[base + 2] === source[at + 2] &&
        keys[base + 3] === source[at + 3]
      )
        return slot;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #grow(): void {
    const slots = this.#slots * 2;
    const keys = new Uint32Array(slots * KEY_WORDS);
    const owners = new Uint32Array(slots * 2);
    const counts = new Uint32Array(slots);
    for (let old = 0; old < this.#slots; old += 1) {
      if (this.#counts[old] === 0) continue;
      const slot = this.#find(keys, counts, slots, this.#keys, old * KEY_WORDS);
      keys.set(this.#keys.subarray(old * KEY_WORDS, (old + 1) * KEY_WORDS), slot * KEY_WORDS);
      owners[slot * 2] = this.#owners[old * 2] ?? 0;
      owners[slot * 2 + 1] = this.#owners[old * 2 + 1] ?? 0;
      counts[slot] = this.#counts[old] ?? 0;
    }
    this.#slots = slots;
    this.#keys = keys;
    this.#owners = owners;
    this.#counts = counts;
  }
}

function readKey(fingerprint: string, key: Uint32Array): void {
  if (fingerprint.length !== 64 || !readHexWords(fingerprint, key))
    readHexWords(hash('sha256', fingerprint, 'hex'), key);
}

/** Words of 8 hex digits at 0, 8, 32 and 40: two of each half. False: not lower-case hex. */
function readHexWords(text: string, key: Uint32Array): boolean {
  for (let word = 0; word < KEY_WORDS; word += 1) {
    const start = (word >> 1) * 32 + (word & 1) * 8;
    let value = 0;
    for (let at = start; at < start + 8; at += 1) {
      const digit = hexDigit(text.charCodeAt(at));
      if (digit < 0) return false;
      value = (value << 4) | digit;
    }
    key[word] = value >>> 0;
  }
  return true;
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  return code >= 0x61 && code <= 0x66 ? code - 0x57 : -1;
}

/** FNV-1a over UTF-16 units, 32 bits. */
function textHash(text: string, seed: number): number {
  let value = seed;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}
