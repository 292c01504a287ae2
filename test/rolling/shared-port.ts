// Run by rolling-restart.long.ts with net.ipv4.tcp_migrate_req = 1, which moves connections from the backlog of a
// closing listener to another listener. Without this setting the kernel resets them.
import { it } from 'node:test';
import { startFleet } from './fleet.ts';

it('restarts processes that share a port', async (t) => {
  const { gateways, assertRestartsLoseNothing } = await startFleet(true, { INGEST_GATEWAY_REUSE_PORT: '1' });
  await assertRestartsLoseNothing(t, gateways[0]?.port ?? 0);
});
