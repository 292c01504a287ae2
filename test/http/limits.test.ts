import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { whatIsOverdue, type Snapshot } from '../../lib/http/limits.ts';

const LIMITS = { headersTimeoutMs: 100, requestTimeoutMs: 1_000, idleTimeoutMs: 5_000 };
/** Idle connections get this much beyond what they were told. */
const SLACK_MS = 1_000;
const QUIET: Snapshot = {
  headSinceMs: undefined,
  bodySinceMs: undefined,
  owing: false,
  unreadBytes: 0,
  quietSinceMs: 0,
  requests: 1,
  certified: true,
};

describe('what is overdue on a connection', () => {
  const cases: Readonly<Record<string, readonly [Partial<Snapshot>, number, string]>> = {
    'a head that does not end': [{ headSinceMs: 0 }, LIMITS.headersTimeoutMs, 'head'],
    'a body that does not end': [{ bodySinceMs: 0 }, LIMITS.requestTimeoutMs, 'body'],
    'a next request that does not come': [{}, LIMITS.idleTimeoutMs + SLACK_MS, 'request'],
    'a first request of somebody unknown': [{ requests: 0, certified: false }, LIMITS.headersTimeoutMs, 'request'],
    'a first request of somebody with a good certificate': [
      { requests: 0 },
      LIMITS.idleTimeoutMs + SLACK_MS,
      'request',
    ],
    'answers that are not read': [{ unreadBytes: 1, headSinceMs: 0 }, LIMITS.idleTimeoutMs + SLACK_MS, 'request'],
  };
  for (const [name, [more, limitMs, what]] of Object.entries(cases)) {
    it(`${name}: at the limit, and not before`, () => {
      assert.equal(whatIsOverdue({ ...QUIET, ...more }, limitMs - 1, LIMITS), undefined);
      assert.equal(whatIsOverdue({ ...QUIET, ...more }, limitMs, LIMITS), what);
    });
  }

  it('nothing, while an answer is owed and no body arrives', () => {
    assert.equal(whatIsOverdue({ ...QUIET, owing: true, headSinceMs: 0 }, 1e9, LIMITS), undefined);
    assert.equal(whatIsOverdue({ ...QUIET, owing: true, bodySinceMs: 0 }, 1e9, LIMITS), 'body');
  });
});
