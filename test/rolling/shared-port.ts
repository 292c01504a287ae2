// Run by rolling-restart.long.ts with net.ipv4.tcp_migrate_req = 1, which moves connections from the backlog of a
// closing listener to another listener. Without this setting the kernel resets them.
import { it } from 'node:test';
import { Fleet } from './fleet.ts';

const RESTARTS = Number(process.env['ROLLING_RESTARTS'] ?? 1);

it('restarts processes that share a port', async (t) => {
  const fleet = await Fleet.start(true, { INGEST_GATEWAY_REUSE_PORT: '1' });
  const load = await fleet.restartUnderLoad(fleet.gateways[0]?.port ?? 0, RESTARTS, () => Promise.resolve());
  t.diagnostic(`${load.sent} events, ${Math.round(load.perSecond)} a second, slowest ${Math.round(load.slowestMs)} ms`);
  await fleet.assertNothingLost(load);
});
