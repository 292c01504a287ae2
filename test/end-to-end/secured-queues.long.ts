// test/redis has the refusals: a wrong password, authority, master name or node, and missing rights.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { Pipeline } from '../support/pipeline.ts';
import { Pki } from '../support/pki.ts';
import { TestCluster } from '../support/redis-cluster.ts';
import { clusterRule } from '../support/redis-rights.ts';
import { TestSentinels } from '../support/redis-sentinel.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const pki = await Pki.create();

async function assertLands(uris: { readonly gateway: string; readonly consumer: string }): Promise<void> {
  const store = sqliteStore();
  const env = { ...PATIENT, INGEST_TLS_SERVER_CA: pki.path('ca.pem'), INGEST_QUEUE_REPLICAS: '1' };
  const pipeline = await Pipeline.start({ queueUri: uris.gateway, warehouseUri: store.uri, replicas: 0, env });
  const { program } = await pipeline.startConsumer({ INGEST_QUEUE_URI: uris.consumer });
  const ids = Array.from({ length: 20 }, (_, at) => `secured-${at}`);
  for (const id of ids) await eventually('it is accepted', async () => (await pipeline.post(event(id))).status === 202);
  assert.equal((await pipeline.post(event('secured-0'))).body['duplicate'], true);
  await eventually('all have landed', async () => (await store.count()) === ids.length);
  assert.equal((await pipeline.find('secured-0')).status, 200);
  await pipeline.stop();
  for (const { output } of [pipeline.gateway, program]) assert.doesNotMatch(output, /secret/);
}

it('a queue behind sentinels over TLS with a password accepts events that a replica acknowledges, and lands them', async () => {
  const { uri } = await TestSentinels.start({ replicas: 1, pki, password: 'secret' });
  await assertLands({ gateway: uri, consumer: uri });
});

it('a Redis Cluster over TLS with the documented users accepts events that a replica acknowledges, and lands them', async () => {
  const cluster = await TestCluster.start({ pki });
  for (const node of cluster.nodes)
    for (const program of ['ingest-gateway', 'ingest-consumer'])
      await node.command('ACL', 'SETUSER', program, 'reset', ...clusterRule(program));
  const [gateway, consumer] = [cluster.uriOf('ingest-gateway:secret@'), cluster.uriOf('ingest-consumer:secret@')];
  await assertLands({ gateway, consumer });
});
