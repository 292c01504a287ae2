import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RedisError } from '../../lib/redis/wire/errors.ts';
import { Reply, ReplyAssembler } from '../../lib/redis/wire/reply.ts';
import { anyCharacter } from '../support/any-character.ts';

type Value = string | number | null | readonly Value[];

function written(value: Value): string {
  if (value === null) return '*-1\r\n';
  if (typeof value === 'number') return `:${value}\r\n`;
  if (typeof value === 'string') return `$${Buffer.byteLength(value, 'latin1')}\r\n${value}\r\n`;
  return `*${value.length}\r\n${value.map(written).join('')}`;
}

function read(reply: Reply, like: Value): Value {
  if (typeof like === 'number') return reply.integer();
  if (typeof like === 'string') return reply.bytes().toString('latin1');
  const size = reply.array();
  return size === undefined ? null : Array.from({ length: size }, (_, at) => read(reply, like?.[at] ?? null));
}

function received(bytes: Buffer, sizes: readonly number[]): (Reply | RedisError)[] {
  const assembler = new ReplyAssembler();
  const replies: (Reply | RedisError)[] = [];
  const piece = Buffer.alloc(bytes.length);
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    // All pieces share one buffer, as the reads of a socket do.
    const length = bytes.copy(piece, 0, at, at + size);
    replies.push(...assembler.push(piece, length));
    piece.fill(0);
    at += size;
  }
  return replies;
}

const assembled = (bytes: Buffer, sizes: readonly number[]): readonly Reply[] =>
  received(bytes, sizes).filter((reply) => reply instanceof Reply);

const ENTRIES: Value = [
  [
    'ingest',
    [
      ['1-1', ['producer', 'shop', 'body', '{}\r\n*1\r\n$5']],
      ['1-2', null],
      ['1-3', []],
    ],
  ],
];

describe('a reply of Redis', () => {
  it('is the same in pieces of any size', () => {
    const bytes = Buffer.from(written(ENTRIES) + written(null) + written(ENTRIES), 'latin1');
    for (let size = 1; size <= bytes.length; size += 1) {
      const [first, second, third, ...more] = assembled(bytes, [size]);
      assert.ok(first !== undefined && second !== undefined && third !== undefined && more.length === 0, `${size}`);
      assert.deepEqual(read(first, ENTRIES), ENTRIES);
      assert.equal(second.array(), undefined);
      assert.deepEqual(read(third, ENTRIES), ENTRIES);
    }
  });

  it('throws if a part has another form than the caller reads', () => {
    const [text, list] = assembled(Buffer.from('$3\r\nabc\r\n*1\r\n:1\r\n'), [100]);
    assert.throws(() => text?.array());
    assert.throws(() => list?.integer());
  });

  it('is read exactly as it was written', () => {
    const { value } = fc.letrec<{ value: Value }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.string({ unit: anyCharacter }).map((text) => Buffer.from(text).toString('latin1')),
        fc.maxSafeInteger(),
        fc.constant(null),
        fc.array(tie('value')),
      ),
    }));
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        (values, sizes) => {
          const replies = assembled(Buffer.from(values.map(written).join(''), 'latin1'), sizes);
          assert.equal(replies.length, values.length);
          for (const [at, reply] of replies.entries()) assert.deepEqual(read(reply, values[at] ?? null), values[at]);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('may be larger than the block, and keeps its bytes while others arrive', () => {
    const large = ['x'.repeat(3 << 20), 'y'.repeat(300_000), 'z'];
    const [first, second, third] = assembled(Buffer.from(large.map(written).join(''), 'latin1'), [65_536, 7, 100_000]);
    const bytes = [first, second, third].map((reply) => reply?.bytes().toString('latin1'));
    assert.deepEqual(bytes, large);
  });

  it('is a value of its own kind if it is read as one', () => {
    const [reply] = assembled(Buffer.from('*5\r\n+OK\r\n:-7\r\n$-1\r\n*-1\r\n*2\r\n$2\r\né\r\n+a b\r\n'), [9]);
    assert.deepEqual(reply?.value(), ['OK', -7, null, null, ['é', 'a b']]);
  });

  it('may be an error, in the words of the server', () => {
    const [error, after] = received(Buffer.from('-NOGROUP No such key\r\n+OK\r\n'), [3]);
    assert.ok(error instanceof RedisError && error.message === 'NOGROUP No such key');
    assert.ok(after instanceof Reply);
  });

  it('distinguishes known names from others', () => {
    const known = [Buffer.from('body'), Buffer.from('producer')];
    const [reply] = assembled(Buffer.from(written(['body', 'producer', 'bod', 'bodyx', 'BODY', ''])), [64]);
    reply?.array();
    assert.deepEqual(
      Array.from({ length: 6 }, () => reply?.oneOf(known)),
      [0, 1, -1, -1, -1, -1],
    );
  });

  it('throws if a part is not the requested one, and returns no wrong value', () => {
    const [reply] = assembled(Buffer.from(':1\r\n'), [64]);
    assert.throws(() => reply?.bytes(), /form/);
  });
});
