import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pause } from '../../lib/process/backoff.ts';

it('a pause longer than a timer can be does not end at once', async () => {
  const stop = new AbortController();
  let ended = false;
  const waiting = pause(2 ** 31, stop.signal).then(() => (ended = true));
  await pause(20, new AbortController().signal);
  assert.equal(ended, false);
  stop.abort();
  await waiting;
});
