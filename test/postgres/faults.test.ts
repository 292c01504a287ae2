import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { BatchRefused, BatchTooSlow, type LandingEvent } from '../../lib/ingest/warehouse.ts';
import { openWarehouse } from '../../bin/warehouse-adapter.ts';
import { WarehouseFailed } from '../../lib/ingest/warehouse-admin.ts';
import { inspectPostgres } from '../../lib/postgres/inspect.ts';
import { event, Postgres, withOptions } from '../support/postgres-suite.ts';

const postgres = new Postgres();

describe('a PostgreSQL server with faults', () => {
  it('gets a new connection after a COPY that timed out', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t, { callTimeoutMs: 2_000, connectTimeoutMs: 2_000 });
    await warehouse.land([event('before')]);
    const sessions = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ingest'`;
    const [{ pid } = { pid: 0 }] = await postgres.server.query<{ pid: number }>(uri, sessions);
    process.kill(pid, 'SIGSTOP');
    try {
      await assert.rejects(warehouse.land([event('during')]), BatchTooSlow);
      assert.deepEqual(await warehouse.land([event('after')]), ['landed'], 'over another one');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    assert.equal((await warehouse.find('before', 'shop')).kind, 'landed');
    const left = (await postgres.server.query<{ pid: number }>(uri, sessions)).map((session) => session.pid);
    assert.ok(left.some((other) => other !== pid));
  });

  it('that is silent has one reason, on a connection that was used and on those after it', async (t) => {
    const { uri, link } = await postgres.linked();
    t.after(() => link.close());
    const { warehouse } = await postgres.prepared(t, { uri, callTimeoutMs: 1_000, connectTimeoutMs: 500 });
    await warehouse.land([event('before')]);
    const [consumer, gateway] = [openWarehouse(uri, 'consumer'), openWarehouse(uri, 'gateway')];
    for (const one of [consumer, gateway]) {
      t.after(() => one.close());
      assert.equal((await one.find('before', 'shop')).kind, 'landed');
    }
    link.hold('from the server');
    const land = (): Promise<unknown> => warehouse.land([event('during')]);
    for (const call of [land, () => warehouse.probe(), land, () => warehouse.release(['1-1'])])
      await assert.rejects(call(), { message: 'it does not answer' });
    const waits = [consumer, gateway].map((one) => one.find('before', 'shop').then(({ kind }) => ({ one, kind })));
    assert.deepEqual(await Promise.race(waits), { one: gateway, kind: 'unavailable' }, 'a look-up waits less');
  });

  it("is available if an operator's trigger, constraint or index raises an error: it refuses that event", async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    const sql = `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF NEW.id = 'bad' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
       CREATE TRIGGER no BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION no();
       ALTER TABLE events ADD CHECK (id <> 'worse');
       CREATE INDEX ON events (body);`;
    await postgres.server.query(uri, sql);
    const random = Buffer.from(JSON.stringify({ id: 'long', type: 't', data: randomBytes(8_192).toString('base64') }));
    for (const [id, message, change] of [
      ['bad', 'P0001', {}],
      ['worse', '23514', {}],
      ['too long for the index', '54000', { body: random }],
    ] as const)
      await assert.rejects(
        warehouse.land([event('good'), event(id, change)]),
        (cause: Error) => cause instanceof BatchRefused && cause.message === message,
      );
    assert.deepEqual(await warehouse.land([event('good')]), ['landed']);
    const admin = postgres.admin(t, uri);
    await admin.land({ ...event('bad'), body: Buffer.from('{}') });
    assert.equal(await admin.landed('bad'), undefined, 'the admin takes it for a refusal too');
  });

  it('is reported as unavailable, with the masked URI, by every admin method', async (t) => {
    const { uri, link } = await postgres.linked();
    t.after(() => link.close());
    const admin = postgres.admin(t, uri);
    link.cut();
    await assert.rejects(admin.counts(), WarehouseFailed);
    await assert.rejects(admin.present(['a']), WarehouseFailed);
    await assert.rejects(admin.land(event('one')), WarehouseFailed);
    link.mend();
    await assert.rejects(admin.counts(), (cause) => cause instanceof WarehouseFailed && /events/.test(cause.message));
    await postgres.prepared(t, { uri });
    assert.deepEqual(await admin.counts(), { events: 0, estimated: false, quarantine: [] });
    const holder = await postgres.session(t, uri);
    await holder.query('BEGIN; LOCK TABLE events');
    const landed = admin.landed('one');
    assert.deepEqual(await admin.quarantineOf('one'), [], 'a slow query does not make another one fail');
    await holder.query('ROLLBACK');
    assert.equal(await landed, undefined);
  });

  it('compares repeated events itself and returns no bodies', async (t) => {
    const { uri, link } = await postgres.linked();
    t.after(() => link.close());
    const { warehouse } = await postgres.prepared(t, { uri });
    const long = (id: string, fill: string): LandingEvent => ({
      ...event(id),
      body: Buffer.from(`{"id":"${id}","type":"t","data":"${fill.repeat(250_000)}"}`),
    });
    const ids = Array.from({ length: 8 }, (_, at) => `long-${at}`);
    await warehouse.land(ids.map((id) => long(id, 'a')));
    const before = link.received;
    assert.deepEqual(new Set(await warehouse.land(ids.map((id) => event(id)))), new Set(['reused']));
    assert.deepEqual(new Set(await warehouse.land(ids.map((id) => long(id, 'b')))), new Set(['reused']));
    assert.deepEqual(new Set(await warehouse.haveLanded(ids.map((id) => long(id, 'a')))), new Set([true]));
    assert.ok(link.received - before < 40_000, `${link.received - before} bytes`);
  });

  it('is inspected without a change, and missing rights are named', async (t) => {
    const uri = await postgres.server.freshDatabase();
    for (const program of ['consumer', 'gateway'] as const) assert.equal(await inspectPostgres(uri, program), false);
    assert.deepEqual(await postgres.server.query(uri, `SELECT 1 FROM pg_tables WHERE schemaname = 'public'`), []);
    const readOnly = withOptions(uri, '-c default_transaction_read_only=on');
    await assert.rejects(inspectPostgres(readOnly, 'consumer'), /the warehouse is read-only/);
    await postgres.prepared(t, { uri });
    assert.equal(await inspectPostgres(uri, 'consumer'), true);
    const rights = 'SELECT ON events, events_quarantine, events_migrations';
    const { role, uri: asReader } = await postgres.asRole(t, uri, rights);
    await inspectPostgres(asReader, 'gateway');
    await assert.rejects(
      inspectPostgres(asReader, 'consumer'),
      /the role lacks INSERT on events, INSERT on events_quarantine, DELETE on events_quarantine/,
    );
    await postgres.server.query(uri, `REVOKE SELECT ON events_quarantine, events_migrations FROM ${role}`);
    await assert.rejects(inspectPostgres(asReader, 'gateway'), /the role lacks SELECT on events_quarantine$/);
    await postgres.server.query(uri, 'REVOKE USAGE ON SCHEMA public FROM PUBLIC');
    await assert.rejects(inspectPostgres(asReader, 'gateway'), /the role lacks USAGE on the schema/);
    await postgres.server.query(uri, `ALTER ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 1`);
    const limited = Object.assign(new URL(uri), { username: role, password: 'x' }).href;
    await assert.rejects(inspectPostgres(limited, 'gateway'), /too many connections for role/);
  });
});
