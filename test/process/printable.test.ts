import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { printable, printableLines } from '../../lib/process/printable.ts';
import { anyCharacter } from '../support/any-character.ts';

const HOSTILE = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/u;

describe('foreign text', () => {
  it('has control characters and marks of text direction replaced by their codes', () => {
    for (let code = 0; code <= 0xffff; code += 1) {
      const character = String.fromCharCode(code);
      const shown = HOSTILE.test(character) ? `\\u${code.toString(16).padStart(4, '0')}` : character;
      assert.equal(printable(character), shown);
      assert.equal(printableLines(character), character === '\n' || character === '\t' ? character : shown);
    }
  });

  it('without them is unchanged', () => {
    for (const text of ['', 'plain', 'Grüße, 世界 👋', 'a\\u009bb']) assert.equal(printable(text), text);
  });

  it('that is JSON keeps its value', () =>
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: anyCharacter }), (value) => {
        const text = printableLines(JSON.stringify(value));
        assert.ok(!HOSTILE.test(text));
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      }),
    ));
});
