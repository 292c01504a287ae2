import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  cloudEventFaults,
  isBatchedMode,
  isBinaryMode,
  sourceAndId,
  structuredEvent,
  typeAdvice,
  type CloudEventField,
} from '../../lib/ingest/cloud-event.ts';
import { parseEvent } from '../../lib/ingest/event.ts';

const ATTRIBUTES: readonly CloudEventField[] = [
  ['ce-specversion', '1.0'],
  ['ce-id', '1234-1234-1234'],
  ['ce-source', '/mycontext/subcontext'],
  ['ce-type', 'com.example.someevent'],
];

const withField = (name: string, value: string): CloudEventField[] => [
  ...ATTRIBUTES.filter(([field]) => field !== name),
  [name, value],
];

function parsed(fields: readonly CloudEventField[], contentType: string | undefined, body: string | Buffer): unknown {
  const made = structuredEvent(fields, contentType, Buffer.from(body));
  assert.ok(made.valid, JSON.stringify(made));
  return JSON.parse(made.body.toString());
}

function refused(fields: readonly CloudEventField[], contentType: string | undefined, body: string | Buffer): string[] {
  const made = structuredEvent(fields, contentType, Buffer.from(body));
  assert.equal(made.valid, false, JSON.stringify(made));
  return made.errors.map(({ path }) => path);
}

describe('a CloudEvent in binary mode', () => {
  it('becomes the structured event with the exact bytes of the body as data (conformance cases)', () => {
    const fields: CloudEventField[] = [...ATTRIBUTES, ['ce-time', '2018-04-05T03:56:24Z'], ['host', 'example.com']];
    const { id, source, type } = {
      id: '1234-1234-1234',
      source: '/mycontext/subcontext',
      type: 'com.example.someevent',
    };
    const attributes = { specversion: '1.0', id, source, type, time: '2018-04-05T03:56:24Z' };
    for (const contentType of ['application/json', 'application/json; charset=utf-8']) {
      const event = { ...attributes, datacontenttype: contentType, data: { message: 'Hello World!' } };
      assert.deepEqual(parsed(fields, contentType, '{\n    "message": "Hello World!"\n}'), event);
    }
    const body = ' [1.50, 1e400, "\\u0000", "\\ud800", {"a":1,"a":2}] ';
    const made = structuredEvent(ATTRIBUTES, 'application/vnd.shop+json;v=1', Buffer.from(body));
    assert.ok(made.valid && made.body.toString().endsWith(`,"data":${body}}`));
  });

  it('stores other data in data_base64, JSON without a media type as data, and an empty body not at all', () => {
    for (const [contentType, body, data] of [
      ['application/octet-stream', Buffer.from([0, 255, 1, 254]), { data_base64: 'AP8B/g==' }],
      ['text/json-like', '{}', { data_base64: 'e30=' }],
      ['text/plain; profile=application/json', '{}', { data_base64: 'e30=' }],
      [undefined, '[1]', { data: [1] }],
      [undefined, 'hello', { data_base64: 'aGVsbG8=' }],
    ] as const) {
      const { data: json, data_base64: base64 } = parsed(ATTRIBUTES, contentType, body) as Record<string, unknown>;
      assert.deepEqual(
        { ...(json !== undefined && { data: json }), ...(base64 !== undefined && { data_base64: base64 }) },
        data,
      );
    }
    const none = parsed(ATTRIBUTES, undefined, '') as object;
    assert.deepEqual(Object.keys(none), ['specversion', 'id', 'source', 'type']);
  });

  it('never lets the body add members to the event', () => {
    for (const body of ['1,"id":"other"', '{}},{"id":"other"', '1}', '"a" "b"', ''.padEnd(3), '\ufeff{}']) {
      assert.deepEqual(refused(ATTRIBUTES, 'application/json', body), ['/data'], body);
    }
    assert.deepEqual(refused(ATTRIBUTES, 'application/json', Buffer.from([0x22, 0xff, 0x22])), ['/data']);
  });

  it('unquotes header values and decodes their percent-encoding once', () => {
    const cases: Readonly<Record<string, string>> = {
      'Euro%20%E2%82%AC%20%F0%9F%98%80': 'Euro € 😀',
      'Euro%20%e2%82%ac': 'Euro €',
      '"quoted \\"text\\" with a \\\\"': 'quoted "text" with a \\',
      '"%22"': '"',
      '%2541': '%41',
      '100%': '100%',
      '%zz': '%zz',
      'a"b"': 'a"b"',
      '"a" b': '"a" b',
      '': '',
    };
    for (const [value, expected] of Object.entries(cases)) {
      assert.equal((parsed(withField('ce-subject', value), undefined, '') as { subject: string }).subject, expected);
    }
  });

  it('refuses each wrong attribute with its path and the reason', () => {
    assert.deepEqual(refused([['ce-id', 'x']], undefined, ''), ['/specversion', '/source', '/type']);
    const NO_HEADER = 'must not be sent as header field ce-';
    const NOT_ASCII = 'must be printable ASCII, with everything else percent-encoded in UTF-8';
    for (const [fields, path, message] of [
      [ATTRIBUTES.slice(1), '/specversion', 'must be sent as header field ce-specversion'],
      [withField('ce-subject', '%C0%A0'), '/subject', NOT_ASCII],
      [withField('ce-subject', 'caf\u00e9'), '/subject', NOT_ASCII],
      [withField('ce-data', '{}'), '/data', `${NO_HEADER}data`],
      [withField('ce-data_base64', 'AA=='), '/data_base64', `${NO_HEADER}data_base64`],
      [withField('ce-datacontenttype', 'a/b'), '/datacontenttype', `${NO_HEADER}datacontenttype`],
      [withField('ce-', 'x'), '/', NO_HEADER],
      [[...ATTRIBUTES, ['ce-id', 'again']], '/id', 'must be sent once as header field ce-id'],
      [[...ATTRIBUTES, ['ce-__proto__', 'x']], '/__proto__', `${NO_HEADER}__proto__`],
    ] as const)
      assert.deepEqual(structuredEvent(fields, undefined, Buffer.from('')), {
        valid: false,
        detail: `${path.slice(1)} ${message}`,
        errors: [{ path, message }],
      });
  });
});

