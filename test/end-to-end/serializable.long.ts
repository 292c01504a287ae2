import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore } from '../support/warehouse-store.ts';

const DEADLINE_MS = 60_000;
const SERIALIZATION_FAILURE = '40001';
/** With these settings, each error line of the log starts with the application name and the SQLSTATE. */
const LOG = ['logging_collector=on', 'log_min_messages=error', 'log_line_prefix=%a %e '];

const bodyOf = (id: string): string => JSON.stringify({ id, type: 't' });
const ADD = `for _, body in ipairs(ARGV) do redis.call('XADD', KEYS[1], '*', 'producer', 'shop', 'body', body) end`;
const HOLD = `INSERT INTO events (id, type, producer, accepted_at, landed_at, body)
  VALUES ($1, 't', 'shop', now(), now(), $2)`;
const WAITING = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'ingest' AND wait_event_type = 'Lock'`;

async function serializationFailures(postgres: PrivatePostgres, uri: string): Promise<number> {
  const log = 'SELECT pg_read_file(pg_current_logfile()) AS log';
  const [row] = await postgres.query<{ log: string }>(uri, log);
  return row?.log.split('\n').filter((line) => line.startsWith(`ingest ${SERIALIZATION_FAILURE} `)).length ?? 0;
}

describe('three consumers on a PostgreSQL with serializable transactions', () => {
  let postgres: PrivatePostgres;
  before(async () => {
    postgres = await startPrivatePostgres({ durable: false, settings: LOG });
  });
  after(() => postgres.stop());

  it('land the same ids once each, and do not report serialization failures as an outage', async (t) => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = await postgresStore(postgres);
    const database = new URL(store.uri).pathname.slice(1);
    await postgres.query(store.uri, `ALTER DATABASE ${database} SET default_transaction_isolation = 'serializable'`);
    const ids = Array.from({ length: 400 }, (_, at) => `order-${at}`);
    // The ids arrive in several rounds and in both orders, so the consumers land the same ids at the same time.
    for (let round = 0; round < 6; round += 1) {
      const all = round % 2 === 0 ? ids : ids.toReversed();
      await redis.command('EVAL', ADD, '1', 'ingest', ...all.map(bodyOf));
    }
    const pipeline = await Pipeline.start({
      queueUri: redis.uri,
      warehouseUri: store.uri,
      replicas: 3,
      env: { INGEST_CONSUMER_BATCH_MAX: '20' },
    });
    t.after(() => pipeline.stop());
    const nothingIsLeft = (): Promise<true> =>
      eventually(
        'nothing is left',
        async () =>
          Number(((await redis.command('XPENDING', 'ingest', 'warehouse')) as unknown[])[0]) === 0 &&
          (await store.count()) === ids.length,
        DEADLINE_MS,
      );
    await nothingIsLeft();

    // Whether two consumers conflict depends on timing. A conflict is certain if the test commits a row while a
    // consumer inserts the same id.
    const other = new pg.Client({ connectionString: store.uri, application_name: 'test' });
    await other.connect();
    t.after(() => other.end());
    const taken = (): Promise<number> => serializationFailures(postgres, store.uri);
    const before = await taken();
    for (const endMs = performance.now() + DEADLINE_MS; (await taken()) === before;) {
      assert.ok(performance.now() < endMs, 'the server took back nothing');
      const id = `order-held-${ids.length}`;
      ids.push(id);
      await other.query('BEGIN');
      await other.query(HOLD, [id, bodyOf(id)]);
      // `order-0` exists already, so COPY fails for the batch and an INSERT follows.
      await redis.command('EVAL', ADD, '1', 'ingest', ...['order-0', id].map(bodyOf));
      await eventually(
        'a replica waits for the row',
        async () => (await postgres.query(store.uri, WAITING)).length > 0,
      );
      await other.query('COMMIT');
      await nothingIsLeft();
    }

    assert.deepEqual((await store.events()).map(({ id }) => id).toSorted(), ids.toSorted());
    assert.deepEqual(await store.quarantine(), []);
    for (const replica of pipeline.replicas) {
      const failures = await metricOf(replica, 'ingest_consumer_failures_total{dependency="warehouse"}');
      assert.ok(Number.isNaN(failures) || failures === 0, replica.program.output);
    }
  });
});
