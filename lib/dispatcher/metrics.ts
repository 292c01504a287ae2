// The dispatcher's metrics, in one list, with the unit in the name (Prometheus naming).
//
// No id, producer or gateway is ever a label. Label values come from closed sets, so each family has a bound.
import { CounterFamily, Gauge } from '../telemetry/instruments.ts';
import { QueueGauges } from '../telemetry/queue-gauges.ts';
import { processRegistry } from '../telemetry/process-registry.ts';
import { QUEUES, type DispatchedOutcome, type QueueName } from './dispatcher.ts';
import type { Clock } from '../process/clock.ts';

const OUTCOMES = ['accepted', 'duplicate', 'differing', 'conflict', 'shed'] as const satisfies DispatchedOutcome[];

export type DispatcherMetrics = ReturnType<typeof dispatcherMetrics>;

export function dispatcherMetrics(clock: Clock) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
  const dispatched = counter(
    'ingest_dispatched_total',
    'Events, by the queue that the hash of their id names and by what became of them.',
  );
  const outcomesOf = (queue: QueueName) =>
    Object.fromEntries(OUTCOMES.map((outcome) => [outcome, dispatched.counter({ queue, outcome })])) as Record<
      DispatchedOutcome,
      ReturnType<CounterFamily['counter']>
    >;
  return {
    registry,
    queues: new QueueGauges(registry, clock, 'queue'),
    /** The counters of each queue; they exist, with 0, from the start. */
    outcomes: Object.fromEntries(QUEUES.map((queue) => [queue, outcomesOf(queue)])) as Record<
      QueueName,
      ReturnType<typeof outcomesOf>
    >,
    queueUp: gauge('ingest_queue_up', '1 while the queue takes events, by the last probe; else 0.'),
    eventsInFlight: gauge('ingest_events_in_flight', 'Events and look-ups that a queue has not answered yet.'),
    connections: gauge('ingest_connections', 'Connections of gateways that are open.'),
    certificateExpiry: gauge(
      'ingest_tls_certificate_expiry_seconds',
      'Seconds until a TLS file expires; for a CRL until its next update is due.',
    ),
    tlsReloads: counter('ingest_tls_reloads_total', 'TLS material taken into use after a change.').counter(),
    tlsReloadFailures: counter(
      'ingest_tls_reload_failures_total',
      'Changed TLS material that was refused; the last good stays.',
    ).counter(),
  };
}
