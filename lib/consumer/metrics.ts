// The consumer's metrics, in one list, with the unit in the name (Prometheus naming).
//
// No id, producer or entry is ever a label. Label values come from closed sets, so each family has a bound.
import { CounterFamily, Gauge, HistogramFamily } from '../telemetry/instruments.ts';
import { QueueGauges } from '../telemetry/queue-gauges.ts';
import { ReloadMetrics } from '../telemetry/reload-metrics.ts';
import { processRegistry } from '../telemetry/process-registry.ts';
import type { Clock } from '../process/clock.ts';

/** Up to the 24 hours of retention; fine around the second that landing should take. */
const LANDING_BOUNDS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3600, 21_600, 86_400];

export type ConsumerMetrics = ReturnType<typeof consumerMetrics>;

/** `quarantineReasons` are label values; their cells exist, with 0, from the start. */
export function consumerMetrics<R extends string>(quarantineReasons: readonly R[], clock: Clock) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const quarantined = counter(
    'ingest_quarantined_total',
    'Entries that could not land and were put in quarantine, by reason.',
  );
  for (const reason of quarantineReasons) quarantined.counter({ reason });
  const delay = new HistogramFamily(
    registry,
    'ingest_landing_delay_seconds',
    "From an event's acceptance to the commit of its row.",
    LANDING_BOUNDS_S,
  );
  const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
  const failures = counter(
    'ingest_consumer_failures_total',
    'Attempts that failed because the queue or the warehouse was away.',
  );
  for (const dependency of ['queue', 'warehouse']) failures.counter({ dependency });
  const schemaEvents = counter(
    'ingest_schema_events_total',
    'Events that were read while INGEST_SCHEMAS_DIR is set, by whether they match the schema of their type, ' +
      'or have none.',
  );
  return {
    registry,
    reloads: new ReloadMetrics(registry),
    queue: new QueueGauges(registry, clock),
    ready: gauge('ingest_consumer_ready', '1 while this replica can land events (/health/ready), else 0.'),
    warehouseAvailable: gauge('ingest_warehouse_available', '1 while the warehouse can be written to, else 0.'),
    queueAvailable: gauge('ingest_queue_available', '1 while the queue answers this replica, else 0.'),
    queueUp: gauge('ingest_queue_up', '1 while this replica can read this partition of the queue, else 0.'),
    replicas: gauge(
      'ingest_consumer_replicas',
      'Consumers that gave a sign of life lately, this one included; the smallest number of all partitions.',
    ),
    replicasFull: gauge(
      'ingest_consumer_replicas_full',
      '1 while this replica does not read a partition, because INGEST_CONSUMER_REPLICAS_MAX others do.',
    ),
    quarantined,
    delay: delay.distribution(),
    landed: counter('ingest_landed_total', 'Events for which this process made the warehouse row.').counter(),
    duplicates: counter(
      'ingest_consumer_duplicates_total',
      'Events whose row was there already: read again after a crash, or sent again.',
    ).counter(),
    groupVanished: counter(
      'ingest_queue_group_vanished_total',
      'Times that the stream or its consumer group was gone and had to be made again.',
    ).counter(),
    failures,
    schemaEvents: {
      matched: schemaEvents.counter({ result: 'matched' }),
      unmatched: schemaEvents.counter({ result: 'unmatched' }),
      unschematized: schemaEvents.counter({ result: 'unschematized' }),
    },
  };
}
