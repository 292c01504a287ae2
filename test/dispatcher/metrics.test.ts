// The names and labels of the dispatcher's metrics, which dashboards and alerts rely on.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dispatcherMetrics } from '../../lib/dispatcher/metrics.ts';
import { SYSTEM } from '../support/system.ts';

describe("the dispatcher's metrics", () => {
  it('have these names, and the counters are there from the start', async () => {
    const metrics = dispatcherMetrics(SYSTEM.clock);
    metrics.outcomes['ingest-b'].shed.add();
    metrics.queueUp.readEach(() => [{ labels: { queue: 'ingest-a' }, value: 1 }]);
    metrics.eventsInFlight.read(() => 2);
    metrics.connections.read(() => 3);
    metrics.certificateExpiry.readEach(() => [{ labels: { file: 'cert' }, value: 4 }]);
    metrics.tlsReloads.add(5);
    metrics.tlsReloadFailures.add(6);
    const text = await metrics.registry.metrics();
    const samples = [
      ...['ingest-a', 'ingest-b'].flatMap((queue) =>
        ['accepted', 'duplicate', 'differing', 'conflict', 'shed'].map(
          (outcome) =>
            `ingest_dispatched_total{queue="${queue}",outcome="${outcome}"} ${queue === 'ingest-b' && outcome === 'shed' ? 1 : 0}`,
        ),
      ),
      'ingest_queue_up{queue="ingest-a"} 1',
      'ingest_events_in_flight 2',
      'ingest_connections 3',
      'ingest_tls_certificate_expiry_seconds{file="cert"} 4',
      'ingest_tls_reloads_total 5',
      'ingest_tls_reload_failures_total 6',
    ];
    const lines = text.split('\n');
    for (const sample of samples) assert.ok(lines.includes(sample), `${sample} in\n${text}`);
    const helps = lines.filter((line) => line.startsWith('# HELP ingest_'));
    assert.ok(helps.length >= 8);
    for (const help of helps) assert.match(help, /^# HELP \w+ \w.{10}/);
  });
});