it('a CloudEvent in binary mode has the version 1.0 and a source, like one in structured mode', () => {
  for (const [name, value] of [
    ['specversion', '0.3'],
    ['source', ''],
  ] as const) {
    const made = structuredEvent(withField(`ce-${name}`, value), undefined, Buffer.from(''));
    const event = parseEvent(made.valid ? made.body : assert.fail(), cloudEventFaults);
    assert.deepEqual(event.valid ? [] : event.errors.map(({ path }) => path), [`/${name}`]);
  }
});

it('the mode of a request is binary by the header fields, unless the media type is that of a CloudEvent or a batch', () => {
  for (const [isBinary, fields, contentType] of [
    [true, ATTRIBUTES, 'application/json'],
    [true, [['ce-specversion', '1.0']], undefined],
    [true, [['ce-id', 'x']], 'text/plain'],
    [false, ATTRIBUTES, 'application/cloudevents+json'],
    [false, ATTRIBUTES, 'Application/CloudEvents-Batch+json'],
    [false, [['cement', '1']], 'application/json'],
  ] as const)
    assert.equal(isBinaryMode(fields, contentType), isBinary, String(contentType));
  assert.ok(isBatchedMode('application/cloudevents-batch+json; charset=utf-8'));
  assert.ok(!isBatchedMode('application/cloudevents+json'));
  assert.ok(!isBatchedMode(undefined));
});

it('advice is given about types that CloudEvents allows and the envelope does not', () => {
  const bodyOf = (type: unknown): Buffer => Buffer.from(JSON.stringify({ type }));
  for (const type of ['com.example/order', 'urn:shop:order', '/', 'https://example.com/order'])
    assert.match(typeAdvice(bodyOf(type)) ?? '', /dotted words/, type);
  for (const type of ['com.example.order', '', 'a b', 1, null, ['a/b'], undefined])
    assert.equal(typeAdvice(bodyOf(type)), undefined, JSON.stringify(type));
  for (const body of ['null', '"a/b"', '7', '[]', 'type: a/b', ''])
    assert.equal(typeAdvice(Buffer.from(body)), undefined, body);
  assert.equal(typeAdvice(Buffer.from('{"type":"a/\xff"}', 'latin1')), undefined, 'no UTF-8');
});

describe('the id that source and id make together', () => {
  const made = (source: unknown, id = 'order-1'): ReturnType<typeof sourceAndId> => {
    const event = parseEvent(Buffer.from(JSON.stringify({ id, type: 't', source })));
    assert.ok(event.valid);
    return sourceAndId(event);
  };

  it('joins source and id with a blank, however long the id alone may be', () => {
    for (const id of ['order-1', 'with blanks in it', 'x'.repeat(250)]) assert.equal(made('/shop', id), `/shop ${id}`);
  });

  it('needs a source that is a URI reference, and is neither too long nor has control characters', () => {
    for (const source of [undefined, null, '', 1, ['/shop'], '/my shop', ' ', '/shop\n', `/${'x'.repeat(250)}`]) {
      const fault = made(source);
      assert.ok(typeof fault === 'object', JSON.stringify(source));
      assert.equal(fault.path, '/source');
    }
  });
});

describe("a CloudEvent's attributes", () => {
  const faultsOf = (time: unknown) =>
    cloudEventFaults({ specversion: '1.0', source: '/s', id: 'a', type: 't', time }).map(({ path }) => path);

  it('may have a time of RFC 3339 that exists, leap seconds included', () => {
    for (const time of [
      ...['2026-01-31T12:00:00Z', '2026-01-31t12:00:00.123456z', '2026-01-31T12:00:00+05:30', '0000-01-01T00:00:00Z'],
      ...['2016-12-31T23:59:60Z', '2017-01-01T05:29:60+05:30', '2024-02-29T23:59:59.999-23:59', null],
    ])
      assert.deepEqual(faultsOf(time), [], String(time));
    for (const time of [
      ...['', '31 Jan 2026', 1_767_225_600, '2026-01-31', '2026-01-31T12:00:00', '2026-13-01T00:00:00Z'],
      ...['2026-02-30T00:00:00Z', '2025-02-29T12:00:00Z', '2026-04-31T12:00:00+02:00', '2026-00-10T12:00:00Z'],
      ...['2026-01-31T24:00:00Z', '2026-01-31T12:60:00Z', '2026-01-31T12:00:61Z', '2026-01-31T12:00:00+24:00'],
      ...['2026-01-31T12:00:00+01:60', '2016-12-31T23:58:60Z', '2016-12-30T23:59:60Z', '2016-12-31T23:59:60+01:00'],
    ])
      assert.deepEqual(faultsOf(time), ['/time'], String(time));
  });
});
