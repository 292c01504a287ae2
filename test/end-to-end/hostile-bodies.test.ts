// Bodies and ids that are meant to break something: each gets a documented answer, and a valid id comes back unchanged.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { event, PATIENT, TestGateway, type Reply, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { anyCharacter } from '../support/any-character.ts';

let redis: TestRedis;
let gateway: TestGateway;
let producer: ClientCertificate;
let client: TestClient;

before(async () => {
  let pki: Pki;
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  [gateway, producer] = await Promise.all([TestGateway.start(redis, pki, PATIENT), pki.producer('one')]);
  client = gateway.client(producer);
  atEnd(() => assertAlive(gateway));
});

const bytes = (...parts: (string | readonly number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))));

describe('a body that is no event gets 400 and adds nothing', () => {
  const nested = (open: string, close: string, levels: number): string =>
    `{"id":"deep","type":"a","data":${open.repeat(levels)}1${close.repeat(levels)}}`;
  const cases: Readonly<Record<string, string | Buffer>> = {
    nothing: Buffer.alloc(0),
    'white space': ' \n\t',
    'a literal': 'null',
    'an array': `[${event('in-array')}]`,
    'a string': JSON.stringify(event('in-string')),
    'an event and a half': `${event('one')}${event('two')}`,
    'an event and a NUL': `${event('nul-behind')}\0`,
    'a byte order mark': bytes([0xef, 0xbb, 0xbf], event('bom')),
    'UTF-16': Buffer.from(event('utf-16'), 'utf16le'),
    'invalid UTF-8 in the id': bytes('{"id":"', [0xff, 0xfe], '","type":"a"}'),
    'invalid UTF-8 in the data': bytes('{"id":"x","type":"a","data":"', [0xc3], '"}'),
    'an overlong encoding': bytes('{"id":"x', [0xc0, 0xaf], '","type":"a"}'),
    'a surrogate encoded in UTF-8': bytes('{"id":"x', [0xed, 0xa0, 0x80], '","type":"a"}'),
    'a NUL in the id': '{"id":"a\\u0000b","type":"a"}',
    'a bare NUL in the id': '{"id":"a\0b","type":"a"}',
    'a DEL in the id': '{"id":"a\\u007f","type":"a"}',
    'a lone high surrogate in the id': '{"id":"a\\ud800","type":"a"}',
    'a lone low surrogate in the id': '{"id":"\\udc00a","type":"a"}',
    'surrogates the wrong way round': '{"id":"\\udc00\\ud800","type":"a"}',
    'an id that is too long': event('x'.repeat(257)),
    'an empty id': event(''),
    'an id that is a number': '{"id":1,"type":"a"}',
    'an id that is only inherited': '{"__proto__":{"id":"inherited","type":"a"}}',
    'an id from a constructor': '{"constructor":{"prototype":{"id":"x"}},"type":"a"}',
    'a type with an empty word': '{"id":"x","type":"a..b"}',
    'a type that ends in a line break': '{"id":"x","type":"a\\n"}',
    'arrays 100,000 deep': nested('[', ']', 100_000),
    'objects 40,000 deep': nested('{"a":', '}', 40_000),
    'arrays that never close': `{"id":"x","type":"a","data":${'['.repeat(200_000)}`,
    'arrays 64 deep in the event': nested('[', ']', 64),
  };
  for (const [name, body] of Object.entries(cases)) {
    it(name, async () => {
      await addsNothing(redis, async () => assertProblem(await client.post(body), 400, 'INVALID_EVENT'));
    });
  }
});

describe('a body that only looks dangerous is taken, and comes back as it was', { tags: ['long'] }, () => {
  const cases: Readonly<Record<string, string>> = {
    'members called __proto__':
      '{"id":"p1","type":"a","__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
    'an id called __proto__': event('__proto__'),
    'an id called constructor': event('constructor'),
    'arrays 63 deep in the event': `{"id":"p2","type":"a","data":${'['.repeat(63)}${']'.repeat(63)}}`,
    'brackets in a string': event('p3', { data: '[{'.repeat(10_000) }),
    'NUL and lone surrogates in the data': '{"id":"p4","type":"a","data":"\\u0000 \\ud800 \\udc00"}',
    'a number no double holds': '{"id":"p5","type":"a","data":123456789012345678901234567890.1e999}',
    "an id of Redis' own words": event('*3\r\n'.replace(/[\r\n]/g, ' ')),
    'an id that looks like a path': event('../../health/live'),
    'an id that looks like a query': event('a?b=c&d#e'),
    'an id that is percent-encoded already': event('%00%2F%'),
    'an id of dots': event('..'),
    'an id of spaces': event('   '),
  };
  for (const [name, body] of Object.entries(cases)) {
    it(name, async () => {
      const { id } = JSON.parse(body) as { id: string };
      assert.deepEqual((await client.post(body)).json, { id, status: 'accepted' });
      assert.equal((await redis.entries()).at(-1)?.fields['body'], body);
      const found = await client.find(id);
      assert.equal(found.status, 200, found.body);
      assert.ok(found.body.endsWith(`,"event":${body}}`));
    });
  }

  it('and a look-up of what can be no id is 404', async () => {
    for (const path of [
      '/events/%00',
      '/events/%ff',
      '/events/%',
      '/events/%ed%a0%80',
      '/events/a%0Ab',
      `/events/${'x'.repeat(257)}`,
    ]) {
      assertProblem(await client.ask({ path }), 404, 'EVENT_NOT_FOUND');
    }
    for (const path of ['/events/', '/events/a/b', '//events', '/EVENTS'])
      assertProblem(await client.ask({ path, method: 'GET' }), 404, 'ROUTE_NOT_FOUND');
  });
});

