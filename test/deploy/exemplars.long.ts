// The exemplars of /metrics, as a running Prometheus keeps them: it asks every process for OpenMetrics by itself.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { freePort } from '../support/free-port.ts';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { RunningPrometheus } from './running-prometheus.ts';

const RECORDED = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
const NOT_RECORDED = 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';

describe('a running Prometheus', () => {
  it('reads the metrics of gateway and consumer, and finds the traces that callers record in them', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const [admin, consumerPort] = [await freePort(), await freePort()];
    const gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_ADMIN_ADDR: `127.0.0.1:${admin}` });
    const consumer = new Program('ingest-consumer', {
      env: {
        INGEST_QUEUE_URI: redis.uri,
        INGEST_CONSUMER_ADDR: `127.0.0.1:${consumerPort}`,
        INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
      },
    });
    await consumer.listening();
    const client = gateway.client(await pki.producer('one'));
    for (const [trace, flags] of [
      [RECORDED, '01'],
      [NOT_RECORDED, '00'],
    ] as const) {
      const headers = { 'content-type': 'application/json', traceparent: `00-${trace}-b7ad6b7169203331-${flags}` };
      const { status } = await client.ask({ method: 'POST', path: '/events', body: event(`e-${trace}`), headers });
      assert.equal(status, 202);
    }
    const prometheus = await RunningPrometheus.start({
      'ingest-gateway': `127.0.0.1:${admin}`,
      'ingest-consumer': `127.0.0.1:${consumerPort}`,
    });
    for (const histogram of ['ingest_http_request_duration_seconds', 'ingest_landing_delay_seconds']) {
      const traces = await eventually(`exemplars of ${histogram}`, async () => {
        const found = await prometheus.traces(`${histogram}_bucket`);
        return found.length > 0 ? found : undefined;
      });
      assert.deepEqual([...new Set(traces)], [RECORDED], histogram);
    }
    assert.deepEqual(await prometheus.faults(), ['', '']);
  });
});
