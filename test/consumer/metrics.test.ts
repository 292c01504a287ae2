// The names and labels of the consumer's metrics, which dashboards and alerts rely on.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe("the consumer's metrics", () => {
  it('have these names, and the counters are there from the start', async () => {
    const metrics = consumerMetrics(['invalid_event', 'schema'], new VirtualClock());
    const atStart = (await metrics.registry.metrics()).split('\n');
    for (const sample of [
      'ingest_quarantined_total{reason="invalid_event"}',
      'ingest_quarantined_total{reason="schema"}',
      'ingest_consumer_failures_total{dependency="queue"}',
      'ingest_consumer_failures_total{dependency="warehouse"}',
    ])
      assert.ok(atStart.includes(`${sample} 0`), sample);
    metrics.quarantined.counter({ reason: 'schema' }).add(2);
    metrics.failures.counter({ dependency: 'queue' }).add(4);
    metrics.schemaEvents.matched.add(5);
    metrics.schemaEvents.unmatched.add(6);
    metrics.schemaEvents.unschematized.add(7);
    metrics.landed.add(8);
    metrics.duplicates.add(9);
    metrics.groupVanished.add(10);
    metrics.delay.observe(0.02);
    metrics.queueUp.readEach(() => [{ labels: { partition: '1-0' }, value: 1 }]);
    for (const [at, gauge] of [
      metrics.ready,
      metrics.warehouseAvailable,
      metrics.queueAvailable,
      metrics.replicas,
    ].entries())
      gauge.read(() => 20 + at);
    const text = await metrics.registry.metrics();
    const lines = text.split('\n');
    for (const sample of [
      'ingest_quarantined_total{reason="invalid_event"} 0',
      'ingest_quarantined_total{reason="schema"} 2',
      'ingest_consumer_failures_total{dependency="queue"} 4',
      'ingest_consumer_failures_total{dependency="warehouse"} 0',
      'ingest_schema_events_total{result="matched"} 5',
      'ingest_schema_events_total{result="unmatched"} 6',
      'ingest_schema_events_total{result="unschematized"} 7',
      'ingest_landed_total 8',
      'ingest_consumer_duplicates_total 9',
      'ingest_queue_group_vanished_total 10',
      'ingest_landing_delay_seconds_bucket{le="0.01"} 0',
      'ingest_landing_delay_seconds_bucket{le="0.025"} 1',
      'ingest_landing_delay_seconds_bucket{le="86400"} 1',
      'ingest_queue_up{partition="1-0"} 1',
      'ingest_consumer_ready 20',
      'ingest_warehouse_available 21',
      'ingest_queue_available 22',
      'ingest_consumer_replicas 23',
    ])
      assert.ok(lines.includes(sample), `${sample} in\n${text}`);
    const helps = lines.filter((line) => line.startsWith('# HELP ingest_'));
    assert.ok(helps.length >= 14);
    for (const help of helps) assert.match(help, /^# HELP \w+ \S.{10,}[.]$/);
  });
});
