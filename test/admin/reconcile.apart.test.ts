import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { UsageError } from '../../lib/admin/session.ts';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { InProcess, landing, no } from './in-process.ts';

const SECRET = 'sensitive-personal-data';
const body = (id: string): string => JSON.stringify({ id, type: 't', name: SECRET });
const NONE = { entries: 0, landed: 0, quarantined: 0, erased: 0, waiting: 0, missing: 0, bodiesBack: 0 };

interface Found {
  readonly filled?: number;
  readonly hours: readonly unknown[];
}

describe('reconcile', () => {
  const admin = new InProcess();
  const add = (id: string, producer = 'shop', text = body(id), entry = '*'): Promise<unknown> =>
    admin.redis.command('XADD', 'ingest', entry, 'producer', producer, 'body', text);
  const assertFound = async (t: TestContext, expected: Partial<typeof NONE>, code = 0, line = ''): Promise<Found> => {
    const ended = await admin.run(t, `reconcile --json${line}`);
    assert.equal(ended.code, code, ended.err + String(ended.failure));
    const report = JSON.parse(ended.out) as Found;
    assert.deepEqual(report, { ...report, ...NONE, ...expected });
    return report;
  };
  const ids = (): string => admin.column('SELECT id FROM events ORDER BY id').join();
  const group = (): Promise<unknown> => admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
  /** Acknowledges entries without a row: the group forgets the member that read them. */
  const read = (...count: string[]): Promise<unknown> =>
    admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'dead', ...count, 'STREAMS', 'ingest', '>');
  const forget = (): Promise<unknown> => admin.redis.command('XGROUP', 'DELCONSUMER', 'ingest', 'warehouse', 'dead');
  /** Accepts events, and waits until they have landed. */
  const land = async (t: TestContext, ...names: readonly string[]): Promise<void> => {
    for (const id of names) await admin.accept(t, id, body(id));
    await admin.landed();
  };
  /** A clock that runs 50 times as fast. */
  const fast = Object.assign(Object.create(SYSTEM.clock) as Clock, { ms: () => 50 * SYSTEM.clock.ms() });

  it('finds nothing on an empty queue, and no row without an entry', async (t) => {
    await admin.warehouse.land([landing('lost by the queue')]);
    assert.deepEqual((await assertFound(t, {})).hours, []);
  });

  it('counts events by their place, per hour and producer', async (t) => {
    const { stop } = await admin.consume(t);
    await land(t, 'a', 'b', 'c');
    await add('a', 'other');
    await add('bad', 'other', 'no json');
    await add('d', 'other', body('d'));
    await admin.landed();
    await admin.assertShows(t, 'erase b', 0);
    await admin.landed();
    await stop();
    await add('later');
    admin.sql("DELETE FROM events WHERE id = 'd'");
    await assertFound(t, { entries: 7, landed: 2, quarantined: 2, erased: 1, waiting: 1, missing: 1 }, 1);
    const head = 'hour +producer +entries +landed +quarantined +erased +waiting +missing\n';
    const rows = '(20[-\\dT]+:00Z +(shop|other)( +\\d)+\n)+all +7 +2 +2 +1 +1 +1\n';
    await admin.assertShows(t, 'reconcile', 1, new RegExp(`^${head}${rows}missing: ingest [-\\d]+ of other: d\n$`));
    assert.deepEqual(admin.audit(), [['erase', 'b', 1]]);
  });

  it('reports entries that the group has read and nobody acknowledged as waiting, until their member is deleted', async (t) => {
    await group();
    for (const id of ['a', 'b', 'c']) await add(id);
    await read('COUNT', '2');
    await assertFound(t, { entries: 3, waiting: 3 });
    await forget();
    await assertFound(t, { entries: 3, waiting: 1, missing: 2 }, 1);
    await admin.consume(t);
    await admin.landed();
    const file = join(temporaryFolder(), 'ingest.prom');
    const { filled } = await assertFound(t, { entries: 3, landed: 1, missing: 2 }, 0, ` --land --metrics ${file}`);
    assert.deepEqual([filled, ids()], [2, 'a,b,c']);
    assert.match(readFileSync(file, 'utf8'), /place="landed"\} 3\n[^]*place="missing"\} 0\n/);
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
    const rows = (): string[] => admin.rows('SELECT id, landed_at FROM events').map((row) => JSON.stringify(row));
    const before = rows();
    admin.sql("DELETE FROM events WHERE id LIKE 'e-1%'; DELETE FROM events_quarantine");
    await admin.assertShows(t, 'reconcile --land', 1, '', '', { confirm: no });
    assert.equal(rows().length, 20);
    const { filled } = await assertFound(t, { entries: 32, landed: 20, missing: 12 }, 0, ' --land');
    assert.equal(filled, 12);
    assert.equal(rows().length, 31);
    assert.equal(before.filter((row) => rows().includes(row)).length, 20, 'the other rows did not change');
    assert.deepEqual(admin.column('SELECT producer FROM events_quarantine'), ['shop']);
    assert.deepEqual(admin.audit(), [['reconcile', '--land', 12]]);
    await assertFound(t, { entries: 32, landed: 31, quarantined: 1 });
  });

  it('does not count an entry as landed that is acknowledged again without a row', async (t) => {
    const { stop } = await admin.consume(t);
    await add('a');
    await admin.landed();
    await stop();
    admin.sql('DELETE FROM events');
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
    await admin.assertShows(t, 'reconcile --land --json', 1, /"filled":0,/, undefined, { queue });
    await assertFound(t, { entries: 1, missing: 1 }, 1);
  });

  it('treats a body that differs from the row of its id as missing, unless it is in the quarantine', async (t) => {
    await admin.consume(t);
    await add('a');
    await admin.landed();
    await add('a', 'shop', '{"id":"a","type":"t","n":2}');
    await admin.landed();
    await assertFound(t, { entries: 2, landed: 1, quarantined: 1 });
    admin.sql('DELETE FROM events_quarantine');
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
    admin.sql("CREATE TRIGGER refused BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END");
    await add('b');
    await admin.landed();
    await assertFound(t, { entries: 5, landed: 4, quarantined: 1 });
    admin.sql('DROP TRIGGER refused');
    await admin.assertShows(t, 'quarantine replay --all', 0);
    await assertFound(t, { entries: 6, landed: 6 });
  });

  it('does not land dropped quarantine rows again', async (t) => {
    await admin.consume(t);
    await add('x', 'shop', 'no json');
    await add('y', 'shop', 'neither');
    await admin.landed();
    await admin.assertShows(t, 'quarantine drop --all', 0);
    await assertFound(t, { entries: 2, erased: 2 });
    await assertFound(t, { entries: 2, erased: 2 }, 0, ' --land');
    assert.deepEqual(admin.column('SELECT entry FROM events_quarantine'), []);
  });

  it('erases again what a restored warehouse brings back, by the notes on the queue', async (t) => {
    await admin.consume(t);
    for (const id of ['a', 'b', 'c']) await admin.accept(t, id, body(id));
    await admin.accept(t, 'x', `{"id":"x","name":"${SECRET}"}`);
    await admin.landed();
    admin.sql('CREATE TABLE saved AS SELECT * FROM events; CREATE TABLE saved_q AS SELECT * FROM events_quarantine');
    for (const id of ['a', 'x']) assert.equal((await admin.run(t, `erase ${id}`)).code, 0);
    // Later erasures, more than are read at a time.
    const later = Array.from({ length: 1_000 }, (_, at) => [String(Date.now() + 60_000), `later-${at}`]).flat();
    await admin.redis.command('ZADD', '{ingest}:erased', ...later);
    await admin.landed();
    admin.sql(`DELETE FROM events; INSERT INTO events SELECT * FROM saved WHERE id <> 'c';
      DELETE FROM events_quarantine; INSERT INTO events_quarantine SELECT * FROM saved_q; DELETE FROM ingest_audit;
      DROP TABLE saved; DROP TABLE saved_q`);
    // The restored warehouse also has the record of an earlier erasure of the same id.
    const earlier = {
      id: 'earlier',
      atMs: Date.now() - 90_000_000,
      actor: 'me',
      command: 'erase',
      what: 'a\n',
      changed: 1,
    };
    await admin.session(t).warehouse.audit(earlier);
    const file = join(temporaryFolder(), 'ingest.prom');
    const found = { entries: 4, landed: 1, erased: 2, missing: 1, bodiesBack: 2 };
    await assertFound(t, found, 1);
    await assertFound(t, found, 0, ` --land --metrics ${file}`);
    assert.match(readFileSync(file, 'utf8'), /^ingest_reconcile_bodies_back 0$/m, 'erased again');
    await assertFound(t, { entries: 4, landed: 2, erased: 2 });
    const all = 'SELECT CAST(body AS TEXT) FROM events UNION ALL SELECT CAST(body AS TEXT) FROM events_quarantine';
    assert.equal(admin.column(all).filter((one) => String(one).includes(SECRET)).length, 2, 'b and c');
    assert.ok(admin.column('SELECT command FROM ingest_audit').includes('erase'));
  });

  it('erases again what a restored queue brings back, by the record in the warehouse', async (t) => {
    const { stop } = await admin.consume(t);
    await land(t, 'a', 'b c');
    await stop();
    const keys = (await admin.redis.command('KEYS', '*')) as string[];
    for (const key of keys) await admin.redis.command('COPY', key, `saved ${key}`, 'DB', '1');
    const file = join(temporaryFolder(), 'ids');
    writeFileSync(file, 'a\nb c\n');
    const slow = { clock: { ...SYSTEM.clock, epochMs: () => Date.now() - 3_600_000 } };
    await admin.assertShows(t, `erase --file ${file}`, 0, undefined, undefined, slow);
    await admin.redis.command('FLUSHDB');
    await admin.redis.command('SELECT', '1');
    for (const key of keys) await admin.redis.command('COPY', `saved ${key}`, key, 'DB', '0');
    await admin.redis.command('FLUSHDB');
    await admin.redis.command('SELECT', '0');
    await assertFound(t, { entries: 2, erased: 2, bodiesBack: 2 }, 1);
    admin.sql('DELETE FROM events');
    await admin.consume(t);
    await assertFound(t, { entries: 2, erased: 2, bodiesBack: 2 }, 0, ' --land');
    await admin.landed();
    const everything = JSON.stringify([await admin.redis.entries(), admin.column('SELECT body FROM events')]);
    assert.ok(!everything.includes(SECRET), everything);
    assert.equal(ids(), 'a,b c');
    await assertFound(t, { entries: 2, erased: 2 });
  });

  it('fails with --land while a consumer holds the entry of an erased event, and erases it once it is acknowledged', async (t) => {
    // The id is unknown, but noted.
    await admin.assertShows(t, 'erase a', 1);
    await admin.accept(t, 'a', body('a'));
    const [{ entry } = assert.fail()] = await admin.redis.entries();
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'holder', 'STREAMS', 'ingest', '>');
    await admin.redis.command('ZADD', '{ingest}:replicas', String(Date.now() + 60_000), 'holder');
    const file = join(temporaryFolder(), 'ingest.prom');
    const line = `reconcile --land --metrics ${file}`;
    const server = admin.redis.uri.replace('redis://', '');
    const [first, other] = [admin.queue(t, admin.redis.uri), admin.queue(t, `dispatcher://${server},${server}`)];
    await admin.redis.command('XADD', 'ingest-a', '*', 'producer', 'shop', 'body', body('bystander'));
    const queue = { uri: '', streams: [...first.streams, ...other.streams] };
    await admin.assertShows(t, line, 1, /1 body held by a consumer/, undefined, { clock: fast, queue });
    let waitedMs = 0;
    const sleep = (ms: number) => Promise.resolve(void (waitedMs += ms));
    const clock = Object.assign(Object.create(SYSTEM.clock) as Clock, { ms: () => waitedMs, sleep });
    await admin.assertShows(t, 'erase a', 1, undefined, /^not done: a consumer holds 1 entry;/m, { clock });
    assert.ok(waitedMs > 29_000 && waitedMs < 31_000, String(waitedMs));
    assert.match(readFileSync(file, 'utf8'), /^ingest_reconcile_bodies_back 1$/m);
    assert.match(JSON.stringify(await admin.redis.entries()), new RegExp(SECRET));
    await admin.redis.command('XACK', 'ingest', 'warehouse', entry);
    await assertFound(t, { entries: 1, erased: 1, bodiesBack: 1 }, 0, ' --land');
    assert.doesNotMatch(JSON.stringify(await admin.redis.entries()), new RegExp(SECRET));
  });

  it('does not report the bodies of events that another command has begun to erase, and erases them with --land', async (t) => {
    await admin.consume(t);
    await land(t, 'a', 'b');
    // Each stream has the note of the event that is being erased now; the warehouse has the record of both.
    const { warehouse, queue } = admin.session(t);
    const record = { id: 'running', atMs: Date.now(), actor: 'me', command: 'erase', what: 'a\nb\n' };
    await warehouse.audit({ ...record, changed: undefined });
    await queue.streams[0]?.noteErasure('a');
    await admin.assertShows(t, 'reconcile', 0, undefined, '2 events not checked: another command is erasing them\n');
    admin.sql(`UPDATE ingest_audit SET at = '${new Date(Date.now() - 3_700_000).toISOString()}'`);
    await assertFound(t, { entries: 2, landed: 1, erased: 1, bodiesBack: 1 }, 1);
    admin.sql(`UPDATE ingest_audit SET at = '${new Date().toISOString()}'`);
    await assertFound(t, { bodiesBack: 2 }, 0, ' --land');
    await warehouse.audit({ ...record, changed: 2 });
    await admin.landed();
    await assertFound(t, { entries: 2, erased: 2 });

    // A command that was killed and then run again has ended, so a body that is back is reported.
    await warehouse.audit({ ...record, id: 'killed', changed: undefined });
    const atMs = Date.now() + 1;
    await warehouse.audit({ ...record, id: 'again', atMs, changed: 2 });
    admin.sql(`UPDATE events SET body = '${body('a')}' WHERE id = 'a'`);
    await admin.assertShows(t, 'reconcile --json', 1, /"bodiesBack":1\b/, '');
  });

  it('keeps a new event whose id was erased and then pruned', async (t) => {
    await admin.consume(t);
    // The id is unknown, but noted.
    await admin.assertShows(t, 'erase a', 1);
    admin.sql("UPDATE ingest_audit SET at = '2026-01-01T00:00:00.000Z'");
    await admin.redis.command('ZADD', '{ingest}:erased', '1', 'a');
    await add('a');
    await admin.landed();
    await assertFound(t, { entries: 1, landed: 1 }, 0, ' --land');
    assert.match(JSON.stringify(admin.column('SELECT body FROM events')), new RegExp(SECRET));
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
    const line = `reconcile --json --metrics ${file}`;
    await admin.assertShows(t, line, QueueFailed, /"waiting":1,/, undefined, { queue });
    assert.ok(!existsSync(file));
  });

  it('counts an event once if its body is back in several places, and lands what is missing while a partition is unavailable', async (t) => {
    await admin.consume(t);
    await land(t, 'a', 'b');
    await admin.assertShows(t, 'erase a', 0);
    await admin.landed();
    admin.sql(`UPDATE events SET body = '${body('a')}' WHERE id = 'a'; DELETE FROM events WHERE id = 'b'`);
    await assertFound(t, { entries: 2, erased: 1, missing: 1, bodiesBack: 1 }, 1);
    const { streams } = admin.queue(t, admin.redis.uri);
    const queue = { uri: '', streams: [...streams, ...admin.away(t).streams] };
    await admin.assertShows(t, 'reconcile --land --json', QueueFailed, /"filled":1,/, undefined, { queue });
    await assertFound(t, { entries: 2, landed: 1, erased: 1, bodiesBack: 1 }, 0, ' --land');
    await assertFound(t, { entries: 2, landed: 1, erased: 1 });
  });

  it('leaves out entries that are older than a day and have landed', async (t) => {
    await group();
    const times = [90_000_000, 80_000_000].map((agoMs) => Date.now() - agoMs);
    for (const [at, ms] of times.entries()) await add(`e-${at}`, 'shop', body(`e-${at}`), `${ms}-0`);
    const { hours } = await assertFound(t, { entries: 2, waiting: 2 });
    const { bodiesBack: _, ...counts } = { ...NONE, entries: 1, waiting: 1 };
    assert.deepEqual(
      hours,
      times.map((ms) => ({
        ...counts,
        producer: 'shop',
        hour: `${new Date(ms).toISOString().slice(0, 13)}:00:00.000Z`,
      })),
    );
    await read();
    await forget();
    await assertFound(t, { entries: 1, missing: 1 }, 1);
  });

  it('says that no consumer runs, and the events land once one does', async (t) => {
    await group();
    await add('a');
    await read();
    await forget();
    const told = /no consumer is running: 1 event will land/;
    await admin.assertShows(t, 'reconcile --land', 1, undefined, told, { clock: fast });
    await assertFound(t, { entries: 1, waiting: 1 });
    await admin.consume(t);
    await admin.landed();
    assert.equal(ids(), 'a');
  });

  it('writes its result for a textfile collector, and reads at the rate it was given', async (t) => {
    await group();
    for (let at = 0; at < 22; at += 1) await add(`e-${at}`);
    const file = join(temporaryFolder(), 'ingest.prom');
    const startMs = Date.now();
    await assertFound(t, { entries: 22, waiting: 22 }, 0, ` --rate 40 --metrics ${file}`);
    assert.ok(Date.now() - startMs >= 490);
    const [waiting, missing] = ['waiting', 'missing'].map((place) => `ingest_reconcile_events\\{place="${place}"\\}`);
    const end = 'ingest_reconcile_end_timestamp_seconds \\d+\\.\\d{3}';
    const written = readFileSync(file, 'utf8');
    assert.match(written, new RegExp(`\n${waiting} 22\n${missing} 0\n[^]*\n${end}\n$`));
    assert.equal(statSync(file).mode & 0o777, 0o644, 'node exporter may read it');
    const told = 'interrupted; run again for the rest\n';
    const stopped = AbortSignal.abort();
    await admin.assertShows(t, `reconcile --metrics ${file}`, 1, undefined, told, { stopped });
    assert.equal(readFileSync(file, 'utf8'), written, 'the result of the last complete check');
    const [link, pipe] = [`${file}.link`, `${file}.pipe`];
    symlinkSync(file, link);
    await admin.assertShows(t, `reconcile --metrics ${link}`, 0);
    execFileSync('mkfifo', [pipe]);
    const why = `--metrics ${pipe}: expected a regular file`;
    await admin.assertShows(t, `reconcile --metrics ${pipe}`, UsageError, undefined, why);
    assert.ok(lstatSync(link).isSymbolicLink() && lstatSync(pipe).isFIFO());
    await read();
    await forget();
    await admin.assertShows(t, 'reconcile', 1, /\n(?:missing: .*\n){20}and 2 more\n$/);
  });
});
