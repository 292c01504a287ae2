import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { startPostgres, type PostgresServer } from '../../bench/peers/postgres.ts';

describe('the schema in PostgreSQL', () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres();
  });
  after(() => server.stop());

  const open = (t: TestContext, uri: string): Warehouse => {
    const warehouse = createPostgresWarehouse({ uri, connectionsMax: 1 });
    t.after(() => warehouse.close());
    return warehouse;
  };
  const collations = async (uri: string): Promise<unknown> =>
    server.query(
      uri,
      `SELECT DISTINCT collname AS name FROM pg_attribute
       JOIN pg_collation ON pg_collation.oid = attcollation
       WHERE attrelid IN ('events'::regclass, 'events_quarantine'::regclass) AND attname IN ('id', 'producer', 'entry')`,
    );

  it('names no collation where the database compares bytes already', async (t) => {
    const uri = await server.freshDatabase();
    await open(t, uri).prepare();
    assert.deepEqual(await collations(uri), [{ name: 'default' }]);
  });

  it('compares ids by their bytes where the database would not', async (t) => {
    const uri = await server.freshDatabase(`LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`);
    const warehouse = open(t, uri);
    await warehouse.prepare();
    assert.deepEqual(await collations(uri), [{ name: 'C' }]);
    const ids = ['a', 'B', 'A', 'b', 'é'];
    await warehouse.land(
      ids.map((id) => ({ id, type: 't', producer: 'shop', body: Buffer.from('{}'), acceptedAtMs: 1 })),
    );
    const rows = await server.query<{ id: string }>(uri, 'SELECT id FROM events ORDER BY id');
    assert.deepEqual(
      rows.map(({ id }) => id),
      ['A', 'B', 'a', 'b', 'é'],
    );
  });

  const ABSENT = {
    'says that they are not implemented': `
      CREATE SCHEMA engine;
      CREATE FUNCTION engine.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'advisory locks are not yet implemented' USING ERRCODE = 'feature_not_supported'; END $$;`,
    'has no such function': `CREATE SCHEMA engine; DELETE FROM pg_proc WHERE proname = 'pg_advisory_xact_lock';`,
  };
  for (const [how, engine] of Object.entries(ABSENT)) {
    it(`is made once by six replicas at the same time where the server knows no advisory locks and ${how}`, async (t) => {
      const uri = await server.freshDatabase();
      await server.query(uri, engine);
      const asEngine = new URL(uri);
      asEngine.searchParams.set('options', '-c search_path=engine,pg_catalog,public');
      await Promise.all(Array.from({ length: 6 }, () => open(t, asEngine.href).prepare()));
      const versions = await server.query(asEngine.href, 'SELECT version FROM events_migrations ORDER BY version');
      assert.deepEqual(versions, [{ version: 1 }, { version: 2 }, { version: 3 }]);
      await open(t, asEngine.href).quarantine([
        {
          entry: 'q/ingest/1-1',
          producer: 'shop',
          reason: 'invalid_event: x',
          acceptedAtMs: 1,
          body: Buffer.from('{'),
        },
      ]);
    });
  }

  it('keeps what an older one has in quarantine, under the name of the stream that it came from', async (t) => {
    const uri = await server.freshDatabase();
    await server.query(uri, VERSION_1);
    const warehouse = open(t, uri);
    await warehouse.prepare();
    await warehouse.prepare();
    const rows = await server.query(uri, 'SELECT entry, id, reason, body FROM events_quarantine ORDER BY entry');
    assert.deepEqual(rows, [
      { entry: 'unknown/ingest/1-1', id: 'one', reason: 'invalid_event: old', body: Buffer.from('{') },
      { entry: 'unknown/ingest/1-2', id: null, reason: 'dropped_by_queue: old', body: Buffer.alloc(0) },
    ]);
    const found = await warehouse.find('one', 'shop');
    assert.ok(found.kind === 'rejected' && found.reason === 'invalid_event: old');
    assert.equal((await warehouse.find('landed', 'shop')).kind, 'landed');
    await warehouse.quarantine([
      {
        entry: 'q/ingest/1-1',
        producer: 'shop',
        reason: 'invalid_event: new',
        acceptedAtMs: 1,
        body: Buffer.from('{'),
      },
    ]);
    assert.equal((await server.query(uri, 'SELECT 1 FROM events_quarantine')).length, 3, 'another queue, another row');
  });
});

/** What version 1 of the program left behind. */
const VERSION_1 = `
  CREATE TABLE events (
    id text COLLATE "C" PRIMARY KEY, type text NOT NULL, producer text COLLATE "C" NOT NULL,
    accepted_at timestamptz NOT NULL, landed_at timestamptz NOT NULL, body text NOT NULL);
  CREATE TABLE events_quarantine (
    entry text COLLATE "C" PRIMARY KEY, id text COLLATE "C", producer text COLLATE "C" NOT NULL, reason text NOT NULL,
    accepted_at timestamptz NOT NULL, quarantined_at timestamptz NOT NULL, body bytea NOT NULL);
  CREATE INDEX events_quarantine_id ON events_quarantine (id);
  CREATE TABLE events_migrations (version integer PRIMARY KEY, applied_at timestamptz NOT NULL);
  INSERT INTO events_migrations VALUES (1, now());
  INSERT INTO events VALUES ('landed', 't', 'shop', now(), now(), '{}');
  INSERT INTO events_quarantine VALUES
    ('1-1', 'one', 'shop', 'invalid_event: old', now(), now(), '{'),
    ('1-2', NULL, '', 'dropped_by_queue: old', now(), now(), '');`;
