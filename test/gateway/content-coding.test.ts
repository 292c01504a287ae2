import assert from 'node:assert/strict';
import { it } from 'node:test';
import {
  codedBytesMax,
  contentCoding,
  decoded,
  decodedBytesMax,
  type ContentCoding,
} from '../../lib/gateway/content-coding.ts';

it('a Content-Encoding field names at most one coding, without case, with blanks, and next to identity', () => {
  const coding = contentCoding('gzip');
  assert.ok(typeof coding === 'function');
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
      assert.deepEqual(await decoded(zstd, frame, 100_000), expected);
    }
});
