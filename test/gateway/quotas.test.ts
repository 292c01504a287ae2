import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const rows = (producers: object): Producers => Producers.parse(JSON.stringify({ producers }));
const answered = { fields: undefined };

describe('a changed producers file', () => {
  it('keeps the used part of each quota', () => {
    const quotas = new Quotas(rows({ shop: { rate: 2 } }), undefined, SYSTEM.clock);
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
    quotas.replace(rows({ shop: { disabled: 'moved', types: ['b'] } }));
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
