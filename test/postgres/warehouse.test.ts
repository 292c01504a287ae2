import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openWarehouse } from '../../bin/warehouse-adapter.ts';
import { BatchRefused, NO_ROW, type LandingEvent, WarehouseMisconfigured } from '../../lib/ingest/warehouse.ts';
import { LOCK_KEY } from '../../lib/postgres/migrations.ts';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import { describeWarehouse } from '../contract/warehouse.ts';
import { describeWarehouseAdmin } from '../contract/warehouse-admin.ts';
import { createPostgresAdmin } from '../../lib/postgres/admin.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { event, Postgres, withOptions } from '../support/postgres-suite.ts';

const postgres = new Postgres();

it(
  'what the PostgreSQL warehouse reads is found by index, for a look-up, an operator and a batch',
  { tags: ['long'] },
  async () => {
    const uri = await postgres.server.freshDatabase();
    const [warehouse, admin] = [
      createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 }),
      createPostgresAdmin(uri, SYSTEM),
    ];
    const batch = (from: number): LandingEvent[] =>
      Array.from({ length: 50 }, (_, at) => event(`${from + at}`, { producer: 'p' }));
    await warehouse.prepare();
    await warehouse.land(batch(0));
    await warehouse.quarantine([
      { entry: 'q/s/1-0', id: 'none', producer: 'p', reason: 'r', acceptedAtMs: 1, body: Buffer.from('x') },
    ]);
    await warehouse.close();
    // The planner prefers a sequential scan for so few rows. With this setting it uses one only if no index fits.
    await postgres.server.query(uri, `ALTER DATABASE ${new URL(uri).pathname.slice(1)} SET enable_seqscan = off`);
    // A session reports its statistics when it exits, which may be after its client has disconnected.
    const others = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()`;
    const scans = async (): Promise<unknown> => {
      await eventually('its sessions have ended', async () => (await postgres.server.query(uri, others)).length === 0);
      return postgres.server.query(
        uri,
        `SELECT relname, seq_scan::int FROM pg_stat_user_tables WHERE relname LIKE 'events%' ORDER BY 1`,
      );
    };
    const before = await scans();
    const again = createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 });
    await again.land(batch(25));
    for (const id of ['7', 'none', 'unknown']) await again.find(id, 'p');
    await again.close();
    for (const id of ['7', 'none', 'unknown']) await Promise.all([admin.landed(id), admin.quarantineOf(id)]);
    await admin.close();
    assert.deepEqual(await scans(), before);
  },
);

describeWarehouse('PostgreSQL', async () => {
  const { uri, direct, link } = await postgres.linked();
  return {
    open: () => createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 2 }),
    count: async (table) =>
      Number((await postgres.server.query<{ rows: string }>(direct, `SELECT count(*) AS rows FROM ${table}`))[0]?.rows),
    takeAway: () => link.cut(),
    bringBack: () => link.mend(),
    close: () => link.close(),
  };
});

describeWarehouseAdmin('PostgreSQL', async () => {
  const uri = await postgres.server.freshDatabase();
  return {
    warehouse: createPostgresWarehouse({ ...SYSTEM, uri, connectionsMax: 1 }),
    admin: createPostgresAdmin(uri, SYSTEM),
    rest: /VACUUM FULL/,
    audit: () =>
      postgres.server.query(
        uri,
        'SELECT actor, command, what, changed::int, round(extract(epoch FROM at) * 1000)::int AS at FROM ingest_audit',
      ),
    close: () => Promise.resolve(),
  };
});

describe('the PostgreSQL warehouse', () => {
  it('is refused while its table or the primary key is missing, with the reason', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    await warehouse.land([event('a')]);
    await postgres.server.query(uri, 'ALTER TABLE events DROP CONSTRAINT events_pkey');
    const refused = /: a table lacks its primary key, which prevents a second row: .*\(SQLSTATE 42P10\)$/;
    for (const fail of [() => warehouse.prepare(), () => warehouse.probe(), () => warehouse.land([event('a')])])
      await assert.rejects(fail(), (cause) => cause instanceof WarehouseMisconfigured && refused.test(cause.message));
    await postgres.server.query(uri, 'ALTER TABLE events ADD PRIMARY KEY (id); ALTER TABLE events RENAME TO elsewhere');
    const isMissing =
      /: a table is missing; a consumer that starts on an empty database creates all: .*\(SQLSTATE 42P01\)$/;
    for (const fail of [
      () => warehouse.land([event('b')]),
      () => warehouse.probe(),
      () => postgres.admin(t, uri).landed('a'),
    ])
      await assert.rejects(fail(), { message: isMissing });
    await postgres.server.query(
      uri,
      'ALTER TABLE elsewhere RENAME TO events; ALTER TABLE events_quarantine RENAME TO elsewhere',
    );
    await assert.rejects(warehouse.probe(), { message: isMissing });
    assert.deepEqual(await warehouse.land([event('a'), event('b')]), ['duplicate', 'landed']);
  });

  it('cannot work as configured without its database or schema, or if a column has another type', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    const elsewhere = Object.assign(new URL(uri), { pathname: '/none' }).href;
    for (const [wrong, code] of [
      [elsewhere, '3D000'],
      [withOptions(await postgres.server.freshDatabase(), '-c search_path=none'), '3F000'],
    ] as const)
      await assert.rejects(
        postgres.warehouse(t, wrong).prepare(),
        (cause) => cause instanceof WarehouseMisconfigured && cause.message.endsWith(`(SQLSTATE ${code})`),
      );
    // COPY would report it as corrupt data.
    await postgres.server.query(uri, 'ALTER TABLE events ALTER body TYPE jsonb USING body::jsonb');
    await assert.rejects(warehouse.land([event('a')]), /column "body" is of type jsonb .*\(SQLSTATE 42804\)$/);
  });

  it('copies new rows, and uses INSERT for a while after a repeated one', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    const sql = `
      CREATE TABLE statements (at serial, word text);
      CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO statements (word) VALUES (substring(current_query(), 'COPY|INSERT')); RETURN NEW; END $$;
      CREATE TRIGGER note AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION note();`;
    await postgres.server.query(uri, sql);
    const spoken = (id: string, producer = 'shop'): LandingEvent => ({
      ...event(id, { producer }),
      body: Buffer.from(`{"é\u{1F600}":"${id}"}`),
      acceptedAtMs: Date.UTC(2026, 0, 1, 0, 0, 0, 7),
    });
    const landed = (...events: readonly LandingEvent[]) => warehouse.land(events).then((verdicts) => verdicts.join());
    const first = await landed(spoken('b'), spoken('a'), spoken('é\u{1F600}'), spoken('a', 'thief'));
    assert.equal(first, 'landed,landed,landed,conflict');
    const since = performance.now();
    assert.equal(await landed(spoken('c'), spoken('a'), spoken('b', 'thief')), 'landed,duplicate,conflict');
    assert.equal(await landed(spoken('d')), 'landed');
    const copies = async (): Promise<boolean> => {
      assert.equal(await landed(spoken(`again ${performance.now()}`)), 'landed');
      const [last] = await postgres.server.query(uri, 'SELECT word FROM statements ORDER BY at DESC LIMIT 1');
      return last?.['word'] === 'COPY';
    };
    await eventually('it copies again', copies);
    assert.ok(performance.now() - since > 500, 'not at once');
    await postgres.server.query(uri, 'ALTER TABLE events_quarantine RENAME TO elsewhere');
    await assert.rejects(warehouse.probe());
    assert.equal(await copies(), false, 'after a failed probe');
    await postgres.server.query(uri, 'ALTER TABLE elsewhere RENAME TO events_quarantine');
    await warehouse.probe();
    assert.equal(await copies(), true, 'after a good one');
    const words = await postgres.server.query(uri, 'SELECT word FROM statements ORDER BY at LIMIT 3');
    assert.equal(words.map((row) => String(row['word'])).join(), 'COPY,INSERT,INSERT');
    const rows = await postgres.server.query(
      uri,
      `SELECT id, producer, body, accepted_at = '2026-01-01T00:00:00.007Z' AS accepted,
        abs(extract(epoch FROM now() - landed_at)) < 60 AS landed
       FROM events WHERE id NOT LIKE 'again%' ORDER BY id`,
    );
    const ids = ['a', 'b', 'c', 'd', 'é\u{1F600}'];
    const row = { producer: 'shop', accepted: true, landed: true };
    assert.deepEqual(
      rows,
      ids.map((id) => ({ id, ...row, body: `{"é\u{1F600}":"${id}"}` })),
    );
  });

  it('copies ids of any length in UTF-8', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    // Each character needs three bytes in UTF-8, the maximum per UTF-16 unit, so these names fill the COPY buffer.
    const ids = Array.from({ length: 40 }, (_, at) => '件'.repeat(250) + String.fromCodePoint(0x4e00 + at));
    const batch = ids.map((id) => event(id, { producer: '店'.repeat(100) }));
    for (const events of [batch.slice(0, 1), batch.slice(1)])
      assert.deepEqual(
        await warehouse.land(events),
        events.map(() => 'landed'),
      );
    const rows = await postgres.server.query(uri, 'SELECT id, producer FROM events ORDER BY id');
    assert.deepEqual(
      rows,
      batch.map(({ id, producer }) => ({ id, producer })),
    );
  });

  // Two replicas that write the same ids in different orders could deadlock.
  it('writes rows in the order of their ids, with either statement', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    await warehouse.land(['d', 'b', 'a', 'c'].map((id) => event(id)));
    await warehouse.land(['h', 'a', 'f', 'e', 'g'].map((id) => event(id)));
    const poison = { producer: '', reason: 'r', acceptedAtMs: 1, body: Buffer.alloc(0) };
    await warehouse.quarantine(['3', '1', '2'].map((entry) => ({ ...poison, entry })));
    const written = `SELECT (SELECT string_agg(id, '' ORDER BY ctid) FROM events) AS events,
      (SELECT string_agg(entry, '' ORDER BY ctid) FROM events_quarantine) AS quarantine`;
    assert.deepEqual(await postgres.server.query(uri, written), [{ events: 'abcdefgh', quarantine: '123' }]);
  });

  it("refuses an event if an operator's trigger skips its row", async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    const sql = `
      CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.id = 'lost' THEN RETURN NULL; END IF; RETURN NEW; END $$;
      CREATE TRIGGER leave_out BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION leave_out();`;
    await postgres.server.query(uri, sql);
    assert.deepEqual(await warehouse.land([event('kept')]), ['landed']);
    for (const ids of [['lost'], ['lost', 'other']])
      await assert.rejects(
        warehouse.land(ids.map((id) => event(id))),
        (cause: Error) => cause instanceof BatchRefused && cause.message === NO_ROW,
      );
  });

  it('lands an event again whose row is deleted after a first try found it', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    await warehouse.land([event('a')]);
    const sql = `
      CREATE TABLE doomed AS SELECT id FROM events;
      CREATE FUNCTION doom() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WITH gone AS (DELETE FROM doomed RETURNING id) DELETE FROM events USING gone WHERE events.id = gone.id;
        RETURN NULL; END $$;
      CREATE TRIGGER doom AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION doom();`;
    await postgres.server.query(uri, sql);
    assert.deepEqual(await warehouse.land([event('a')]), ['landed']);
  });

  it('rejects without ending the process if the server stops during the creation of the schema', async (t) => {
    const { uri, direct, link } = await postgres.linked();
    t.after(() => link.close());
    const holder = await postgres.session(t, direct);
    await holder.query('SELECT pg_advisory_lock($1)', [LOCK_KEY]);
    const warehouse = postgres.warehouse(t, uri);
    const preparing = assert.rejects(warehouse.prepare());
    const waiting = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
    await eventually('it waits for the lock', async () => (await holder.query(waiting)).rowCount === 1);
    link.cut();
    await preparing;
    link.mend();
    await holder.query('SELECT pg_advisory_unlock($1)', [LOCK_KEY]);
    await warehouse.prepare();
  });

  it('treats a read-only server as unavailable except for look-ups, and as available once new sessions may write', async (t) => {
    const { uri } = await postgres.prepared(t);
    const database = new URL(uri).pathname.slice(1);
    const setDefault = (mode: 'on' | 'off'): Promise<unknown> => {
      const sql = `ALTER DATABASE ${database} SET default_transaction_read_only = ${mode}`;
      return postgres.server.query(uri, `BEGIN READ WRITE; ${sql}; COMMIT`);
    };
    await setDefault('on');
    const reader = postgres.warehouse(t, uri);
    await assert.rejects(reader.probe(), /read-only/);
    assert.deepEqual(await reader.find('one', 'shop'), { kind: 'unknown' });
    await assert.rejects(reader.probe(), /read-only/);
    const gateway = openWarehouse(uri, 'gateway');
    t.after(() => gateway.close());
    await gateway.probe();
    await setDefault('off');
    await reader.probe();
  });
});
