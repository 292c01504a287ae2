import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { linger } from '../../lib/http/linger.ts';
import { MemorySocket } from '../support/memory-socket.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

async function lingering(takes = true) {
  const clock = new VirtualClock();
  const socket = new MemorySocket(takes);
  socket.write('last');
  linger(socket.asTls, clock);
  await clock.settle();
  return { clock, socket };
}

describe('a connection that lingers', () => {
  it('gives the client ten seconds to read the last answer, and a second after that', async () => {
    const slow = await lingering(false);
    await slow.clock.advance(9_999);
    assert.equal(slow.socket.destroyed, false);
    slow.socket.takeAll();
    await slow.clock.advance(999);
    assert.equal(slow.socket.destroyed, false);
    await slow.clock.advance(1);
    assert.equal(slow.socket.destroyed, true);
    const never = await lingering(false);
    await never.clock.advance(10_000);
    assert.equal(never.socket.destroyed, true);
    assert.equal(never.clock.pending, 0);
  });

  it('sets no timer if it is closed', () => {
    const clock = new VirtualClock();
    const socket = new MemorySocket();
    socket.destroy();
    linger(socket.asTls, clock);
    assert.equal(clock.pending, 0);
  });
});
