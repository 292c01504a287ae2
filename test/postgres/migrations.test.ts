import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inspectPostgres } from '../../lib/postgres/inspect.ts';
import { TablesDiffer } from '../../lib/ingest/warehouse.ts';
import { event, Postgres, withOptions } from '../support/postgres-suite.ts';

const postgres = new Postgres();

const poison = (entry: string) => ({
  ...{ entry, id: 'three', producer: 'shop', reason: 'r', acceptedAtMs: 1, body: Buffer.of(1) },
});

describe('the schema in PostgreSQL', () => {
  const collations = async (uri: string): Promise<unknown> =>
    postgres.server.query(
      uri,
      `SELECT DISTINCT collname AS name FROM pg_attribute
       JOIN pg_collation ON pg_collation.oid = attcollation
       WHERE attrelid IN ('events'::regclass, 'events_quarantine'::regclass) AND attname IN ('id', 'producer', 'entry')`,
    );

  it('compares ids by bytes even if the database does not, and otherwise has no collation clause', async (t) => {
    const bytewise = await postgres.server.freshDatabase();
    await postgres.warehouse(t, bytewise).prepare();
    assert.deepEqual(await collations(bytewise), [{ name: 'default' }]);
    const uri = await postgres.server.freshDatabase(`LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`);
    const warehouse = postgres.warehouse(t, uri);
    await warehouse.prepare();
    assert.deepEqual(await collations(uri), [{ name: 'C' }]);
    const ids = ['a', 'B', 'A', 'b', 'é'];
    await warehouse.land(ids.map((id) => event(id)));
    const rows = await postgres.server.query(uri, 'SELECT id FROM events ORDER BY id');
    assert.equal(rows.map((row) => String(row['id'])).join(), 'A,B,a,b,é');
  });

  const ABSENT = {
    'says that they are not implemented': `
      CREATE SCHEMA engine;
      CREATE FUNCTION engine.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not yet implemented' USING ERRCODE = 'feature_not_supported'; END $$;`,
    'has no such function': `CREATE SCHEMA engine; DELETE FROM pg_proc WHERE proname = 'pg_advisory_xact_lock';`,
  };
  for (const [how, engine] of Object.entries(ABSENT)) {
    it(`is made once by six replicas together if the server has no advisory locks and ${how}`, async (t) => {
      const uri = await postgres.server.freshDatabase();
      await postgres.server.query(uri, engine);
      const asEngine = withOptions(uri, '-c search_path=engine,pg_catalog,public');
      await Promise.all(Array.from({ length: 6 }, () => postgres.warehouse(t, asEngine).prepare()));
      const versions = await postgres.server.query(asEngine, 'SELECT version FROM events_migrations ORDER BY version');
      assert.deepEqual(versions, [{ version: 1 }, { version: 2 }]);
      await postgres.warehouse(t, asEngine).quarantine([poison('q/ingest/1-1')]);
    });
  }

  /** The schema as the version before the latest step left it. */
  const EARLIER = 'DROP INDEX events_quarantine_code; DELETE FROM events_migrations WHERE version = 2';

  it('is migrated in short attempts during a long transaction, and events land meanwhile', async (t) => {
    const uri = await postgres.server.freshDatabase();
    const before = postgres.warehouse(t, uri, { callTimeoutMs: 1_500 });
    assert.equal(await before.prepare(), undefined);
    await postgres.server.query(uri, EARLIER);
    await before.land([event('first')]);
    const other = await postgres.session(t, uri, 'nightly job');
    await other.query('BEGIN; DELETE FROM events_quarantine');
    const [{ pid } = { pid: 0 }] = (await other.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;

    const next = postgres.warehouse(t, uri);
    for (let tries = 1; tries <= 3; tries += 1) {
      const waiting = next.prepare();
      // While the migration waits for its table lock, writers queue up after it.
      await before.quarantine([poison(`q/ingest/${tries}-1`)]);
      assert.deepEqual(await before.land([event(`during ${tries}`)]), ['landed']);
      assert.equal((await before.find('first', 'shop')).kind, 'landed');
      const reason = (await waiting)?.replace(/\d+ s ago$/, 'N s ago');
      assert.equal(reason, `it waits for session ${pid} ("nightly job"), whose last query began N s ago`);
    }
    assert.deepEqual(await next.land([event('on the schema before')]), ['landed']);
    await other.query('COMMIT');
    assert.equal(await next.prepare(), undefined);
    const indexes = await postgres.server.query(uri, `SELECT to_regclass('events_quarantine_code') IS NULL AS missing`);
    assert.deepEqual(indexes, [{ missing: false }]);
    assert.deepEqual(await next.land([event('on the schema after')]), ['landed']);
  });

  it('works after an additive step of a newer program, which is not taken back', async (t) => {
    const uri = await postgres.server.freshDatabase();
    await postgres.warehouse(t, uri).prepare();
    const sql = `ALTER TABLE events ADD COLUMN region text; ALTER TABLE events_quarantine ADD COLUMN region text;
       INSERT INTO events_migrations VALUES (3, now())`;
    await postgres.server.query(uri, sql);
    const before = postgres.warehouse(t, uri);
    assert.equal(await before.prepare(), undefined);
    assert.deepEqual(await before.land([event('one')]), ['landed']);
    // The repeated event makes this batch an INSERT instead of a COPY.
    assert.deepEqual(await before.land([event('one'), event('two')]), ['duplicate', 'landed']);
    await before.quarantine([poison('q/ingest/1-1')]);
    assert.equal((await before.find('two', 'shop')).kind, 'landed');
    assert.equal((await before.find('three', 'shop')).kind, 'rejected');
    const versions = await postgres.server.query(uri, 'SELECT max(version) AS newest FROM events_migrations');
    assert.deepEqual(versions, [{ newest: 3 }]);
  });

  it('is refused in an older form, with instructions', async (t) => {
    for (const [sql, why] of [
      ['CREATE TABLE events_ids (id text PRIMARY KEY)', /events is partitioned by month/],
      ['ALTER TABLE events RENAME body TO content', /events has no column body/],
    ] as const) {
      const uri = await postgres.server.freshDatabase();
      await postgres.warehouse(t, uri).prepare();
      await postgres.server.query(uri, sql);
      const refused = (cause: unknown): boolean =>
        cause instanceof TablesDiffer &&
        why.test(cause.message) &&
        /; start the consumers on an empty/.test(cause.message);
      await assert.rejects(postgres.warehouse(t, uri).prepare(), refused);
      await assert.rejects(inspectPostgres(uri, 'consumer'), refused);
    }
  });

  it('is used unchanged by a role without the right to migrate it', async (t) => {
    const uri = await postgres.server.freshDatabase();
    await postgres.warehouse(t, uri).prepare();
    const { uri: asWriter } = await postgres.asRole(t, uri, 'SELECT, INSERT ON ALL TABLES IN SCHEMA public');
    await postgres.server.query(uri, EARLIER);
    const writer = postgres.warehouse(t, asWriter);
    assert.match(String(await writer.prepare()), /SQLSTATE 42501/);
    assert.deepEqual(await writer.land([event('one')]), ['landed']);
  });
});
