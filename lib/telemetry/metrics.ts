// Every metric of the project, in one list, with its unit in its name (Prometheus naming).
//
// No id, producer or request id is ever a label. Label values come from closed sets, so each family has a bound.
import { collectDefaultMetrics, Registry } from 'prom-client';
import { CounterFamily, gauge, HistogramFamily } from './instruments.ts';

/** Up to 200 ms, the target of `POST /events`, in fine steps; past it, coarse ones. */
const LATENCY_BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5, 1, 2.5, 10];

// Gauges that prom-client names `_total`, which Prometheus keeps for counters (promtool complains about them).
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total'];

/** A registry with prom-client's process metrics. */
export function processRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return registry;
}

/** What the gateway's gauges ask for when they are scraped. */
export interface GatewayGauges {
  readonly eventsInFlight: () => number;
  readonly connections: () => number;
  /** Seconds until each TLS file expires, by file. Negative when it has. */
  readonly certificateExpiry: () => readonly { readonly file: string; readonly seconds: number }[];
}

export type GatewayMetrics = ReturnType<typeof gatewayMetrics>;

/** `errorCodes` and `handshakeFailures` are label values; their cells exist, with 0, from the start. */
export function gatewayMetrics(
  errorCodes: readonly string[],
  handshakeFailures: readonly string[],
  gauges: GatewayGauges,
) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const requests = counter('ingest_http_requests_total', 'Requests, by how they were answered; status 499 is a request that the client aborted.');
  const errors = counter('ingest_errors_total', 'Refusals, by the code in their body.');
  const handshakes = counter('ingest_tls_handshake_failures_total', 'TLS handshakes and connections that came to nothing, by reason.');
  for (const code of errorCodes) errors.cell({ code });
  for (const reason of handshakeFailures) handshakes.cell({ reason });
  const durations = new HistogramFamily(registry, 'ingest_http_request_duration_seconds', 'From the request head to the answer.', LATENCY_BOUNDS_S);
  const enqueue = new HistogramFamily(registry, 'ingest_enqueue_duration_seconds', 'From sending an event to the queue to the answer of the queue.', LATENCY_BOUNDS_S);
  gauge(registry, 'ingest_events_in_flight', 'Events admitted and not answered yet.', () => [{ labels: {}, value: gauges.eventsInFlight() }]);
  gauge(registry, 'ingest_connections', 'TLS connections that are open.', () => [{ labels: {}, value: gauges.connections() }]);
  gauge(registry, 'ingest_tls_certificate_expiry_seconds', 'Seconds until a TLS file expires; for a CRL until its next update is due.', () =>
    gauges.certificateExpiry().map(({ file, seconds }) => ({ labels: { file }, value: seconds })),
  );
  return {
    registry,
    requests,
    errors,
    durations,
    handshakes,
    enqueue: enqueue.distribution(),
    accepted: counter('ingest_accepted_total', 'Events that the queue took, repeated ones left out.').cell(),
    duplicates: counter('ingest_duplicates_total', 'Events that the queue had already.').cell(),
    aborted: counter('ingest_aborted_total', 'Requests that the client gave up before they were answered.').cell(),
    shed: counter('ingest_shed_total', 'Events refused because too much was in flight.').cell(),
    tlsReloads: counter('ingest_tls_reloads_total', 'TLS material taken into use after a change.').cell(),
    tlsReloadFailures: counter('ingest_tls_reload_failures_total', 'Changed TLS material that was refused; the last good stays.').cell(),
  };
}

/** Up to the 24 hours of retention; fine around the second that landing should take. */
const LANDING_BOUNDS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3600, 21_600, 86_400];

/** What the consumer's gauges ask for when they are scraped. */
export interface ConsumerGauges {
  readonly lagEvents: () => number;
  readonly oldestUnlandedSeconds: () => number;
}

export type ConsumerMetrics = ReturnType<typeof consumerMetrics>;

/** `quarantineReasons` are label values; their cells exist, with 0, from the start. */
export function consumerMetrics<R extends string>(quarantineReasons: readonly R[], gauges: ConsumerGauges) {
  const registry = processRegistry();
  const counter = (name: string, help: string): CounterFamily => new CounterFamily(registry, name, help);
  const quarantined = counter('ingest_quarantined_total', 'Entries that could not land and were put in quarantine, by reason.');
  for (const reason of quarantineReasons) quarantined.cell({ reason });
  const delay = new HistogramFamily(registry, 'ingest_landing_delay_seconds', "From an event's acceptance to the commit of its row.", LANDING_BOUNDS_S);
  gauge(registry, 'ingest_queue_lag_events', 'Events of the queue that no replica has landed yet.', () => [{ labels: {}, value: gauges.lagEvents() }]);
  gauge(registry, 'ingest_queue_oldest_unlanded_seconds', 'Age of the oldest event that no replica has landed yet; the queue drops it at 86400.', () => [
    { labels: {}, value: gauges.oldestUnlandedSeconds() },
  ]);
  return {
    registry,
    quarantined,
    delay: delay.distribution(),
    landed: counter('ingest_landed_total', 'Events for which this process made the warehouse row.').cell(),
    duplicates: counter('ingest_consumer_duplicates_total', 'Events whose row was there already: read again after a crash, or sent again.').cell(),
    groupVanished: counter('ingest_queue_group_vanished_total', 'Times that the stream or its consumer group was gone and had to be made again.').cell(),
    failures: counter('ingest_consumer_failures_total', 'Attempts that failed because the queue or the warehouse was away.'),
  };
}
