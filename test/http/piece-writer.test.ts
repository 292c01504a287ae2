import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PIECE_CHARACTERS, PieceWriter } from '../../lib/http/piece-writer.ts';
import { MemorySocket } from '../support/memory-socket.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function writing() {
  const socket = new MemorySocket(false);
  const lengths: number[] = [];
  const write = socket.write.bind(socket) as (...given: readonly unknown[]) => boolean;
  socket.write = (...given: readonly unknown[]): boolean => {
    lengths.push((given[0] as string | Buffer).length);
    return write(...given);
  };
  const writer = new PieceWriter(socket.asTls);
  socket.on('drain', () => writer.goOn());
  return { socket, writer, lengths };
}

describe('a writer of pieces', () => {
  it('writes nothing to an ended socket, and no cleared parts', async () => {
    const { socket, writer, lengths } = writing();
    writer.write('x'.repeat(2 * PIECE_CHARACTERS), 'latin1');
    writer.clear();
    assert.equal(writer.empty, true);
    assert.equal(writer.unwritten, 0);
    socket.takeAll();
    await turn();
    socket.end();
    writer.write('late', 'latin1');
    assert.deepEqual(lengths, [PIECE_CHARACTERS]);
  });

  it('frees the memory of bytes after the last of them has left', async () => {
    const { socket, writer } = writing();
    const bytes = Buffer.alloc(PIECE_CHARACTERS + 1, 'a');
    // Node.js streams pass the encoding `buffer` along with bytes.
    writer.write(bytes, 'buffer' as BufferEncoding);
    socket.takeOne();
    await turn();
    assert.equal(bytes.length, PIECE_CHARACTERS + 1);
    socket.takeAll();
    await turn();
    assert.equal(bytes.length, 0);
    assert.equal(socket.taken.length, PIECE_CHARACTERS + 1);
  });

  it('frees the memory of bytes that never leave, but no shared memory', () => {
    const { writer } = writing();
    writer.write('x'.repeat(PIECE_CHARACTERS), 'latin1');
    const [own, pooled, shared] = [Buffer.alloc(10_000), Buffer.from('pooled'), Buffer.from(new SharedArrayBuffer(5))];
    for (const part of [own, pooled, shared]) writer.write(part, 'latin1');
    writer.clear();
    assert.equal(own.length, 0);
    assert.equal(pooled.toString(), 'pooled');
    assert.equal(shared.length, 5);
  });
});
