import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import { RateLimit } from '../../lib/gateway/rate-limit.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const rows = (producers: object): Producers => Producers.parse(JSON.stringify({ producers }));
const answered = { fields: undefined };

describe('a changed producers file', () => {
  it('keeps the used part of each quota', () => {
    const quotas = new Quotas(rows({ shop: { rate: 2 } }), undefined, new VirtualClock());
    const codes = (): (string | undefined)[] =>
      Array.from({ length: 3 }, () => quotas.refusal('shop', answered)?.refusal);
    assert.deepEqual(codes(), [undefined, undefined, 'producerRateLimited']);
    quotas.replace(rows({ shop: { rate: 2 }, bank: { rate: 1 } }));
    assert.deepEqual(codes().slice(0, 1), ['producerRateLimited']);
  });

  it('applies immediately to disabled producers, types and audiences', () => {
    const quotas = new Quotas(rows({ shop: { audience: ['here'] } }), undefined, SYSTEM.clock);
    assert.deepEqual([quotas.refusal('shop', answered), quotas.typeRefusal('shop', 'a')], [undefined, undefined]);
    assert.deepEqual([quotas.grants('shop', 'here'), quotas.grants('shop', 'there')], [true, false]);
    quotas.replace(rows({ shop: { disabled: 'moved', rate: 5, types: ['b'] } }));
    assert.equal(quotas.refusal('shop', answered)?.refusal, 'producerDisabled');
    assert.equal(quotas.typeRefusal('shop', 'a')?.refusal, 'typeNotAllowed');
    assert.equal(quotas.grants('shop', 'here'), false);
  });
});

describe('a quota', () => {
  const clock = new VirtualClock();

  it('of look-ups is separate from that of events, and each answer reports its own', async () => {
    const told: (string | undefined)[] = [];
    const exchange = {
      set fields(fields: readonly string[]) {
        told.push(fields[1]);
      },
    };
    const quotas = new Quotas(rows({ shop: { rate: 1, lookUpRate: 2 } }), undefined, clock);
    assert.equal(quotas.refusal('shop', exchange), undefined);
    assert.equal(quotas.lookUpRefusal('shop', exchange), undefined);
    assert.equal(quotas.lookUpRefusal('shop', exchange), undefined);
    assert.equal(quotas.lookUpRefusal('shop', exchange)?.refusal, 'producerRateLimited');
    assert.equal(quotas.refusal('shop', exchange)?.refusal, 'producerRateLimited');
    assert.deepEqual(
      told,
      [1, 2, 2, 2, 1].map((rate) => `"producer";q=${rate};w=1`),
    );
    await clock.advance(1_000);
    assert.equal(quotas.refusal('shop', exchange), undefined);
  });

  it('is the common one for a producer without a rate, or absent without a common one', () => {
    const common = new Quotas(rows({ shop: { rate: 2 } }), 1, clock);
    const codes = (quotas: Quotas, producer: string): (string | undefined)[] =>
      [1, 2].map(() => quotas.refusal(producer, answered)?.refusal);
    assert.deepEqual(codes(common, 'shop'), [undefined, undefined]);
    assert.deepEqual(codes(common, 'bank'), [undefined, 'producerRateLimited']);
    const untold = {
      set fields(_: readonly string[]) {
        assert.fail('there is no limit to tell of');
      },
    };
    assert.equal(common.lookUpRefusal('bank', untold), undefined);
    assert.equal(new Quotas(rows({}), undefined, clock).refusal('bank', untold), undefined);
  });

  it('counts one event for each 16 KiB of a body’s expansion, and refuses later requests', () => {
    for (const [file, common] of [
      [{ shop: { rate: 10 } }, undefined],
      [{}, 10],
    ] as const) {
      const quotas = new Quotas(rows(file), common, new VirtualClock());
      const remaining = (bytes: number): unknown => {
        const exchange: { fields: readonly string[] | undefined } = { fields: undefined };
        quotas.refusal('shop', exchange);
        quotas.chargeExpansion('shop', bytes, exchange);
        return exchange.fields?.[3]?.replace(/;t=.*/, '');
      };
      const all = [16_383, 2 * 16_384, -5, 20 * 16_384].map(remaining);
      assert.deepEqual(
        all,
        [9, 6, 5, 0].map((rest) => `"producer";r=${rest}`),
      );
      assert.equal(quotas.refusal('shop', answered)?.refusal, 'producerRateLimited');
    }
  });
});

it('the types of a producer are named in a refusal in the order of the file, twenty of them at most', () => {
  const types = Array.from({ length: 22 }, (_, at) => `t${21 - at}`);
  const quotas = new Quotas(rows({ shop: { types }, bank: { types: [] } }), undefined, SYSTEM.clock);
  const detail = (producer: string): string => String(quotas.typeRefusal(producer, 'other')?.body);
  assert.ok(detail('shop').includes(`other; allowed: ${types.slice(0, 20).join(', ')} and 2 more"`), detail('shop'));
  assert.match(detail('bank'), /other; allowed: none"/);
});

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
    assert.deepEqual(verdict(250).at(-1), '"producer";r=0;t=1', 'half an event is none');
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
      [0, 0, 600, 9_999, 10_000].map((nowMs) => limit.charge('p', 0.1, nowMs).retryAfterS),
      [0, 10, 10, 1, 0],
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
