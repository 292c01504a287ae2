// What a changed producers file does to quotas in use.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import { SYSTEM } from '../support/system.ts';

const rows = (producers: object): Producers => Producers.parse(JSON.stringify({ producers }));
const answered = { answerWith: () => undefined };

describe('a changed producers file', () => {
  it('gives no quota back: what a producer has used stays used', () => {
    const quotas = new Quotas(rows({ shop: { rate: 2 } }), undefined, SYSTEM.clock);
    const codes = (): (string | undefined)[] =>
      Array.from({ length: 3 }, () => quotas.refusal('shop', answered)?.refusal);
    assert.deepEqual(codes(), [undefined, undefined, 'producerRateLimited']);
    quotas.replace(rows({ shop: { rate: 2 }, bank: { rate: 1 } }));
    assert.deepEqual(codes().slice(0, 1), ['producerRateLimited']);
  });

  it('counts at once: disabled, types, audiences', () => {
    const quotas = new Quotas(rows({ shop: { audience: ['here'] } }), undefined, SYSTEM.clock);
    assert.deepEqual([quotas.refusal('shop', answered), quotas.typeRefusal('shop', 'a')], [undefined, undefined]);
    assert.deepEqual([quotas.grants('shop', 'here'), quotas.grants('shop', 'there')], [true, false]);
    quotas.replace(rows({ shop: { disabled: 'moved', types: ['b'] } }));
    assert.equal(quotas.refusal('shop', answered)?.refusal, 'producerDisabled');
    assert.equal(quotas.typeRefusal('shop', 'a')?.refusal, 'typeNotAllowed');
    assert.equal(quotas.grants('shop', 'here'), false);
  });
});
