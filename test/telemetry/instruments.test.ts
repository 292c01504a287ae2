import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { Gauge, HistogramFamily } from '../../lib/telemetry/instruments.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const samplesOf = async (registry: Registry): Promise<readonly string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

describe('the instruments', () => {
  it('probe only while somebody scrapes, every five seconds at most, and call a slow probe a failed one', async () => {
    const registry = new Registry();
    const clock = new VirtualClock();
    const probes: PromiseWithResolvers<void>[] = [];
    const probe = (): Promise<void> => (probes[probes.length] = Promise.withResolvers<void>()).promise;
    new Gauge(registry, 'g', 'G.').readProbe(probe, clock);
    assert.deepEqual(await samplesOf(registry), []);
    probes[0]?.resolve();
    await clock.advance(4_999);
    assert.deepEqual([await samplesOf(registry), probes.length], [['g 1'], 1]);
    await clock.advance(1);
    assert.deepEqual([await samplesOf(registry), probes.length], [['g 1'], 2]);
    await clock.advance(2_001);
    assert.deepEqual(await samplesOf(registry), ['g 0']);
    await clock.advance(60_000);
    assert.deepEqual([await samplesOf(registry), probes.length], [['g 0'], 2], 'one probe at a time');
    probes[1]?.reject(new Error('late'));
    await clock.advance(60_000);
    assert.deepEqual([await samplesOf(registry), probes.length], [['g 0'], 3]);
  });

  it('sort observations into buckets that include their bound, also several equal ones', async () => {
    const registry = new Registry();
    const distribution = new HistogramFamily(registry, 'h', 'H.', [1, 2]).of({ of: 'a' });
    for (const value of [0, 1, 2.5]) distribution.observe(value);
    distribution.observe(2, 4);
    assert.deepEqual(await samplesOf(registry), [
      ...['h_bucket{le="1",of="a"} 2', 'h_bucket{le="2",of="a"} 6', 'h_bucket{le="+Inf",of="a"} 7'],
      ...['h_sum{of="a"} 11.5', 'h_count{of="a"} 7'],
    ]);
  });
});
