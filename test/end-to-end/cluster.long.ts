// A Redis Cluster whose slots and masters move under load.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ProducerLoad } from '../support/producer-load.ts';
import { eventually } from '../support/scope.ts';
import { cluster, pipeline, store, stream } from './cluster.ts';

describe('a queue on a Redis Cluster', () => {
  it('loses nothing and doubles nothing while a slot moves to another master under load', async () => {
    const load = new ProducerLoad(pipeline, 'moved');
    await load.more(100);
    const from = await cluster.masterOf(stream(0));
    const to = cluster.nodes.slice(0, 3).find((node) => node !== from) ?? assert.fail();
    await cluster.reshard(from, to);
    assert.equal(await cluster.masterOf(stream(0)), to);
    const before = await to.length(stream(0));
    await load.more(100);
    await eventually('its partition takes events there', async () => (await to.length(stream(0))) > before);
    await load.stop();
    await load.assertLanded(store);
  });

  it('loses nothing and doubles nothing in a planned fail-over of a master under load', async () => {
    const load = new ProducerLoad(pipeline, 'planned');
    await load.more(100);
    const from = await cluster.masterOf(stream(1));
    const replica = cluster.nodes[cluster.nodes.indexOf(from) + 3] ?? assert.fail();
    await replica.command('CLUSTER', 'FAILOVER');
    await eventually('the replica is the master', async () => (await cluster.masterOf(stream(1))) === replica);
    const before = await replica.length(stream(1));
    await eventually('its partition takes events there', async () => (await replica.length(stream(1))) > before);
    await load.more(100);
    await load.stop();
    await load.assertLanded(store);
  });
});
