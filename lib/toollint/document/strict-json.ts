// A JSON reader (RFC 8259) that also reports what JSON.parse accepts in silence: a member name that appears twice, and
// a number that a double cannot hold. It gives the same values as JSON.parse.
//
// Limits: MAX_DEPTH levels of nesting. Numbers that are not integers may be rounded (0.1 is not a binary fraction); a
// literal is inexact when it overflows or when rounding makes or changes an integer.

/** The deepest nesting of a document, its root object included. JSON.stringify overflows the stack at some 10,000. */
export const MAX_DEPTH = 64;

export interface JsonProblem {
  readonly code: 'syntax' | 'too-deep' | 'duplicate-member' | 'inexact-number';
  readonly pointer: string;
  readonly message: string;
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/uy;
// eslint-disable-next-line no-control-regex -- JSON allows no control character in a string
const PLAIN_STRING = /"[^"\\\u0000-\u001f]*"/y;
const WORD = /true|false|null/y;
const WORDS: Readonly<Record<string, boolean | null>> = { true: true, false: false, null: null };

/** Whether the value is a JSON object. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value of a JSON text that is not ours to be strict about; `refuse` throws. */
export function looseJson(text: string, refuse: (fault: string) => never): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return refuse('not JSON');
  }
}

/** A JSON Pointer token (RFC 6901, section 3). */
export const pointerToken = (name: string | number): string =>
  `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/**
 * The value of `text`, and everything wrong with it, in order. After a problem of the code 'syntax' or 'too-deep',
 * which is the last, the value is undefined.
 */
export function readJson(text: string): { value: unknown; problems: JsonProblem[] } {
  const reader = new StrictReader(text);
  try {
    return { value: reader.document(), problems: reader.problems };
  } catch (cause) {
    if (!(cause instanceof ReadingStopped)) throw cause;
    return { value: undefined, problems: reader.problems };
  }
}

/**
 * Whether the decimal literal is the double that it parses to, as far as integers are concerned: the same number, or
 * the shortest text for it, which is what programs write for integers that are too large to be exact.
 */
export function isExactNumber(literal: string): boolean {
  const value = Number(literal);
  if (!Number.isFinite(value)) return false;
  return !Number.isInteger(value) || [String(value), String(BigInt(value))].some((text) => sameNumber(text, literal));
}

/** Whether two decimal literals are the same number: the same significant digits with the same exponent. */
function sameNumber(...literals: readonly [string, string]): boolean {
  const [one, other] = literals.map((literal) => {
    const [, sign = '', whole = '', fraction = '', exponent = '0'] =
      /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/u.exec(literal) ?? [];
    const digits = (whole + fraction).replace(/^0+/u, '');
    const significant = digits.replace(/0+$/u, '');
    if (significant === '') return '0';
    return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
  });
  return one === other;
}

class ReadingStopped extends Error {}

class StrictReader {
  readonly problems: JsonProblem[] = [];
  readonly #text: string;
  /** Names and indexes of the value in work; a pointer is made only for a problem. */
  readonly #path: (string | number)[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): unknown {
    const value = this.#value();
    this.#blank();
    if (this.#at < this.#text.length) this.#unexpected('the end of the document');
    return value;
  }

  #value(): unknown {
    this.#blank();
    const first = this.#text[this.#at];
    if (first === '{') return this.#object();
    if (first === '[') return this.#array();
    if (first === '"') return this.#string();
    const word = this.#match(WORD);
    return word === undefined ? this.#number() : WORDS[word];
  }

  #problem(code: JsonProblem['code'], message: string): void {
    this.problems.push({ code, pointer: this.#path.map(pointerToken).join(''), message });
  }

  #unexpected(expected: string): never {
    const byte = Buffer.byteLength(this.#text.slice(0, this.#at));
    const found = this.#at < this.#text.length ? '' : ', but the document ends';
    this.#problem('syntax', `not JSON at byte ${byte}: expected ${expected}${found}`);
    throw new ReadingStopped();
  }

  #blank(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at += 1;
    }
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) return undefined;
    const from = this.#at;
    this.#at = pattern.lastIndex;
    return this.#text.slice(from, this.#at);
  }

  #number(): number {
    const literal = this.#match(NUMBER);
    if (literal === undefined) return this.#unexpected('a value');
    if ((literal.length > 15 || /[.eE]/u.test(literal)) && !isExactNumber(literal))
      this.#problem('inexact-number', `the number ${literal.slice(0, 40)} cannot be read exactly`);
    return Number(literal);
  }

  #string(): string {
    const plain = this.#match(PLAIN_STRING);
    if (plain !== undefined) return plain.slice(1, -1);
    const from = this.#at;
    if (this.#text[from] !== '"') return this.#unexpected('a string');
    let end = from + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === '\\' ? 2 : 1;
    try {
      const value = JSON.parse(this.#text.slice(from, end + 1)) as string;
      this.#at = end + 1;
      return value;
    } catch {
      return this.#unexpected('a well-formed string');
    }
  }

  /** What is between brackets: at least one element, or nothing. */
  #list(end: string, element: () => void): void {
    if (this.#path.length >= MAX_DEPTH) {
      this.#problem('too-deep', `nested deeper than ${MAX_DEPTH} levels`);
      throw new ReadingStopped();
    }
    this.#at += 1;
    this.#blank();
    if (this.#take(end)) return;
    do {
      element();
      this.#path.pop();
      this.#blank();
    } while (this.#take(','));
    if (!this.#take(end)) this.#unexpected(`',' or '${end}'`);
  }

  #array(): unknown[] {
    const values: unknown[] = [];
    this.#list(']', () => {
      this.#path.push(values.length);
      values.push(this.#value());
    });
    return values;
  }

  #object(): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    this.#list('}', () => {
      this.#blank();
      const name = this.#string();
      this.#path.push(name);
      if (Object.hasOwn(members, name)) this.#problem('duplicate-member', 'the member appears twice');
      this.#blank();
      if (!this.#take(':')) this.#unexpected("':'");
      const value = this.#value();
      if (name === '__proto__')
        Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true });
      else members[name] = value;
    });
    return members;
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }
}
