import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import pg from 'pg';
import { createPostgresAdmin } from '../../lib/postgres/admin.ts';
import { inspectPostgres } from '../../lib/postgres/inspect.ts';
import { STEPS, type Step } from '../../lib/postgres/migrations.ts';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import { TablesDiffer, type LandingEvent, type Warehouse } from '../../lib/ingest/warehouse.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

describe('the schema in PostgreSQL', () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres();
  });
  after(() => server.stop());

  const open = (
    t: TestContext,
    uri: string,
    more: { steps?: readonly Step[]; callTimeoutMs?: number } = {},
  ): Warehouse => {
    const warehouse = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1, ...more });
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

  it('has no collation clause if the database already compares bytes', async (t) => {
    const uri = await server.freshDatabase();
    await open(t, uri).prepare();
    assert.deepEqual(await collations(uri), [{ name: 'default' }]);
  });

  it('compares ids by bytes even if the database does not', async (t) => {
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
      assert.deepEqual(versions, [{ version: 1 }, { version: 2 }]);
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

  const NEXT: readonly Step[] = [
    ...STEPS,
    {
      version: 3,
      sql: () => 'ALTER TABLE events ADD COLUMN region text; ALTER TABLE events_quarantine ADD COLUMN region text',
    },
  ];
  const event = (id: string): LandingEvent => ({
    id,
    type: 't',
    producer: 'shop',
    body: Buffer.from(`{"id":"${id}","type":"t"}`),
    acceptedAtMs: 1,
  });

  it('is migrated in short attempts during a long query, and events land meanwhile', async (t) => {
    const uri = await server.freshDatabase();
    const before = open(t, uri, { callTimeoutMs: 1_500 });
    assert.equal(await before.prepare(), undefined);
    await before.land([event('first')]);
    const reader = new pg.Client({ connectionString: uri, application_name: 'nightly report' });
    await reader.connect();
    t.after(() => reader.end());
    await reader.query('BEGIN; SELECT count(*) FROM events');
    const [{ pid } = { pid: 0 }] = (await reader.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;

    const next = open(t, uri, { steps: NEXT });
    for (let tries = 1; tries <= 3; tries += 1) {
      const waiting = next.prepare();
      // While the migration waits for its table lock, these queries queue up after it.
      assert.deepEqual(await before.land([event(`during ${tries}`)]), ['landed']);
      assert.equal((await before.find('first', 'shop')).kind, 'landed');
      const reason = (await waiting)?.replace(/\d+ s ago$/, 'N s ago');
      assert.equal(reason, `it waits for session ${pid} ("nightly report"), whose last query began N s ago`);
    }
    assert.deepEqual(await next.land([event('on the schema before')]), ['landed']);
    assert.equal((await next.find('on the schema before', 'shop')).kind, 'landed');
    await reader.query('COMMIT');
    assert.equal(await next.prepare(), undefined);
    assert.deepEqual(await next.land([event('on the schema after')]), ['landed']);
  });

  it('works for an older program after an additive step', async (t) => {
    const uri = await server.freshDatabase();
    await open(t, uri, { steps: NEXT }).prepare();
    const before = open(t, uri);
    assert.equal(await before.prepare(), undefined);
    assert.deepEqual(await before.land([event('one')]), ['landed']);
    // The repeated event makes this batch an INSERT instead of a COPY.
    assert.deepEqual(await before.land([event('one'), event('two')]), ['duplicate', 'landed']);
    const poison = {
      entry: 'q/ingest/1-1',
      id: 'three',
      producer: 'shop',
      reason: 'r',
      acceptedAtMs: 1,
      body: Buffer.of(1),
    };
    await before.quarantine([poison]);
    assert.equal((await before.find('two', 'shop')).kind, 'landed');
    assert.equal((await before.find('three', 'shop')).kind, 'rejected');
    const versions = await server.query(uri, 'SELECT version FROM events_migrations ORDER BY version');
    assert.deepEqual(
      versions,
      [{ version: 1 }, { version: 2 }, { version: 3 }],
      'the older program takes nothing back',
    );
  });

  it('has an index of reason codes since version 2, and works for version 1', async (t) => {
    const uri = await server.freshDatabase();
    const before = open(t, uri, { steps: STEPS.slice(0, 1) });
    await before.prepare();
    await before.land([event('one')]);
    const entry = { producer: 'shop', acceptedAtMs: 1, body: Buffer.of(1) };
    await before.quarantine([{ ...entry, entry: 'q/s/1-1', reason: 'rare: x' }]);
    assert.equal(await open(t, uri).prepare(), undefined);
    assert.equal(await before.prepare(), undefined);
    assert.deepEqual(await before.land([event('one'), event('two')]), ['duplicate', 'landed']);
    await before.quarantine([{ ...entry, entry: 'q/s/1-2', reason: 'other: x' }]);
    await server.query(uri, `ALTER DATABASE ${new URL(uri).pathname.slice(1)} SET enable_seqscan = off`);
    const admin = createPostgresAdmin(uri, SYSTEM);
    t.after(() => admin.close());
    const listed: string[] = [];
    for await (const page of admin.quarantineList({ reason: 'rare', sinceMs: undefined }, 10))
      listed.push(...page.map((row) => row.entry));
    assert.deepEqual(listed, ['q/s/1-1']);
    await eventually('the index has been used', async () => {
      const sql = `SELECT idx_scan::int AS scans FROM pg_stat_user_indexes WHERE indexrelname = 'events_quarantine_code'`;
      return ((await server.query<{ scans: number }>(uri, sql))[0]?.scans ?? 0) > 0;
    });
  });

  it('is refused by a program that cannot use it', async (t) => {
    const uri = await server.freshDatabase();
    await open(t, uri).prepare();
    await server.query(uri, 'ALTER TABLE events RENAME body TO content');
    await server.query(uri, 'INSERT INTO events_migrations VALUES (3, now())');
    await assert.rejects(open(t, uri).prepare(), {
      name: 'WarehouseMisconfigured',
      message: /version 3, and this program knows 2: events has no column body/,
    });
  });

  it('is refused in an older form, with instructions', async (t) => {
    for (const [sql, why] of [
      ['CREATE TABLE events_ids (id text PRIMARY KEY)', /events is partitioned by month/],
      ['ALTER TABLE events RENAME body TO content', /events has no column body/],
    ] as const) {
      const uri = await server.freshDatabase();
      await open(t, uri).prepare();
      await server.query(uri, sql);
      const refused = (cause: unknown): boolean =>
        cause instanceof TablesDiffer &&
        why.test(cause.message) &&
        /; start the consumers on an empty/.test(cause.message);
      await assert.rejects(open(t, uri).prepare(), refused);
      await assert.rejects(inspectPostgres(uri, 'consumer'), refused);
    }
  });

  it('is used unchanged by a role without the right to migrate it', async (t) => {
    const uri = await server.freshDatabase();
    await open(t, uri).prepare();
    const role = `ingest_test_migrations_${process.pid}`;
    await server.query(uri, `CREATE ROLE ${role}; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO ${role}`);
    t.after(() => server.query(uri, `DROP OWNED BY ${role}; DROP ROLE ${role}`));
    const asWriter = new URL(uri);
    asWriter.searchParams.set('options', `-c role=${role}`);
    const writer = open(t, asWriter.href, { steps: NEXT });
    assert.match(String(await writer.prepare()), /SQLSTATE 42501/);
    assert.deepEqual(await writer.land([event('one')]), ['landed']);
  });
});
