import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  codedBytesMax,
  contentCoding,
  decodedBytesMax,
  Decoding,
  type ContentCoding,
  type Decoded,
} from '../../lib/gateway/content-coding.ts';
import { SYSTEM } from '../support/system.ts';

const isNeeded = (): boolean => true;

const decoding = new Decoding(60_000, SYSTEM.clock);
const decodeBody = (
  coding: ContentCoding,
  body: Buffer,
  bytesMax: number,
  done: (decoded: Decoded) => void,
  of = decoding,
): void => of.decode({ coding, body, bytesMax, producer: 'shop', isNeeded }, done);

it('a Content-Encoding field names at most one coding, without case, with blanks, and next to identity', () => {
  const coding = contentCoding('gzip');
  assert.ok(typeof coding === 'object');
  for (const field of [' gzip ', 'GZIP', 'gzip, identity', 'identity ,gzip', ',gzip,'])
    assert.equal(contentCoding(field), coding, field);
  for (const field of ['', 'identity', ' , Identity']) assert.equal(contentCoding(field), undefined, field);
  for (const field of ['br', 'gzip, zstd', 'gzip gzip', 'deflate'])
    assert.equal(contentCoding(field), 'unsupported', field);
});

it('an incompressible body may be a little longer in its coded form', () => {
  assert.deepEqual([0, 64, 1_000_000].map(codedBytesMax), [1_024, 1_089, 1_016_649]);
});

it('a body may decode to 100 times its length, or to 64 KiB', () => {
  assert.deepEqual(
    [10, 656, 1_000, 10_000].map((bytes) => decodedBytesMax(bytes, 262_144)),
    [65_536, 65_600, 100_000, 262_144],
  );
  assert.equal(decodedBytesMax(10, 5_000), 5_000);
});

it('a zstd frame may have a window of at most 8 MiB, in a short or long body', async () => {
  const zstd = contentCoding('zstd') as ContentCoding;
  const magic = Buffer.from('28b52ffd', 'hex');
  const raw = Buffer.alloc(20_000, 'x');
  for (const content of [raw.subarray(0, 10), raw])
    for (const [windowLog, expected] of [
      [23, content],
      [24, 'broken'],
    ] as const) {
      // RFC 8878, section 3.1.1: the frame has no content size, a window, and one last block that is not compressed.
      const block = Buffer.alloc(3);
      block.writeUIntLE((content.length << 3) | 1, 0, 3);
      const frame = Buffer.concat([magic, Buffer.from([0, (windowLog - 10) << 3]), block, content]);
      assert.deepEqual(await new Promise((resolve) => decodeBody(zstd, frame, 100_000, resolve)), expected);
    }
});

describe('decoding on threads', () => {
  const own = new Decoding(60_000, SYSTEM.clock);
  const NOW_BYTES_MAX = 16_384;
  const BROKEN: Error = Object.assign(new Error('broken'), { code: 'Z_DATA_ERROR' });
  const begun: { readonly body: Buffer; readonly limits: unknown; readonly done: () => void }[] = [];
  const now: unknown[] = [];
  const coding: ContentCoding = {
    now: (_, limits) => {
      now.push(limits);
      throw Object.assign(new Error('long'), { code: 'ERR_BUFFER_TOO_LARGE' });
    },
    later: (body, limits, done) => void begun.push({ body, limits, done: () => done(BROKEN, undefined) }),
  };

  it('decodes two bodies at a time, in the order in which they arrived', () => {
    const done: number[] = [];
    for (let at = 0; at < 5; at += 1) decodeBody(coding, Buffer.from([at]), 100_000, () => done.push(at), own);
    const numbers = (): readonly unknown[] => begun.map(({ body }) => body[0]);
    assert.deepEqual(numbers(), [0, 1]);
    begun[1]?.done();
    assert.deepEqual(numbers(), [0, 1, 2]);
    assert.deepEqual(done, [1]);
    for (const at of [0, 2, 3, 4]) begun[at]?.done();
    assert.deepEqual(numbers(), [0, 1, 2, 3, 4]);
    assert.deepEqual(done, [1, 0, 2, 3, 4]);
    assert.deepEqual(begun[0]?.limits, { maxOutputLength: 100_000, chunkSize: 65_536, info: true });
  });

  it('first tries the event loop for a body whose coded form is short', () => {
    const tried = (bytes: number): number => {
      [now.length, begun.length] = [0, 0];
      decodeBody(coding, Buffer.alloc(bytes), 100_000, () => undefined, own);
      for (const { done } of begun) done();
      return now.length;
    };
    const bytesMax = codedBytesMax(NOW_BYTES_MAX);
    assert.equal(tried(bytesMax), 1);
    assert.deepEqual(now, [{ maxOutputLength: NOW_BYTES_MAX, chunkSize: NOW_BYTES_MAX, info: true }]);
    assert.equal(tried(bytesMax + 1), 0);
  });
});
