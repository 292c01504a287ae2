import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { QueueFailed, streamOf } from '../../lib/ingest/queue-admin.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { SYSTEM } from '../support/system.ts';
import { InProcess, no, poison } from './in-process.ts';

const good = (id: string): Buffer => Buffer.from(`{"id":"${id}","type":"t"}`);
const REPLAYED = { landed: 0, refused: [], lost: [], notReplayed: [], waiting: 0, missing: 0 };
const QUARANTINE = 'SELECT entry FROM events_quarantine ORDER BY entry';

describe('quarantine drop', () => {
  const admin = new InProcess();
  const many = (): Promise<void> =>
    admin.warehouse.quarantine(Array.from({ length: 1_200 }, (_, at) => poison(`${at}-1`)));

  it('deletes many rows of one reason since a time', async (t) => {
    await many();
    const names = Array.from({ length: 1_200 }, (_, at) => `q/ingest/${at}-1`).join(' ');
    const named = await admin.assertShows(t, `quarantine drop ${names}`, 1, '', '', { confirm: no });
    assert.deepEqual(named.questions, ['Remove 1,200 rows from the quarantine, for good?']);
    await admin.warehouse.quarantine([poison('x-1', { reason: 'id_conflict: x' })]);
    await admin.assertShows(t, 'quarantine drop --reason invalid_event --since 2100-01-01 --json', 1, { dropped: 0 });
    await admin.assertShows(t, 'quarantine drop --reason invalid_event --since 1h --json', 0, { dropped: 1_200 });
    assert.deepEqual(admin.column(QUARANTINE), ['q/ingest/x-1']);
    const [record = ''] = admin.column("SELECT what FROM ingest_audit WHERE command = 'drop'");
    assert.match(String(record), /^--reason invalid_event --since 20[-\d]+T[\d:.]+Z$/);
  });

  it('leaves no byte of the body in the file or its log, as erase does', async (t) => {
    const secret = 'sensitive-personal-data';
    await admin.warehouse.quarantine([poison('1-1', { body: Buffer.from(secret) })]);
    const bytes = (): string =>
      ['', '-wal']
        .map((end) => (existsSync(admin.path + end) ? readFileSync(admin.path + end, 'latin1') : ''))
        .join('');
    assert.ok(bytes().includes(secret));
    await admin.assertShows(t, 'quarantine drop q/ingest/1-1', 0);
    assert.ok(!bytes().includes(secret));
  });

  it('exits with 1 if a named row does not exist, and deletes the others', async (t) => {
    await admin.warehouse.quarantine([poison('1-1'), poison('1-2')]);
    await admin.assertShows(t, 'quarantine drop q/ingest/1-1 q/ingest/9-9', 1, 'removed 1 row\n');
    assert.deepEqual(admin.column(QUARANTINE), ['q/ingest/1-2']);
    await admin.assertShows(t, 'quarantine drop q/ingest/1-2', 0);
    await admin.assertShows(t, 'quarantine drop --all --json', 1, { dropped: 0 });
  });

  it('deletes nothing after a no, and after a signal finishes only the statement under way', async (t) => {
    await many();
    const { questions } = await admin.assertShows(t, 'quarantine drop --all', 1, '', '', { confirm: no });
    assert.deepEqual(questions, ['Remove 1,200 rows from the quarantine, for good?']);
    assert.deepEqual([admin.audit(), admin.column(QUARANTINE).length], [[], 1_200]);
    const stopped = AbortSignal.abort();
    await admin.assertShows(t, 'quarantine drop --all', 1, undefined, /interrupted; run again for the rest/, {
      stopped,
    });
    assert.equal(admin.column(QUARANTINE).length, 700);
  });

  it('records rows before it deletes them, and their number even if it fails halfway', async (t) => {
    await many();
    const { warehouse } = admin.session(t);
    const recorded: number[] = [];
    const drop = (entries: readonly string[]): Promise<number> => {
      const pages = recorded.push(admin.rows("SELECT * FROM ingest_audit WHERE command = 'dropped'").length);
      return pages === 2 ? Promise.reject(new Error('away')) : warehouse.drop(entries);
    };
    await admin.assertShows(t, 'quarantine drop --all', Error, '', /away/, { warehouse: { ...warehouse, drop } });
    assert.deepEqual(
      [recorded, admin.audit().at(0)],
      [
        [1, 2],
        ['drop', '--all', 500],
      ],
    );
  });
});

