import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { InProcess, landing, no } from './in-process.ts';

const SECRET = 'sensitive-personal-data';
const body = (id: string): string => JSON.stringify({ id, type: 't', name: SECRET });
const NONE = { entries: 0, landed: 0, quarantined: 0, erased: 0, waiting: 0, missing: 0, bodiesBack: 0 };

type Found = typeof NONE & {
  readonly filled?: number;
  readonly hours: readonly (typeof NONE & { readonly hour: string; readonly producer: string })[];
  readonly missingEvents: readonly { readonly id: string }[];
};

describe('reconcile', () => {
  const admin = new InProcess();
  const add = (id: string, producer = 'shop', text = body(id), entry = '*'): Promise<unknown> =>
    admin.redis.command('XADD', 'ingest', entry, 'producer', producer, 'body', text);
  const sql = (statement: string): void => {
    const database = new DatabaseSync(admin.path, { timeout: 5_000 });
    database.exec(statement);
    database.close();
  };
  const assertFound = async (t: TestContext, expected: Partial<typeof NONE>, code = 0, line = ''): Promise<Found> => {
    const ended = await admin.run(t, `reconcile --json${line}`);
    assert.equal(ended.code, code, ended.err + String(ended.failure));
    const report = JSON.parse(ended.out) as Found;
    const { filled: _, hours: _hours, missingEvents: _events, ...sums } = report;
    assert.deepEqual(sums, { ...NONE, ...expected });
    return report;
  };
  const ids = (t: TestContext): string =>
    admin
      .rows(t, 'SELECT id FROM events')
      .map((row) => (row as { id: string }).id)
      .toSorted()
      .join();

  it('finds nothing on an empty queue, and no row without an entry', async (t) => {
    await admin.warehouse.land([landing('lost by the queue')]);
    assert.deepEqual((await assertFound(t, {})).hours, []);
  });

  it('counts events by their place, per hour and producer', async (t) => {
    const { stop } = await admin.consume(t);
    for (const id of ['a', 'b', 'c']) await admin.accept(t, id, body(id));
    await admin.landed();
    await add('a', 'other');
    await add('bad', 'other', 'no json');
    await add('d', 'other', body('d'));
    await admin.landed();
    assert.equal((await admin.run(t, 'erase b')).code, 0);
    await admin.landed();
    await stop();
    await add('later');
    sql("DELETE FROM events WHERE id = 'd'");
    const { hours, missingEvents } = await assertFound(
      t,
      { entries: 7, landed: 2, quarantined: 2, erased: 1, waiting: 1, missing: 1 },
      1,
    );
    const perProducer = hours.map(({ producer, entries, missing }) => [producer, entries, missing]);
    const sum = perProducer.reduce((entries, [, some]) => entries + Number(some), 0);
    assert.equal(sum, 7);
    assert.ok(perProducer.some(([producer, , missing]) => producer === 'other' && missing === 1));
    assert.ok(hours.every(({ hour }) => /^20.*:00:00\.000Z$/.test(hour)));
    assert.deepEqual(
      missingEvents.map(({ id }) => id),
      ['d'],
    );
    const { out } = await admin.run(t, 'reconcile');
    assert.match(out, /^hour +producer +entries +landed +quarantined +erased +waiting +missing\n20/);
    assert.deepEqual(admin.audit(t).length, 1, 'only the erasure is recorded');
  });

  it('reports entries that the group has read and nobody acknowledged as waiting, until their member is deleted', async (t) => {
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    for (const id of ['a', 'b', 'c']) await add(id);
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'dead', 'COUNT', '2', 'STREAMS', 'ingest', '>');
    await assertFound(t, { entries: 3, waiting: 3 });
    await admin.redis.command('XGROUP', 'DELCONSUMER', 'ingest', 'warehouse', 'dead');
    await assertFound(t, { entries: 3, waiting: 1, missing: 2 }, 1);
    await admin.consume(t);
    await admin.landed();
    const { filled } = await assertFound(t, { entries: 3, landed: 1, missing: 2 }, 0, ' --land');
    assert.deepEqual([filled, ids(t)], [2, 'a,b,c']);
    await admin.landed();
    await assertFound(t, { entries: 3, landed: 3 });
  });

  it('lands exactly the missing events, and changes nothing after a no', async (t) => {
    await admin.consume(t);
    for (let at = 0; at < 30; at += 1) await add(`e-${at}`);
    await add('conflict', 'other');
    await admin.landed();
    await add('conflict', 'shop');
    await admin.landed();
    const before = admin.rows(t, 'SELECT id, landed_at FROM events');
    sql("DELETE FROM events WHERE id LIKE 'e-1%'; DELETE FROM events_quarantine");
    assert.equal((await admin.run(t, 'reconcile --land', { confirm: no })).code, 1);
    assert.equal(admin.rows(t, 'SELECT id FROM events').length, 20);
    const { filled } = await assertFound(t, { entries: 32, landed: 20, missing: 12 }, 0, ' --land');
    assert.equal(filled, 12);
    assert.equal(admin.rows(t, 'SELECT id FROM events').length, 31);
    const again = new Set(admin.rows(t, 'SELECT id, landed_at FROM events').map((row) => JSON.stringify(row)));
    assert.equal(before.filter((row) => again.has(JSON.stringify(row))).length, 20, 'the other rows did not change');
    assert.deepEqual(admin.rows(t, 'SELECT producer FROM events_quarantine'), [{ producer: 'shop' }]);
    const audit = admin.audit(t) as { command: string; changed: number }[];
    assert.deepEqual(
      audit.map(({ command, changed }) => [command, changed]),
      [['reconcile', 12]],
    );
    await assertFound(t, { entries: 32, landed: 31, quarantined: 1 });
  });

  it('does not count an entry as landed that is acknowledged again without a row', async (t) => {
    const { stop } = await admin.consume(t);
    await add('a');
    await admin.landed();
    await stop();
    sql('DELETE FROM events');
    const { queue } = admin.session(t);
    const [stream] = queue.streams;
    const landAgain = stream?.landAgain.bind(stream);
    Object.assign(stream ?? {}, {
      landAgain: async (entries: Parameters<NonNullable<typeof landAgain>>[0]) => {
        const states = await landAgain?.(entries);
        await admin.redis.command('XACK', 'ingest', 'warehouse', ...entries.map(({ entry }) => entry));
        return states;
      },
    });
    const { code, out } = await admin.run(t, 'reconcile --land --json', { queue });
    assert.deepEqual([code, (JSON.parse(out) as Found).filled], [1, 0]);
    await assertFound(t, { entries: 1, missing: 1 }, 1);
  });

  it('treats a body that differs from the row of its id as missing, unless it is in the quarantine', async (t) => {
    await admin.consume(t);
    await add('a');
    await admin.landed();
    await add('a', 'shop', '{"id":"a","type":"t","n":2}');
    await admin.landed();
    await assertFound(t, { entries: 2, landed: 1, quarantined: 1 });
    sql('DELETE FROM events_quarantine');
    await assertFound(t, { entries: 2, landed: 1, missing: 1 }, 1);
    await assertFound(t, { entries: 2, landed: 1, missing: 1 }, 0, ' --land');
    await assertFound(t, { entries: 2, landed: 1, quarantined: 1 });
  });

  it('counts a repeated event, a replayed one, and ids with spaces as landed', async (t) => {
    await admin.consume(t);
    const binary = '{"id":"1","source":"/shop a","type":"t"}';
    for (let at = 0; at < 2; at += 1)
      await admin.redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', binary, 'id', '/shop 1');
    await add('a');
    await admin.landed();
    await add('a', 'SHOP');
    await admin.landed();
    await assertFound(t, { entries: 4, landed: 4 });
    sql("CREATE TRIGGER refused BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END");
    await add('b');
    await admin.landed();
    await assertFound(t, { entries: 5, landed: 4, quarantined: 1 });
    sql('DROP TRIGGER refused');
    assert.equal((await admin.run(t, 'quarantine replay --all')).code, 0);
    await assertFound(t, { entries: 6, landed: 6 });
  });

  it('does not land dropped quarantine rows again', async (t) => {
    await admin.consume(t);
    await add('x', 'shop', 'no json');
    await add('y', 'shop', 'neither');
    await admin.landed();
    assert.equal((await admin.run(t, 'quarantine drop --all')).code, 0);
    await assertFound(t, { entries: 2, erased: 2 });
    await assertFound(t, { entries: 2, erased: 2 }, 0, ' --land');
    assert.deepEqual(admin.rows(t, 'SELECT entry FROM events_quarantine'), []);
  });

  it('erases again what a restored warehouse brings back, by the notes on the queue', async (t) => {
    await admin.consume(t);
    for (const id of ['a', 'b', 'c']) await admin.accept(t, id, body(id));
    await admin.accept(t, 'x', `{"id":"x","name":"${SECRET}"}`);
    await admin.landed();
    sql('CREATE TABLE saved AS SELECT * FROM events; CREATE TABLE saved_q AS SELECT * FROM events_quarantine');
    for (const id of ['a', 'x']) assert.equal((await admin.run(t, `erase ${id}`)).code, 0);
    await admin.landed();
    sql(`DELETE FROM events; INSERT INTO events SELECT * FROM saved WHERE id <> 'c';
      DELETE FROM events_quarantine; INSERT INTO events_quarantine SELECT * FROM saved_q; DELETE FROM ingest_audit;
      DROP TABLE saved; DROP TABLE saved_q`);
    await assertFound(t, { entries: 4, landed: 1, erased: 2, missing: 1, bodiesBack: 2 }, 1);
    await assertFound(t, { entries: 4, landed: 1, erased: 2, missing: 1, bodiesBack: 2 }, 0, ' --land');
    await assertFound(t, { entries: 4, landed: 2, erased: 2 });
    const bodies = admin.rows(
      t,
      'SELECT CAST(body AS TEXT) AS body FROM events UNION ALL SELECT CAST(body AS TEXT) FROM events_quarantine',
    );
    assert.equal(bodies.filter((row) => JSON.stringify(row).includes(SECRET)).length, 2, 'b and c');
    assert.equal(admin.rows(t, "SELECT what FROM ingest_audit WHERE command = 'erase'").length > 0, true);
  });

  it('erases again what a restored queue brings back, by the record in the warehouse', async (t) => {
    const { stop } = await admin.consume(t);
    for (const id of ['a', 'b c']) await admin.accept(t, id, body(id));
    await admin.landed();
    await stop();
    const keys = (await admin.redis.command('KEYS', '*')) as string[];
    for (const key of keys) await admin.redis.command('COPY', key, `saved ${key}`, 'DB', '1');
    const file = join(temporaryFolder(), 'ids');
    writeFileSync(file, 'a\nb c\n');
    const slow = { clock: { ...SYSTEM.clock, epochMs: () => Date.now() - 3_600_000 } };
    assert.equal((await admin.run(t, `erase --file ${file}`, slow)).code, 0);
    await admin.redis.command('FLUSHDB');
    await admin.redis.command('SELECT', '1');
    for (const key of keys) await admin.redis.command('COPY', `saved ${key}`, key, 'DB', '0');
    await admin.redis.command('FLUSHDB');
    await admin.redis.command('SELECT', '0');
    await assertFound(t, { entries: 2, erased: 2, bodiesBack: 2 }, 1);
    sql('DELETE FROM events');
    await admin.consume(t);
    await assertFound(t, { entries: 2, erased: 2, bodiesBack: 2 }, 0, ' --land');
    await admin.landed();
    const everything = JSON.stringify([await admin.redis.entries(), admin.rows(t, 'SELECT body FROM events')]);
    assert.ok(!everything.includes(SECRET), everything);
    assert.equal(ids(t), 'a,b c');
    await assertFound(t, { entries: 2, erased: 2 });
  });

  it('fails with --land while a consumer holds the entry of an erased event, and erases it once it is acknowledged', async (t) => {
    assert.equal((await admin.run(t, 'erase a')).code, 1, 'unknown, but noted');
    const entry = String(await add('a'));
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'holder', 'STREAMS', 'ingest', '>');
    await admin.redis.command('ZADD', '{ingest}:replicas', String(Date.now() + 60_000), 'holder');
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { ms: () => 50 * SYSTEM.clock.ms() });
    const file = join(temporaryFolder(), 'ingest.prom');
    const held = await admin.run(t, `reconcile --land --metrics ${file}`, { clock });
    assert.deepEqual([held.code, /1 body held by a consumer/.test(held.out)], [1, true], held.out);
    assert.match(readFileSync(file, 'utf8'), /^ingest_reconcile_bodies_back 1$/m);
    assert.match(JSON.stringify(await admin.redis.entries()), new RegExp(SECRET));
    await admin.redis.command('XACK', 'ingest', 'warehouse', entry);
    await assertFound(t, { entries: 1, erased: 1, bodiesBack: 1 }, 0, ' --land');
    assert.doesNotMatch(JSON.stringify(await admin.redis.entries()), new RegExp(SECRET));
  });

  it('does not report the bodies of events that another command has begun to erase, and erases them with --land', async (t) => {
    await admin.consume(t);
    for (const id of ['a', 'b']) await admin.accept(t, id, body(id));
    await admin.landed();
    // Each stream has the note of the event that is being erased now; the warehouse has the record of both.
    const { warehouse, queue } = admin.session(t);
    const record = { id: 'running', atMs: Date.now(), actor: 'me', command: 'erase', what: 'a\nb\n' };
    await warehouse.audit({ ...record, changed: undefined });
    await queue.streams[0]?.noteErasure('a');
    const { code, err, out } = await admin.run(t, 'reconcile');
    assert.equal(code, 0, out);
    assert.equal(err, '2 events not checked: another command is erasing them\n');
    sql(`UPDATE ingest_audit SET at = '${new Date(Date.now() - 3_700_000).toISOString()}'`);
    await assertFound(t, { entries: 2, landed: 1, erased: 1, bodiesBack: 1 }, 1);
    sql(`UPDATE ingest_audit SET at = '${new Date().toISOString()}'`);
    await assertFound(t, { bodiesBack: 2 }, 0, ' --land');
    await warehouse.audit({ ...record, changed: 2 });
    await admin.landed();
    await assertFound(t, { entries: 2, erased: 2 });

    // A command that was killed and then run again has ended, so a body that is back is reported.
    await warehouse.audit({ ...record, id: 'killed', changed: undefined });
    const atMs = Date.now() + 1;
    await warehouse.audit({ ...record, id: 'again', atMs, changed: 2 });
    sql(`UPDATE events SET body = '${body('a')}' WHERE id = 'a'`);
    const again = await admin.run(t, 'reconcile --json');
    assert.deepEqual([again.code, again.err, (JSON.parse(again.out) as Found).bodiesBack], [1, '', 1]);
  });

  it('keeps a new event whose id was erased and then pruned', async (t) => {
    await admin.consume(t);
    assert.equal((await admin.run(t, 'erase a')).code, 1, 'unknown, but noted');
    sql("UPDATE ingest_audit SET at = '2026-01-01T00:00:00.000Z'");
    await admin.redis.command('ZADD', '{ingest}:erased', '1', 'a');
    await add('a');
    await admin.landed();
    await assertFound(t, { entries: 1, landed: 1 }, 0, ' --land');
    assert.match(JSON.stringify(admin.rows(t, 'SELECT body FROM events')), new RegExp(SECRET));
  });

  it('counts the entries of a queue without a group as waiting', async (t) => {
    await add('a');
    await assertFound(t, { entries: 1, waiting: 1 });
  });

  it('prints what the other partitions have if one is unavailable, then fails, and writes no metrics', async (t) => {
    await add('a');
    const [stream = assert.fail()] = admin.queue(t, admin.redis.uri).streams;
    const [away = assert.fail()] = admin.away(t).streams;
    const file = join(temporaryFolder(), 'ingest.prom');
    const queue = { uri: '', streams: [away, stream] };
    const { out, failure } = await admin.run(t, `reconcile --json --metrics ${file}`, { queue });
    assert.ok(failure instanceof QueueFailed);
    assert.deepEqual([(JSON.parse(out) as Found).waiting, existsSync(file)], [1, false]);
  });

  it('counts an event once if its body is back in several places, and lands what is missing while a partition is unavailable', async (t) => {
    await admin.consume(t);
    for (const id of ['a', 'b']) await admin.accept(t, id, body(id));
    await admin.landed();
    assert.equal((await admin.run(t, 'erase a')).code, 0);
    await admin.landed();
    sql(`UPDATE events SET body = '${body('a')}' WHERE id = 'a'; DELETE FROM events WHERE id = 'b'`);
    await assertFound(t, { entries: 2, erased: 1, missing: 1, bodiesBack: 1 }, 1);
    const { streams } = admin.queue(t, admin.redis.uri);
    const queue = { uri: '', streams: [...streams, ...admin.away(t).streams] };
    const { out, failure } = await admin.run(t, 'reconcile --land --json', { queue });
    assert.ok(failure instanceof QueueFailed);
    assert.equal((JSON.parse(out) as Found).filled, 1);
    await assertFound(t, { entries: 2, landed: 1, erased: 1, bodiesBack: 1 }, 0, ' --land');
    await assertFound(t, { entries: 2, landed: 1, erased: 1 });
  });

  it('leaves out entries that are older than a day and have landed', async (t) => {
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    await add('old', 'shop', body('old'), `${Date.now() - 90_000_000}-0`);
    await add('new', 'shop', body('new'), `${Date.now() - 80_000_000}-0`);
    await assertFound(t, { entries: 2, waiting: 2 });
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'one', 'STREAMS', 'ingest', '>');
    await admin.redis.command('XGROUP', 'DELCONSUMER', 'ingest', 'warehouse', 'one');
    await assertFound(t, { entries: 1, missing: 1 }, 1);
  });

  it('says that no consumer runs, and the events land once one does', async (t) => {
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    await add('a');
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'one', 'STREAMS', 'ingest', '>');
    await admin.redis.command('XGROUP', 'DELCONSUMER', 'ingest', 'warehouse', 'one');
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { ms: () => 50 * SYSTEM.clock.ms() });
    const { code, err } = await admin.run(t, 'reconcile --land', { clock });
    assert.deepEqual([code, /no consumer is running: 1 event will land/.test(err)], [1, true], err);
    await assertFound(t, { entries: 1, waiting: 1 });
    await admin.consume(t);
    await admin.landed();
    assert.equal(ids(t), 'a');
  });

  it('writes its result for a textfile collector, and reads at the rate it was given', async (t) => {
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    for (let at = 0; at < 20; at += 1) await add(`e-${at}`);
    const file = join(temporaryFolder(), 'ingest.prom');
    const startMs = Date.now();
    await assertFound(t, { entries: 20, waiting: 20 }, 0, ` --rate 40 --metrics ${file}`);
    assert.ok(Date.now() - startMs >= 490);
    const metrics = readFileSync(file, 'utf8');
    assert.match(metrics, /^ingest_reconcile_events\{place="waiting"\} 20$/m);
    assert.match(metrics, /^ingest_reconcile_events\{place="missing"\} 0$/m);
    assert.match(metrics, /^ingest_reconcile_end_timestamp_seconds \d+\.\d{3}$/m);
    const [link, pipe] = [`${file}.link`, `${file}.pipe`];
    symlinkSync(file, link);
    assert.equal((await admin.run(t, `reconcile --metrics ${link}`)).code, 0);
    execFileSync('mkfifo', [pipe]);
    const { failure } = await admin.run(t, `reconcile --metrics ${pipe}`);
    assert.equal((failure as Error).message, `--metrics ${pipe}: expected a regular file`);
    assert.ok(lstatSync(link).isSymbolicLink() && lstatSync(pipe).isFIFO());
  });
});
