import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RateLimit } from '../../lib/gateway/rate-limit.ts';

const isAllowed = (limit: RateLimit, producer: string, rate: number, nowMs: number): boolean =>
  limit.charge(producer, rate, nowMs).retryAfterS === 0;

describe('a rate limit', () => {
  it('allows the whole quota in one moment, then refuses and reports when the next event is allowed', () => {
    const limit = new RateLimit();
    const verdict = (nowMs: number): unknown[] => {
      const { retryAfterS, fields } = limit.charge('p', 10, nowMs);
      return [retryAfterS, ...fields];
    };
    for (let at = 0; at < 11; at += 1)
      assert.deepEqual(verdict(0), [
        ...[at < 10 ? 0 : 1, 'RateLimit-Policy', '"producer";q=10;w=1'],
        ...['RateLimit', `"producer";r=${Math.max(0, 9 - at)};t=1`],
      ]);
    assert.deepEqual(
      [99, 100, 100].map((nowMs) => isAllowed(limit, 'p', 10, nowMs)),
      [false, true, false],
    );
  });

  it('forgets producers whose whole quota is available again', () => {
    const limit = new RateLimit();
    for (let at = 0; at < 5_000; at += 1) limit.charge(`early-${at}`, 1, 0);
    for (let at = 0; at < 20_000; at += 1) limit.charge(`late-${at}`, 1, 10_000);
    assert.ok(limit.size <= 20_000 + 1, String(limit.size));
    for (let at = 0; at < 20_000; at += 1) assert.ok(!isAllowed(limit, `late-${at}`, 1, 10_000));
  });

  it('may be less than one event a second', () => {
    const limit = new RateLimit();
    assert.deepEqual(
      [0, 0, 9_999, 10_000].map((nowMs) => limit.charge('p', 0.1, nowMs).retryAfterS),
      [0, 10, 1, 0],
    );
  });

  it('allows at most twice the rate within any second, and the next event after Retry-After', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.integer({ min: 0, max: 200 }), { maxLength: 300 }),
        (rate, gaps) => {
          const limit = new RateLimit();
          const allowed: number[] = [];
          let now = 0;
          for (const gap of gaps) {
            now += gap;
            const { retryAfterS } = limit.charge('p', rate, now);
            if (retryAfterS === 0) allowed.push(now);
            else assert.ok(isAllowed(limit, 'p', rate, now + retryAfterS * 1000), 'Retry-After is enough');
            now += retryAfterS * 1000;
          }
          for (const from of allowed) {
            const within = allowed.filter((at) => at >= from && at < from + 1000).length;
            assert.ok(within <= 2 * rate, `${within} in a second at ${rate}/s`);
          }
        },
      ),
    );
  });

  it('appears in whole numbers that never exceed a fractional rate', () => {
    const policies = [2.5, 1, 0.5, 0.3].map((rate) => new RateLimit().charge('p', rate, 0).fields[1]?.slice(11));
    assert.deepEqual(policies, ['q=2;w=1', 'q=1;w=1', 'q=1;w=2', 'q=1;w=4']);
  });
});
