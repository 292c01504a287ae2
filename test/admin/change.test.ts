import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { QueueFailed, streamOf } from '../../lib/ingest/queue-admin.ts';
import { InProcess, no, poison } from './in-process.ts';

const good = (id: string): Buffer => Buffer.from(`{"id":"${id}","type":"t"}`);
const REPLAYED = { landed: 0, refused: [], lost: [], notReplayed: [], waiting: 0, missing: 0 };

describe('quarantine drop', () => {
  const admin = new InProcess();
  const left = (t: TestContext): unknown[] =>
    admin.rows(t, 'SELECT entry FROM events_quarantine ORDER BY entry').map((row) => (row as { entry: string }).entry);

  it('deletes many rows of one reason since a time', async (t) => {
    await admin.warehouse.quarantine(Array.from({ length: 1_200 }, (_, at) => poison(`${at}-1`)));
    await admin.warehouse.quarantine([poison('x-1', { reason: 'id_conflict: x' })]);
    assert.equal((await admin.run(t, 'quarantine drop --reason invalid_event --since 2100-01-01 --json')).code, 1);
    const { out } = await admin.run(t, 'quarantine drop --reason invalid_event --since 1h --json');
    assert.deepEqual(JSON.parse(out), { dropped: 1_200 });
    assert.deepEqual(left(t), ['q/ingest/x-1']);
  });

  it('leaves no byte of the body in the file or its log, as erase does', async (t) => {
    const secret = 'sensitive-personal-data';
    await admin.warehouse.quarantine([poison('1-1', { body: Buffer.from(secret) })]);
    const bytes = (): string =>
      ['', '-wal']
        .map((end) => (existsSync(admin.path + end) ? readFileSync(admin.path + end, 'latin1') : ''))
        .join('');
    assert.ok(bytes().includes(secret));
    assert.equal((await admin.run(t, 'quarantine drop q/ingest/1-1')).code, 0);
    assert.ok(!bytes().includes(secret));
  });

  it('exits with 1 if a named row does not exist, and deletes the others', async (t) => {
    await admin.warehouse.quarantine([poison('1-1'), poison('1-2')]);
    const { code, out } = await admin.run(t, 'quarantine drop q/ingest/1-1 q/ingest/9-9');
    assert.deepEqual([code, out], [1, 'removed 1 row\n']);
    assert.deepEqual(left(t), ['q/ingest/1-2']);
    assert.equal((await admin.run(t, 'quarantine drop q/ingest/1-2')).code, 0);
    const none = await admin.run(t, 'quarantine drop --all --json');
    assert.deepEqual([none.code, none.out], [1, '{"dropped":0}\n']);
  });

  it('deletes nothing after a no or a signal', async (t) => {
    await admin.warehouse.quarantine(Array.from({ length: 1_200 }, (_, at) => poison(`${at}-1`)));
    const refused = await admin.run(t, 'quarantine drop --all', { confirm: no });
    assert.equal(refused.code, 1);
    assert.deepEqual(refused.questions, ['Remove 1,200 rows from the quarantine, for good?']);
    assert.deepEqual(admin.audit(t), []);
    assert.equal(left(t).length, 1_200);
    const stopped = AbortSignal.abort();
    const { code, err } = await admin.run(t, 'quarantine drop --all', { stopped });
    assert.equal(code, 1);
    assert.match(err, /interrupted; run again for the rest/);
    assert.equal(left(t).length, 700, 'the statement under way is finished');
  });

  it('records the number of deleted rows even if it fails halfway', async (t) => {
    await admin.warehouse.quarantine(Array.from({ length: 1_200 }, (_, at) => poison(`${at}-1`)));
    const { warehouse } = admin.session(t);
    let calls = 0;
    const drop = (entries: readonly string[]): Promise<number> => {
      calls += 1;
      return calls === 2 ? Promise.reject(new Error('away')) : warehouse.drop(entries);
    };
    const { failure } = await admin.run(t, 'quarantine drop --all', { warehouse: { ...warehouse, drop } });
    assert.match(String(failure), /away/);
    assert.deepEqual(admin.rows(t, "SELECT what, changed FROM ingest_audit WHERE command = 'drop'"), [
      { what: '--all', changed: 500 },
    ]);
  });
});

