import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { openInput } from '../../lib/send/input.ts';
import { lines } from '../../lib/send/lines.ts';
import { Position } from '../../lib/send/position.ts';
import { Summary } from '../../lib/send/summary.ts';
import { everyOf, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const cut = async (chunks: readonly Buffer[]) =>
  (await everyOf(lines(Readable.from(chunks)))).map(({ number, bytes }) => ({ number, bytes }));

it('a file may be compressed with gzip or zstd, and an incomplete one is refused with its last whole line', async () => {
  const text = Array.from({ length: 500 }, (_, at) => `{"id":"${at}"}\n`).join('');
  for (const [end, compressed] of [
    ['gz', gzipSync(text)],
    ['zst', zstdCompressSync(text)],
  ] as const) {
    const path = join(temporaryFolder(), `events.${end}`);
    writeFileSync(path, compressed);
    assert.equal((await everyOf(openInput(path, false).events)).length, 500);
    writeFileSync(path, Buffer.from(compressed).fill(255, 10, 30));
    const damaged = new RegExp(`^${path}: its compressed data is damaged \\(Z.*\\); the last whole line is \\d+$`);
    await assert.rejects(everyOf(openInput(path, false).events), { message: damaged });
    writeFileSync(path, compressed.subarray(0, -20));
    const message = new RegExp(`^${path}: the file was cut off: .*; the last whole line is \\d+$`);
    await assert.rejects(everyOf(openInput(path, false).events), { message });
  }
});

it('a position counts only for the gateway to which its run has sent', () => {
  const file = join(temporaryFolder(), 'events');
  writeFileSync(`${file}.position`, JSON.stringify({ url: 'https://one/', line: 7, sha256: '' }), { mode: 0o600 });
  const lineOf = (url: string): number => new Position(file, url, SYSTEM.clock).line;
  assert.deepEqual(['https://one/', 'https://other/'].map(lineOf), [7, 0]);
});

it('a position is written each second, up to the first event without a result', async () => {
  const file = join(temporaryFolder(), 'events');
  const clock = new VirtualClock();
  const position = new Position(file, 'https://one/', clock);
  const begin = (number: number) => position.begin({ number, bytes: Buffer.from(String(number)) });
  const [first, second, third] = [begin(1), begin(2), begin(3)];
  first(true);
  third(true);
  assert.ok(!existsSync(`${file}.position`));
  await clock.advance(1_000);
  begin(4)(true);
  const line = (): number => new Position(file, 'https://one/', clock).line;
  assert.equal(line(), 1);
  await clock.advance(999);
  second(true);
  assert.equal(line(), 1);
  await clock.advance(1);
  begin(5)(true);
  assert.equal(line(), 5);
});

it('a summary has the percentiles of the answers, without the time before them', () => {
  const summary = new Summary(SYSTEM.clock);
  const accepted = { kind: 'accepted', duplicate: false, differs: false, requestId: 'r', event: '', tries: 3 } as const;
  for (let answerMs = 1; answerMs <= 100; answerMs += 1) summary.add({ ...accepted, answerMs, durationMs: 7_000 }, 1);
  const { p50Ms, p99Ms, retries } = JSON.parse(summary.json(undefined)) as Record<string, number>;
  assert.deepEqual(
    [p50Ms, p99Ms, retries].map((value) => Math.round(value ?? 0)),
    [50, 99, 200],
  );
});

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
