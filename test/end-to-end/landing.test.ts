import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { webhookEvents } from '../support/webhooks.ts';
import { metricOf, Pipeline, readiness } from '../support/pipeline.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

/** A quarter of them, because each costs two requests. */
const events = webhookEvents().filter((_, at) => at % 4 === 0);

const ndjson = (bodies: readonly { readonly body: string }[]): string => bodies.map(({ body }) => `${body}\n`).join('');

const redis = await TestRedis.start(['--appendonly', 'no']);

it('GitHub webhooks land once in SQLite, byte for byte, if two senders send it at the same time', async () => {
  const store = sqliteStore();
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri, replicas: 2 });
  writeFileSync(join(pipeline.stateDir, 'events.ndjson'), ndjson(events));
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
  await eventually('every event has landed', async () => (await store.count()) >= events.length, 20_000);
  const rows = await store.events();
  assert.deepEqual(rows.map(({ id }) => id).sort(), events.map(({ id }) => id).sort());
  const bodies = new Map(rows.map(({ id, body }) => [id, body]));
  for (const { id, body } of events) assert.ok(bodies.get(id) === body, id);
  assert.deepEqual(await store.quarantine(), []);
  await pipeline.stop();
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

describe('the metrics', () => {
  /** Each request is accepted, a duplicate, refused with a code, aborted, or one of another route that was answered. */
  function assertBalanced(scrape: Scrape): void {
    const sum = (...names: readonly string[]): number => names.reduce((all, name) => all + scrape.sum(name), 0);
    const others =
      scrape.sum('ingest_http_requests_total', { status: '200' }) +
      scrape.sum('ingest_http_requests_total', { route: '/health/ready', status: '503' });
    const counted = sum(
      'ingest_accepted_total',
      'ingest_duplicates_total',
      'ingest_errors_total',
      'ingest_aborted_total',
    );
    assert.equal(sum('ingest_http_requests_total') - others, counted, scrape.text);
  }

  it('count each event once in every scrape of a mixed load: as landed, in quarantine, or waiting', async () => {
    const { redis, pki, producer } = await queueAndProducer();
    const [store, schemas] = [sqliteStore(), temporaryFolder()];
    writeFileSync(join(schemas, 'strict.json'), '{"required":["n"]}');
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_SCHEMAS_DIR: schemas };
    const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    const url = await consumer.listening();
    const gateway = await TestGateway.start(redis, pki, { INGEST_IN_FLIGHT_MAX: '20' });
    const [one, other, scraper] = [
      gateway.client(producer),
      gateway.client(await pki.producer('two')),
      gateway.client(),
    ];
    const done = async (): Promise<{ landed: number; quarantined: number; lag: number }> => {
      const scrape = new Scrape(await (await fetch(`${url}/metrics`)).text());
      const sum = (name: string): number => scrape.sum(`ingest_${name}`);
      return { landed: sum('landed_total'), quarantined: sum('quarantined_total'), lag: sum('queue_lag_events') };
    };
    let [accepted, loading] = [0, true];
    const load = (async () => {
      for (let round = 0; round < 3; round += 1) {
        const posts = Array.from({ length: 40 }, (_, at) => {
          const id = `mixed-${at % 5 === 0 ? 'again' : round}-${at}`;
          const body = at % 7 === 0 ? '{' : event(id, at % 3 === 0 ? { type: 'strict' } : {});
          return ((at + round) % 4 === 0 ? other : one).post(body);
        });
        for (const { status, json } of await Promise.all(posts))
          if (status === 202 && json?.['duplicate'] !== true) accepted += 1;
      }
    })().finally(() => (loading = false));
    for (let scrapes = 0; loading || scrapes < 3; scrapes += 1) {
      const { landed, quarantined } = await done();
      const scrape = await Scrape.of(scraper);
      assertBalanced(scrape);
      assert.ok(landed + quarantined <= scrape.sum('ingest_accepted_total') + scrape.sum('ingest_events_in_flight'));
    }
    await load;
    await eventually('all have landed', async () => {
      const { landed, quarantined, lag } = await done();
      return lag === 0 && landed + quarantined === accepted;
    });
    const { landed, quarantined } = await done();
    const scrape = await Scrape.of(scraper);
    assertBalanced(scrape);
    assert.deepEqual([await store.count(), (await store.quarantine()).length], [landed, quarantined]);
    assert.equal(scrape.sum('ingest_accepted_total'), accepted);
    for (const [name, least] of [
      ['ingest_duplicates_total', 1],
      ['ingest_errors_total', 18],
    ] as const)
      assert.ok(scrape.sum(name) >= least, name);
    assert.ok(quarantined > 5 && landed > 10, `${landed} ${quarantined}`);
  });
});
