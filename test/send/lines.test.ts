import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { openInput } from '../../lib/send/input.ts';
import { lines } from '../../lib/send/lines.ts';
import { everyOf, temporaryFolder } from '../support/scope.ts';

const cut = async (chunks: readonly Buffer[]) =>
  (await everyOf(lines(Readable.from(chunks)))).map(({ number, bytes }) => ({ number, bytes }));

describe('lines', () => {
  it('keeps the bytes and the number of each line, however the input is split, and skips blank lines', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', '\n', ' ', '\t', '\r', '\u00e9', '\0', '"') }),
        fc.array(fc.nat(40)),
        async (text, cuts) => {
          const bytes = Buffer.from(text);
          const at = [0, ...cuts.map((position) => position % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
          const chunks = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
          const expected = text.split('\n').map((line, index) => ({ number: index + 1, bytes: Buffer.from(line) }));
          assert.deepEqual(
            await cut(chunks),
            expected.filter((line) => /[^ \t\r]/.test(line.bytes.toString())),
          );
        },
      ),
    );
  });

  it('skips a byte order mark at the start, and no other', async () => {
    const found = await cut([Buffer.from('\ufeff{}\n"\ufeff"\n')]);
    assert.equal(found.map(({ bytes }) => bytes.toString()).join(), '{},"\ufeff"');
  });

  it('refuses a line of more than 64 MiB by its number, but not the event of a refused file', async () => {
    const half = Buffer.alloc(32 << 20, 'x');
    const feed = Buffer.from('\n');
    assert.equal((await cut([feed, half, half, feed, half, half])).length, 2, '64 MiB are allowed in each line');
    await assert.rejects(cut([feed, half, half, Buffer.from('x')]), /^Error: line 2 is longer than 67108864 bytes$/);
    const path = join(temporaryFolder(), 'refused');
    writeFileSync(path, `{"body":"${'x'.repeat(65 << 20)}"}`);
    for await (const { bytes } of openInput(path, true).events) assert.equal(bytes.length, 65 << 20);
  });
});
