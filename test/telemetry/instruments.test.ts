import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { CounterFamily, Gauge, HistogramFamily } from '../../lib/telemetry/instruments.ts';

const samplesOf = async (registry: Registry): Promise<readonly string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

describe('the counters of a metric', () => {
  it('begin at 0, increase by one or by a number, and are the same for the same labels', async () => {
    const registry = new Registry();
    const family = new CounterFamily(registry, 'c_total', 'C.');
    assert.deepEqual(await samplesOf(registry), []);
    family.counter({ of: 'a' }).add();
    family.counter({ of: 'a' }).add(4);
    family.counter({ of: 'b' });
    assert.deepEqual(await samplesOf(registry), ['c_total{of="a"} 5', 'c_total{of="b"} 0']);
  });
});

describe('a gauge', () => {
  it('has no sample without an owner, and calls its owner at each scrape', async () => {
    const registry = new Registry();
    const gauge = new Gauge(registry, 'g', 'G.');
    assert.deepEqual(await samplesOf(registry), []);
    let value = 1;
    gauge.read(() => value);
    assert.deepEqual(await samplesOf(registry), ['g 1']);
    value = 2;
    assert.deepEqual(await samplesOf(registry), ['g 2']);
    gauge.readEach(() => [{ labels: { of: 'a' }, value: 3 }]);
    assert.deepEqual(await samplesOf(registry), ['g{of="a"} 3']);
  });
});

describe('a histogram', () => {
  const histogram = (registry = new Registry()) => ({
    registry,
    family: new HistogramFamily(registry, 'h', 'H.', [1, 2]),
  });

  it('has buckets that include their bound, and a bucket for all larger values', async () => {
    const { registry, family } = histogram();
    for (const value of [0, 1, 1.5, 2, 2.5]) family.distribution().observe(value);
    assert.deepEqual(await samplesOf(registry), [
      ...['h_bucket{le="1"} 2', 'h_bucket{le="2"} 4', 'h_bucket{le="+Inf"} 5'],
      ...['h_sum 7', 'h_count 5'],
    ]);
  });

  it('multiplies an observation by the number of events, also in its sum', async () => {
    const { registry, family } = histogram();
    family.distribution().observe(1.5, 4);
    assert.deepEqual(await samplesOf(registry), [
      ...['h_bucket{le="1"} 0', 'h_bucket{le="2"} 4', 'h_bucket{le="+Inf"} 4'],
      ...['h_sum 6', 'h_count 4'],
    ]);
  });

  it('has one distribution for the same labels, which every sample has', async () => {
    const { registry, family } = histogram();
    family.distribution({ of: 'a' }).observe(1);
    family.distribution({ of: 'a' }).observe(3);
    family.distribution({ of: 'b' });
    assert.deepEqual(await samplesOf(registry), [
      ...['h_bucket{le="1",of="a"} 1', 'h_bucket{le="2",of="a"} 1', 'h_bucket{le="+Inf",of="a"} 2'],
      ...['h_sum{of="a"} 4', 'h_count{of="a"} 2'],
      ...['h_bucket{le="1",of="b"} 0', 'h_bucket{le="2",of="b"} 0', 'h_bucket{le="+Inf",of="b"} 0'],
      ...['h_sum{of="b"} 0', 'h_count{of="b"} 0'],
    ]);
  });
});
