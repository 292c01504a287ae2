import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { IdleWatch, type Progress } from '../../lib/http/idle-watch.ts';

const LIMITS = { headersTimeoutMs: 100, requestTimeoutMs: 1_000, idleTimeoutMs: 5_000 };
/** Idle connections get this much beyond what they were told. */
const SLACK_MS = 1_000;
const SINCE_MS = 10_000;
const QUIET: Progress = {
  headSinceMs: undefined,
  bodySinceMs: undefined,
  owing: false,
  unreadBytes: 0,
  requests: 0,
  certified: true,
};

describe('what is overdue on a connection', () => {
  const cases: Readonly<Record<string, readonly [Partial<Progress>, number, string]>> = {
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
  /** Watched from SINCE_MS on, when the first request, if any, had arrived. */
  function overdue(more: Partial<Progress>, nowMs: number) {
    const watch = new IdleWatch(SINCE_MS);
    const progress = { ...QUIET, requests: 1, ...more };
    watch.overdue(progress, SINCE_MS, LIMITS);
    return watch.overdue(progress, nowMs, LIMITS);
  }

  for (const [name, [more, limitMs, what]] of Object.entries(cases)) {
    it(`${name}: at the limit, and not before`, () => {
      assert.equal(overdue(more, SINCE_MS + limitMs - 1), undefined);
      assert.equal(overdue(more, SINCE_MS + limitMs), what);
    });
  }

  it('nothing, while an answer is owed and no body arrives', () => {
    assert.equal(overdue({ owing: true, headSinceMs: SINCE_MS }, 1e9), undefined);
    assert.equal(overdue({ owing: true, bodySinceMs: SINCE_MS }, 1e9), 'body');
  });
});

describe('a connection that is watched', () => {
  const IDLE_MS = LIMITS.idleTimeoutMs + SLACK_MS;

  it('is quiet from the start, where nothing happens', () => {
    const watch = new IdleWatch(100);
    assert.equal(watch.overdue(QUIET, 100 + IDLE_MS - 1, LIMITS), undefined);
    assert.equal(watch.overdue(QUIET, 100 + IDLE_MS, LIMITS), 'request');
  });

  it('is quiet anew from each change that is found, and only from that', () => {
    for (const [what, more] of [
      ['a request', { requests: 1 }],
      ['bytes that wait', { unreadBytes: 7 }],
    ] as const) {
      const watch = new IdleWatch(0);
      assert.equal(watch.overdue({ ...QUIET, ...more }, IDLE_MS, LIMITS), undefined, what);
      assert.equal(watch.overdue({ ...QUIET, ...more }, 2 * IDLE_MS - 1, LIMITS), undefined, what);
      assert.equal(watch.overdue({ ...QUIET, ...more }, 2 * IDLE_MS, LIMITS), 'request', what);
    }
  });

  it('is quiet from when its answer was last owed', () => {
    const watch = new IdleWatch(0);
    for (const atMs of [1_000, IDLE_MS]) watch.overdue({ ...QUIET, owing: true }, atMs, LIMITS);
    assert.equal(watch.overdue(QUIET, 2 * IDLE_MS - 1, LIMITS), undefined);
    assert.equal(watch.overdue(QUIET, 2 * IDLE_MS, LIMITS), 'request');
  });

  it('passes on since when a head and a body arrive, and whether the client is certified', () => {
    const watch = new IdleWatch(0);
    assert.equal(watch.overdue({ ...QUIET, headSinceMs: 0 }, LIMITS.headersTimeoutMs, LIMITS), 'head');
    assert.equal(watch.overdue({ ...QUIET, bodySinceMs: 0 }, LIMITS.requestTimeoutMs, LIMITS), 'body');
    assert.equal(watch.overdue({ ...QUIET, certified: false }, LIMITS.headersTimeoutMs, LIMITS), 'request');
  });
});
