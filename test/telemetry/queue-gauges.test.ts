import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { QueueGauges, type StreamReport } from '../../lib/telemetry/queue-gauges.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const report = (more: Partial<StreamReport>): StreamReport => ({
  ...{ unlanded: 0, oldestMs: 0, events: 0, memoryBytes: undefined, memoryLimitBytes: undefined },
  ...more,
});

describe("a queue's gauges", () => {
  it('have names and help texts, no label for a queue of one part, and no sample for unknown values', async () => {
    const registry = new Registry();
    const clock = new VirtualClock();
    const gauges = new QueueGauges(registry, clock);
    const samples = async (): Promise<readonly string[]> =>
      (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    assert.deepEqual(await samples(), []);
    gauges.reported('0', report({ unlanded: 2, oldestMs: 5_000, events: 9, acknowledged: 1, consumers: 4 }));
    await clock.advance(2_000);
    // The age is the measured one until the reading is old.
    assert.deepEqual(await samples(), [
      'ingest_queue_lag_events 2',
      'ingest_queue_oldest_unlanded_seconds 5',
      'ingest_queue_acknowledged_events 1',
      'ingest_queue_consumers 4',
      'ingest_queue_report_age_seconds 2',
      'ingest_queue_events 9',
    ]);
    await clock.advance(18_000);
    assert.deepEqual(await samples(), ['ingest_queue_lag_events 2', 'ingest_queue_oldest_unlanded_seconds 25']);
    gauges.reported('0', report({ events: 9, memoryBytes: 5, memoryLimitBytes: 0, clockSkewMs: 90_000 }));
    gauges.reported(
      '0',
      report({ acknowledged: 7, consumers: 3, replicas: 0, memoryLimitBytes: 0, clockSkewMs: 90_000 }),
    );
    const text = await registry.metrics();
    for (const sample of [
      'ingest_queue_memory_limit_bytes 0',
      'ingest_queue_acknowledged_events 7',
      'ingest_queue_consumers 3',
      'ingest_queue_replicas 0',
      'ingest_clock_skew_seconds 90',
    ])
      assert.ok(text.includes(`\n${sample}\n`), sample);
    assert.equal(gauges.clockSkewSeconds, 90);
  });

  it('show all events, and the memory of the fullest server', () => {
    const gauges = new QueueGauges(new Registry(), new VirtualClock());
    // The memory and its limit of each server, where 0 is no limit.
    for (const [fullest, ...servers] of [
      [90, [500, 10_000], [90, 100], [10, 100]],
      [5, [5, 10], [50, 100], [5_000_000_000, 0]],
      [7, [5, 0], [7, 0], [6, 0]],
    ] as const) {
      for (const [at, [memoryBytes, memoryLimitBytes]] of servers.entries())
        gauges.reported(String(at), report({ events: at + 3, memoryBytes, memoryLimitBytes }));
      assert.deepEqual([gauges.size?.memoryBytes, gauges.size?.events], [fullest, 12]);
    }
  });

  it('show the lag and the age of each part, and age 0 without unlanded events', async () => {
    const registry = new Registry();
    const clock = new VirtualClock();
    const gauges = new QueueGauges(registry, clock);
    await clock.advance(1_000);
    gauges.reported('0', report({ unlanded: 2, oldestMs: 5_000, clockSkewMs: 4_000 }));
    gauges.reported('1', report({ unlanded: 0, oldestMs: 900_000, clockSkewMs: 90_000 }));
    gauges.reported('2', report({ unlanded: 3, oldestMs: 7_000 }));
    const text = await registry.metrics();
    assert.match(text, /^ingest_queue_lag_events\{partition="2"\} 3$/m);
    assert.match(text, /^ingest_queue_oldest_unlanded_seconds\{partition="1"\} 0$/m);
    assert.match(text, /^ingest_clock_skew_seconds 90$/m, 'of the part that differs most');
    // Without a report for 15 seconds, the size is unknown.
    await clock.advance(14_999);
    assert.equal(gauges.size?.events, 0);
    await clock.advance(1);
    assert.equal(gauges.size, undefined);
  });
});
