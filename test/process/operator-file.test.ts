import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { strictJson, textOf } from '../../lib/process/operator-file.ts';

describe('JSON in a file that a person writes', () => {
  it('is refused with the place of a name that is repeated at any depth, in any spelling', () => {
    for (const [text, pointer] of [
      ['{"a":1,"a":1}', '/a'],
      [String.raw`{"a":1,"\u0061":2}`, '/a'],
      ['{"x":[0,{"y":{"b":{},"c":"}","b":[]}}]}', '/x/1/y/b'],
      ['[[{}],{"a/b~":1,"c":[1,2],"a/b~":{}}]', '/1/a~1b~0'],
      ['{"__proto__":{},"__proto__":{}}', '/__proto__'],
    ] as const)
      assert.throws(() => strictJson(text), { name: 'SyntaxError', message: `the name at ${pointer} is repeated` });
  });

  it('may have one name in several objects, in another case, and as a value', () => {
    const text = String.raw`{"a":{"a":["a","a",{"a":"\",\"a\":"}]},"A":"a","b":[{"a":1},{"a":2}],"":{}}`;
    assert.deepEqual(strictJson(text), JSON.parse(text));
    assert.equal(strictJson('"a"'), 'a');
    assert.throws(() => strictJson('{"a":'), SyntaxError);
  });
});

it('a file that a person writes is read without its byte order mark, and refused if it is not UTF-8', () => {
  assert.equal(textOf(Buffer.from('\uFEFF{}\uFEFF')), '{}\uFEFF');
  for (const bytes of [Buffer.from('\uFEFF{}', 'utf16le'), Buffer.from('ü', 'latin1')])
    assert.throws(() => textOf(bytes), TypeError);
});
