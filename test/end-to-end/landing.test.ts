import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { webhookEvents } from '../support/webhooks.ts';
import { metricOf, Pipeline, readiness } from '../support/pipeline.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const events = webhookEvents();

const ndjson = (bodies: readonly { readonly body: string }[]): string => bodies.map(({ body }) => `${body}\n`).join('');

const redis = await TestRedis.start(['--appendonly', 'no']);

describe('every GitHub webhook on its way into SQLite', () => {
  const store = sqliteStore();
  let pipeline: Pipeline;
  before(async () => {
    pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: 2 });
    writeFileSync(join(pipeline.stateDir, 'events.ndjson'), ndjson(events));
  });
  after(() => pipeline.stop());

  async function assertLanded(): Promise<void> {
    await eventually('every event has landed', async () => (await store.count()) >= events.length, 20_000);
    const rows = await store.events();
    assert.deepEqual(rows.map(({ id }) => id).sort(), events.map(({ id }) => id).sort());
    const bodies = new Map(rows.map(({ id, body }) => [id, body]));
    for (const { id, body } of events) assert.ok(bodies.get(id) === body, id);
    assert.deepEqual(await store.quarantine(), []);
  }

  it('lands once, byte for byte, if two senders send it at the same time', async () => {
    const senders = [pipeline.send(['events.ndjson']), pipeline.send(['-'], ndjson(events.toReversed()))];
    assert.deepEqual(
      await Promise.all(senders.map(({ ended }) => ended)),
      [0, 0],
      senders.map(({ output }) => output).join('\n'),
    );
    const sum = (pattern: RegExp): number =>
      senders.reduce((total, { output }) => total + Number(pattern.exec(output)?.[1]), 0);
    // An attempt that timed out may have landed nevertheless, and then the next attempt is a duplicate.
    const repeated = sum(/duplicate +(\d+)/) - events.length;
    assert.ok(repeated >= 0 && repeated <= sum(/retries +(\d+)/), 'each event was accepted once and repeated once');
    await assertLanded();
  });

  it('is found with the times of acceptance and landing', async () => {
    const [first] = events;
    const found = await pipeline.find(first?.id ?? '');
    assert.equal(found.status, 200);
    assert.equal(found.body['status'], 'landed');
    assert.ok(
      Date.parse(String(found.body['acceptedAt'])) <= Date.parse(String(found.body['landedAt'])),
      found.text.slice(0, 200),
    );
    assert.ok(found.text.includes(first?.body ?? '-'), 'the event as it was sent');
    assert.equal((await pipeline.find('never sent')).status, 404);
  });

  it('is counted as landed once', async () => {
    const sum = async (metric: string): Promise<number> => {
      const values = await Promise.all(pipeline.replicas.map((replica) => metricOf(replica, metric)));
      return values.reduce((total, value) => total + value);
    };
    assert.equal(await sum('ingest_landed_total'), events.length);
    assert.equal(await sum('ingest_landing_delay_seconds_count'), events.length);
    await eventually('the lag is seen to be 0', async () => (await sum('ingest_queue_lag_events')) === 0);
  });
});

it('an event lands after the warehouse was away, and after the stream or its group was deleted', async () => {
  const store = sqliteStore();
  const queueUri = `${redis.uri}/2`;
  const pipeline = await Pipeline.start({ queueUri, warehouseUri: store.uri, env: PATIENT });
  const [replica = assert.fail()] = pipeline.replicas;
  const becomes = (status: number): Promise<unknown> =>
    eventually(`readiness is ${status}`, async () => (await readiness(replica)).status === status);
  const lands = async (id: string, count: number, end: () => unknown = () => undefined): Promise<void> => {
    await eventually('it is accepted', async () => (await pipeline.post(event(id))).status === 202);
    await end();
    await eventually('it lands', async () => (await store.count()) === count);
    assert.equal((await pipeline.find(id)).body['status'], 'landed');
    await becomes(200);
  };
  await lands('one', 1);
  renameSync(store.folder, `${store.folder}-away`);
  await becomes(503);
  assert.match(String((await readiness(replica)).body['reason']), /^the warehouse is unavailable/);
  assert.equal((await pipeline.find('one')).status, 503, 'neither back to accepted, nor unknown');
  await lands('two', 2, () => renameSync(`${store.folder}-away`, store.folder));
  await redis.command('SELECT', '2');
  for (const [at, deletion] of [
    ['DEL', 'ingest'],
    ['XGROUP', 'DESTROY', 'ingest', 'warehouse'],
  ].entries()) {
    await redis.command(...(deletion as [string, ...string[]]));
    const vanished = (): Promise<number> => metricOf(replica, 'ingest_queue_group_vanished_total');
    await eventually('it is counted', async () => (await vanished()) === at + 1);
    await lands(`after-${at}`, 3 + at);
  }
  await pipeline.stop();
});
