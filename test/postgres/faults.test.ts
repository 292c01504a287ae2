import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { BatchRefused, BatchTooSlow, type LandingEvent, type Warehouse } from '../../lib/ingest/warehouse.ts';
import { WarehouseFailed, type WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import { createPostgresAdmin } from '../../lib/postgres/admin.ts';
import { inspectPostgres } from '../../lib/postgres/inspect.ts';
import { createPostgresWarehouse } from '../../lib/postgres/warehouse.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { openLink, type Link } from '../support/link.ts';
import { SYSTEM } from '../support/system.ts';

const event = (id: string): LandingEvent => ({
  id,
  type: 't',
  producer: 'shop',
  body: Buffer.from(`{"id":"${id}","type":"t"}`),
  acceptedAtMs: 7,
});
describe('a PostgreSQL server with faults', () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres();
  });
  after(() => server.stop());

  const open = async (t: TestContext, uri: string, callTimeoutMs?: number): Promise<Warehouse> => {
    const warehouse = createPostgresWarehouse({
      ...SYSTEM,
      uri,
      connectionsMax: 1,
      ...(callTimeoutMs === undefined ? {} : { callTimeoutMs, connectTimeoutMs: callTimeoutMs }),
    });
    t.after(() => warehouse.close());
    await warehouse.prepare();
    return warehouse;
  };
  const adminOf = (t: TestContext, uri: string): WarehouseAdmin => {
    const admin = createPostgresAdmin(uri, SYSTEM);
    t.after(() => admin.close());
    return admin;
  };
  const linked = async (t: TestContext, direct: string): Promise<{ uri: string; link: Link }> => {
    const target = new URL(direct);
    const folder = target.searchParams.get('host');
    const port = Number(target.port || 5432);
    const link = await openLink(
      folder === null ? { host: target.hostname, port } : { path: `${folder}/.s.PGSQL.${port}` },
    );
    t.after(() => link.close());
    const uri = new URL(direct);
    uri.searchParams.delete('host');
    uri.hostname = '127.0.0.1';
    uri.port = String(link.port);
    return { uri: uri.href, link };
  };

  it('gets a new connection after a COPY that timed out', async (t) => {
    const uri = await server.freshDatabase();
    const warehouse = await open(t, uri, 2_000);
    await warehouse.land([event('before')]);
    const sessions = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ingest'`;
    const [{ pid } = { pid: 0 }] = await server.query<{ pid: number }>(uri, sessions);
    process.kill(pid, 'SIGSTOP');
    try {
      await assert.rejects(warehouse.land([event('during')]), BatchTooSlow);
      assert.deepEqual(await warehouse.land([event('after')]), ['landed'], 'over another one');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    assert.equal((await warehouse.find('before', 'shop')).kind, 'landed');
    const left = (await server.query<{ pid: number }>(uri, sessions)).map((session) => session.pid);
    assert.ok(left.some((other) => other !== pid));
  });

  it("is available if an operator's trigger raises an error: it refuses that event", async (t) => {
    const uri = await server.freshDatabase();
    const warehouse = await open(t, uri);
    await server.query(
      uri,
      `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF NEW.id = 'bad' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;
       CREATE TRIGGER no BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION no();`,
    );
    await assert.rejects(
      warehouse.land([event('good'), event('bad')]),
      (cause) => cause instanceof BatchRefused && cause.message === 'P0001',
    );
    assert.deepEqual(await warehouse.land([event('good')]), ['landed']);
    const admin = adminOf(t, uri);
    await admin.land({ ...event('bad'), body: Buffer.from('{}') });
    assert.equal(await admin.landed('bad'), undefined, 'the admin takes it for a refusal too');
  });

  it('is reported as unavailable, with the masked URI, by every admin method', async (t) => {
    const { uri, link } = await linked(t, await server.freshDatabase());
    const admin = adminOf(t, uri);
    link.cut();
    await assert.rejects(admin.counts(), WarehouseFailed);
    await assert.rejects(admin.present(['a']), WarehouseFailed);
    await assert.rejects(admin.land(event('one')), WarehouseFailed);
    link.mend();
    await assert.rejects(admin.counts(), (cause) => cause instanceof WarehouseFailed && /events/.test(cause.message));
    await open(t, uri);
    assert.deepEqual(await admin.counts(), { events: 0, estimated: false, quarantine: [] });
  });

  it('compares repeated events itself and returns no bodies', async (t) => {
    const { uri, link } = await linked(t, await server.freshDatabase());
    const warehouse = await open(t, uri);
    const long = (id: string, fill: string): LandingEvent => ({
      ...event(id),
      body: Buffer.from(`{"id":"${id}","type":"t","data":"${fill.repeat(250_000)}"}`),
    });
    const ids = Array.from({ length: 8 }, (_, at) => `long-${at}`);
    await warehouse.land(ids.map((id) => long(id, 'a')));
    const before = link.received;
    assert.deepEqual(new Set(await warehouse.land(ids.map(event))), new Set(['reused']));
    assert.deepEqual(new Set(await warehouse.land(ids.map((id) => long(id, 'b')))), new Set(['reused']));
    assert.deepEqual(new Set(await warehouse.haveLanded(ids.map((id) => long(id, 'a')))), new Set([true]));
    assert.ok(link.received - before < 40_000, `${link.received - before} bytes`);
  });

  it('is inspected without a change, and missing rights are named', async (t) => {
    const uri = await server.freshDatabase();
    for (const program of ['consumer', 'gateway'] as const) await inspectPostgres(uri, program);
    assert.deepEqual(await server.query(uri, `SELECT 1 FROM pg_tables WHERE schemaname = 'public'`), []);
    await open(t, uri);
    await inspectPostgres(uri, 'consumer');
    const role = `ingest_test_faults_${process.pid}`;
    await server.query(
      uri,
      `CREATE ROLE ${role}; GRANT SELECT ON events, events_quarantine, events_migrations TO ${role}`,
    );
    t.after(() => server.query(uri, `DROP OWNED BY ${role}; DROP ROLE ${role}`));
    const asReader = new URL(uri);
    asReader.searchParams.set('options', `-c role=${role}`);
    await inspectPostgres(asReader.href, 'gateway');
    await assert.rejects(
      inspectPostgres(asReader.href, 'consumer'),
      /the role lacks INSERT on events, INSERT on events_quarantine, DELETE on events_quarantine/,
    );
    await server.query(uri, `REVOKE SELECT ON events_quarantine, events_migrations FROM ${role}`);
    await assert.rejects(inspectPostgres(asReader.href, 'gateway'), /the role lacks SELECT on events_quarantine$/);
    await server.query(uri, 'REVOKE USAGE ON SCHEMA public FROM PUBLIC');
    await assert.rejects(inspectPostgres(asReader.href, 'gateway'), /the role lacks USAGE on the schema/);
  });
});
