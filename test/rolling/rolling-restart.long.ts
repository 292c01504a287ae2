import { describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { RESTARTS, startFleet } from './fleet.ts';
import { LoadBalancer } from './load-balancer.ts';
import { event, TestClient, TestProcess } from '../support/gateway.ts';

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
      const { code } = await run.exited(60_000 + RESTARTS * 90_000);
      assert.equal(code, 0, run.output);
      const told = run.lines.find((line) => / events, \d+ a second/.test(line));
      assert.ok(told !== undefined, run.output);
      t.diagnostic(told.replace(/^[\s#]*/, ''));
    },
  );
});

describe('the load balancer of the page, while no gateway is ready', () => {
  it('resets connections, or passes them to the server without a check, whose answer is 503', async () => {
    const { redis, pki, gateways } = await startFleet(false, {});
    const [plain, patient] = [await LoadBalancer.start(gateways), await LoadBalancer.start(gateways, true)];
    const producer = await pki.producer('shop');
    const clientOf = ({ port }: LoadBalancer) => new TestClient(port, pki.authority.certificate, producer, {});
    for (const balancer of [plain, patient]) assert.equal((await clientOf(balancer).post(event('a'))).status, 202);
    await redis.signal('SIGKILL');
    for (const gateway of gateways) await Promise.all([plain.down(gateway), patient.down(gateway)]);
    await assert.rejects(clientOf(plain).post(event('b')));
    const { status, body } = await clientOf(patient).post(event('b'));
    assert.deepEqual([status, /"code":"QUEUE_UNAVAILABLE"/.test(body)], [503, true], body);
  });
});
