// Runs the statements of deploy/out-of-the-warehouse.md and of deploy/scale.md while events land, are erased and are
// pruned.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { event, PATIENT } from '../support/gateway.ts';
import { metricOf, Pipeline } from '../support/pipeline.ts';
import { startPrivatePostgres, type PrivatePostgres } from '../support/postgres.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

/** Returns the statements of each block of a page. */
const blocksOf = (page: string): readonly (readonly string[])[] =>
  [...readFileSync(new URL(`../../deploy/${page}`, import.meta.url), 'utf8').matchAll(/^ *```sql\n([^]*?)```/gm)].map(
    ([, block = '']) =>
      block
        .split(';')
        .map((statement) => statement.trim())
        .filter((statement) => statement !== ''),
  );
const STATEMENTS = blocksOf('out-of-the-warehouse.md').flat();
const [HASH_PARTITIONS = [], IDENTITY = []] = blocksOf('scale.md');

function statement(begins: string): string {
  const found = STATEMENTS.filter((one) => one.startsWith(begins));
  assert.equal(found.length, 1, begins);
  return found[0] ?? '';
}

describe('a replicated warehouse', () => {
  let postgres: PrivatePostgres;
  let pipeline: Pipeline;
  let warehouse: string;
  let copy: string;
  let env: Readonly<Record<string, string>>;
  const sql = (text: string): Promise<Readonly<Record<string, unknown>>[]> => postgres.query(warehouse, text);
  const copied = (): Promise<readonly { id: string; body: string }[]> =>
    postgres.query(copy, 'SELECT id, body FROM events ORDER BY id');

  async function admin(...args: string[]): Promise<void> {
    const program = new Program('ingest-admin', { args, env });
    assert.equal(await program.ended, 0, program.output);
  }

  const columns = async (): Promise<string> => {
    const [row] = await sql(
      "SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) AS list " +
        "FROM pg_attribute WHERE attrelid = 'events'::regclass AND attnum > 0 AND NOT attisdropped",
    );
    return String(row?.['list']);
  };
  async function subscribe(database: string, slot: string): Promise<void> {
    // CREATE SUBSCRIPTION would wait for its own transaction if it created a slot on the same server.
    await sql(`SELECT pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
    const connection = `host=${postgres.socketFolder} dbname=${new URL(warehouse).pathname.slice(1)} user=ingest`;
    const text = statement('CREATE SUBSCRIPTION').replace(/CONNECTION '[^']*'/, `CONNECTION '${connection}'`);
    await postgres.query(
      database,
      `${text.replace('ingest_events', slot)} WITH (create_slot = false, slot_name = '${slot}')`,
    );
  }

  before(async () => {
    postgres = await startPrivatePostgres({ durable: false, settings: ['wal_level=logical'] });
    [warehouse, copy] = [await postgres.freshDatabase(), await postgres.freshDatabase()];
    const redis = await TestRedis.start(['--appendonly', 'no']);
    env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: warehouse };
    pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: warehouse, env: PATIENT });
    await eventually(
      'the tables are there',
      async () => (await sql("SELECT to_regclass('events') AS name"))[0]?.['name'] !== null,
    );
  });
  after(async () => {
    await pipeline.stop();
    await postgres.stop();
  });

  it('sends an insert for an event, an update for an erasure and a delete for a pruned row', async () => {
    await sql(statement('CREATE PUBLICATION'));
    await sql(statement('CREATE ROLE'));
    await sql(statement('GRANT'));
    await sql(statement('SELECT pg_create_logical_replication_slot'));
    await postgres.query(copy, `CREATE TABLE events (${await columns()}, PRIMARY KEY (id))`);
    await subscribe(copy, 'copy');

    for (const id of ['one', 'two']) assert.equal((await pipeline.post(event(id, { total: 7 }))).status, 202);
    await eventually('both are copied', async () => (await copied()).length === 2);

    await admin('erase', 'one', '--yes');
    await eventually('the copy is erased', async () => /"erased":true/.test((await copied())[0]?.body ?? ''));

    await sql(
      "UPDATE events SET accepted_at = accepted_at - interval '90 days', landed_at = landed_at - interval '90 days'",
    );
    await admin('prune', '--older-than', '60d', '--yes');
    await eventually('the copy is pruned', async () => (await copied()).length === 0);
    const [slot] = await sql(statement('SELECT slot_name'));
    assert.ok(slot !== undefined && Number(slot['bytes_behind']) >= 0);
  });

  it('keeps rows in the copy if deletes are not published, and answers the queries of the page', async () => {
    await sql(statement('ALTER PUBLICATION'));
    assert.equal((await pipeline.post(event('three', { total: 9 }))).status, 202);
    await eventually('it is copied', async () => (await copied()).length === 1);
    for (const begins of ['SELECT type', 'SELECT id, body', 'SELECT percentile_cont'])
      assert.ok(Array.isArray(await sql(statement(begins))), begins);
    await sql(
      "UPDATE events SET accepted_at = accepted_at - interval '90 days', landed_at = landed_at - interval '90 days'",
    );
    await admin('prune', '--older-than', '60d', '--yes');
    assert.equal((await sql('SELECT count(*)::int AS count FROM events'))[0]?.['count'], 0);
    assert.equal((await pipeline.post(event('four'))).status, 202);
    await eventually('the next one is copied', async () => (await copied()).length === 2);
  });

  it('keeps a history in partitions by time, which erasures reach, by the statements of scale.md', async () => {
    const history = await postgres.freshDatabase();
    await postgres.query(
      history,
      `CREATE TABLE events (${await columns()}, PRIMARY KEY (id, landed_at)) PARTITION BY RANGE (landed_at)`,
    );
    await postgres.query(
      history,
      "CREATE TABLE events_month PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2100-01-01')",
    );
    for (const text of IDENTITY) await sql(text);
    await subscribe(history, 'history');
    const row = async (): Promise<unknown> =>
      (await postgres.query(history, "SELECT body FROM events WHERE id = 'five'"))[0]?.['body'];
    assert.equal((await pipeline.post(event('five', { total: 5 }))).status, 202);
    await eventually('it is copied', async () => String(await row()).includes('total'));
    await admin('erase', 'five', '--yes');
    await eventually('the history is erased', async () => /"erased":true/.test(String(await row())));
    await eventually('the other copy, too', async () =>
      (await copied()).some(({ id, body }) => id === 'five' && body.includes('"erased":true')),
    );
    await postgres.query(history, 'DROP TABLE events_month');
    assert.equal(await row(), undefined);
  });

  it('lands, recognizes and looks up events in hash partitions, by the statements of scale.md', async () => {
    const [redis, uri] = [await TestRedis.start(['--appendonly', 'no']), await postgres.freshDatabase()];
    const parts = await Pipeline.start({ queueUri: redis.uri, warehouseUri: uri, env: PATIENT });
    const rows = async (): Promise<unknown> =>
      (await postgres.query<{ id: string }>(uri, 'SELECT id FROM events ORDER BY id')).map(({ id }) => id).join();
    assert.equal((await parts.post(event('a'))).status, 202);
    await eventually('it has landed', async () => (await rows()) === 'a');
    await parts.replicas[0]?.program.kill();
    for (const text of HASH_PARTITIONS) await postgres.query(uri, text);
    const consumer = await parts.startConsumer();
    const [{ fields = {} } = {}] = await redis.entries();
    await redis.command('XADD', 'ingest', '*', ...Object.entries(fields).flat());
    assert.equal((await parts.post(event('b'))).status, 202);
    await eventually('the next one has landed', async () => (await rows()) === 'a,b');
    await eventually(
      'a second entry of an event has no row',
      async () => (await metricOf(consumer, 'ingest_consumer_duplicates_total')) >= 1,
    );
    assert.equal(await rows(), 'a,b');
    assert.equal((await parts.find('a')).body['status'], 'landed');
    await parts.stop();
  });
});
