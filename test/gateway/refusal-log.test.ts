// The trace of refusals: how often a line comes, what it holds, and that its memory has a bound.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RefusalLog, type RefusedRequest } from '../../lib/gateway/refusal-log.ts';
import type { Log } from '../../lib/process/log.ts';
import { eventually } from '../support/scope.ts';

type Line = Readonly<Record<string, unknown>>;

/** Collects what is logged at info, as the real log's interface does it. */
function collecting(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const log = {
    isLevelEnabled: (level: string) => level === 'info',
    info: (fields: Line) => lines.push(fields),
    debug: () => assert.fail('nothing is told at debug'),
  };
  return { log: log as unknown as Log, lines };
}

const refusal = (producer: string | undefined, code = 'INVALID_EVENT'): RefusedRequest => ({
  requestId: 'r',
  producer,
  route: '/events',
  status: 400,
  code,
  detail: () => assert.fail('the detail is made for debug only'),
});

describe('the log of refusals', () => {
  it('logs the first refusal of a pair immediately and the others together when the interval is over', async (t) => {
    const { log, lines } = collecting();
    const refusals = new RefusalLog(log, 300);
    t.after(() => refusals.close());
    for (let n = 0; n < 10; n += 1) refusals.refused(refusal('shop'));
    refusals.refused(refusal(undefined, 'UNAUTHORIZED_PRODUCER'));
    assert.deepEqual(lines, [
      { producer: 'shop', code: 'INVALID_EVENT', count: 1 },
      { producer: undefined, code: 'UNAUTHORIZED_PRODUCER', count: 1 },
    ]);
    await eventually('the rest is told', () => lines.length === 3);
    assert.deepEqual(lines[2], { producer: 'shop', code: 'INVALID_EVENT', count: 9 });
  });

  it('keeps at most 1,000 pairs and counts further ones as others, so that every refusal is logged', () => {
    const { log, lines } = collecting();
    const refusals = new RefusalLog(log);
    for (let n = 0; n < 5_000; n += 1) refusals.refused(refusal(`producer-${n}`));
    assert.equal(lines.length, 1_001);
    assert.equal(lines.at(-1)?.['producer'], '(others)');
    refusals.close();
    assert.equal(
      lines.reduce((sum, { count }) => sum + Number(count), 0),
      5_000,
    );
  });
});
