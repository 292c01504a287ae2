import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { fileGateway } from '../support/file-gateway.ts';
import { event, type Reply } from '../support/gateway.ts';
import { addsNothing, assertProblem } from '../support/verdicts.ts';
import { askRaw, requestText, type WireReply } from '../support/wire.ts';

const BODY_BYTES_MAX = 100_000;
const MIB = 2 ** 20;

const limits = { INGEST_BODY_BYTES_MAX: String(BODY_BYTES_MAX) };
const { redis, pki, producer, gateway, client } = await fileGateway(limits);

const COMPRESS = { gzip: gzipSync, zstd: zstdCompressSync } as const;
const CODINGS = ['gzip', 'zstd'] as const;

const headersOf = (coding: string) => ({ 'content-type': 'application/json', 'content-encoding': coding });

const postCoded = (coding: string, body: Buffer, to = client): Promise<Reply> => to.post(body, headersOf(coding));

async function postChunked(coding: string, body: Buffer): Promise<WireReply> {
  const fields = ['Content-Type: application/json', `Content-Encoding: ${coding}`, 'Transfer-Encoding: chunked'];
  const connection = await gateway.socket(producer);
  connection.write(requestText('POST /events', fields));
  const middle = body.length >> 1;
  for (const part of [body.subarray(0, middle), body.subarray(middle)]) {
    connection.write(`${part.length.toString(16)}\r\n`);
    connection.write(part);
    connection.write('\r\n');
  }
  return askRaw(connection, '0\r\n\r\n');
}

function eventOf(id: string, bytes: number): string {
  const start = `{ "id":"${id}",\t"type" : "test.event", "n": 1.0e1, "text":"ä\\u00e4`;
  // Hexadecimal noise compresses poorly, so the body stays below 100 times its coded length, the limit.
  const noise = randomBytes(bytes).toString('hex');
  return `${start}${noise.slice(0, bytes - Buffer.byteLength(start) - 3)}" }`;
}

async function storedBody(id: string): Promise<string | undefined> {
  const found = (await redis.entries()).find(({ fields }) => fields['body']?.includes(`"${id}"`));
  return found?.fields['body'];
}

for (const coding of CODINGS) {
  const compress = COMPRESS[coding];

  describe(`a body with Content-Encoding: ${coding}`, () => {
    for (const [what, bytes, chunked] of [
      ['a short one', 100, false],
      ['a short one without an announced length', 100, true],
      ['one that is inflated on a thread', 60_000, false],
      ['one that is inflated on a thread, without an announced length', 60_000, true],
      ['one of exactly the limit', BODY_BYTES_MAX, false],
    ] as const) {
      it(`is stored decoded, byte for byte: ${what}`, async () => {
        const id = `${coding}-${bytes}-${chunked}`;
        const body = eventOf(id, bytes);
        const reply = await (chunked ? postChunked : postCoded)(coding, compress(body));
        assert.equal(reply.status, 202, reply.body);
        assert.equal(await storedBody(id), body);
        assert.deepEqual((await client.post(body)).json, { id, status: 'accepted', duplicate: true });
      });
    }

    it('gets 400 INVALID_COMPRESSION if it is cut off, damaged, followed by other bytes, or in another format', async () => {
      for (const body of [eventOf('broken', 200), eventOf('broken', 60_000)]) {
        const whole = compress(body);
        const cuts = [0, 1, 3, 4, 9, 12, whole.length - 9, whole.length - 4, whole.length - 1];
        const broken = [
          ...cuts.map((cut) => whole.subarray(0, cut)),
          Buffer.concat([whole, Buffer.alloc(3)]),
          Buffer.concat([whole, Buffer.from('xyz')]),
          Buffer.concat([whole, whole.subarray(0, 5)]),
          Buffer.from(body),
          COMPRESS[coding === 'gzip' ? 'zstd' : 'gzip'](body),
        ];
        for (const bytes of broken) {
          const reply = await addsNothing(redis, () => postCoded(coding, bytes));
          assertProblem(reply, 400, 'INVALID_COMPRESSION');
        }
      }
    });
  });
}

it('a coded body that expands beyond 64 KiB and 100 times its length gets 413', async () => {
  const noise = randomBytes(400).toString('hex');
  for (const coding of CODINGS)
    for (const [zeros, status] of [
      [50_000, 202],
      [70_000, 413],
    ] as const) {
      const body = event(`ratio-${coding}-${zeros}`, { noise: zeros > 60_000 ? '' : noise, zeros: '0'.repeat(zeros) });
      const reply = await postCoded(coding, COMPRESS[coding](body));
      assert.equal(reply.status, status, reply.body);
      if (status === 413) assert.match(reply.body, /over 100 times its coded length/);
    }
});

it('300 decompression bombs get 413, cost little memory, and delay no other event', { tags: ['long'] }, async () => {
  const peakBytes = (): number =>
    1_024 * Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]);
  const zeros = Buffer.alloc(100 * MIB);
  const bombs = [gzipSync(zeros).subarray(0, BODY_BYTES_MAX), zstdCompressSync(zeros)];
  assert.ok(bombs.every(({ length }) => length <= BODY_BYTES_MAX));
  await client.post(event('before'));
  const before = peakBytes();
  const sent = Array.from({ length: 300 }, (_, at) =>
    postCoded(at % 2 === 0 ? 'gzip' : 'zstd', bombs[at % 2] ?? Buffer.alloc(0)),
  );
  const other = gateway.client(await pki.producer('other'));
  const among = other.post(event('among'));
  const statuses = new Set((await Promise.all(sent)).map(({ status }) => status));
  // Each bomb reserves the size to which it may decode, and one producer may reserve three quarters of the limit, so
  // the gateway refuses some bombs with 503.
  statuses.delete(503);
  assert.deepEqual([...statuses], [413]);
  assert.equal((await among).status, 202);
  assert.ok(peakBytes() - before < 100 * MIB, `${(peakBytes() - before) / MIB} MiB`);
  assert.equal((await client.post(event('after'))).status, 202);
});
