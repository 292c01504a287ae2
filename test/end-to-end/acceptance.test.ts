// test/ingest/cloud-event.test.ts has the conformance cases of CloudEvents.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { CloudEvent, emitterFor, HTTP, Mode, type Message } from 'cloudevents';
import { fileGateway } from '../support/file-gateway.ts';
import { event, type Reply } from '../support/gateway.ts';
import { addsNothing, assertProblem } from '../support/verdicts.ts';
import { askRaw, requestText } from '../support/wire.ts';

const BODY_BYTES_MAX = 100_000;
const { redis, producer, gateway, client } = await fileGateway({ INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX) });

const BODIES = [
  ' {\t"type" : "a.b",\r\n "id":"as\\u002dsent", "n":1.0e+2, "n": 2, "s":"\\ud83d\\ude00 \u{1F600} \\u0000 \\ud800" }\n',
  '{"id":"p1","type":"a","__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  `{"id":"p2","type":"a","data":${'['.repeat(63)}${']'.repeat(63)}}`,
  event('p3', { data: '[{'.repeat(10_000) }),
  '{"id":"p4","type":"a","data":"\\u0000 \\ud800 \\udc00"}',
  '{"id":"p5","type":"a","data":123456789012345678901234567890.1e999}',
];

const storedBodies = async (): Promise<string[]> =>
  (await redis.entries()).map(({ fields }) => fields['body'] ?? assert.fail());

it('an accepted event is stored and returned as it was sent', async () => {
  for (const body of BODIES) {
    const { id } = JSON.parse(body) as { id: string };
    assert.deepEqual((await client.post(body)).json, { id, status: 'accepted' });
    assert.equal((await storedBodies()).at(-1), body);
    const found = await client.find(id);
    assert.equal(found.status, 200, found.body);
    assert.ok(found.body.endsWith(`,"event":${body}}`), found.body);
  }
});

const CODINGS = { gzip: gzipSync, zstd: zstdCompressSync } as const;

const postCoded = (coding: string, body: Buffer): Promise<Reply> =>
  client.post(body, { 'content-type': 'application/json', 'content-encoding': coding });

async function postChunked(coding: string, body: Buffer): Promise<{ readonly status: number }> {
  const fields = ['Content-Type: application/json', `Content-Encoding: ${coding}`, 'Transfer-Encoding: chunked'];
  const connection = await gateway.socket(producer);
  connection.write(requestText('POST /events', fields));
  const middle = body.length >> 1;
  for (const part of [body.subarray(0, middle), body.subarray(middle)])
    connection.write(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]));
  return askRaw(connection, '0\r\n\r\n');
}

/** Hexadecimal noise compresses poorly, so the body stays below 100 times its coded length, the limit. */
const noisy = (id: string, bytes: number): string => {
  const start = `{ "id":"${id}",\t"type" : "test.event", "n": 1.0e1, "text":"ä\\u00e4`;
  return `${start}${randomBytes(bytes).toString('hex')}`.slice(0, bytes - 5) + '" }';
};

for (const [coding, compress] of Object.entries(CODINGS))
  describe(`a body with Content-Encoding: ${coding}`, () => {
    it('is stored decoded, byte for byte, whether it is short or decoded on a thread, and announced or not', async () => {
      for (const bytes of [100, 60_000, BODY_BYTES_MAX - 2])
        for (const send of [postCoded, postChunked]) {
          const body = noisy(`${coding}-${bytes}-${send.name}`, bytes);
          assert.equal((await send(coding, compress(body))).status, 202);
          assert.equal((await storedBodies()).at(-1), body);
        }
    });

    it('gets 400 INVALID_COMPRESSION if it is cut off, damaged, followed by other bytes, or in another format', async () => {
      for (const body of [noisy('broken', 200), noisy('broken', 60_000)]) {
        const whole = compress(body);
        const broken = [
          ...[0, 1, 3, 4, 9, 12, -9, -4, -1].map((end) => whole.subarray(0, end)),
          ...[Buffer.alloc(3), Buffer.from('xyz'), whole.subarray(0, 5)].map((more) => Buffer.concat([whole, more])),
          Buffer.from(body),
          CODINGS[coding === 'gzip' ? 'zstd' : 'gzip'](body),
        ];
        for (const bytes of broken)
          assertProblem(await addsNothing(redis, () => postCoded(coding, bytes)), 400, 'INVALID_COMPRESSION');
      }
      assert.equal((await postCoded(coding, compress(noisy(`${coding}-after`, 60_000)))).status, 202);
    });

    it('gets 413 if it expands beyond 64 KiB and 100 times its length', async () => {
      const zeros = (count: number): Buffer =>
        compress(event(`zeros-${coding}-${count}`, { zeros: '0'.repeat(count) }));
      assert.equal((await postCoded(coding, zeros(50_000))).status, 202);
      assertProblem(await postCoded(coding, zeros(70_000)), 413, 'INVALID_EVENT');
    });
  });

for (const mode of [Mode.BINARY, Mode.STRUCTURED])
  it(`CloudEvents of the official SDK in ${mode} mode are accepted, and returned as events that the SDK reads`, async () => {
    const replies: Reply[] = [];
    const emit = emitterFor(
      async (message: Message) => {
        // The SDK leaves the encoding of header values to its caller.
        const headers: Record<string, string> = {};
        for (const [name, value] of Object.entries(message.headers))
          headers[name] = name === 'content-type' ? String(value) : encodeURI(String(value));
        const body = message.body === undefined ? {} : { body: Buffer.from(message.body as string) };
        replies.push(await client.ask({ method: 'POST', path: '/events', ...body, headers }));
      },
      { mode },
    );
    const common = { source: 'https://shop.example/orders?a=b', type: 'com.example.order.placed' };
    const events = [
      { datacontenttype: 'application/json', data: { order: 1, text: 'Euro € "quoted" 100%' } },
      { datacontenttype: 'application/json', data: [1, null, 'two'], subject: 'Euro € 😀 "x" 100%' },
      { datacontenttype: 'text/plain', data: 'no JSON', comexampleextension: 'über' },
      { datacontenttype: 'application/octet-stream', data: Uint8Array.from([0, 255, 128, 10]) },
      {},
    ].map((more, at) => new CloudEvent<unknown>({ ...common, ...more, id: `${mode}-${at}` }));
    for (const one of events) {
      await emit(one);
      assert.deepEqual(replies.at(-1)?.json, { id: one.id, status: 'accepted' });
      const found = JSON.stringify((await client.find(one.id)).json?.['event'] ?? null);
      const headers = { 'content-type': 'application/cloudevents+json' };
      const back = HTTP.toEvent({ headers, body: found }) as CloudEvent<unknown>;
      assert.ok(back.validate());
      for (const attribute of ['id', 'source', 'type', 'subject', 'time', 'specversion', 'comexampleextension'])
        assert.deepEqual(back[attribute], one[attribute], attribute);
      // For media types other than JSON, the SDK returns an array of byte values.
      const bytes = (value: unknown): unknown =>
        typeof value === 'string' || ArrayBuffer.isView(value) ? [...Buffer.from(value as string)] : value;
      assert.deepEqual(bytes(back.data), bytes(one.data));
      const repeat = await client.post(found, headers);
      assert.deepEqual(
        repeat.json,
        { id: one.id, status: 'accepted', duplicate: true },
        'the structured form is stored',
      );
    }
  });
