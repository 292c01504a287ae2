import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { snapshotOf } from '../../lib/process/operator-file.ts';
import { temporaryFolder } from '../support/scope.ts';

const file = (producers: object): Producers => Producers.parse(JSON.stringify({ producers }));

describe('the producers file', () => {
  it("applies a producer's own row, else the row '*', else no restriction", () => {
    const producers = file({ 'urn:shop': { rate: 5 }, '*': { disabled: 'unknown here' } });
    assert.equal(producers.rulesFor('urn:shop').rate, 5);
    assert.equal(producers.rulesFor('urn:shop').disabled, undefined);
    assert.equal(producers.rulesFor('urn:other').disabled, 'unknown here');
    assert.equal(file({}).rulesFor('urn:other').disabled, undefined);
    assert.ok(Producers.UNRESTRICTED.rulesFor('constructor').allowsType('any'));
    assert.equal(file({}).rulesFor('__proto__').rate, undefined);
  });

  it('compares DNS names, common names, and schemes and hosts of URIs without case', () => {
    for (const [row, producer, isOne] of [
      ['shop.example', 'Shop.Example', true],
      ['SHOP.example', 'shop.example', true],
      ['Billing Service', 'billing service', true],
      ['spiffe://Shop.test/web', 'SPIFFE://shop.TEST/web', true],
      ['spiffe://shop.test/web', 'spiffe://shop.test/Web', false],
      ['urn:Example:shop', 'URN:example:shop', true],
      ['urn:example:shop', 'urn:example:Shop', false],
      ['mailto:a@shop.test', 'MAILTO:a@shop.test', true],
      ['mailto:a@shop.test', 'mailto:A@shop.test', false],
      ['shop.example', 'shop.example.', false],
    ] as const)
      assert.equal(file({ [row]: { disabled: 'no' } }).rulesFor(producer).disabled, isOne ? 'no' : undefined, producer);
    assert.throws(
      () => file({ 'shop.example': {}, 'Shop.Example': {} }),
      /two rows name the same producer, "Shop.Example"/,
    );
  });

  it('applies the row of the longest matching pattern to a producer without its own row', () => {
    const producers = file({
      'spiffe://prod/*': { audience: ['here', 'there'] },
      'spiffe://prod/eu/*': { rate: 5 },
      'spiffe://prod/eu/web': { disabled: 'moved' },
      '*.prod': { rate: 6 },
      '*': { rate: 7 },
    });
    assert.deepEqual(producers.rulesFor('spiffe://prod/web').audience, ['here', 'there']);
    assert.deepEqual(producers.rulesFor('SPIFFE://Prod/web').audience, ['here', 'there']);
    assert.equal(producers.rulesFor('spiffe://prod.test/web').audience, undefined);
    assert.equal(producers.rulesFor('spiffe://prod').audience, undefined);
    for (const [name, rate] of [
      ['spiffe://prod/eu/shop', 5],
      ['a.prod', 6],
      ['a.test', 7],
    ] as const) {
      assert.equal(producers.rulesFor(name).rate, rate);
      assert.equal(producers.rulesFor(name).audience, undefined);
    }
    assert.equal(producers.rulesFor('spiffe://prod/eu/web').disabled, 'moved');
    for (let at = 0; at <= 10_000; at += 1) assert.equal(producers.rulesFor(`${at}.prod`).rate, 6);
    assert.throws(() => file({ p: { audience: 'here' } }), /audience/);
    assert.throws(() => file({ p: { audience: ['not one'] } }), /audience/);
  });

  it('allows the types that its patterns match as a whole, with a star for any characters', () => {
    const cases: Readonly<Record<string, readonly [allowed: string, refused: string]>> = {
      'order.placed': ['order.placed', 'order.placed.eu Order.placed'],
      'order.*': ['order.placed order.placed.eu', 'order reorder.placed'],
      '*.placed': ['order.placed', 'order.placed2'],
      '*': ['x', ''],
      'a*b*c': ['a.b.c', 'a.c.b'],
      'a*a': ['aa', 'a'],
      'ab*ba': ['abba', 'aba'],
      'a**c': ['abc', 'ab'],
      // A matcher that backtracks would need minutes.
      '*a*a*a*a*a*b': ['aaaaab', 'a'.repeat(5_000)],
    };
    const allows = (types: readonly string[], type: string): boolean =>
      file({ p: { types } }).rulesFor('p').allowsType(type);
    for (const [pattern, lists] of Object.entries(cases))
      for (const [at, list] of lists.entries())
        for (const type of list.split(' ').filter(Boolean))
          assert.equal(allows([pattern], type), at === 0, `${pattern} ${type}`);
    assert.deepEqual([allows([], 'x'), allows(['x', 'y.*'], 'y.z')], [false, true]);
  });

  it('is refused if it has more than 8 MiB', async () => {
    const path = join(temporaryFolder(), 'producers.json');
    writeFileSync(path, '{"producers":{}}'.padEnd(2 ** 23 + 1));
    for (const read of [undefined, (await snapshotOf([path])).read])
      await assert.rejects(
        Producers.read(path, read),
        /readable file \(8388609 bytes, more than the limit of 8388608\)/,
      );
  });

  it('is refused with every problem and its place', () => {
    const wrong: readonly (readonly [text: string, why: RegExp])[] = [
      ['{', /not JSON/],
      ['[]', /^\/: /],
      ['{}', /^\/producers: /],
      ['{"producers":{"p":{"rate":0}}}', /\/producers\/p\/rate: /],
      ['{"producers":{"p":{"rate":"5"}}}', /\/producers\/p\/rate: /],
      ['{"producers":{"p":{"speed":5},"q":{"types":"x"}}}', /\/producers\/p\/speed: .*\/producers\/q\/types: /],
      ['{"producers":{"p":{"types":["a b"]}}}', /\/producers\/p\/types\/0: /],
      ['{"producers":{"p":{"disabled":"a\\u0007b"}}}', /\/producers\/p\/disabled: /],
      ['{"producers":{"p":{"disabled":""}}}', /\/producers\/p\/disabled: /],
      ['{"producers":{"p":{"lookUpRate":1000001}}}', /\/producers\/p\/lookUpRate: /],
      ['{"producers":{},"more":1}', /\/more: /],
    ];
    for (const [text, why] of wrong) {
      assert.throws(() => Producers.parse(text), { message: why }, text);
    }
  });
});
