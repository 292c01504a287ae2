import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { SYSTEM } from '../support/system.ts';

describe('events by producer', () => {
  const samples = async (names: boolean, producers: readonly string[]): Promise<readonly string[]> => {
    const metrics = gatewayMetrics([], [], SYSTEM.clock, names);
    for (const producer of producers) metrics.acceptedOf(producer);
    const text = await metrics.registry.getSingleMetricAsString('ingest_producer_events_total');
    return text.split('\n').filter((line) => line.startsWith('ingest_'));
  };

  it('are counted under the names of the first 200 producers, and under `other` for the rest', async () => {
    const names = Array.from({ length: 250 }, (_, at) => `p${at}`);
    const found = await samples(true, [...names, ...names]);
    assert.equal(found.length, 201);
    assert.ok(found.includes('ingest_producer_events_total{producer="p199"} 2'));
    assert.ok(found.includes('ingest_producer_events_total{producer="other"} 100'));
  });

  it('are not counted unless that is asked for', async () => {
    assert.deepEqual(await samples(false, ['p']), []);
  });
});

describe('the metrics of a gateway', () => {
  it('each have a name of their own and a sentence that says what they count', async () => {
    const { registry } = gatewayMetrics(['CODE'], ['reset'], SYSTEM.clock);
    for (const { name, help } of await registry.getMetricsAsJSON()) {
      assert.match(name, /^(?:ingest|process|nodejs)_[a-z0-9_]+$/);
      if (name.startsWith('ingest_')) assert.match(help, /^[A-Z\d].*\.$/, name);
    }
  });

  it('have cells from the start for each error code and each reason', async () => {
    const { registry } = gatewayMetrics(['CODE'], ['reset'], SYSTEM.clock);
    const text = await registry.metrics();
    for (const cell of ['ingest_errors_total{code="CODE"} 0', 'ingest_tls_handshake_failures_total{reason="reset"} 0'])
      assert.ok(text.includes(cell), cell);
  });
});
