import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProducerTurns } from '../../lib/gateway/producer-turns.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const always = (): boolean => true;
const LIMITS = { atATime: 2, waitMs: 5_000, waitingMax: 2_000 };

describe('turns', () => {
  it('alternate between producers, however many tasks of one wait', () => {
    const turns = new ProducerTurns(LIMITS, new VirtualClock());
    const went: string[] = [];
    for (let at = 0; at < 1_000; at += 1) turns.take('many', always, () => went.push('many'));
    for (const one of ['few', 'few', 'other']) turns.take(one, always, () => went.push(one));
    assert.deepEqual(went, ['many', 'many']);
    for (let at = 0; at < 7; at += 1) turns.giveBack();
    assert.deepEqual(went.slice(2), ['many', 'few', 'other', 'many', 'few', 'many', 'many']);
  });

  it('follow the order of each producer’s tasks, and none is lost', () => {
    const turns = new ProducerTurns(LIMITS, new VirtualClock());
    const went: number[] = [];
    for (let at = 0; at < 100; at += 1) turns.take(`producer-${at % 7}`, always, () => went.push(at));
    for (let at = 0; at < 100; at += 1) turns.giveBack();
    assert.equal(went.length, 100);
    for (let producer = 0; producer < 7; producer += 1) {
      const own = went.filter((at) => at % 7 === producer);
      assert.deepEqual(
        own,
        own.toSorted((one, other) => one - other),
      );
    }
    const again: boolean[] = [];
    for (let at = 0; at < 3; at += 1) turns.take('again', always, (granted) => again.push(granted));
    assert.deepEqual(again, [true, true]);
  });

  it('are refused to all tasks that have waited too long', async () => {
    const clock = new VirtualClock();
    const turns = new ProducerTurns(LIMITS, clock);
    const ends: string[] = [];
    const take = (name: string, producer = 'shop'): void =>
      turns.take(producer, always, (granted) => ends.push(`${name} ${granted}`));
    for (const name of ['one', 'two', 'old', 'older']) take(name);
    take('alone', 'bank');
    await clock.advance(1);
    take('young');
    await clock.advance(4_999);
    assert.deepEqual(ends, ['one true', 'two true']);
    turns.giveBack();
    assert.deepEqual(ends.slice(2), ['old false', 'older false', 'alone false', 'young true']);
    turns.giveBack();
    turns.giveBack();
    for (const name of ['three', 'four', 'five']) take(name);
    assert.deepEqual(ends.slice(6), ['three true', 'four true']);
  });

  it('are refused to a producer with too many tasks, and to no other', () => {
    const turns = new ProducerTurns({ ...LIMITS, waitingMax: 3 }, new VirtualClock());
    const refused: string[] = [];
    for (let at = 0; at < 7; at += 1) turns.take('many', always, (granted) => granted || refused.push(`many ${at}`));
    turns.take('few', always, (granted) => granted || refused.push('few'));
    assert.deepEqual(refused, ['many 5', 'many 6']);
  });

  it('skip tasks whose client is gone', () => {
    const turns = new ProducerTurns(LIMITS, new VirtualClock());
    const went: number[] = [];
    let gone = false;
    for (let at = 0; at < 6; at += 1)
      turns.take(
        'shop',
        () => !gone || at === 5,
        () => went.push(at),
      );
    turns.take(
      'bank',
      () => !gone,
      () => went.push(-1),
    );
    gone = true;
    for (let at = 0; at < 2; at += 1) turns.giveBack();
    assert.deepEqual(went, [0, 1, 5]);
  });
});
