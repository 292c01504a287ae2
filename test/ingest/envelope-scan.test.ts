import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { scanEnvelope } from '../../lib/ingest/envelope-scan.ts';
import { DEPTH_MAX, parseEvent } from '../../lib/ingest/event.ts';
import { webhookEvents } from '../support/webhooks.ts';

function agrees(body: Buffer): boolean {
  const scanned = scanEnvelope(body);
  if (scanned === undefined) return false;
  const parsed = parseEvent(body);
  assert.ok(parsed.valid, `scanned, but no event: ${body.toString('latin1')}`);
  assert.deepEqual(scanned, { id: parsed.id, type: parsed.type });
  return true;
}

const nested = (levels: number): string =>
  `{"id":"a","type":"t","d":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

const PLAIN = [
  '{"id":"a","type":"t"}',
  ' { "type" : "a.b-c.d_1" , "id" : "x y~" } ',
  '{"id":"a","type":"t","data":{"n":[0,-0,1.5,1e2,-1E+2,10.0e-3,true,false,null,{},[],[[]],""]}}',
  '{"id":"a","type":"t","data":"\\u0000 \\ud800 \\"\\\\\\/\\b\\f\\n\\r\\t \\\\","more":"é \u{1F600} \u2028 \u007f"}',
  '{"__proto__":{"id":1},"constructor":0,"id":"a","type":"t","Id":1,"":2,"typo":"}{"}',
  `{"id":"${'x'.repeat(256)}","type":"${'x'.repeat(256)}"}`,
  nested(DEPTH_MAX),
  '{\n"id":"a",\t"type":"t"}\r\n',
  '{"id":"é \u{1F600}","type":"t"}',
  `{"id":"a","type":"t","d":"${'x'.repeat(300_000)}"}`,
];

const LEFT_TO_THE_PARSER = [
  ...[
    '',
    ' ',
    '{',
    '{}',
    '[]',
    'null',
    '"id"',
    '{"id":"a"}',
    '{"type":"t"}',
    '[{"id":"a","type":"t"}]',
    '["id":"a","type":"t"}',
    '"id":"a","type":"t"}',
    'x"id":"a","type":"t"}',
    '\ufeff{"id":"a","type":"t"}',
  ],
  ...[
    '{"id":"a","type":"t"}x',
    '{"id":"a","type":"t"}}',
    '{"id":"a","type":"t",}',
    '{,"id":"a","type":"t"}',
    '{"id":"a" "type":"t"}',
  ],
  ...[
    '{"id":"a","type":"t"',
    '{"id":"a","type":"t',
    '{"id":"a","type":"t\\',
    '{"id":"a","type":"t\\"}',
    '{"id":"a","type":"t","d":"\\',
  ],
  ...[
    '01',
    '1.',
    '.5',
    '+1',
    '-',
    '1e',
    '1e+',
    '0x1',
    'tru',
    'nul',
    'True',
    'NaN',
    "'a'",
    '"\\x"',
    '"\\u12g4"',
    '"\\u12"',
    '\\"a"',
    '[1,]',
    '[,1]',
    '{"a"}',
    '[}',
    '{]',
    '{a:1}',
    '',
  ].map((value) => `{"id":"a","type":"t","d":${value}}`),
  ...['""', '1', 'null', '["a"]', '{"a":"b"}', '"\\u0061"', '"a\\n"', '"\u007f"', `"${'x'.repeat(257)}"`].map(
    (id) => `{"id":${id},"type":"t"}`,
  ),
  ...['""', '1', '"."', '"a."', '".a"', '"a..b"', '"a b"', '"é"', '"\\u0061"', `"${'x'.repeat(257)}"`].map(
    (type) => `{"id":"a","type":${type}}`,
  ),
  ...['{"id":"a","\\u0069d":"b","type":"t"}', '{"i\\u0064":"a","type":"t"}', '{"id":1,"id":"a","type":"t"}'],
  '{"id":"a","id":"b","type":"t"}',
  '{"type":"t","id":"a","d":1,"type":"u"}',
  ...['{"id":"é","id":"a","type":"t"}', '{"id":"a","type":"","type":"t"}'],
  ...['{"id":"a","type":"t","d":"\u0000"}', '{"id":"a","type":"t","d":"a\nb"}', '{"id":"a","type":"t"}\u0000'],
  nested(DEPTH_MAX + 1),
];

describe('the scan of an envelope', () => {
  for (const body of PLAIN) it(`reads ${body.slice(0, 60)}`, () => assert.equal(agrees(Buffer.from(body)), true));

  for (const body of LEFT_TO_THE_PARSER) {
    it(`leaves ${JSON.stringify(body).slice(0, 60)} to the parser`, () =>
      assert.equal(agrees(Buffer.from(body)), false));
  }

  it('leaves bytes that are not UTF-8 to the parser', () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80]]) {
      assert.equal(
        agrees(Buffer.concat([Buffer.from('{"id":"a","type":"t","d":"'), Buffer.from(bytes), Buffer.from('"}')])),
        false,
      );
    }
  });

  it('reads nothing of an earlier, longer body', () => {
    assert.equal(agrees(Buffer.from(`{"id":"a","type":"t","d":"${'x'.repeat(1_000)}"}`)), true);
    assert.equal(agrees(Buffer.from('{"id":"a","type":"t","d":"')), false);
    assert.equal(agrees(Buffer.from('{"id":"b","type":"t"')), false);
  });

  it('reads blanks anywhere, numbers and escapes in every form, and members of any name', () => {
    for (const members of [
      '"d":{ },"e":[ ],"f":[ 1 , 2 ] , "g" : { "a" : 1 }',
      ...['0', '-0', '-1', '10', '0.0', '-0.5', '1e5', '1E5', '1e-05', '0e0', '1.5E+10'].map((n) => `"d":${n}`),
      ...[...'"\\/bfnrt'].map((escaped) => `"d":"\\${escaped}"`),
      '"d":"\\u09af\\uAF09x","e":"\\n","f":"","g":"\\\\"',
      '"d":"\\n","e":"x","f":"\\"","g":"\\"","h":"\\\\\\"}"',
      '"i":1,"d":2,"idd":3,"ie":4,"ad":5,"ID":6',
      '"typ":1,"types":2,"typf":3,"tyqe":4,"tzpe":5,"uype":6',
      '"d":{"id":1,"type":2},"e":[{"id":null}]',
    ])
      for (const body of [`{"id":"a","type":"t",${members}}`, `{${members},"id":"a","type":"t"}`])
        assert.equal(agrees(Buffer.from(body)), true, body);
  });

  it('leaves a body with one wrong character to the parser', () => {
    for (const value of [
      ...['-a', '00', '-01', '1.e1', '1.5.', 'e1', '2e+-1', '1e5e', '1-', '--1', '1 2'],
      ...['t', 'tr', 'trux', 'truee', 'tRue', 'f', 'falsx', 'n', 'nulx', 'nulll', 'x'],
      ...['"\\ug000"', '"\\u0g00"', '"\\u00g0"', '"\\u000g"', '"\\u"', '"\\U0000"', '"\\ "', '"\\', '"a'],
      ...['"a"\\n"', '""\\""', '"\\n"\\n"', '["\\n","\\x"]', '["\\"","a","\\u12"]', '["\\n","\\"]'],
      ...['[', '{', '[1', '{"a":1', '[1}', '{"a":1]', '[[]', '{"a":}', '{"a" 1}', '{"a":1,}', '{1:1}', '[1 2]', '[,]'],
      ...['{"a";1}', '{"a":1;"b":2}', '[1;2]', '{xa":1}', '{1a":1}', 'xa"'],
    ])
      for (const body of [`{"id":"a","type":"t","d":${value}}`, `{"d":${value},"id":"a","type":"t"}`])
        assert.equal(agrees(Buffer.from(body)), false, body);
    for (const body of [
      '{"ie":"a","type":"t"}',
      '{"id":"a","typf":"t"}',
      '{"type":"t","d":{"id":"a"}}',
      '{"id":"a","d":{"type":"t"}}',
      '{"id":"a","type":"t","id":1}',
      '{"id":"a","type":"t","type":""}',
    ])
      assert.equal(agrees(Buffer.from(body)), false, body);
  });

  it('reads every valid character of id and type, and leaves all others to the parser', () => {
    for (let code = 0x20; code <= 0xff; code += 1) {
      const character = String.fromCharCode(code);
      const plain = !/[\u007f"\\]/.test(character);
      for (const id of [`${character}b`, `a${character}b`, `a${character}`])
        assert.equal(agrees(Buffer.from(`{"id":"${id}","type":"t"}`)), plain, id);
      const type = `a${character}b`;
      assert.equal(agrees(Buffer.from(`{"id":"a","type":"${type}"}`)), /^[A-Za-z0-9_.-]+$/.test(type), type);
    }
  });

  it('finds a control character and an invalid byte at any position', () => {
    for (const blanks of ['', ' ', '  ', '   '])
      for (let at = 0; at <= 9; at += 1) {
        const bodyWith = (middle: readonly number[]): Buffer =>
          Buffer.concat([
            Buffer.from(`${blanks}{"id":"a","type":"t","d":"${'x'.repeat(at)}`),
            Buffer.from(middle),
            Buffer.from(`${'x'.repeat(9 - at)}"}`),
          ]);
        for (const unit of [0x00, 0x01, 0x09, 0x0a, 0x1f, 0x80, 0xbf, 0xc3, 0xff])
          assert.equal(agrees(bodyWith([unit])), false, `${unit} at ${at}`);
        for (const character of [[0x20], [0x7f], [0xc3, 0xa9], [0xe2, 0x82, 0xac], [0xf0, 0x9f, 0x98, 0x80]])
          assert.equal(agrees(bodyWith(character)), true, `${character.join()} at ${at}`);
      }
  });

  it('reads every webhook of the collection', () => {
    for (const { body } of webhookEvents())
      assert.equal(agrees(Buffer.from(JSON.stringify(JSON.parse(body)))), agrees(Buffer.from(body)));
  });

  it('agrees with the parser about any JSON', () => {
    const events = fc
      .tuple(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, ' '))
      .map(([id, data, space]) => JSON.stringify({ id, data, type: 'a.b', more: [id, data] }, undefined, space));
    fc.assert(
      fc.property(events, (text) => void agrees(Buffer.from(text))),
      { numRuns: 2_000 },
    );
  });

  it('agrees with the parser about events with one or two changed bytes', () => {
    const interesting = fc.oneof(
      fc.constantFrom(...Buffer.from('{}[]",:\\ \t\n\u0000/0-+.eEu19aftn')),
      fc.integer({ min: 0, max: 255 }),
    );
    const change = fc.tuple(fc.nat(), fc.constantFrom(0, 1), fc.array(interesting, { maxLength: 2 }));
    const cases = fc.tuple(
      fc.constantFrom(...PLAIN.filter((body) => body.length < 400)),
      fc.array(change, { minLength: 1, maxLength: 3 }),
    );
    let read = 0;
    fc.assert(
      fc.property(cases, ([text, changes]) => {
        let body = Buffer.from(text);
        for (const [at, out, put] of changes) {
          const from = at % (body.length + 1);
          body = Buffer.concat([body.subarray(0, from), Buffer.from(put), body.subarray(from + out)]);
        }
        if (agrees(body)) read += 1;
      }),
      { numRuns: 20_000 },
    );
    assert.ok(read > 1_000, 'enough of them are still events');
  });
});
