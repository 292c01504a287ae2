import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EventFault } from '../../lib/ingest/errors.ts';
import { DEPTH_MAX, EventSchema, isEventId, parseEvent } from '../../lib/ingest/event.ts';

const parse = (text: string): ReturnType<typeof parseEvent> => parseEvent(Buffer.from(text));

function faultsOf(body: string | Buffer): readonly EventFault[] {
  const event = parseEvent(typeof body === 'string' ? Buffer.from(body) : body);
  assert.ok(!event.valid, 'it was taken for an event');
  return event.errors;
}

describe('an event', () => {
  it('returns id, type and the unchanged body', () => {
    const text = ' {"type":"a.b-c.d_1", "\\u0069d":"x\\u002fy", "id2":null, "n":1e2}\r\n';
    assert.deepEqual(parse(text), { valid: true, id: 'x/y', type: 'a.b-c.d_1', body: Buffer.from(text) });
  });

  it('refuses a repeated id or type, which different readers read differently, but no other repeated name', () => {
    for (const [name, body] of [
      ['id', '{"id":"b","id":"a","type":"t"}'],
      ['id', '{"id":"a","type":"t","n":[{"id":"c"}], "i\\u0064" : "a"}'],
      ['type', '{"id":"a","type":"t","type":"t"}'],
      ['id', '{\r\n\t"\\u0069\\u0064" : "a", "id":"a","d":"\\"id\\":1,","type":"t"}'],
      ['type', '{"\\u0074ype":"t","id":"a","d":"\\"{[","type":"t"}'],
      ['type', '{"t\\u0079pe":"t","id":"a","type":"t"}'],
    ] as const)
      assert.deepEqual(faultsOf(body), [{ path: `/${name}`, message: 'must be there once' }], body);
    for (const body of [
      '{"id":"id","type":"type","names":["id","type"],"d":{"id":1,"id":2,"type":3}}',
      '{"d":{"id":1},"id":"a\\"","e":[[{"type":1}]],"type":"t","f":"\\u0000","x":1,"x":2}',
      '{"__proto__":{"id":1},"constructor":0,"id":"a","type":"t","data":"\\ud800"}',
      '{"\\\\u0069d":1,"\\"id":1,"Id":1," id":1,"di":1,"id":"a","type":"t","e":"\\u0000"}',
    ])
      assert.equal(parse(body).valid, true, body);
    assert.equal(({} as Record<string, unknown>)['id'], undefined);
  });

  it('distinguishes a missing member from a wrong one, and requires its own: __proto__ has none for it', () => {
    assert.deepEqual(faultsOf('{"type":"t"}'), [{ path: '/id', message: 'is missing' }]);
    assert.deepEqual(faultsOf('{"id":"a","id":"a"}'), [{ path: '/type', message: 'is missing' }]);
    for (const id of ['null', '""']) {
      const [fault, ...others] = faultsOf(`{"id":${id},"type":"t"}`);
      assert.deepEqual([fault?.path, fault?.message === 'is missing', others], ['/id', false, []]);
    }
    const paths = faultsOf('{"__proto__":{"id":"a","type":"t"}}').map(({ path }) => path);
    assert.deepEqual(paths, ['/id', '/type']);
  });

  it('has a type of dotted words', () => {
    const isValid = (type: unknown): boolean => parse(JSON.stringify({ id: 'a', type })).valid;
    for (const type of ['a', 'a.b', 'A-1._', '0', 'x'.repeat(256)]) assert.ok(isValid(type), type);
    for (const type of ['', '.', 'a.', '.a', 'a..b', 'a b', 'é', 'a\n', 'a/b', 'x'.repeat(257), 7, null, ['a']])
      assert.ok(!isValid(type), JSON.stringify(type));
  });

  it('has one fault for each path, with the expectation, and is one object', () => {
    const body = JSON.stringify({ id: `\u0000${'x'.repeat(300)}`, type: '' });
    const event = parse(body);
    assert.match('detail' in event ? event.detail : '', /^id must be a string of .* \(and 1 more, see errors\)$/);
    const found = faultsOf(body).map(({ path, message }) => `${path} ${message}`);
    assert.equal(found.length, 2);
    for (const [at, path] of ['/id', '/type'].entries())
      assert.match(found[at] ?? '', new RegExp(`^${path} must be .*256 characters`));
    for (const other of ['null', '1', '"text"', '[]', '[{"id":"a","type":"t"}]', 'true'])
      assert.deepEqual(faultsOf(other), [{ path: '', message: 'must be one JSON object: one event per request' }]);
  });
});

