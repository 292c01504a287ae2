import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { printable, printableLines } from '../../lib/process/printable.ts';
import { anyCharacter } from '../support/any-character.ts';

const HOSTILE = /[\p{Cc}\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u3164\u00a0\u{e0000}-\u{e01ef}]/u;

describe('foreign text', () => {
  it('has control characters and marks of text direction replaced by their codes', () => {
    for (let code = 0; code <= 0x10ffff; code += 1) {
      const character = String.fromCodePoint(code);
      const isPlain =
        /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character) &&
        !/\p{Default_Ignorable_Code_Point}|\u2800/u.test(character);
      if (!isPlain && !HOSTILE.test(character)) continue;
      const shown = printable(character);
      assert.equal(shown === character, isPlain, code.toString(16));
      assert.equal(JSON.parse(`"${printable(JSON.stringify(character).slice(1, -1))}"`), character);
      assert.equal(printableLines(character), character === '\n' || character === '\t' ? character : shown);
    }
    assert.deepEqual([printable('a\u200b'), printable('\u{e0041}')], ['a\\u200b', '\\udb40\\udc41']);
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
