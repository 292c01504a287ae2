// A window over a stream of JSON bytes: it finds where one value ends without building it. What lies before the
// window is forgotten, so memory follows the longest single value and not the document.
//
// Fact: JSON.parse is the fastest reader there is, but tells neither a name that stands twice nor a number that it
// rounded. Choice: the scan below only tracks strings and nesting and leaves each value to JSON.parse; on the way it
// counts names and notes doubtful numbers, so that the exact reader of strict-json.ts runs only where something is odd.
// Measured effect: bench/toollint/report-scale.ts, validate: some 2.5 times JSON.parse over the whole text, checks
// included.
//
// Limits: a value may have MAX_VALUE_BYTES and MAX_DEPTH levels. Bytes must be UTF-8.
import { isUtf8 } from 'node:buffer';

/** The deepest nesting of a document, its root object included. JSON.stringify overflows the stack at some 10,000. */
export const MAX_DEPTH = 64;

/** The longest single value, in bytes: below the runtime's limit of 536,870,888 UTF-16 units for a string. */
export const MAX_VALUE_BYTES = 500_000_000;

const FIRST_WINDOW_BYTES = 1 << 20;

/** Why a scan cannot go on. */
type ScanFailure = 'too-deep' | 'too-long';

/** Growing window with one value in progress. */
export class JsonWindow {
  #bytes = Buffer.allocUnsafe(FIRST_WINDOW_BYTES);
  #start = 0;
  #position = 0;
  #end = 0;
  #checked = 0;
  #forgotten = 0;
  #depth = 0;
  #inString = false;
  #digits = 0;
  #names = 0;
  #doubtfulNumber = false;
  #failure: ScanFailure | undefined;

  /** Names seen in the last value: colons outside strings. */
  get names(): number {
    return this.#names;
  }

  /** Whether the last value holds a number whose exactness needs a look. */
  get doubtfulNumber(): boolean {
    return this.#doubtfulNumber;
  }

  get failure(): ScanFailure | undefined {
    return this.#failure;
  }

  /** Adds bytes. False: they are not UTF-8. */
  push(chunk: Uint8Array): boolean {
    if (this.#end + chunk.length > this.#bytes.length) this.#makeRoom(chunk.length);
    this.#bytes.set(chunk, this.#end);
    this.#end += chunk.length;
    return this.#checkEncoding(false);
  }

  /** No more bytes. False: the last character is cut. */
  finish(): boolean {
    return this.#checkEncoding(true);
  }

  /** Offset in the document of the next byte to be read, for messages. */
  get offset(): number {
    return this.#forgotten + this.#start;
  }

  /** The next byte that is no blank, without taking it; -1 where the window ends. */
  peek(): number {
    while (this.#start < this.#end) {
      const byte = this.#bytes[this.#start] as number;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
      this.#start += 1;
    }
    return -1;
  }

  /** Takes the byte that `peek` showed. */
  take(): void {
    this.#start += 1;
  }

  /** Starts to read a value at the next byte; `outerDepth` is the number of levels around it. */
  beginValue(outerDepth: number): void {
    this.#position = this.#start;
    this.#depth = outerDepth;
    this.#inString = false;
    this.#names = 0;
    this.#digits = 0;
    this.#doubtfulNumber = false;
  }

  /** The text of the value when its end is in the window; undefined: more bytes are needed, or `failure` is set. */
  endValue(outerDepth: number, atEndOfInput: boolean): string | undefined {
    const found = this.#scan(outerDepth);
    if (this.#failure !== undefined) return undefined;
    if (!found && !(atEndOfInput && this.#start < this.#end)) {
      if (this.#end - this.#start > MAX_VALUE_BYTES) this.#failure = 'too-long';
      return undefined;
    }
    const stop = Math.min(this.#position, this.#end);
    if (stop - this.#start > MAX_VALUE_BYTES) {
      this.#failure = 'too-long';
      return undefined;
    }
    const text = this.#bytes.toString('utf8', this.#start, stop);
    this.#start = stop;
    return text;
  }

  /** True: the value that began at `start` ends before `position`. */
  #scan(outerDepth: number): boolean {
    const bytes = this.#bytes;
    const end = this.#end;
    let position = this.#position;
    let depth = this.#depth;
    let found = false;
    while (!found && position < end) {
      if (this.#inString) {
        position = skipString(bytes, position, end);
        if (position < 0) {
          position = ~position;
          break;
        }
        this.#inString = false;
        found = depth === outerDepth;
        continue;
      }
      const byte = bytes[position] as number;
      position += 1;
      if (byte === 0x22) this.#inString = true;
      else if (byte === 0x3a) this.#names += 1;
      else if (byte === 0x7b || byte === 0x5b) {
        depth += 1;
        if (depth > MAX_DEPTH) {
          this.#failure = 'too-deep';
          break;
        }
      } else if (depth === outerDepth && isDelimiter(byte)) {
        position -= 1;
        found = true;
      } else if (byte === 0x7d || byte === 0x5d) {
        depth -= 1;
        found = depth === outerDepth;
      }
      this.#noteNumber(byte);
    }
    this.#position = position;
    this.#depth = depth;
    return found;
  }

  #noteNumber(byte: number): void {
    if (byte >= 0x30 && byte <= 0x39) {
      this.#digits += 1;
      if (this.#digits > 15) this.#doubtfulNumber = true;
      return;
    }
    if (this.#digits > 0 && (byte === 0x2e || byte === 0x65 || byte === 0x45)) this.#doubtfulNumber = true;
    this.#digits = 0;
  }

  #makeRoom(needed: number): void {
    const kept = this.#end - this.#start;
    const target = kept + needed > this.#bytes.length ? Buffer.allocUnsafe((kept + needed) * 2) : this.#bytes;
    this.#bytes.copy(target, 0, this.#start, this.#end);
    this.#bytes = target;
    this.#forgotten += this.#start;
    this.#position -= this.#start;
    this.#checked -= this.#start;
    this.#end = kept;
    this.#start = 0;
  }

  #checkEncoding(last: boolean): boolean {
    const from = Math.max(this.#checked, 0);
    const to = last ? this.#end : wholeCharacters(this.#bytes, from, this.#end);
    if (to > from && !isUtf8(this.#bytes.subarray(from, to))) return false;
    this.#checked = to;
    return true;
  }
}

/** Position after the closing quote, or the complement of the position to go on from when the bytes end first. */
function skipString(bytes: Uint8Array, from: number, end: number): number {
  let position = from;
  while (position < end) {
    const byte = bytes[position] as number;
    if (byte === 0x22) return position + 1;
    position += byte === 0x5c ? 2 : 1;
  }
  return ~position;
}

function isDelimiter(byte: number): boolean {
  return (
    byte === 0x2c || byte === 0x7d || byte === 0x5d || byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
  );
}

/** The end of the last whole UTF-8 character in bytes[from, end). */
function wholeCharacters(bytes: Uint8Array, from: number, end: number): number {
  for (let back = 1; back <= 3 && end - back >= from; back += 1) {
    const byte = bytes[end - back] as number;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return length > back ? end - back : end;
    }
  }
  return end;
}
