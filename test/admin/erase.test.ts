import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { streamOf } from '../../lib/ingest/queue-admin.ts';
import { quarantineRowName } from '../../lib/ingest/warehouse.ts';
import { UsageError } from '../../lib/admin/session.ts';
import { InProcess, landing, no, poison, type Replaced } from './in-process.ts';

const SECRET = 'sensitive-personal-data';
const body = (id: string): string => JSON.stringify({ id, type: 't', name: SECRET });
const ERASED = { queue: 0, warehouse: 0, quarantine: 0, held: 0, already: 0, unknown: [] };

describe('erase', () => {
  const admin = new InProcess();
  const bytes = (): string =>
    ['', '-wal'].map((end) => (existsSync(admin.path + end) ? readFileSync(admin.path + end, 'latin1') : '')).join('');
  const everything = async (): Promise<string> => bytes() + JSON.stringify(await admin.redis.entries());

  const landOne = (): Promise<unknown> => admin.warehouse.land([landing('one', { body: Buffer.from(body('one')) })]);

  it('finds an event by the id index, and its id stays taken', async (t) => {
    await admin.accept(t, 'one', body('one'));
    const done = 'erased: 1 entry on the queue, 1 row in the warehouse, 1 row in the quarantine\n';
    const bytes = "the bytes stay in Redis' memory until <time>, longer if .* in the runbook\n";
    const { warehouse } = admin.session(t);
    let asked = 0;
    const landed = async (id: string): ReturnType<typeof warehouse.landed> => {
      // A consumer puts a copy in quarantine after the first question.
      if ((asked += 1) === 2) await admin.warehouse.quarantine([poison('1-1', { id, body: Buffer.from(body(id)) })]);
      return warehouse.landed(id);
    };
    const change = { warehouse: { ...warehouse, landed } };
    await admin.assertShows(t, 'erase one', 0, new RegExp(`^${done}${bytes}$`), undefined, change);
    assert.ok(!(await everything()).includes(SECRET));
    assert.equal((await admin.warehouse.find('one', 'shop')).kind, 'landed', 'its id is taken');
  });

  it('erases entries that quarantine rows name, and replays without a row', async (t) => {
    const stream = streamOf(admin.session(t).queue, 'one');
    await admin.accept(t, 'one', body('one'));
    const copy = await stream.find('one');
    assert.ok(copy !== undefined);
    const row = poison('', { entry: `${copy.source}/${copy.entry}`, id: 'one', body: copy.body });
    await admin.warehouse.quarantine([row]);
    const replay = { id: 'one', traceparent: undefined, producer: 'shop', body: copy.body, acceptedAtMs: 1 };
    await stream.replay({ ...replay, replayOf: row.entry }, false);
    await admin.redis.command('DEL', '{ingest}:ids');
    assert.equal((await stream.copiesOfRows('one', [row.entry])).length, 2);
    await admin.warehouse.release([row.entry]);
    await admin.redis.command('XDEL', 'ingest', copy.entry);
    assert.equal((await stream.copiesOfRows('one', [])).length, 1, 'the replay, by its id alone');
    await admin.assertShows(t, 'erase one --json', 0, /"bytesUntil":"<time>"/);
    assert.ok(!(await everything()).includes(SECRET));
  });

  it('erases the replay of an earlier row after a later row of the same event was replayed', async (t) => {
    const stream = streamOf(admin.session(t).queue, 'one');
    await admin.accept(t, 'one', body('one'));
    const copy = await stream.find('one');
    assert.ok(copy !== undefined);
    const replay = { id: 'one', traceparent: undefined, producer: 'shop', body: copy.body, acceptedAtMs: 1 };
    for (const replayOf of [quarantineRowName({ ...copy, producer: 'shop' }), `${copy.source}/9-9~00`])
      await stream.replay({ ...replay, replayOf }, false);
    const streams = [1, 2].flatMap(() => admin.queue(t, admin.redis.uri).streams);
    Object.assign(streams[1] ?? {}, { bytesUntilMs: Infinity });
    const until = /memory until the other entries of their blocks have been trimmed/;
    await admin.assertShows(t, 'erase one', 0, until, undefined, { queue: { uri: '', streams } });
    assert.ok(!(await everything()).includes(SECRET));
  });

  it('erases the ids in a file, and reports unknown and already erased ones', async (t) => {
    await landOne();
    await admin.warehouse.land([landing('two', { body: Buffer.from(body('two')) })]);
    await admin.warehouse.quarantine([poison('1-1', { id: 'three', body: Buffer.from(body('three')) })]);
    const stop = new AbortController();
    const stopping = { stopped: stop.signal, progress: () => stop.abort() };
    await admin.assertShows(t, 'erase two one', 1, undefined, /^interrupted; run again for the rest$/m, stopping);
    const file = join(admin.store.folder, 'ids');
    writeFileSync(file, '\uFEFFone\n\ntwo\r\nthree\nnone\none\n');
    const counts = { ...ERASED, warehouse: 1, quarantine: 1, already: 1, unknown: ['none'] };
    const actor = `${userInfo().username}@${hostname()}`;
    const told = `^audit: <time> ${actor} erase one two three none: 2 changed\n1 event already erased\nno event with the id none was found\n$`;
    const steps: string[] = [];
    const { questions } = await admin.assertShows(t, `erase --file ${file} --json`, 1, counts, new RegExp(told), {
      progress: (text) => void steps.push(text),
    });
    assert.deepEqual(steps.slice(-2), ['erasing: 4 of 4 events', '']);
    assert.deepEqual(questions, ['Erase 4 events for good?']);
    assert.ok(!bytes().includes(SECRET));
    assert.deepEqual(admin.audit(), [
      ['erase', 'two\none\n', 1],
      ['erase', 'one\ntwo\nthree\nnone\n', 2],
    ]);
    assert.deepEqual(new Set(admin.column('SELECT actor FROM ingest_audit')), new Set([actor]));
  });

  it('is recorded at the time of the queue whose clock is furthest ahead', async (t) => {
    const streams = [1, 2].flatMap(() => admin.queue(t, admin.redis.uri).streams);
    Object.assign(streams[1] ?? {}, { clock: () => Promise.resolve(Date.now() + 3_600_000) });
    await admin.run(t, 'erase one', { queue: { uri: '', streams } });
    const [at] = admin.column('SELECT at FROM ingest_audit');
    assert.ok(Date.parse(String(at)) > Date.now() + 3_500_000, String(at));
  });

  it('is recorded in the warehouse and on every stream before it searches', async (t) => {
    const session = admin.session(t);
    const [stream = assert.fail()] = session.queue.streams;
    const noted = Promise.withResolvers<undefined>();
    const noting = Promise.withResolvers<undefined>();
    const steps: string[] = [];
    const noteErasure = stream.noteErasure.bind(stream);
    const find = stream.find.bind(stream);
    Object.assign(stream, {
      noteErasure: async (id: string): Promise<void> => {
        noting.resolve(undefined);
        await noted.promise;
        await noteErasure(id);
        steps.push('note');
      },
      find: (id: string) => find(id).finally(() => steps.push('search')),
    });
    const warehouse = {
      ...session.warehouse,
      landed: (id: string) => session.warehouse.landed(id).finally(() => steps.push('search')),
      quarantineOf: (id: string) => session.warehouse.quarantineOf(id).finally(() => steps.push('search')),
    };
    const ended = admin.run(t, 'erase one', { queue: session.queue, warehouse });
    await noting.promise;
    await setImmediate();
    assert.deepEqual([steps, admin.audit()], [[], [['erase', 'one', null]]]);
    noted.resolve(undefined);
    assert.equal((await ended).code, 1);
    assert.equal(steps[0], 'note');
    assert.notEqual(await admin.redis.command('ZSCORE', '{ingest}:erased', 'one'), null);
  });

  it('changes nothing if the file is missing, empty, or has an invalid line', async (t) => {
    await landOne();
    const file = join(admin.store.folder, 'ids');
    for (const [text, why] of [
      ['one\na\u0007b\n', 'ids, line 2: invalid event id'],
      ['\n\n', 'ids: expected one event id on each line'],
    ] as const) {
      writeFileSync(file, text);
      await admin.assertShows(t, `erase --file ${file}`, UsageError, '', new RegExp(`/${why}$`));
    }
    const why = '/nonexistent: expected a readable file (ENOENT)';
    await admin.assertShows(t, 'erase --file /nonexistent', UsageError, '', why);
    assert.deepEqual([admin.audit(), bytes().includes(SECRET)], [[], true]);
  });

  it('changes nothing after a no, or if the change cannot be recorded', async (t) => {
    await landOne();
    const { questions } = await admin.assertShows(t, 'erase one', 1, '', '', { confirm: no });
    assert.deepEqual([questions, admin.audit()], [['Erase "one" for good?'], []]);
    const audit = (): Promise<void> => Promise.reject(new Error('there is no table ingest_audit'));
    const warehouse = { ...admin.session(t).warehouse, audit };
    await admin.assertShows(t, 'erase one', Error, '', 'there is no table ingest_audit', { warehouse });
    assert.ok(bytes().includes(SECRET));
  });

  it('fails while a reader keeps the SQLite log in use, and succeeds afterwards', async (t) => {
    await landOne();
    using reader = new DatabaseSync(admin.path, { readOnly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM events').get();
    await admin.assertShows(t, 'erase one', Error, undefined, /warehouse\.db-wal is in use and still holds the bodies/);
    reader.exec('COMMIT');
    await admin.assertShows(t, 'erase one', 0);
    assert.ok(!bytes().includes(SECRET));
  });
});

describe('erase, while a frozen consumer holds the event', () => {
  const admin = new InProcess();
  const refusing: Replaced['schemas'] = {
    has: () => true,
    check: (_type, bodies) => Promise.resolve(bodies.map(() => ['refused'])),
  };
  const noEvent = `{"id":"one","name":"${SECRET}"}`;
  const cases = [
    ['leaves one erased row if it lands the event afterwards', 'land', body('one'), undefined],
    ['leaves one erased row if it puts the entry in quarantine afterwards', 'quarantine', noEvent, undefined],
    ['leaves one erased row if a schema refuses the event afterwards', 'quarantine', body('one'), refusing],
  ] as const;

  for (const [title, call, text, schemas] of cases)
    for (const [more, another, fails] of [
      ['', false, false],
      [', and another consumer was faster', true, false],
      [', although its next question for erased ids fails', false, true],
    ] as const)
      it(`${title}${more}`, async (t) => {
        const [reached, thawed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        t.after(() => thawed.resolve());
        // `freeze` stops the consumer after it has checked for erasures and before its transaction starts.
        const freeze = async (): Promise<void> => {
          reached.resolve();
          await thawed.promise;
        };
        await admin.accept(t, 'one', text);
        let reads = 0;
        let fault = fails;
        let written = false;
        const frozen = await admin.consume(t, {
          calls: (real) => ({
            register: () => Promise.resolve(true),
            read: async (...given) => {
              reads += 1;
              if (reads > 1) await thawed.promise;
              return real.read(...given);
            },
            erased: async (...given) => {
              if (!fault || call !== 'quarantine' || !written) return real.erased(...given);
              fault = false;
              throw new Error('no answer in time');
            },
          }),
          rows: {
            land: async (batch) => {
              if (call === 'land') await freeze();
              return admin.warehouse.land(batch);
            },
            quarantine: async (entries) => {
              if (call === 'quarantine') await freeze();
              await admin.warehouse.quarantine(entries);
              written = true;
            },
          },
          schemas,
        });
        await reached.promise;
        await admin.assertShows(t, 'erase one', 0);
        if (another) {
          await admin.consume(t);
          await admin.landed();
        }
        thawed.resolve();
        await admin.landed();
        await frozen.stop();
        const rows = 'SELECT body FROM events UNION ALL SELECT CAST(body AS TEXT) FROM events_quarantine';
        const erased = text === noEvent ? '{"id":"one","erased":true}' : '{"id":"one","type":"t","erased":true}';
        assert.deepEqual(admin.column(rows), [erased]);
      });
});
