import { describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { RESTARTS, startFleet } from './fleet.ts';
import { LoadBalancer } from './load-balancer.ts';
import { TestProcess } from '../support/gateway.ts';

describe('a rolling restart', () => {
  it(
    'behind a load balancer fails no request and loses no event',
    { timeout: 60_000 + RESTARTS * 90_000 },
    async (t) => {
      // The balancer checks readiness every second. It stops sending to a gateway that is not ready within three
      // seconds, or later on a busy machine.
      const drain = { INGEST_DRAIN_DELAY_MS: '6000', INGEST_DRAIN_TIMEOUT_MS: '30000' };
      const { gateways, assertRestartsLoseNothing } = await startFleet(false, drain);
      const balancer = await LoadBalancer.start(gateways);
      await assertRestartsLoseNothing(t, balancer.port, (gateway) => balancer.up(gateway));
    },
  );

  it(
    'of processes that share a port fails no request and loses no event, where the kernel hands connections on',
    { timeout: 60_000 + RESTARTS * 90_000 },
    async (t) => {
      // The test runs in a separate network namespace, so the kernel setting of this machine does not change.
      const shell =
        'unset NODE_TEST_CONTEXT; ip link set lo up && echo 1 >/proc/sys/net/ipv4/tcp_migrate_req && exec "$0" "$@"';
      const file = new URL('shared-port.ts', import.meta.url).pathname;
      const args = ['--net', 'sh', '-c', shell, process.execPath, '--test-reporter=tap', file];
      const run = new TestProcess('unshare', args, {});
      const { code } = await run.exited();
      assert.equal(code, 0, run.output);
      const told = run.lines.find((line) => / events, \d+ a second/.test(line));
      assert.ok(told !== undefined, run.output);
      t.diagnostic(told.replace(/^[\s#]*/, ''));
    },
  );
});
