import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { IdleWatch, whatIsOverdue, type Snapshot } from '../../lib/http/limits.ts';
import type { Side } from '../../lib/http/side.ts';

const LIMITS = { headersTimeoutMs: 100, requestTimeoutMs: 1_000, idleTimeoutMs: 5_000 };
/** Idle connections get this much beyond what they were told. */
const SLACK_MS = 1_000;
const SINCE_MS = 10_000;
const QUIET: Snapshot = {
  headSinceMs: undefined,
  bodySinceMs: undefined,
  owing: false,
  unreadBytes: 0,
  quietSinceMs: SINCE_MS,
  requests: 1,
  certified: true,
};

describe('what is overdue on a connection', () => {
  const cases: Readonly<Record<string, readonly [Partial<Snapshot>, number, string]>> = {
    'a head that does not end': [{ headSinceMs: SINCE_MS }, LIMITS.headersTimeoutMs, 'head'],
    'a body that does not end': [{ bodySinceMs: SINCE_MS }, LIMITS.requestTimeoutMs, 'body'],
    'a next request that does not come': [{}, LIMITS.idleTimeoutMs + SLACK_MS, 'request'],
    'a first request of somebody unknown': [{ requests: 0, certified: false }, LIMITS.headersTimeoutMs, 'request'],
    'a first request of somebody with a good certificate': [
      { requests: 0 },
      LIMITS.idleTimeoutMs + SLACK_MS,
      'request',
    ],
    'answers that are not read': [
      { unreadBytes: 1, headSinceMs: SINCE_MS },
      LIMITS.idleTimeoutMs + SLACK_MS,
      'request',
    ],
  };
  for (const [name, [more, limitMs, what]] of Object.entries(cases)) {
    it(`${name}: at the limit, and not before`, () => {
      assert.equal(whatIsOverdue({ ...QUIET, ...more }, SINCE_MS + limitMs - 1, LIMITS), undefined);
      assert.equal(whatIsOverdue({ ...QUIET, ...more }, SINCE_MS + limitMs, LIMITS), what);
    });
  }

  it('nothing, while an answer is owed and no body arrives', () => {
    assert.equal(whatIsOverdue({ ...QUIET, owing: true, headSinceMs: SINCE_MS }, 1e9, LIMITS), undefined);
    assert.equal(whatIsOverdue({ ...QUIET, owing: true, bodySinceMs: SINCE_MS }, 1e9, LIMITS), 'body');
  });
});

describe('a connection that is watched', () => {
  const IDLE_MS = LIMITS.idleTimeoutMs + SLACK_MS;
  const side = (more: Partial<Side> = {}): Side =>
    ({ requests: 0, owing: false, headSinceMs: undefined, bodySinceMs: undefined, ...more }) as Side;

  it('is quiet from the start, where nothing happens', () => {
    const watch = new IdleWatch(100);
    assert.equal(watch.overdue(side(), 0, true, 100 + IDLE_MS - 1, LIMITS), undefined);
    assert.equal(watch.overdue(side(), 0, true, 100 + IDLE_MS, LIMITS), 'request');
  });

  it('is quiet anew from each change that is found, and only from that', () => {
    for (const [what, more, unread] of [
      ['a request', { requests: 1 }, 0],
      ['bytes that wait', {}, 7],
    ] as const) {
      const watch = new IdleWatch(0);
      assert.equal(watch.overdue(side(more), unread, true, IDLE_MS, LIMITS), undefined, what);
      assert.equal(watch.overdue(side(more), unread, true, 2 * IDLE_MS - 1, LIMITS), undefined, what);
      assert.equal(watch.overdue(side(more), unread, true, 2 * IDLE_MS, LIMITS), 'request', what);
    }
  });

  it('is quiet from when its answer was last owed', () => {
    const watch = new IdleWatch(0);
    for (const atMs of [1_000, IDLE_MS]) watch.overdue(side({ owing: true }), 0, true, atMs, LIMITS);
    assert.equal(watch.overdue(side(), 0, true, 2 * IDLE_MS - 1, LIMITS), undefined);
    assert.equal(watch.overdue(side(), 0, true, 2 * IDLE_MS, LIMITS), 'request');
  });

  it('passes on since when a head and a body arrive, and whether the client is certified', () => {
    const watch = new IdleWatch(0);
    assert.equal(watch.overdue(side({ headSinceMs: 0 }), 0, true, LIMITS.headersTimeoutMs, LIMITS), 'head');
    assert.equal(watch.overdue(side({ bodySinceMs: 0 }), 0, true, LIMITS.requestTimeoutMs, LIMITS), 'body');
    assert.equal(watch.overdue(side(), 0, false, LIMITS.headersTimeoutMs, LIMITS), 'request');
  });
});
