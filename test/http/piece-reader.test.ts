import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PieceReader } from '../../lib/http/piece-reader.ts';
import { MemorySocket } from '../support/memory-socket.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const PIECES_MAX = 256;

const clock = new VirtualClock();

/** A clock on which the test decides when a turn ends. */
class Turns extends VirtualClock {
  readonly waiting: (() => void)[] = [];

  override turnEnd(run: () => void): void {
    this.waiting.push(run);
  }

  end(): void {
    for (const run of this.waiting.splice(0)) run();
  }
}

async function reading(turns = new Turns()) {
  const socket = new MemorySocket();
  const taken: string[] = [];
  // A piece that ends with a dot completes a request.
  const reader = new PieceReader(socket.asTls, turns, (piece) => {
    taken.push(piece.toString());
    return piece.toString().endsWith('.');
  });
  await clock.settle();
  return { socket, reader, taken, turns };
}

const SOME = 'x'.repeat(PIECES_MAX - 1);

describe('a reader of pieces', () => {
  it('passes on each piece, and stops the handle of the socket while it is paused', async () => {
    const { socket, reader, taken } = await reading();
    socket.send('a');
    assert.deepEqual(taken, ['a']);
    reader.pause();
    assert.deepEqual(socket.readings, ['stopped']);
    socket.send('b');
    await clock.settle();
    assert.deepEqual(taken, ['a']);
    reader.pause();
    assert.deepEqual(socket.readings, ['stopped']);
    reader.resume();
    reader.resume();
    await clock.settle();
    assert.deepEqual(taken, ['a', 'b']);
    assert.deepEqual(socket.readings, ['stopped', 'started']);
  });

  it('rests after a number of pieces, and continues in a later turn', async () => {
    const { socket, taken, turns } = await reading();
    socket.send(SOME, true);
    assert.deepEqual(socket.readings, []);
    assert.equal(turns.waiting.length, 0);
    socket.send('x');
    assert.deepEqual(socket.readings, ['stopped']);
    socket.send('y');
    await clock.settle();
    assert.equal(taken.length, PIECES_MAX);
    turns.end();
    await clock.settle();
    assert.equal(taken.length, PIECES_MAX + 1);
    socket.send(SOME.slice(1), true);
    assert.deepEqual(socket.readings, ['stopped', 'started']);
    socket.send('x');
    assert.deepEqual(socket.readings, ['stopped', 'started', 'stopped']);
    turns.end();
  });

  it('does not rest while requests arrive', async () => {
    const { socket, turns } = await reading();
    socket.send(SOME, true);
    socket.send('.');
    socket.send(SOME, true);
    assert.deepEqual(socket.readings, []);
    socket.send('x');
    assert.deepEqual(socket.readings, ['stopped']);
    turns.end();
  });

  it('rests through a resume, and through its turn if it is paused then', async () => {
    const { socket, reader, turns } = await reading();
    socket.send(`${SOME}x`, true);
    reader.resume();
    assert.deepEqual(socket.readings, ['stopped']);
    reader.pause();
    turns.end();
    assert.deepEqual(socket.readings, ['stopped']);
    reader.resume();
    assert.deepEqual(socket.readings, ['stopped', 'started']);
  });

  it('waits in one line with others, of which four continue in each turn', async () => {
    const turns = new Turns();
    const resting = await Promise.all(Array.from({ length: 9 }, () => reading(turns)));
    for (const { socket } of resting) socket.send(`${SOME}x`, true);
    const gone = (): readonly number[] =>
      [...resting.entries()].filter(([, { socket }]) => socket.readings.includes('started')).map(([at]) => at);
    assert.equal(turns.waiting.length, 1);
    for (const expected of [
      [0, 1, 2, 3],
      [0, 1, 2, 3, 4, 5, 6, 7],
      [0, 1, 2, 3, 4, 5, 6, 7, 8],
    ]) {
      turns.end();
      assert.deepEqual(gone(), expected);
    }
    assert.equal(turns.waiting.length, 0);
  });

  it('ignores an error of the socket, whose end follows', async () => {
    const { socket } = await reading();
    socket.destroy(new Error('reset'));
    await clock.settle();
    assert.equal(socket.closed, true);
  });
});
