import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Sender, type SenderOptions } from '../../lib/send/sender.ts';
import type { Try } from '../../lib/send/outcome.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

function senderWith(more: Partial<SenderOptions>) {
  const clock = new VirtualClock();
  const usual = { concurrency: 100, triesMax: 11, ratePerS: undefined, onRetry: () => undefined };
  const sender = new Sender({ clock, random: SYSTEM.random, ...usual, ...more });
  const send = (once: () => Try) =>
    sender.send('event', async () => once(), { startMs: 0, signal: new AbortController().signal });
  return { clock, send };
}

it('a sender with a rate starts no burst after a pause of its source', async () => {
  const { clock, send } = senderWith({ ratePerS: 10 });
  const starts: number[] = [];
  const sendOne = () =>
    send(() => {
      starts.push(clock.ms());
      return { kind: 'accepted', duplicate: false, differs: false, requestId: undefined };
    });
  await sendOne();
  await clock.advance(5_000);
  const sent = Promise.all([sendOne(), sendOne(), sendOne()]);
  await clock.advance(1_000);
  await sent;
  const [first = 0, second = 0, ...others] = starts;
  assert.deepEqual([second - first, ...others.map((at) => at - second)], [5_000, 100, 200]);
});

it('the pauses of a sender double from 0.1 s to 10 s with 50 % jitter, and are never shorter than Retry-After', async () => {
  const pausesWith = async (fraction: number, afterMs: number): Promise<number[]> => {
    const pauses: number[] = [];
    const random = { ...SYSTEM.random, fraction: () => fraction };
    const { clock, send } = senderWith({ random, onRetry: ({ pauseMs }) => pauses.push(pauseMs) });
    const answer = { code: 'QUEUE_UNAVAILABLE', status: 503, answer: {}, requestId: undefined };
    const sent = send(() => ({ kind: 'retry', ...answer, afterMs }));
    await clock.advance(100_000);
    const result = await sent;
    assert.ok(result.kind === 'refused' && result.retryable && result.tries === 11);
    return pauses;
  };
  assert.deepEqual(await pausesWith(1, 0), [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
  assert.deepEqual((await pausesWith(0, 0)).slice(-4), [3_200, 5_000, 5_000, 5_000]);
  assert.deepEqual((await pausesWith(1, 7_000)).slice(0, 8), [...Array<number>(7).fill(7_000), 10_000]);
});
