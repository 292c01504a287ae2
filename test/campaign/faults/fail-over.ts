// A planned fail-over: a replica takes over behind the same address. For a while, the old server continues as the new
// master's replica, with its open connections.
import { eventually } from '../../support/scope.ts';
import { fault } from './fault.ts';

const FAILOVER_TIMEOUT_MS = 5_000;

export const failOver = fault('fail-over', 'queue', 3, [100, 1_000], async ({ queue }) => {
  const old = queue.redis;
  const replica = await queue.replica();
  // FAILOVER pauses writes until the replica has all of them, and then swaps the roles.
  const timeout = ['TIMEOUT', String(FAILOVER_TIMEOUT_MS)];
  await old.command('FAILOVER', 'TO', '127.0.0.1', String(replica.port), ...timeout);
  await eventually('the replica is the master', async () => {
    const [before, after] = await Promise.all([
      old.command('INFO', 'replication'),
      replica.command('INFO', 'replication'),
    ]);
    if (/role:master/.test(String(after)) && /role:slave/.test(String(before))) return true;
    if (/master_failover_state:no-failover/.test(String(before)) && /role:master/.test(String(before)))
      await old.command('FAILOVER', 'TO', '127.0.0.1', String(replica.port), ...timeout);
    return false;
  });
  queue.redis = replica;
  queue.link.retarget({ host: '127.0.0.1', port: replica.port });
  return async () => {
    await eventually('events are accepted by the new master', async () => {
      const before = await replica.length();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return (await replica.length()) > before;
    });
    await old.signal('SIGKILL');
  };
});