describe('for any input', { tags: ['long'] }, () => {
  const DOCUMENTED: Readonly<Record<number, readonly string[]>> = {
    400: ['INVALID_EVENT'],
    409: ['EVENT_ID_CONFLICT'],
    413: ['INVALID_EVENT'],
    415: ['INVALID_EVENT'],
    431: ['HEADERS_TOO_LARGE'],
  };

  function assertDocumented(reply: Reply): void {
    assert.ok(reply.headers['x-request-id']);
    if (reply.status === 202) assert.equal(reply.json?.['status'], 'accepted');
    else
      assertProblem(
        reply,
        reply.status,
        DOCUMENTED[reply.status]?.find((code) => code === reply.json?.['code']) ?? 'none',
      );
  }

  const anyBody = fc.oneof(
    fc.uint8Array({ maxLength: 2_000 }).map((array) => Buffer.from(array)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .record(
        { id: fc.string({ unit: anyCharacter, maxLength: 300 }), type: fc.string(), data: fc.jsonValue() },
        { requiredKeys: [] },
      )
      .map((value) => Buffer.from(JSON.stringify(value))),
    // An event with one byte changed.
    fc.tuple(fc.nat(), fc.nat(255)).map(([at, value]) => {
      const body = Buffer.from(event('mutated', { data: [1, { a: 'é' }] }));
      body[at % body.length] = value;
      return body;
    }),
  );

  it('any bytes as a body get a documented answer, and 202 only with an entry behind it', async () => {
    await fc.assert(
      fc.asyncProperty(anyBody, async (body) => {
        const before = await redis.length();
        const reply = await client.post(body);
        assertDocumented(reply);
        const added = (await redis.length()) - before;
        assert.equal(added, reply.status === 202 && reply.json?.['duplicate'] === undefined ? 1 : 0);
      }),
      { numRuns: 400 },
    );
  });

  it('any media type and request id get a documented answer', async () => {
    const headerText = fc.string({
      unit: fc
        .integer({ min: 0x20, max: 0xff })
        .filter((code) => code !== 0x7f)
        .map((code) => String.fromCharCode(code)),
      maxLength: 200,
    });
    await fc.assert(
      fc.asyncProperty(headerText, headerText, async (type, requestId) => {
        const reply = await client.post(event('any-header'), { 'content-type': type, 'x-request-id': requestId });
        assertDocumented(reply);
        const value = requestId.replace(/^ +| +$/g, ''); // Not part of a header's value (RFC 9110, section 5.5).
        if (/^[\x21-\x7e]{1,128}$/.test(value)) assert.equal(reply.headers['x-request-id'], value);
        else assert.match(String(reply.headers['x-request-id']), /^[0-9a-f-]{36}$/);
      }),
      { numRuns: 150 },
    );
  });

  const validId = fc.string({
    unit: fc
      .integer({ min: 0x20, max: 0x10ffff })
      .filter((code) => code !== 0x7f && (code < 0xd800 || code > 0xdfff))
      .map((code) => String.fromCodePoint(code)),
    minLength: 1,
    maxLength: 256,
  });

  it('any valid id survives POST and GET unchanged', async () => {
    // A database of its own: no id has been used before.
    const fresh = await TestGateway.start(redis, gateway.pki, { ...PATIENT, INGEST_QUEUE_URI: `${redis.uri}/1` });
    const client = fresh.client(producer);
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(validId, fc.string({ minLength: 1, maxLength: 256, unit: 'grapheme-ascii' })),
        async (id) => {
          const posted = await client.post(event(id));
          assert.equal(posted.status, 202, posted.body);
          assert.equal(posted.json?.['id'], id);
          const found = await client.find(id);
          assert.equal(found.status, 200, found.body);
          assert.equal(found.json?.['id'], id);
          assert.deepEqual(found.json['event'], { id, type: 'test.event' });
        },
      ),
      { numRuns: 200 },
    );
    await assertAlive(fresh);
  });
});
