import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RateLimit, rateLimitFields } from '../../lib/gateway/rate-limit.ts';

describe('a rate limit', () => {
  it('allows the whole quota in one moment, then refuses and reports when the next event is allowed', () => {
    const limit = new RateLimit();
    for (let at = 0; at < 10; at += 1) {
      const verdict = limit.charge('p', 10, 0);
      assert.ok(verdict.allowed);
      assert.equal(verdict.remaining, 9 - at);
    }
    const over = limit.charge('p', 10, 0);
    assert.deepEqual(over, { allowed: false, rate: 10, remaining: 0, resetS: 1, retryAfterS: 1 });
    assert.ok(!limit.charge('p', 10, 99).allowed);
    assert.ok(limit.charge('p', 10, 100).allowed);
    assert.ok(!limit.charge('p', 10, 100).allowed);
  });

  it('forgets producers whose whole quota is available again', () => {
    const limit = new RateLimit();
    for (let at = 0; at < 5_000; at += 1) limit.charge(`early-${at}`, 1, 0);
    const early = limit.size;
    for (let at = 0; at < 20_000; at += 1) limit.charge(`late-${at}`, 1, 10_000);
    assert.ok(limit.size <= 20_000 + 1, `${early}, then ${limit.size}`);
    for (let at = 0; at < 20_000; at += 1) assert.ok(!limit.charge(`late-${at}`, 1, 10_000).allowed);
  });

  it('may be less than one event a second', () => {
    const limit = new RateLimit();
    assert.ok(limit.charge('p', 0.1, 0).allowed);
    assert.equal(limit.charge('p', 0.1, 0).retryAfterS, 10);
    assert.ok(!limit.charge('p', 0.1, 9_999).allowed);
    assert.ok(limit.charge('p', 0.1, 10_000).allowed);
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
            const verdict = limit.charge('p', rate, now);
            if (verdict.allowed) allowed.push(now);
            else assert.ok(limit.charge('p', rate, now + verdict.retryAfterS * 1000).allowed, 'Retry-After is enough');
            if (!verdict.allowed) now += verdict.retryAfterS * 1000;
          }
          for (const from of allowed) {
            const within = allowed.filter((at) => at >= from && at < from + 1000).length;
            assert.ok(within <= 2 * rate, `${within} in a second at ${rate}/s`);
          }
        },
      ),
    );
  });

  it('appears in the structured fields of the draft', () => {
    const verdict = new RateLimit().charge('p', 10, 0);
    assert.deepEqual(rateLimitFields(verdict), [
      'RateLimit-Policy',
      '"producer";q=10;w=1',
      'RateLimit',
      '"producer";r=9;t=1',
    ]);
  });

  it('appears in whole numbers that never exceed a fractional rate', () => {
    const policies = [2.5, 1, 0.5, 0.3].map((rate) => rateLimitFields(new RateLimit().charge('p', rate, 0))[1]);
    assert.deepEqual(
      policies,
      ['q=2;w=1', 'q=1;w=1', 'q=1;w=2', 'q=1;w=4'].map((policy) => `"producer";${policy}`),
    );
  });
});
