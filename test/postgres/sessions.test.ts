import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import pg from 'pg';
import { BatchTooSlow } from '../../lib/ingest/warehouse.ts';
import { assertOwnSessions, transacted } from '../../lib/postgres/sessions.ts';
import { eventually } from '../support/scope.ts';
import { event, Postgres } from '../support/postgres-suite.ts';
import { SYSTEM } from '../support/system.ts';

const TRIES = 3;

const postgres = new Postgres();

describe('the sessions of the PostgreSQL warehouse', () => {
  const SESSIONS = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ingest'`;

  it('do not depend on settings of the database that change what a query returns', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t);
    await warehouse.land([event('exact')]);
    const before = await warehouse.find('exact', 'shop');
    assert.equal(before.kind, 'landed');
    const name = new URL(uri).pathname.slice(1);
    for (const setting of ['extra_float_digits = -15', "bytea_output = 'escape'", "DateStyle = 'German'"])
      await postgres.server.query(uri, `ALTER DATABASE "${name}" SET ${setting}`);
    const again = postgres.warehouse(t, uri);
    assert.deepEqual(await again.find('exact', 'shop'), before);
  });

  it('do not lock a table while their client is frozen', async (t) => {
    // This timeout is long because the process below may be slow to start.
    const { uri, warehouse } = await postgres.prepared(t, { callTimeoutMs: 120_000, connectionsMax: 2 });
    const holder = await postgres.session(t, uri);
    const [{ pid } = { pid: 0 }] = (await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
    holder.on('error', () => undefined);
    await holder.query('BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE');
    const landed = warehouse.land([event('sent')]);
    await eventually('it waits for the table', async () => {
      const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COPY events%'`;
      return (await postgres.server.query(uri, waiting)).length === 1;
    });
    // execFileSync blocks this process until the other process has locked the table.
    const lock = `import pg from 'pg';
      const client = new pg.Client({ connectionString: ${JSON.stringify(uri)} });
      await client.connect();
      await client.query("SET lock_timeout = '20s'");
      await client.query('SELECT pg_terminate_backend(${pid})');
      await client.query('BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE');
      await client.end();`;
    execFileSync(process.execPath, ['--input-type=module', '-e', lock], { stdio: ['ignore', 'ignore', 'inherit'] });
    assert.deepEqual(await landed, ['landed']);
  });

  it('never exceed the size of the pool, however long a lock is held', async (t) => {
    // A lock request times out after 80 % of this time, and a statement after 90 %.
    const { uri, warehouse } = await postgres.prepared(t, { callTimeoutMs: 3_000, connectionsMax: 2 });
    const holder = await postgres.session(t, uri);
    await holder.query('BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE');
    let most = 0;
    for (let tries = 0; tries < TRIES; tries += 1) {
      // A lock says nothing about the size of a batch.
      const landing = assert.rejects(warehouse.land([event('one')]), (cause) => !(cause instanceof BatchTooSlow));
      assert.deepEqual(await warehouse.find('one', 'shop'), { kind: 'unavailable' });
      most = Math.max(most, (await postgres.server.query(uri, SESSIONS)).length);
      await landing;
    }
    assert.ok(most >= 1 && most <= 2, `${most} sessions`);
    await holder.query('COMMIT');
    assert.deepEqual(await warehouse.land([event('one')]), ['landed']);
  });

  it('cancel a slow statement on the server, and report that the batch was too slow', async (t) => {
    const { uri, warehouse } = await postgres.prepared(t, { callTimeoutMs: 2_000, connectionsMax: 2 });
    const sql = `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.15); RETURN NEW; END $$;
       CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION slow();`;
    await postgres.server.query(uri, sql);
    const batch = Array.from({ length: 20 }, (_, at) => event(`order-${at}`));
    await assert.rejects(warehouse.land(batch), BatchTooSlow);
    assert.deepEqual(await warehouse.land(batch.slice(0, 2)), ['landed', 'landed'], 'a smaller one lands');
  });

  it('commit synchronously even if the default of the database does not, and keep a stricter one', async (t) => {
    const { uri } = await postgres.prepared(t);
    const sql = `CREATE TABLE noted (setting text);
       CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
       CREATE TRIGGER note AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION note();`;
    await postgres.server.query(uri, sql);
    const name = new URL(uri).pathname.slice(1);
    for (const setting of ['off', 'local', 'on', 'remote_apply']) {
      await postgres.server.query(uri, `ALTER DATABASE ${name} SET synchronous_commit = '${setting}'`);
      await postgres.warehouse(t, uri).land([event(setting)]);
    }
    const noted = await postgres.server.query(uri, 'SELECT setting FROM noted');
    assert.equal(noted.map((row) => String(row['setting'])).join(), 'on,on,on,remote_apply');
  });

  it('retry a transaction after a serialization failure', async (t) => {
    const uri = await postgres.server.freshDatabase();
    const sql = `ALTER DATABASE ${new URL(uri).pathname.slice(1)} SET default_transaction_isolation = 'serializable'`;
    await postgres.server.query(uri, sql);
    const { warehouse } = await postgres.prepared(t, { uri });
    // After a batch with a repeated event, the warehouse writes the next batches with INSERT instead of COPY.
    await warehouse.land([event('first')]);
    await warehouse.land([event('first')]);
    const other = await postgres.session(t, uri);
    await other.query('BEGIN');
    await other.query(`INSERT INTO events VALUES ('one', 't', 'shop', now(), now(), '{}')`);
    // A session that does not retry fails with an error of class 40.
    const bare = await postgres.session(t, uri);
    const refused = assert.rejects(
      bare.query(`INSERT INTO events VALUES ('one', 't', 'shop', now(), now(), '{}') ON CONFLICT (id) DO NOTHING`),
      { code: '40001' },
    );
    const landing = warehouse.land([event('one'), event('two')]);
    await eventually(
      'both wait for the other one',
      async () => (await postgres.server.query(uri, 'SELECT 1 FROM pg_locks WHERE NOT granted')).length === 2,
    );
    await other.query('COMMIT');
    await refused;
    assert.deepEqual(await landing, ['reused', 'landed'], 'its row has another body');
  });

  it('are refused if two connections have one session, as with a pooler in transaction mode', async (t) => {
    const uri = await postgres.server.freshDatabase();
    const [one, other] = [await postgres.session(t, uri), await postgres.session(t, uri)];
    const poolOf = (...clients: readonly pg.Client[]) => {
      const left = [...clients];
      const connect = (): Promise<unknown> =>
        Promise.resolve(Object.assign(left.shift() as pg.Client, { release: () => undefined }));
      return { options: { max: 2 }, connect } as unknown as pg.Pool;
    };
    await assert.rejects(assertOwnSessions(poolOf(one, one)), /a pooler shares sessions among clients/);
    await assertOwnSessions(poolOf(one, other));
  });

  it('try a transaction up to six times if it deadlocks', async () => {
    const failing = (times: number) => {
      let calls = 0;
      return async (): Promise<number> => {
        calls += 1;
        if (calls <= times) throw Object.assign(new pg.DatabaseError('deadlock', 0, 'error'), { code: '40P01' });
        return calls;
      };
    };
    assert.equal(await transacted(SYSTEM, failing(5)), 6);
    await assert.rejects(transacted(SYSTEM, failing(6)), { code: '40P01' });
  });
});
