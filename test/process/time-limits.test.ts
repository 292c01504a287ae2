import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pauseMs } from '../../lib/process/backoff.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { TimeLimits } from '../../lib/process/time-limits.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

it('pauses between tries double up to a maximum, and half of each is random', () => {
  const pauses = [1, 2, 3, 5, 99].map((failures) => [0, 1].map((fraction) => pauseMs(failures, 100, 1_000, fraction)));
  assert.deepEqual(
    pauses,
    [100, 200, 400, 1_000, 1_000].map((ms) => [ms / 2, ms]),
  );
});

describe('time limits', () => {
  it('are called once when they are due, in any order, and not after they were removed', async () => {
    const clock = new VirtualClock();
    const limits = new TimeLimits(clock);
    const late: string[] = [];
    limits.add(300, () => late.push('second'));
    limits.add(100, () => late.push('first'));
    limits.remove(limits.add(50, () => late.push('removed')));
    await clock.advance(99);
    assert.deepEqual(late, []);
    await clock.advance(1);
    assert.deepEqual(late, ['first']);
    await clock.advance(1_000);
    assert.deepEqual(late, ['first', 'second']);
    let isLate = false;
    const restarted = limits.add(100, () => (isLate = true));
    await clock.advance(50);
    limits.restart(restarted, 100);
    await clock.advance(99);
    assert.equal(isLate, false);
    await clock.advance(1);
    assert.equal(isLate, true);
    assert.equal(clock.pending, 0);
  });

  it('are compared with the time before the sockets were read, so that a slow turn ends no other call', async () => {
    const clock = new VirtualClock();
    let [readMs, reads] = [0, 0];
    const slow: Clock = Object.assign(Object.create(null) as Clock, {
      ms: () => clock.ms() + readMs,
      after: (ms: number, run: () => void) => clock.after(ms, run),
      turnEnd: (run: () => void) => clock.turnEnd(() => (([readMs, reads] = [60, reads + 1]), run())),
    });
    const limits = new TimeLimits(slow);
    const late: string[] = [];
    for (const ms of [100, 150]) limits.add(ms, () => late.push(`${ms} after read ${reads}`));
    await clock.advance(200);
    assert.deepEqual(late, ['100 after read 1', '150 after read 2']);
  });

  it('need one timer, however many calls end in time beside a longer one', async () => {
    const clock = new VirtualClock();
    const limits = new TimeLimits(clock);
    for (let call = 0; call < 100; call += 1) {
      const long = limits.add(4_000, assert.fail);
      const short = limits.add(3_000, assert.fail);
      await clock.advance(1);
      limits.remove(short);
      await clock.advance(900);
      limits.remove(long);
      assert.ok(clock.pending <= 1, `${clock.pending} timers after ${call} calls`);
    }
  });
});
