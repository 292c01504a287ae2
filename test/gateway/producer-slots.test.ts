import assert from 'node:assert/strict';
import { setImmediate as turnEnd } from 'node:timers/promises';
import { describe, it } from 'node:test';
import { findEvent } from '../../lib/gateway/find-event.ts';
import { ProducerTurns } from '../../lib/gateway/producer-slots.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Turns, the log of the tasks that began or were refused, and the functions that end the running tasks. */
function started({ waitingMax = 2_000, clock = new VirtualClock() } = {}) {
  const turns = new ProducerTurns({ atATime: 2, waitMs: 5_000, waitingMax }, clock);
  const log: string[] = [];
  const running: (() => void)[] = [];
  const take = (producer: string, name = producer): void =>
    void turns
      .run(producer, () => {
        log.push(name);
        return new Promise<void>((end) => running.push(end));
      })
      .then((result) => result === 'late' && log.push(`${name} late`));
  const end = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at += 1) {
      running.shift()?.();
      await turnEnd();
    }
  };
  return { log, take, end };
}

describe('turns', () => {
  it('alternate between producers, however many tasks of one wait, and follow the order of each one’s tasks', async () => {
    const { log, take, end } = started();
    for (let at = 0; at < 1_000; at += 1) take('many', `many ${at}`);
    for (const at of [0, 1]) take('few', `few ${at}`);
    take('other');
    assert.deepEqual(log, ['many 0', 'many 1']);
    await end(6);
    assert.deepEqual(log.slice(2), ['many 2', 'few 0', 'other', 'many 3', 'few 1', 'many 4']);
    await end(997);
    assert.deepEqual([log.length, log.at(-1)], [1_003, 'many 999']);
  });

  it('are refused to all tasks that have waited too long', async () => {
    const clock = new VirtualClock();
    const { log, take, end } = started({ clock });
    for (const name of ['one', 'two', 'old', 'older']) take('shop', name);
    take('bank', 'alone');
    await clock.advance(1);
    take('shop', 'young');
    await clock.advance(4_999);
    assert.deepEqual(log, ['one', 'two']);
    await end(1);
    assert.deepEqual(log.slice(2).toSorted(), ['alone late', 'old late', 'older late', 'young']);
    await end(2);
    for (const name of ['three', 'four', 'five']) take('shop', name);
    assert.deepEqual(log.slice(6), ['three', 'four']);
  });

  it('are refused to a producer with too many tasks, and to no other', async () => {
    const { log, take } = started({ waitingMax: 3 });
    for (let at = 0; at < 7; at += 1) take('many', String(at));
    take('few');
    await turnEnd();
    assert.deepEqual(log, ['0', '1', '5 late', '6 late']);
  });

  it('pass on after a task that fails', async () => {
    const turns = new ProducerTurns({ atATime: 1, waitMs: 5_000, waitingMax: 9 }, new VirtualClock());
    const failed = turns.run('shop', () => Promise.reject(new Error('broken')));
    const next = turns.run('bank', () => Promise.resolve('went'));
    await assert.rejects(failed, { message: 'broken' });
    assert.equal(await next, 'went');
  });
});

it('a look-up whose turn comes too late is 503, because its event may exist', async () => {
  const quotas = new Quotas(Producers.UNRESTRICTED, undefined, new VirtualClock());
  const authority = { judge: () => ({ kind: 'producer', producer: 'shop', untilMs: Infinity }) };
  const turns = new ProducerTurns({ atATime: 0, waitMs: 1, waitingMax: 0 }, new VirtualClock());
  const exchange = { request: { head: {} }, connection: {} };
  const { status, refusal } = await findEvent(
    { checks: { authority, quotas }, turns } as never,
    exchange as never,
    'a',
  );
  assert.deepEqual([status, refusal], [503, 'lookUpUnavailable']);
});
