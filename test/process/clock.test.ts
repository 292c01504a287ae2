import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SYSTEM, type Clock } from '../../lib/process/clock.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

interface Subject {
  readonly clock: Clock;
  readonly pass: (ms: number) => Promise<void>;
}

const SUBJECTS: Readonly<Record<string, () => Subject>> = {
  'the system clock': () => ({
    clock: SYSTEM.clock,
    pass: (ms) => new Promise((resolve) => setTimeout(resolve, ms + 5)),
  }),
  'a virtual clock': () => {
    const clock = new VirtualClock();
    return { clock, pass: (ms) => clock.advance(ms) };
  },
};

for (const [name, make] of Object.entries(SUBJECTS)) {
  describe(name, () => {
    it('makes a call that is overdue, without a warning', async (t) => {
      const { clock, pass } = make();
      const warn = t.mock.method(process, 'emitWarning', () => undefined);
      const runs: string[] = [];
      clock.after(-1, () => runs.push('overdue'));
      await Promise.all([clock.sleep(-1), pass(1)]);
      assert.deepEqual([runs, warn.mock.callCount()], [['overdue'], 0]);
    });

    it('repeats a call until its timer is closed', async () => {
      const { clock, pass } = make();
      let runs = 0;
      const timer = clock.every(5, () => (runs += 1) === 3 && timer.close());
      for (let at = 0; at < 6; at += 1) await pass(5);
      assert.equal(runs, 3);
    });

    it('ends a sleep after its time or by its signal, without an error', async () => {
      const { clock, pass } = make();
      let slept = false;
      const sleeping = clock.sleep(10).then(() => (slept = true));
      assert.equal(slept, false);
      await pass(10);
      await sleeping;
      const stop = new AbortController();
      let ended = false;
      const cut = clock.sleep(2 ** 31, stop.signal).then(() => (ended = true));
      await pass(20);
      assert.equal(ended, false, 'also after more than a timer can wait');
      stop.abort();
      await cut;
      await clock.sleep(1_000_000, AbortSignal.abort());
    });
  });
}
