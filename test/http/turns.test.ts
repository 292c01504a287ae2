import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Turns } from '../../lib/http/turns.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

it('a turn has a budget, and what waits has later turns, by turns for each holder, the oldest and the newest', async () => {
  const turns = new Turns(new VirtualClock(), () => 12);
  assert.deepEqual([turns.take(1), turns.take(20), turns.take(1)], [true, true, false]);
  const called: string[] = [];
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1']) turns.later(name.charAt(0), () => called.push(name));
  await turn();
  assert.deepEqual(called, ['a1', 'b1', 'a2']);
  await turn();
  assert.deepEqual(called, ['a1', 'b1', 'a2', 'a4', 'a3']);
});
