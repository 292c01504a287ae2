// The gateway's metrics. Label values come from fixed sets, so no id or producer is a label.
import { HANDSHAKE_FAILURES } from '../http/connection-failure.ts';
import { ERROR_CODES } from '../ingest/errors.ts';
import { CounterFamily, Gauge, HistogramFamily, rareCounter } from '../telemetry/instruments.ts';
import { QueueGauges } from '../telemetry/queue-gauges.ts';
import { ReloadMetrics } from '../telemetry/reload-metrics.ts';
import { processRegistry } from '../telemetry/process-registry.ts';
import { Stalls } from '../telemetry/stalls.ts';
import type { Clock } from '../process/clock.ts';

/** Bucket bounds with fine steps up to 200 ms, the target for `POST /events`, and coarse ones above. */
const LATENCY_BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5, 1, 2.5, 10];

export type GatewayMetrics = ReturnType<typeof gatewayMetrics>;

/** Counters for all codes and reasons start at 0 instead of appearing when first incremented. */
export function gatewayMetrics(clock: Clock) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const requests = counter(
    'ingest_http_requests_total',
    'Requests by answer; status 499 is a request that the client aborted.',
  );
  const errors = counter('ingest_errors_total', 'Refusals by the code in their body.');
  const failed = 'Failed TLS handshakes and connections by reason.';
  const handshakes = rareCounter(registry, 'ingest_tls_handshake_failures_total', failed, 'reason');
  for (const code of ERROR_CODES) errors.of({ code });
  for (const reason of HANDSHAKE_FAILURES) handshakes.inc({ reason }, 0);
  const histogram = (name: string, help: string): HistogramFamily =>
    new HistogramFamily(registry, name, help, LATENCY_BOUNDS_S);
  const durations = histogram(
    'ingest_http_request_duration_seconds',
    'From the arrival of the request head to the answer.',
  );
  const enqueue = histogram('ingest_enqueue_duration_seconds', 'From sending an event to the queue to its reply.');
  const gauge = (name: string, help: string): Gauge => new Gauge(registry, name, help);
  return {
    registry,
    queue: new QueueGauges(registry, clock),
    stalls: new Stalls(registry, clock),
    eventsInFlight: gauge('ingest_events_in_flight', 'Admitted events that are not answered yet.'),
    queueAvailable: gauge('ingest_queue_available', '1 while the queue takes events, by the last probe; else 0.'),
    queueUp: gauge('ingest_queue_up', '1 while this partition of the queue takes events, by the last probe; else 0.'),
    replicasRequired: gauge('ingest_queue_replicas_required', 'Replicas that must acknowledge an event.'),
    lookupsAvailable: gauge('ingest_lookups_available', '1 if the warehouse answered the last probe, else 0.'),
    connections: gauge('ingest_connections', 'Open TLS connections.'),
    certificateExpiry: gauge(
      'ingest_tls_certificate_expiry_seconds',
      'Seconds until a TLS file expires; for a CRL until its next update is due.',
    ),
    requests,
    errors,
    durations,
    handshakes,
    enqueue: enqueue.of(),
    accepted: counter('ingest_accepted_total', 'Events that the queue accepted, without repeated ones.').of(),
    duplicates: counter('ingest_duplicates_total', 'Repeated events, which the queue already had.').of(),
    differing: counter(
      'ingest_duplicates_differing_total',
      'Repeated events with another body; the first body stays.',
    ).of(),
    aborted: counter('ingest_aborted_total', 'Requests that the client aborted before their answer.').of(),
    shed: counter('ingest_shed_total', 'Events answered with status shed; 0 without two queues (RFC 014).').of(),
    refusedOverload: counter('ingest_refused_overload_total', 'Requests refused because too much was in flight.').of(),
    reloads: new ReloadMetrics(registry),
  };
}
