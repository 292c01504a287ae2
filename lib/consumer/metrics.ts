// The consumer's metrics. Label values come from fixed sets, so no id, producer or entry is a label.
import { CounterFamily, Gauge, HistogramFamily, rareCounter } from '../telemetry/instruments.ts';
import { QueueGauges } from '../telemetry/queue-gauges.ts';
import { ReloadMetrics } from '../telemetry/reload-metrics.ts';
import { processRegistry } from '../telemetry/process-registry.ts';
import { Stalls } from '../telemetry/stalls.ts';
import type { Clock } from '../process/clock.ts';
import { QUARANTINE_REASONS } from './classify.ts';

/** Bucket bounds with fine steps up to one second, the target for landing, and coarse ones up to the retention. */
const LANDING_BOUNDS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3600, 21_600, 86_400];

export type ConsumerMetrics = ReturnType<typeof consumerMetrics>;

/** Counters for all reasons start at 0. */
export function consumerMetrics(clock: Clock) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const quarantined = rareCounter(
    registry,
    'ingest_quarantined_total',
    'Entries that could not land and were put in quarantine, by reason.',
    'reason',
  );
  for (const reason of QUARANTINE_REASONS) quarantined.inc({ reason }, 0);
  const delay = new HistogramFamily(
    registry,
    'ingest_landing_delay_seconds',
    "Time from an event's acceptance to the commit of its row.",
    LANDING_BOUNDS_S,
  );
  const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
  const failures = rareCounter(
    registry,
    'ingest_consumer_failures_total',
    'Attempts that failed because the queue or the warehouse was unavailable.',
    'dependency',
  );
  for (const dependency of ['queue', 'warehouse']) failures.inc({ dependency }, 0);
  const schemaEvents = counter(
    'ingest_schema_events_total',
    'Events checked against the schema of their type (INGEST_SCHEMAS_DIR), by result.',
  );
  return {
    registry,
    reloads: new ReloadMetrics(registry),
    queue: new QueueGauges(registry, clock),
    stalls: new Stalls(registry, clock),
    ready: gauge('ingest_consumer_ready', '1 if this replica can land events (/health/ready), else 0.'),
    warehouseAvailable: gauge('ingest_warehouse_available', '1 if the warehouse is writable, else 0.'),
    queueAvailable: gauge('ingest_queue_available', '1 if the queue answers this replica, else 0.'),
    queueUp: gauge('ingest_queue_up', '1 if this replica can read this partition of the queue, else 0.'),
    replicas: gauge(
      'ingest_consumer_replicas',
      'Consumers with a recent heartbeat, this one included; the smallest number of all partitions.',
    ),
    replicasFull: gauge(
      'ingest_consumer_replicas_full',
      '1 if this replica does not read a partition because INGEST_CONSUMER_REPLICAS_MAX others do, else 0.',
    ),
    quarantined,
    delay: delay.of(),
    landed: counter('ingest_landed_total', 'Warehouse rows that this process inserted.').of(),
    duplicates: counter(
      'ingest_consumer_duplicates_total',
      'Events whose row already existed: read again after a crash, or sent again.',
    ).of(),
    groupVanished: rareCounter(
      registry,
      'ingest_queue_group_vanished_total',
      'Times that the stream or its consumer group was missing and was created again.',
    ),
    failures,
    schemaTypesUnusable: gauge(
      'ingest_schema_types_unusable',
      'Event types without a usable schema; their events go to quarantine.',
    ),
    schemaEvents: {
      matched: schemaEvents.of({ result: 'matched' }),
      unmatched: schemaEvents.of({ result: 'unmatched' }),
      unschematized: schemaEvents.of({ result: 'unschematized' }),
    },
  };
}
