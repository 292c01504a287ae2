import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { lines, type Line } from '../../lib/send/lines.ts';

async function cut(chunks: readonly Buffer[]): Promise<Line[]> {
  async function* source(): AsyncGenerator<Buffer> {
    yield* chunks;
  }
  const found: Line[] = [];
  for await (const line of lines(source())) found.push(line);
  return found;
}

describe('lines', () => {
  it('keeps the bytes of each line and skips lines of white space', async () => {
    const found = await cut([Buffer.from('{"a":1}\n\n \t\r\n {"b":2} \r\n{"c":"\u00e9\0'), Buffer.from('"}')]);
    assert.deepEqual(
      found.map(({ number, bytes }) => [number, bytes.toString()]),
      [
        [1, '{"a":1}'],
        [4, ' {"b":2} \r'],
        [5, '{"c":"\u00e9\0"}'],
      ],
    );
  });

  it('returns the same lines for any chunks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', '\n', ' ', '\r', '\u00e9', '"') }),
        fc.array(fc.nat(40)),
        async (text, cuts) => {
          const bytes = Buffer.from(text);
          const at = [0, ...cuts.map((position) => position % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
          const chunks = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
          assert.deepEqual(await cut(chunks), await cut([bytes]));
          const expected = text.split('\n').filter((line) => /[^ \t\r]/.test(line));
          assert.deepEqual(
            (await cut(chunks)).map((line) => line.bytes.toString()),
            expected,
          );
        },
      ),
    );
  });

  it('numbers a last line without a line feed', async () => {
    const numbers = async (...texts: readonly string[]): Promise<number[]> =>
      (await cut(texts.map((text) => Buffer.from(text)))).map(({ number }) => number);
    assert.deepEqual(await numbers('a'), [1]);
    assert.deepEqual(await numbers('a\n', '\n', 'b', 'c'), [1, 3]);
    assert.deepEqual(await numbers('a\n'), [1]);
  });

  it('refuses a line of more than 64 MiB by its number', async () => {
    const half = Buffer.alloc(32 << 20, 'x');
    const feed = Buffer.from('\n');
    assert.equal((await cut([feed, half, half, feed, half, half])).length, 2, '64 MiB are allowed in each line');
    await assert.rejects(cut([feed, half, half, Buffer.from('x')]), /^Error: line 2 is longer than 67108864 bytes$/);
  });
});