describe('an id', () => {
  const smile = '\u{1F600}';
  it('has 1 to 256 characters, no control character, and no half of a surrogate pair', () => {
    for (const id of [
      ...['x', ' !"\\|}~', 'x'.repeat(256), 'é'.repeat(256), smile.repeat(256), `${'x'.repeat(255)}${smile}`],
      'a\u0080',
    ])
      assert.ok(isEventId(id), JSON.stringify(id));
    for (const id of [
      ...['', 'x'.repeat(257), 'é'.repeat(257), smile.repeat(257), 'a\0', '\u001f', 'a\u007fb', 'a\n', 'é\n'],
      ...[`é${smile.slice(0, 1)}`, `${smile.slice(1)}é`, 1, ['a'], null, undefined],
    ])
      assert.ok(!isEventId(id), JSON.stringify(id));
  });

  it('accepts the same ids by its schema', () => {
    const { type, minLength, maxLength, pattern } = EventSchema.properties.id as unknown as Record<string, string>;
    assert.deepEqual([type, minLength, maxLength], ['string', 1, 256]);
    assert.equal(EventSchema.additionalProperties, true);
    for (const flags of ['', 'u']) {
      const allowed = new RegExp(pattern ?? '', flags);
      const differs = (id: string): boolean => allowed.test(id) !== isEventId(id);
      const units = Array.from({ length: 0x10000 }, (_, code) => String.fromCharCode(code));
      assert.deepEqual(units.filter(differs), [], flags);
      assert.deepEqual(
        [smile, `a${smile}${smile}é`, smile.slice(1), `${smile}${smile.slice(0, 1)}`].filter(differs),
        [],
      );
    }
  });
});

describe('the bytes of an event', () => {
  const good = '{"id":"a","type":"t"}';
  const NOT_JSON = 'the body is not JSON:';
  const AFTER = 'the body is not JSON: Unexpected non-whitespace character after JSON at position 21';
  for (const [what, body, message] of [
    ['nothing', '', 'the body is empty'],
    ['a comment', `${good}//`, AFTER],
    ['a second value', good + good, AFTER],
    ['NUL after the value', `${good}\0`, AFTER],
    ['a byte order mark', `\ufeff${good}`, 'the body begins with a byte order mark'],
    ['a truncated character', Buffer.from([...Buffer.from('{"id":"'), 0xe2, 0x82]), 'the body is not valid UTF-8'],
    ['an overlong character', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 'the body is not valid UTF-8'],
    ['a surrogate in UTF-8 clothes', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'the body is not valid UTF-8'],
    ['a bare word, without quoting it', '{"a": secret}', `${NOT_JSON} Unexpected token in JSON at position 6`],
    ['a bare word far from the beginning', `["${'x'.repeat(5_000)}", secret]`, `${NOT_JSON} Unexpected token in JSON`],
    ['a missing value', '{"a": "at position 3", "b":[1, ]}', `${NOT_JSON} Unexpected token in JSON at position 31`],
    ['a comma at the end', '{"a":1,}', `${NOT_JSON} Expected double-quoted property name in JSON at position 7`],
    ['single quotes', "{'id':1}", `${NOT_JSON} Expected property name or '}' in JSON at position 1`],
    ['no end', '{"id":"a"', `${NOT_JSON} Expected ',' or '}' after property value in JSON at position 9`],
    ['no end of a string', '{"id":"a', `${NOT_JSON} Unterminated string in JSON at position 8`],
    ['no value', '{"id":', `${NOT_JSON} Unexpected end of JSON input at position 6`],
    ['a raw control', '{"a":"\u0001"}', `${NOT_JSON} Bad control character in string literal in JSON at position 6`],
  ] as const)
    it(`refuses ${what}`, () => assert.deepEqual(faultsOf(Buffer.from(body)), [{ path: '', message }]));

  const nested = (levels: number, open: string, close: string): string =>
    `{"id":"a","type":"t","d":${open.repeat(levels - 1)}0${close.repeat(levels - 1)}}`;
  it(`accepts ${DEPTH_MAX} levels and no more, however deep the body is, and counts no brackets in strings`, () => {
    const message = `the body is nested deeper than ${DEPTH_MAX} levels`;
    for (const [open = '', close = ''] of [
      ['[', ']'],
      ['{"a":', '}'],
    ]) {
      assert.equal(parse(nested(DEPTH_MAX, open, close)).valid, true);
      for (const levels of [DEPTH_MAX + 1, 1_000, 100_000])
        assert.deepEqual(faultsOf(nested(levels, open, close)), [{ path: '', message }]);
      assert.equal(faultsOf(open.repeat(100_000))[0]?.path, '');
      assert.equal(faultsOf(`${open.repeat(100)}0${close.repeat(100)}`)[0]?.message, message);
      assert.equal(parse(nested(DEPTH_MAX, open, close).replace('"d":', '"c":[[{}]],"d":')).valid, true);
    }
    const brackets = '[{'.repeat(200);
    const siblings = Array.from({ length: 500 }, () => [{}]);
    for (const more of [{ d: brackets, e: `\\"${brackets}\\` }, { d: siblings }])
      assert.equal(parse(JSON.stringify({ id: 'a', type: 't', ...more })).valid, true);
  });
});

it('the check decides any bytes without throwing, and returns the unchanged body of an event', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const event = parseEvent(Buffer.from(bytes));
      if (event.valid) assert.deepEqual(event.body, Buffer.from(bytes));
      else assert.ok(event.errors.length > 0 && event.detail !== '');
    }),
    { numRuns: 5_000 },
  );
});

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

it('the faults of an envelope name each member that is missing or repeated, however its name is written', () => {
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
