// A JSON reader that tells what JSON.parse keeps to itself: where the text stops being JSON, which member stands
// twice, and which number is not the number that a reader gets. It runs only after the quick scan (json-window.ts)
// or JSON.parse has found something odd, so it is written for exact answers and not for speed: for a million findings
// with JSON.parse 17 s, where JSON.parse and the count of names take 1.9 (bench/toollint/structures.ts).
//
// Limits: the caller has bounded the nesting. Numbers that are not integers may be rounded (0.1 is no binary
// fraction); a literal is inexact when it overflows or when rounding makes or changes an integer.

/** One thing wrong with a piece of JSON text. `offset` counts UTF-16 units from the start of the text. */
interface JsonProblem {
  readonly code: 'syntax' | 'duplicate-member' | 'inexact-number';
  readonly pointer: string;
  readonly message: string;
  readonly offset: number;
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/uy;
const BLANK = /[ \t\n\r]*/uy;
const WORD = /true|false|null/y;

/** A JSON Pointer token (RFC 6901, section 3). */
export function pointerToken(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Everything wrong with `text` as one JSON value, in order; a syntax problem is the last of the list. */
export function jsonProblems(text: string, pointer: string): JsonProblem[] {
  const reader = new StrictReader(text);
  try {
    reader.value(pointer);
    reader.blank();
    if (reader.at < text.length) reader.fail(pointer, 'text after the value');
  } catch (cause) {
    if (!(cause instanceof SyntaxStop)) throw cause;
  }
  return reader.problems;
}

/**
 * Whether the decimal literal is the double that it parses to, as far as integers go: the same number, or the shortest
 * text for it, which is what programs write for integers that are too large to be exact.
 */
export function isExactNumber(literal: string): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  if (!Number.isInteger(value)) return true;
  const given = integerOf(literal);
  return given !== undefined && (given === BigInt(value) || given === integerOf(String(value)));
}

/** The integer that a decimal literal stands for; undefined when it is none. */
function integerOf(literal: string): bigint | undefined {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/u.exec(literal) ?? [];
  const digits = (whole + fraction).replace(/^0+/u, '');
  if (digits === '') return 0n;
  const significant = digits.replace(/0+$/u, '');
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  // A double has at most 309 digits before the point.
  if (power < 0 || power > 400) return undefined;
  return BigInt(sign + significant) * 10n ** BigInt(power);
}

class SyntaxStop extends Error {}

class StrictReader {
  readonly problems: JsonProblem[] = [];
  at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  fail(pointer: string, message: string): never {
    this.problems.push({ code: 'syntax', pointer, message: `not JSON: ${message}`, offset: this.at });
    throw new SyntaxStop();
  }

  blank(): void {
    this.#match(BLANK);
  }

  value(pointer: string): void {
    this.blank();
    const start = this.#text[this.at];
    if (start === '{') this.#object(pointer);
    else if (start === '[') this.#array(pointer);
    else if (start === '"') this.#string(pointer);
    else if (this.#match(WORD) === undefined) this.#number(pointer);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.#text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  #number(pointer: string): void {
    const offset = this.at;
    const literal = this.#match(NUMBER);
    if (literal === undefined)
      this.fail(pointer, this.at < this.#text.length ? 'unexpected character' : 'unexpected end');
    if (isExactNumber(literal)) return;
    const message = `the number ${literal.slice(0, 40)} cannot be read exactly`;
    this.problems.push({ code: 'inexact-number', pointer, message, offset });
  }

  #string(pointer: string): string {
    const start = this.at;
    if (this.#text[start] !== '"') this.fail(pointer, 'expected a string');
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === '\\' ? 2 : 1;
    try {
      const value = JSON.parse(this.#text.slice(start, end + 1)) as string;
      this.at = end + 1;
      return value;
    } catch {
      return this.fail(pointer, 'malformed string');
    }
  }

  #array(pointer: string): void {
    this.at += 1;
    this.blank();
    if (this.#take(']')) return;
    for (let index = 0; ; index += 1) {
      this.value(pointer + pointerToken(index));
      this.blank();
      if (this.#take(']')) return;
      if (!this.#take(',')) this.fail(pointer, "expected ',' or ']'");
    }
  }

  #object(pointer: string): void {
    this.at += 1;
    this.blank();
    if (this.#take('}')) return;
    const names = new Set<string>();
    for (;;) {
      this.blank();
      const offset = this.at;
      const name = this.#string(pointer);
      const member = pointer + pointerToken(name);
      if (names.has(name)) {
        this.problems.push({ code: 'duplicate-member', pointer: member, message: 'the member stands twice', offset });
      }
      names.add(name);
      this.blank();
      if (!this.#take(':')) this.fail(member, "expected ':'");
      this.value(member);
      this.blank();
      if (this.#take('}')) return;
      if (!this.#take(',')) this.fail(pointer, "expected ',' or '}'");
    }
  }

  #take(character: string): boolean {
    if (this.#text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }
}