describe('quarantine replay', () => {
  const admin = new InProcess();

  it('replays rows until they have landed, and records it', async (t) => {
    await admin.consume(t);
    const rows = ['a', 'b', 'c'].map((id, at) =>
      poison(`${at}-1`, { id, body: good(id), reason: 'refused_by_warehouse: x', acceptedAtMs: 7 }),
    );
    await admin.warehouse.quarantine(rows);
    const { code, out } = await admin.run(t, 'quarantine replay --reason refused_by_warehouse');
    assert.deepEqual([code, out], [0, '3 events landed\n']);
    assert.deepEqual(admin.rows(t, 'SELECT id, accepted_at, CAST(body AS TEXT) AS body FROM events ORDER BY id'), [
      ...['a', 'b', 'c'].map((id) => ({ id, accepted_at: '1970-01-01T00:00:00.007Z', body: good(id).toString() })),
    ]);
    assert.deepEqual(admin.rows(t, 'SELECT entry FROM events_quarantine'), []);
    assert.deepEqual(admin.rows(t, 'SELECT command, what, changed FROM ingest_audit'), [
      { command: 'replay', what: '--reason refused_by_warehouse', changed: 3 },
    ]);
  });

  it('exits with 1 and names rows that are missing, refused again, or not replayable', async (t) => {
    await admin.consume(t);
    await admin.warehouse.quarantine([
      poison('1-1', { id: 'good', body: good('good') }),
      poison('1-2'),
      poison('1-3', { reason: 'invalid_entry: x' }),
    ]);
    const names = ['1-1', '1-2', '1-3', '9-9'].map((name) => `q/ingest/${name}`).join(' ');
    const { code, out } = await admin.run(t, `quarantine replay ${names} --json`);
    assert.equal(code, 1);
    assert.deepEqual(JSON.parse(out), {
      ...REPLAYED,
      landed: 1,
      refused: ['q/ingest/1-2'],
      notReplayed: ['q/ingest/1-3'],
      missing: 1,
    });
    const again = await admin.run(t, 'quarantine replay q/ingest/1-2');
    assert.equal(again.code, 1);
    assert.match(
      again.out,
      /^0 events landed\n1 row could not land again and stayed in the quarantine\n {2}q\/ingest\/1-2\n$/,
    );
  });

  it('exits with 1 without a question if no row exists', async (t) => {
    const { code, out, questions } = await admin.run(t, 'quarantine replay q/ingest/9-9 q/ingest/9-8 --json');
    assert.deepEqual([code, JSON.parse(out), questions], [1, { ...REPLAYED, missing: 2 }, []]);
    assert.deepEqual(admin.audit(t), []);
  });

  it('shows what landed if the partition of another row is unavailable, and fails', async (t) => {
    await admin.consume(t);
    const row = (name: string, id: string) => poison(name, { entry: `q/${name}`, id, body: good(id) });
    await admin.warehouse.quarantine([row('ingest/1-1', 'a'), row('ingest-a/1-1', 'b')]);
    const away = admin.away(t, 'dispatcher://127.0.0.1:1,127.0.0.1:1').streams;
    const queue = { uri: '', streams: [...admin.queue(t, admin.redis.uri).streams, ...away] };
    const { out, failure } = await admin.run(t, 'quarantine replay --all --json', { queue });
    assert.ok(failure instanceof QueueFailed);
    assert.equal((JSON.parse(out) as typeof REPLAYED).landed, 1);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events'), [{ id: 'a' }]);
  });

  it('is done if the event lands while it asks', async (t) => {
    await admin.warehouse.quarantine([poison('1-1', { id: 'good', body: good('good') })]);
    const { queue } = admin.session(t);
    const stream = streamOf(queue, 'good');
    const states = stream.states.bind(stream);
    Object.assign(stream, { states: (names: readonly string[]) => admin.landed().then(() => states(names)) });
    await admin.consume(t);
    const { code, out } = await admin.run(t, 'quarantine replay --all', { queue });
    assert.deepEqual([code, out], [0, '1 event landed\n']);
  });

  it('does not queue a row twice when it is interrupted and run again', async (t) => {
    await admin.warehouse.quarantine([poison('1-1', { id: 'good', body: good('good') })]);
    const stop = new AbortController();
    const session = admin.session(t);
    const stream = streamOf(session.queue, 'good');
    const replay = stream.replay.bind(stream);
    Object.assign(stream, {
      replay: async (...given: Parameters<typeof replay>) => replay(...given).finally(() => stop.abort()),
    });
    const first = await admin.run(t, 'quarantine replay --all', { queue: session.queue, stopped: stop.signal });
    assert.equal(first.code, 1);
    assert.match(first.err, /interrupted; 1 event on the queue will land/);
    await admin.consume(t);
    const second = await admin.run(t, 'quarantine replay --all');
    assert.ok(second.code === 0 || /no such rows/.test(second.err), second.err);
    assert.equal((await admin.redis.entries()).length, 1);
    assert.deepEqual(admin.rows(t, 'SELECT id FROM events'), [{ id: 'good' }]);
  });
});
