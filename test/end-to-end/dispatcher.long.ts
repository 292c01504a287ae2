// A dispatcher that hands passwords on, and one that is killed under load.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TestDispatcher } from '../support/dispatcher.ts';
import { idsOf } from '../support/queue-ids.ts';
import { event } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { deliver, gatewayOf, pki, shop, SLOW } from './dispatcher.ts';

describe('queues that ask for a password', () => {
  it('are reached with what the gateway sends, which the dispatcher hands on and has none of itself', async () => {
    const redis = await Promise.all([TestRedis.start(), TestRedis.start()]);
    for (const server of redis) {
      await server.command('ACL', 'SETUSER', 'shop', 'on', '>p@ss/w:rd', '~*', '+@all');
      await server.command('CONFIG', 'SET', 'requirepass', 'another');
    }
    const dispatcher = await TestDispatcher.start({ redis, env: SLOW });
    assert.equal((await dispatcher.ready()).status, 200, 'it waits for a gateway');
    const uri = (password: string): string =>
      `dispatcher://shop:${encodeURIComponent(password)}@127.0.0.1:${dispatcher.port}`;
    const wrong = new Program('ingest-gateway', {
      env: { INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_QUEUE_URI: uri('wrong'), ...pki.environment },
    });
    assert.equal(await wrong.ended, 4, wrong.output);
    assert.match(wrong.output, /WRONGPASS/);
    const gateway = await gatewayOf(dispatcher, { INGEST_QUEUE_URI: uri('p@ss/w:rd') });
    const client = gateway.client(shop);
    for (const id of [...idsOf(0, 'auth', 3), ...idsOf(1, 'auth', 3)]) {
      await deliver(client, id);
      assert.equal((await client.find(id)).status, 200);
    }
    assert.equal(await dispatcher.metric('ingest_queue_up{queue="ingest-a"}'), 1);
    for (const program of [dispatcher.program, gateway]) assert.doesNotMatch(program.output, /p@ss|p%40ss/);
  });
});

describe('what a dispatcher has taken', () => {
  it('lands once each, though it is killed again and again under load, by consumers of both queues', async () => {
    const dispatcher = await TestDispatcher.start({ env: SLOW });
    const store = sqliteStore();
    const consumers = [0, 1].map(
      () =>
        new Program('ingest-consumer', {
          env: {
            INGEST_QUEUE_URI: dispatcher.queueUris,
            INGEST_WAREHOUSE_URI: store.uri,
            INGEST_CONSUMER_ADDR: '127.0.0.1:0',
          },
        }),
    );
    const gateways = await Promise.all([gatewayOf(dispatcher), gatewayOf(dispatcher)]);
    await Promise.all(consumers.map((consumer) => consumer.listening()));
    const clients = gateways.map((gateway) => gateway.client(shop));
    const ids = Array.from({ length: 1_200 }, (_, at) => `killed-${at}`);
    let next = 0;
    const workers = Array.from({ length: 12 }, async (_, worker) => {
      for (let id = ids[next++]; id !== undefined; id = ids[next++])
        await deliver(clients[worker % clients.length] ?? assert.fail(), id);
    });
    for (const share of [0.25, 0.5, 0.75]) {
      await eventually('some are sent', () => next > share * ids.length);
      await dispatcher.program.kill();
      await dispatcher.restart();
    }
    await Promise.all(workers);
    await eventually('all have landed', async () => (await store.count()) >= ids.length, 60_000);
    const rows = await store.events();
    assert.deepEqual(rows.map(({ id }) => id).sort(), ids.toSorted());
    for (const { id, body } of rows) assert.equal(body, event(id));
    assert.deepEqual(await store.quarantine(), []);
    for (const gateway of gateways) await assertAlive(gateway);
    await Promise.all(consumers.map((consumer) => (consumer.signal('SIGTERM'), consumer.ended)));
  });
});
