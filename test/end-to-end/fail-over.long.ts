// A real master and replica behind one address that moves from one to the other, while the demoted server still
// answers.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { event } from '../support/gateway.ts';
import { openLink } from '../support/link.ts';
import { metricOf, Pipeline, readiness } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';

async function failOver(t: TestContext, after: (old: TestRedis, port: number) => Promise<unknown>): Promise<void> {
  const [old, fresh] = [await TestRedis.start(), await TestRedis.start()];
  const link = await openLink({ port: old.port, host: '127.0.0.1' });
  atEnd(() => link.close());
  await fresh.command('REPLICAOF', '127.0.0.1', String(old.port));
  await eventually('the replica has caught up', async () =>
    /master_link_status:up/.test(String(await fresh.command('INFO', 'replication'))),
  );
  const pipeline = await Pipeline.start({
    queueUri: `redis://127.0.0.1:${link.port}`,
    warehouseUri: `sqlite:${temporaryFolder()}/warehouse.db`,
  });
  const [replica = assert.fail()] = pipeline.replicas;
  const landed = (): Promise<number> => metricOf(replica, 'ingest_landed_total');
  await eventually('an event is taken before', async () => (await pipeline.post(event('before'))).status === 202);
  await eventually('it has landed', async () => (await landed()) === 1);
  await eventually('the replica has it', async () => (await fresh.length()) === 1);

  // Open connections stay with the old server: only new ones come to the other.
  await fresh.command('REPLICAOF', 'NO', 'ONE');
  link.retarget({ port: fresh.port, host: '127.0.0.1' });
  await after(old, fresh.port);
  const start = performance.now();
  await eventually('an event is taken', async () => (await pipeline.post(event('after'))).status === 202);
  await eventually('it has landed', async () => (await landed()) === 2);
  const tookMs = performance.now() - start;
  t.diagnostic(`accepting and landing again after ${Math.round(tookMs)} ms`);
  assert.equal(await fresh.length(), 2, 'by the new master');
  assert.equal(await metricOf(replica, 'ingest_queue_group_vanished_total'), 0, 'a fail-over is no loss of the group');
  await eventually('the consumer is ready', async () => (await readiness(replica)).status === 200);
  await pipeline.stop();
}

// Within 5 s on a machine with time to spare, which `make fail-over` holds.
describe('after a fail-over behind one name, events are accepted and land again', () => {
  it('when the old master has become a replica of the new one', (t) =>
    failOver(t, (old, port) => old.command('REPLICAOF', '127.0.0.1', String(port))));

  it('when the old master has become a replica without a master, and serves nothing', (t) =>
    failOver(t, async (old) => {
      await old.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no');
      await old.command('REPLICAOF', '127.0.0.1', '1');
    }));
});
