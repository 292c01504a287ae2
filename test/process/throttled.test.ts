import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Throttled } from '../../lib/process/log.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

it('a throttled line is written once an interval, with the number of those held back', async () => {
  const clock = new VirtualClock();
  const throttled = new Throttled(clock, 1_000);
  const written: number[] = [];
  const line = (): void => throttled.line((heldBack) => written.push(heldBack));
  for (let times = 0; times < 3; times += 1) line();
  await clock.advance(999);
  line();
  assert.deepEqual(written, [0]);
  await clock.advance(1);
  line();
  assert.deepEqual(written, [0, 3]);
  await clock.advance(5_000);
  line();
  assert.deepEqual(written, [0, 3, 0]);
});
