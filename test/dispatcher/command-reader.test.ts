// Commands in pieces of any size: what is read, what is refused, and what a byte costs.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CommandReader, ProtocolFault } from '../../lib/dispatcher/command-reader.ts';
import { anyCharacter } from '../support/any-character.ts';

const text = (parts: readonly string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;

const commands = fc.array(fc.array(fc.string({ unit: anyCharacter, maxLength: 40 }), { minLength: 1, maxLength: 5 }), {
  minLength: 1,
  maxLength: 30,
});
/** How many bytes each piece has, by turns. */
const cutting = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 12 });

/** Each piece in memory of its own, as a socket gives it. */
function* cut(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let from = 0, turn = 0; from < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield Buffer.from(bytes.subarray(from, from + size));
    from += size;
  }
}

function read(reader: CommandReader, bytes: Buffer, sizes: readonly number[]): string[][] {
  const found: string[][] = [];
  for (const piece of cut(bytes, sizes)) {
    reader.push(piece);
    for (let next = reader.next(); next !== undefined; next = reader.next()) {
      const command = next;
      found.push(Array.from({ length: command.parts + 1 }, (_, at) => command.utf8(at)));
    }
  }
  return found;
}

/** What a byte may cost: looked at once in a line's few bytes for each piece, and copied twice on average. */
const WORK_A_BYTE_MAX = 14;

const LENGTHS: Readonly<Record<string, string>> = {
  'a first line without an end': '*1'.padEnd(8, '0'),
  'an array and a line without an end': '*2\r\n$1\r\na\r\n$0000',
  'one long string': text(['x'.repeat(200_000)]),
  'many short strings': text(Array.from({ length: 10_000 }, () => '')),
  'many short commands': text(['PING']).repeat(20_000),
};

describe('the reader of commands', () => {
  it('gives the commands that were sent, however their bytes are cut', () => {
    fc.assert(
      fc.property(commands, cutting, (sent, sizes) => {
        const reader = new CommandReader();
        assert.deepEqual(read(reader, Buffer.from(sent.map(text).join('')), sizes), sent);
        assert.equal(reader.bytesHeld, 0);
      }),
    );
  });

  for (const [name, bytes] of Object.entries(LENGTHS)) {
    it(`costs the same for each byte, however many came before and however they are cut: ${name}`, () => {
      for (const sizes of [[1], [2], [7], [1, 1_000], [1_460], [65_536], [1 << 24]]) {
        const reader = new CommandReader();
        read(reader, Buffer.from(bytes), sizes);
        assert.ok(reader.work <= WORK_A_BYTE_MAX * bytes.length, `${sizes.join()}: ${reader.work / bytes.length}`);
      }
    });
  }

  it('costs the same for each byte of any commands', () => {
    fc.assert(
      fc.property(commands, cutting, (sent, sizes) => {
        const bytes = Buffer.from(sent.map(text).join(''));
        const reader = new CommandReader();
        read(reader, bytes, sizes);
        assert.ok(reader.work <= WORK_A_BYTE_MAX * bytes.length, `${reader.work} for ${bytes.length}`);
      }),
    );
  });

  it('holds at most twice what came of a command that is not whole, and nothing behind a whole one', () => {
    const reader = new CommandReader();
    const body = 'x'.repeat(100_000);
    read(reader, Buffer.from(text(['A', body]).slice(0, -1)), [1_000]);
    assert.ok(reader.bytesHeld >= body.length);
    assert.ok(reader.bytesHeld <= 2 * body.length + 1_000, String(reader.bytesHeld));
    reader.push(Buffer.from('\n'));
    assert.equal(reader.next()?.parts, 1);
    assert.equal(reader.bytesHeld, 0);
  });

  const refused: Readonly<Record<string, string>> = {
    'another protocol': 'GET / HTTP/1.1\r\n\r\n',
    'an inline command': 'PING\r\n',
    'an array of nothing': '*0\r\n',
    'an array of a negative length': '*-1\r\n',
    'a first line that does not end': '*111111111',
    'a line without digits': '*\r\n',
    'a line that ends in a line feed': '*1\n',
    'a line with a lone return': '*1\rx',
    'an array in an array': '*1\r\n*1\r\n',
    'an integer': '*1\r\n:1\r\n',
    'a string of no length': '*1\r\n$-1\r\n',
    'a string that is longer than it says': '*1\r\n$4\r\nPINGX\r\n',
    'a string without its end': '*1\r\n$4\r\nPING\rX',
    'more parts than a call has': '*16385\r\n',
    'a string that is longer than a command may be': `*1\r\n$${(65 << 20) + 1}\r\n`,
    'strings that are longer together': `*2\r\n$9\r\nxxxxxxxxx\r\n$${(65 << 20) - 15}\r\n`,
  };
  for (const [what, bytes] of Object.entries(refused)) {
    it(`refuses ${what}, in one piece and byte by byte`, () => {
      for (const size of [1, bytes.length])
        assert.throws(() => read(new CommandReader(), Buffer.from(bytes), [size]), ProtocolFault);
    });
  }

  it('takes as many parts, and announces as many bytes, as the limits say', () => {
    const reader = new CommandReader();
    assert.equal(read(reader, Buffer.from(text(Array.from({ length: 16_384 }, () => ''))), [1 << 20]).length, 1);
    assert.deepEqual(read(reader, Buffer.from(`*2\r\n$9\r\nxxxxxxxxx\r\n$${(65 << 20) - 30}\r\n`), [7]), []);
  });

  it('gives the parts of a command as text, an empty one too, and refuses a part that it does not have', () => {
    const reader = new CommandReader();
    reader.push(Buffer.from(text(['name', 'é', 'e', 'é', ''])));
    const command = reader.next() ?? assert.fail();
    assert.equal(command.name, 'NAME');
    assert.equal(command.utf8(3), 'é');
    assert.equal(command.utf8(4), '');
    assert.equal(command.parts, 4);
    assert.throws(() => command.utf8(5), ProtocolFault);
  });
});
