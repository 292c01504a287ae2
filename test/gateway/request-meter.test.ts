// How requests and refusals are counted, and by what.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { RouteMeter } from '../../lib/gateway/request-meter.ts';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe('the meter of a route', () => {
  it('counts by method and status, whatever came before, and unknown methods together', async () => {
    const clock = new VirtualClock();
    const metrics = gatewayMetrics(ERROR_CODES, [], clock);
    const meter = new RouteMeter(metrics, '/events', clock);
    for (const [method, status] of [
      ['POST', 202],
      ['POST', 503],
      ['GET', 503],
      ['POST', 202],
      ['POST', 202],
      ['BREW', 405],
      ['other', 405],
      ['none', 400],
    ] as const)
      meter.ended(method, status, 0);
    const text = await metrics.registry.getSingleMetricAsString('ingest_http_requests_total');
    assert.deepEqual(
      text
        .split('\n')
        .filter((line) => line.startsWith('ingest_'))
        .sort(),
      [
        'ingest_http_requests_total{method="GET",route="/events",status="503"} 1',
        'ingest_http_requests_total{method="POST",route="/events",status="202"} 3',
        'ingest_http_requests_total{method="POST",route="/events",status="503"} 1',
        'ingest_http_requests_total{method="none",route="/events",status="400"} 1',
        'ingest_http_requests_total{method="other",route="/events",status="405"} 2',
      ],
    );
  });

  it('has the time that a request took', async () => {
    const clock = new VirtualClock();
    const metrics = gatewayMetrics(ERROR_CODES, [], clock);
    const meter = new RouteMeter(metrics, '/events', clock);
    await clock.advance(2_000);
    meter.ended('POST', 202, 1_996);
    const text = await metrics.registry.metrics();
    assert.match(text, /^ingest_http_request_duration_seconds_sum\{route="\/events"\} 0\.004$/m);
  });
});