describe('quarantine replay', () => {
  const admin = new InProcess();
  const quarantineGood = (name: string, id: string, change = {}): Promise<void> =>
    admin.warehouse.quarantine([poison('', { entry: `q/${name}`, id, body: good(id), ...change })]);

  it('replays rows until they have landed, and records it', async (t) => {
    await admin.consume(t);
    const change = { reason: 'refused_by_warehouse: x', acceptedAtMs: 7 };
    for (const id of ['a', 'b', 'c']) await quarantineGood(`ingest/${id}-1`, id, change);
    await admin.assertShows(t, 'quarantine replay --reason refused_by_warehouse', 0, '3 events landed\n');
    assert.deepEqual(admin.rows('SELECT id, accepted_at, CAST(body AS TEXT) AS body FROM events ORDER BY id'), [
      ...['a', 'b', 'c'].map((id) => ({ id, accepted_at: '1970-01-01T00:00:00.007Z', body: good(id).toString() })),
    ]);
    assert.deepEqual(admin.column(QUARANTINE), []);
    assert.deepEqual(admin.audit(), [['replay', '--reason refused_by_warehouse', 3]]);
  });

  it('exits with 1 and names rows that are missing, refused again, or not replayable', async (t) => {
    await admin.consume(t);
    await quarantineGood('ingest/1-1', 'good');
    await admin.warehouse.quarantine([poison('1-2'), poison('1-3', { reason: 'invalid_entry: x' })]);
    const names = ['1-1', '1-2', '1-3', '9-9'].map((name) => `q/ingest/${name}`).join(' ');
    const counts = { ...REPLAYED, landed: 1, refused: ['q/ingest/1-2'], notReplayed: ['q/ingest/1-3'], missing: 1 };
    await admin.assertShows(t, `quarantine replay ${names} --json`, 1, counts);
    const refused = '0 events landed\n1 row could not land again and stayed in the quarantine\n  q/ingest/1-2\n';
    await admin.assertShows(t, 'quarantine replay q/ingest/1-2', 1, refused);
  });

  it('exits with 1 without a question if no row exists', async (t) => {
    const counts = { ...REPLAYED, missing: 2 };
    const { questions } = await admin.assertShows(t, 'quarantine replay q/ingest/9-9 q/ingest/9-8 --json', 1, counts);
    assert.deepEqual([questions, admin.audit()], [[], []]);
  });

  it('shows what landed if the partition of another row is unavailable, and fails', async (t) => {
    await admin.consume(t);
    await quarantineGood('ingest/1-1', 'a');
    await quarantineGood('ingest-a/1-1', 'b');
    const away = admin.away(t, 'dispatcher://127.0.0.1:1,127.0.0.1:1').streams;
    const queue = { uri: '', streams: [...admin.queue(t, admin.redis.uri).streams, ...away] };
    await admin.assertShows(t, 'quarantine replay --all', QueueFailed, /^1 event landed\n/, undefined, { queue });
    assert.deepEqual(admin.column('SELECT id FROM events'), ['a']);
  });

  it('ends if no consumer runs, and the event lands once one does', async (t) => {
    await quarantineGood('ingest/1-1', 'good');
    const fast = Object.assign(Object.create(SYSTEM.clock) as Clock, { ms: () => 50 * SYSTEM.clock.ms() });
    const told = /no consumer is running: 1 event on the queue will land once one starts/;
    await admin.assertShows(t, 'quarantine replay --all', 1, '0 events landed\n', told, { clock: fast });
    await admin.consume(t);
    await admin.landed();
    assert.deepEqual([admin.column('SELECT id FROM events'), admin.column(QUARANTINE)], [['good'], []]);
  });

  it('is done if the event lands while it asks', async (t) => {
    await quarantineGood('ingest/1-1', 'good');
    const { queue } = admin.session(t);
    const stream = streamOf(queue, 'good');
    const states = stream.states.bind(stream);
    Object.assign(stream, { states: (names: readonly string[]) => admin.landed().then(() => states(names)) });
    await admin.consume(t);
    await admin.assertShows(t, 'quarantine replay --all', 0, '1 event landed\n', undefined, { queue });
  });

  it('does not queue a row twice when it is interrupted and run again, and queues a lost one again', async (t) => {
    await quarantineGood('ingest/1-1', 'good');
    const { queue } = admin.session(t);
    const stream = streamOf(queue, 'good');
    const replay = stream.replay.bind(stream);
    const after = (then: (entry: string) => unknown): unknown =>
      Object.assign(stream, {
        replay: async (...given: Parameters<typeof replay>) => {
          const sent = await replay(...given);
          await then(sent.entry);
          return sent;
        },
      });
    after((entry) => admin.redis.command('XDEL', 'ingest', entry));
    const lost = '0 events landed\n1 row disappeared from the queue and stayed in the quarantine; run again\n';
    await admin.assertShows(t, 'quarantine replay --all', 1, `${lost}  q/ingest/1-1\n`, undefined, { queue });
    const told = /interrupted; 1 event on the queue will land/;
    for (const stop of [new AbortController(), new AbortController()]) {
      after(() => stop.abort());
      await admin.assertShows(t, 'quarantine replay --all', 1, undefined, told, { queue, stopped: stop.signal });
    }
    const counts = [1, 1, 0].map((changed) => ['replay', '--all', changed]);
    assert.deepEqual([admin.audit(), (await admin.redis.entries()).length], [counts, 1]);
    await admin.consume(t);
    await admin.landed();
    assert.deepEqual(admin.column('SELECT id FROM events'), ['good']);
  });
});
