// How requests and refusals are counted, and by what.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import type { RefusalLog, RefusedRequest } from '../../lib/gateway/refusal-log.ts';
import { RefusalMeter, RouteMeter } from '../../lib/gateway/request-meter.ts';
import { ERROR_CODES, problem } from '../../lib/ingest/errors.ts';
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

describe('the meter of refusals', () => {
  it('counts a refusal by its code, and passes it on with its detail', () => {
    const clock = new VirtualClock();
    const metrics = gatewayMetrics(ERROR_CODES, [], clock);
    const passedOn: RefusedRequest[] = [];
    const log = { refused: (request: RefusedRequest) => passedOn.push(request) } as unknown as RefusalLog;
    const client = { address: '10.0.0.1', clientCertificate: undefined };
    const about = { requestId: 'mine', producer: 'shop', route: '/events', client };
    const meter = new RefusalMeter(metrics, log);
    meter.refused('invalidEvent', about, problem('invalidEvent', 'wrong'));
    assert.equal(metrics.errors.counter({ code: 'INVALID_EVENT' }).value, 1);
    assert.equal(metrics.refusedOverload.value, 0);
    const [{ detail, ...request }] = passedOn as [RefusedRequest];
    assert.deepEqual(request, { ...about, status: 400, code: 'INVALID_EVENT' });
    assert.equal(detail(), 'wrong');
    meter.refused('queueOverloaded', about, problem('queueOverloaded', 'much'));
    assert.equal(metrics.refusedOverload.value, 1);
  });
});
