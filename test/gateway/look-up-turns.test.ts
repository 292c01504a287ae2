import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LookUpTurns } from '../../lib/gateway/look-up-turns.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Lets everybody go on whose turn it is. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the turns of look-ups', () => {
  it('go round between producers, however many wait of one', async () => {
    const turns = new LookUpTurns(SYSTEM.clock);
    const went: string[] = [];
    for (let at = 0; at < 1_000; at += 1) void turns.take('many').then(() => went.push('many'));
    for (const one of ['few', 'few', 'other']) void turns.take(one).then(() => went.push(one));
    await settle();
    assert.deepEqual(went, ['many', 'many']);
    for (let at = 0; at < 7; at += 1) {
      turns.giveBack();
      await settle();
    }
    assert.deepEqual(went.slice(2), ['many', 'few', 'other', 'many', 'few', 'many', 'many']);
  });

  it('are given in order to each producer, and all of them are given', async () => {
    const turns = new LookUpTurns(SYSTEM.clock);
    const went: number[] = [];
    for (let at = 0; at < 100; at += 1) void turns.take(`producer-${at % 7}`).then(() => went.push(at));
    for (let at = 0; at < 100; at += 1) {
      await settle();
      turns.giveBack();
    }
    assert.equal(went.length, 100);
    for (let producer = 0; producer < 7; producer += 1) {
      const own = went.filter((at) => at % 7 === producer);
      assert.deepEqual(
        own,
        own.toSorted((one, other) => one - other),
      );
    }
    for (let at = 0; at < 2; at += 1) assert.equal(await turns.take('again'), true);
  });

  it('are refused to those that have waited for more than five seconds, when the next one is given', async () => {
    const clock = new VirtualClock();
    const turns = new LookUpTurns(clock);
    const ends: string[] = [];
    const take = (name: string, producer = 'shop'): void =>
      void turns.take(producer).then((granted) => ends.push(`${name} ${granted}`));
    for (const name of ['one', 'two', 'old', 'older']) take(name);
    take('alone', 'bank');
    await clock.advance(1);
    take('young');
    await clock.advance(5_000);
    assert.deepEqual(ends, ['one true', 'two true']);
    turns.giveBack();
    await settle();
    assert.deepEqual(ends.slice(2), ['old false', 'older false', 'young true']);
    turns.giveBack();
    await settle();
    assert.deepEqual(ends.slice(5), ['alone false']);
    turns.giveBack();
    for (const name of ['three', 'four', 'five']) take(name);
    await settle();
    assert.deepEqual(ends.slice(6), ['three true', 'four true']);
  });
});
