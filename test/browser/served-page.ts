// Serves the status page from the production server, with metrics that the test writes.
import { createProcessEndpoints, type ProcessEndpoints } from '../../lib/http/process-endpoints.ts';
import { problem } from '../../lib/ingest/errors.ts';
import { statusPages } from '../../lib/telemetry/status-page.ts';
import { atEnd } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

export class ServedPage {
  metrics = (): string => '';
  unready: string | undefined;
  url = '';
  #endpoints: ProcessEndpoints | undefined;

  static async start(): Promise<ServedPage> {
    const served = new ServedPage();
    await served.listen(0);
    atEnd(() => served.stop());
    return served;
  }

  async listen(port = Number(new URL(this.url).port)): Promise<void> {
    const state = {
      draining: () => false,
      unready: () => this.unready,
      unavailable: () => [],
      metrics: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4', text: this.metrics() }),
    };
    this.#endpoints = createProcessEndpoints(state, problem, SYSTEM, statusPages());
    const address = await this.#endpoints.listen({ host: '127.0.0.1', port });
    this.url = `http://127.0.0.1:${address.port}/`;
  }

  async stop(): Promise<void> {
    await this.#endpoints?.close();
    this.#endpoints = undefined;
  }
}

/** Returns the metrics of a gateway that has accepted 200 events per second for `seconds`. */
export function gatewayMetrics(seconds: number, more = ''): string {
  const accepted = Math.round(200 * seconds);
  const buckets = [
    ['0.01', 0.5],
    ['0.05', 0.9],
    ['0.2', 1],
    ['+Inf', 1],
  ].map(([le, share]) => {
    const value = Math.round(accepted * Number(share));
    return `ingest_http_request_duration_seconds_bucket{le="${le}",route="/events"} ${value}`;
  });
  return [
    `ingest_accepted_total ${accepted}`,
    `ingest_http_requests_total{method="POST",route="/events",status="202"} ${accepted}`,
    ...buckets,
    'ingest_queue_available 1',
    'ingest_queue_up{partition="0"} 1',
    'ingest_queue_lag_events 3',
    'ingest_queue_oldest_unlanded_seconds 0.2',
    'ingest_queue_events 1200',
    'ingest_queue_memory_bytes 950',
    'ingest_queue_memory_limit_bytes 1000',
    'ingest_events_in_flight 4',
    'ingest_connections 12',
    'ingest_tls_certificate_expiry_seconds{file="cert"} 864000',
    'ingest_build_info{version="1.0.0",revision="x",node="v26"} 1',
    more,
    '',
  ].join('\n');
}
