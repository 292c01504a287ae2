import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Sender } from '../../lib/send/sender.ts';
import type { Try } from '../../lib/send/try.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

it('the pauses of a sender double from 0.1 s to 10 s with 50 % jitter, and are never shorter than Retry-After', async () => {
  const pausesWith = async (fraction: number, afterMs: number): Promise<number[]> => {
    const clock = new VirtualClock();
    const pauses: number[] = [];
    const answer = { code: 'QUEUE_UNAVAILABLE', status: 503, answer: {}, requestId: undefined };
    const sender = new Sender({
      clock,
      random: { ...SYSTEM.random, fraction: () => fraction },
      concurrency: 1,
      triesMax: 11,
      ratePerS: undefined,
      onRetry: ({ pauseMs }) => pauses.push(pauseMs),
    });
    const once = (): Promise<Try> => Promise.resolve({ kind: 'retry', ...answer, afterMs });
    const sent = sender.send('event', once, new AbortController().signal);
    await clock.advance(100_000);
    const result = await sent;
    assert.ok(result.kind === 'refused' && result.retryable && result.tries === 11);
    return pauses;
  };
  assert.deepEqual(await pausesWith(1, 0), [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
  assert.deepEqual((await pausesWith(0, 0)).slice(-4), [3_200, 5_000, 5_000, 5_000]);
  assert.deepEqual((await pausesWith(1, 7_000)).slice(0, 8), [...Array<number>(7).fill(7_000), 10_000]);
});
