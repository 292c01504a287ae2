// What an answer says of a body that is no event, against a computation of its own: where it stops being JSON, which
// member is there twice, and which is missing.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseEvent } from '../../lib/ingest/event.ts';

/**
 * RFC 8259 as a machine over characters: it stops at the first one with which no JSON text can go on, and where that is
 * within a word such as `nil`, at the word.
 */
class Reader {
  readonly #text: string;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Where the text stops being JSON; undefined where it is. */
  fault(): number | undefined {
    try {
      this.#value();
      this.#blanks();
      if (this.at < this.#text.length) this.#stop();
      return undefined;
    } catch (cause) {
      if (cause !== this) throw cause;
      return this.at;
    }
  }

  get #next(): string {
    return this.#text.charAt(this.at);
  }

  #stop(): never {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- caught by `fault` alone
    throw this;
  }

  #blanks(): void {
    while (/^[ \t\n\r]$/.test(this.#next)) this.at += 1;
  }

  #one(expected: RegExp): void {
    if (!expected.test(this.#next)) this.#stop();
    this.at += 1;
  }

  #digits(): void {
    this.#one(/^[0-9]$/);
    while (/^[0-9]$/.test(this.#next)) this.at += 1;
  }

  #value(): void {
    this.#blanks();
    const next = this.#next;
    const word = { t: 'true', f: 'false', n: 'null' }[next];
    if (word !== undefined) this.#word(word);
    else if (next === '{') this.#list('}', () => this.#member());
    else if (next === '[') this.#list(']', () => this.#value());
    else if (next === '"') this.#string();
    else this.#number();
  }

  #word(word: string): void {
    const from = this.at;
    for (const character of word) {
      if (this.#next === character) {
        this.at += 1;
        continue;
      }
      if (this.#next !== '') this.at = from;
      this.#stop();
    }
  }

  #list(end: string, element: () => void): void {
    this.at += 1;
    this.#blanks();
    for (let first = true; !first || this.#next !== end; first = false) {
      element();
      this.#blanks();
      if (this.#next === end) break;
      this.#one(/^,$/);
    }
    this.at += 1;
  }

  #member(): void {
    this.#blanks();
    this.#string();
    this.#blanks();
    this.#one(/^:$/);
    this.#value();
  }

  #string(): void {
    this.#one(/^"$/);
    while (this.#next !== '"') {
      if (this.#next !== '\\') {
        this.#one(/^[^\0-\u001f]$/); // eslint-disable-line no-control-regex -- what a string may not hold
        continue;
      }
      this.at += 1;
      const isUnit = this.#text.charAt(this.at) === 'u';
      this.#one(/^["\\/bfnrtu]$/);
      if (isUnit) for (let left = 4; left > 0; left -= 1) this.#one(/^[0-9a-fA-F]$/);
    }
    this.at += 1;
  }

  #number(): void {
    if (this.#next === '-') this.at += 1;
    if (this.#next === '0') this.at += 1;
    else this.#digits();
    if (this.#next === '.') {
      this.at += 1;
      this.#digits();
    }
    if (!/^[eE]$/.test(this.#next)) return;
    this.at += 1;
    if (/^[-+]$/.test(this.#next)) this.at += 1;
    this.#digits();
  }
}

const WHOLE = [
  '{"id":"a","type":"t","n":[1,-2.5e+3,0,true,false,null,{"x":"\\u00e9é\u{1F600}\\n"},[]]}',
  ' {\r\n "id" : "ü" ,\r\n\t"type":"t", "d": {"a":{"b":[{}]}} }\n',
  '{"id":"a","type":"t","s":"at position 7, end of JSON"}',
  `${'['.repeat(60)}"ü"${']'.repeat(60)}`,
  ...['"abc"', '{}', '[1,2]', '-0.5', 'true'],
];
const PIECES = [
  ...['"', '\\', '{', '}', '[', ']', ',', ':', '0', '1.', '-', '+', 'e', 'x', 'tru', 'nul', 'falsex', 'NaN', '//', "'"],
  ...[
    'é',
    '\u{1F600}',
    '\n',
    '\r\n',
    '\t',
    '\u0001',
    '\u00a0',
    '\ufeff',
    '\u2028',
    '\\u12',
    '\\x',
    'undefined',
    '"id":',
  ],
];

/** Cut off, something taken out of it, or put into it: up to three times. */
const damaged = fc
  .tuple(
    fc.constantFrom(...WHOLE),
    fc.array(fc.tuple(fc.nat(), fc.nat(3), fc.constantFrom(...PIECES)), { minLength: 1, maxLength: 3 }),
  )
  .map(([whole, changes]) =>
    changes.reduce((text, [place, removed, piece]) => {
      const at = place % (text.length + 1);
      return removed === 3 ? text.slice(0, at) : text.slice(0, at) + piece + text.slice(at + removed);
    }, whole),
  )
  .filter((text) => text !== '' && text.isWellFormed() && !text.startsWith('\ufeff'));

/** Names as a text may write them, and the member that each one names. */
const NAMES: readonly (readonly [written: string, name: string])[] = [
  ...(['id', 'i\\u0064', '\\u0069d', '\\u0069\\u0064'] as const).map((written) => [written, 'id'] as const),
  ...(['type', 't\\u0079pe', '\\u0074ype'] as const).map((written) => [written, 'type'] as const),
  ...(['Id', 'ids', ' id', '\\\\u0069d', '__proto__', '\\"id', 'di'] as const).map(
    (written) => [written, 'other'] as const,
  ),
];
const VALUES = [
  '{"id":"x","type":"y"}',
  '[{"id":1},"id",{"i\\u0064":"\\"id\\":"}]',
  '"\\"id\\":1,\\"type\\":"',
  'null',
];
const members = fc.array(
  fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...VALUES), fc.constantFrom('', ' ', '\r\n\t')),
  { maxLength: 6 },
);

describe('what is said of a body that is no event', () => {
  it('names the line and the column where it stops being JSON', () => {
    fc.assert(
      fc.property(damaged, (text) => {
        const at = new Reader(text).fault();
        const found = parseEvent(Buffer.from(text));
        if (at === undefined) return assert.ok(found.valid || !found.detail.includes('is not JSON'), text);
        const lines = text.slice(0, at).split('\n');
        const place = `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
        assert.deepEqual(found.valid ? text : found.detail, `the body is not JSON: ${place}`);
      }),
      { numRuns: 4_000 },
    );
  });

  it('names the member of the envelope that is there twice, or missing, however names are written', () => {
    fc.assert(
      fc.property(members, (some) => {
        const text = `{${some
          .map(([[written, name], value, blank]) => {
            const own = name === 'other' ? value : '"a"';
            return `${blank}"${written}"${blank}:${blank}${own}${blank}`;
          })
          .join(',')}}`;
        const count = (name: string): number => some.filter(([[, of]]) => of === name).length;
        const missing = ['id', 'type'].filter((name) => count(name) === 0);
        const twice = ['id', 'type'].filter((name) => count(name) > 1);
        const found = parseEvent(Buffer.from(text));
        const said = found.valid ? [] : found.errors;
        if (missing.length > 0)
          assert.deepEqual(
            said,
            missing.map((name) => ({ path: `/${name}`, message: 'is missing' })),
            text,
          );
        else if (twice.length > 0) {
          assert.equal(said.length, 1, text);
          assert.ok(twice.some((name) => said[0]?.path === `/${name}`) && said[0]?.message === 'must be there once');
        } else assert.ok(found.valid, text);
      }),
      { numRuns: 2_000 },
    );
  });
});
