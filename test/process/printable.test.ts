// Text of others on a terminal and in a log.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { textLine } from '../../lib/process/log.ts';
import { printable, printableLines } from '../../lib/process/printable.ts';
import { anyCharacter } from '../support/any-character.ts';

const HOSTILE = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/u;
const anyText = fc.string({ unit: anyCharacter, maxLength: 40 });

describe('text of others', () => {
  it('shows every control character, and each mark that changes the direction of text, as its code', () => {
    for (let code = 0; code <= 0xffff; code += 1) {
      const character = String.fromCharCode(code);
      const shown = HOSTILE.test(character) ? `\\u${code.toString(16).padStart(4, '0')}` : character;
      assert.equal(printable(character), shown);
      assert.equal(printableLines(character), character === '\n' || character === '\t' ? character : shown);
    }
  });

  it('stays as it is where it has none', () => {
    for (const text of ['', 'plain', 'Grüße, 世界 👋', 'a\\u009bb']) assert.equal(printable(text), text);
  });

  it('of JSON is JSON of the same value', () =>
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: anyCharacter }), (value) => {
        const text = printableLines(JSON.stringify(value));
        assert.ok(!HOSTILE.test(text));
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      }),
    ));
});

describe('a log line as text', () => {
  it('is one line without control characters, whatever its message and fields hold', () =>
    fc.assert(
      fc.property(anyText, anyText, anyText, (msg, key, value) => {
        const json = JSON.stringify({ level: 'info', time: 't', name: 'n', msg, [`k${key}`]: value, list: [value] });
        const line = textLine(json, false);
        assert.ok(line.endsWith('\n') && !HOSTILE.test(line.slice(0, -1)), JSON.stringify(line));
      }),
    ));

  it('has the stack of an error below it, line by line and without control characters', () =>
    fc.assert(
      fc.property(anyText, (stack) => {
        const line = textLine(JSON.stringify({ level: 'error', msg: 'failed', err: { stack } }), true);
        for (const part of line.split('\n').slice(1)) assert.ok(!HOSTILE.test(part.replaceAll('\t', '')), line);
        assert.equal(line.split('\n').length, 2 + stack.split('\n').length);
      }),
    ));

  it('that is no JSON is shown without control characters too', () =>
    assert.equal(textLine('no JSON \u009b31m\n', false), 'no JSON \\u009b31m\n'));
});
