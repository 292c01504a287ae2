import assert from 'node:assert/strict';
import { it } from 'node:test';
import { shared } from '../../lib/process/share-call.ts';

it('calls share a result while it is outstanding, and neither a result nor a failure is kept', async () => {
  let calls = 0;
  const ask = shared(async () => {
    calls += 1;
    if (calls === 1) throw new Error('away');
    return calls;
  });
  const both = await Promise.allSettled([ask(), ask()]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.equal(calls, 1);
  assert.deepEqual(await Promise.all([ask(), ask()]), [2, 2]);
  assert.equal(await ask(), 3);
});
