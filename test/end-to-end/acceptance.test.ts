import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { fileGateway } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';

const { redis, pki, client } = await fileGateway();

const BODIES: Readonly<Record<string, string>> = {
  'white space, key order, duplicate keys and escapes':
    ' {\t"type" : "a.b",\r\n "id":"as\\u002dsent", "n":1.0e+2, "n": 2, "s":"\\ud83d\\ude00 \u{1F600} \\u0000 \\ud800" }\n',
  'members called __proto__':
    '{"id":"p1","type":"a","__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  'arrays 63 deep in the event': `{"id":"p2","type":"a","data":${'['.repeat(63)}${']'.repeat(63)}}`,
  'brackets in a string': event('p3', { data: '[{'.repeat(10_000) }),
  'NUL and lone surrogates in the data': '{"id":"p4","type":"a","data":"\\u0000 \\ud800 \\udc00"}',
  'a number that no double holds': '{"id":"p5","type":"a","data":123456789012345678901234567890.1e999}',
};

describe('an accepted event is stored and returned as it was sent', () => {
  for (const [name, body] of Object.entries(BODIES))
    it(`with ${name}`, async () => {
      const { id } = JSON.parse(body) as { id: string };
      assert.deepEqual((await client.post(body)).json, { id, status: 'accepted' });
      assert.equal((await redis.entries()).at(-1)?.fields['body'], body);
      const found = await client.find(id);
      assert.equal(found.status, 200, found.body);
      assert.ok(found.body.endsWith(`,"event":${body}}`), found.body);
    });
});

async function assertKept(id: string): Promise<void> {
  assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted' });
  const found = await client.find(id);
  assert.deepEqual([found.status, found.json?.['id'], found.json?.['status']], [200, id, 'accepted'], found.body);
  assert.deepEqual(found.json?.['event'], { id, type: 'test.event' });
}

const validId = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0x10ffff })
    .filter((code) => code !== 0x7f && (code < 0xd800 || code > 0xdfff))
    .map((code) => String.fromCodePoint(code)),
  minLength: 1,
  maxLength: 256,
});

describe('an id is the same in the answer, the queue and the lookup', () => {
  it('if it has the minimum or maximum length or resembles a path, a query or a Redis command', async () => {
    for (const id of [
      'x',
      'y'.repeat(64),
      'y'.repeat(65),
      `${'y'.repeat(255)}a`,
      `${'y'.repeat(255)}b`,
      '\u{1F600}'.repeat(256),
      'a/b?c#d%2F e',
      '__proto__',
      'constructor',
      '*3  $3',
      '../../health/live',
      '%00%2F%',
      '   ',
    ])
      await assertKept(id);
  });

  it('if it is any other valid id', { tags: ['long'] }, async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(validId, async (id) => {
        if (seen.has(id) || id.length < 3) return;
        seen.add(id);
        await assertKept(id);
      }),
      { numRuns: 200 },
    );
  });
});

it('a gateway whose warehouse is unavailable starts, logs a warning and accepts events', async () => {
  const unreachable = 'postgres://nobody@127.0.0.1:1/none';
  const gateway = await TestGateway.start(redis, pki, { INGEST_WAREHOUSE_URI: unreachable });
  await gateway.line(/the warehouse did not pass its check at startup: look-ups answer 503 until it can be queried/);
  const other = gateway.client(await pki.producer('one'));
  assert.equal((await other.post(event('without-a-warehouse'))).status, 202);
  assert.equal((await other.find('without-a-warehouse')).status, 503);
});
