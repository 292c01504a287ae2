// The parts of the PostgreSQL warehouse that need no server: forms of bytes, classes of errors, months, and repeated
// transactions, against a pool that a test answers for.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import pg from 'pg';
import { WarehouseMisconfigured, type LandingEvent } from '../../lib/ingest/warehouse.ts';
import { byteaArray, textArray, timeArray } from '../../lib/postgres/binary-array.ts';
import { copyEvents } from '../../lib/postgres/copy.ts';
import { Landing, refuses } from '../../lib/postgres/landing.ts';
import { migrate, NewerSchema, WrongEncoding } from '../../lib/postgres/migrations.ts';
import { misconfigured } from '../../lib/postgres/misconfigured.ts';
import {
  beginningOf,
  byMonthOf,
  lacksMonth,
  later,
  monthOf,
  Months,
  NoMonth,
  whereId,
} from '../../lib/postgres/months.ts';
import { prune, pruneBound } from '../../lib/postgres/prune.ts';
import { sqlstateClass, timedOut, transacted } from '../../lib/postgres/sessions.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const DAY_MS = 86_400_000;

function stateOf(code: string | undefined, more: Partial<pg.DatabaseError> = {}): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError('told by the server', 0, 'error'), { code }, more);
}

const event = (id: string, change: Partial<LandingEvent> = {}): LandingEvent => ({
  ...{ id, type: 't', producer: 'p', body: Buffer.from('{}'), acceptedAtMs: Date.UTC(2000, 0, 1) + 1 },
  ...change,
});

describe('an array in binary form', () => {
  it('has its type, its length, and each element behind its own length', () => {
    assert.equal(
      textArray(['a', 'é']).toString('hex'),
      `${'00000001'}00000000000000190000000200000001${'0000000161'}${'00000002c3a9'}`,
    );
    assert.equal(
      byteaArray([Buffer.from([0, 255])]).toString('hex'),
      '0000000100000000000000110000000100000001' + '0000000200ff',
    );
    assert.equal(
      timeArray([Date.UTC(2000, 0, 1) + 1, Date.UTC(2000, 0, 1) - 1]).toString('hex'),
      '00000001000000000000' +
        '04a0' +
        '0000000200000001' +
        '00000008' +
        '00000000000003e8' +
        '00000008' +
        'fffffffffffffc18',
    );
  });

  it('says that elements are missing, and has no dimension where there are none', () => {
    assert.equal(
      textArray([undefined, Buffer.from('b')]).toString('hex'),
      '0000000100000001000000190000000200000001' + 'ffffffff' + '0000000162',
    );
    assert.equal(textArray([]).toString('hex'), '000000000000000000000019');
    assert.equal(timeArray([]).toString('hex'), '0000000000000000000004a0');
  });
});

describe('the rows of a COPY', () => {
  /** What a client is sent, and how to answer it. */
  function copying(events: readonly LandingEvent[], byMonth: boolean) {
    const sent: { statement: string; bytes: Buffer } = { statement: '', bytes: Buffer.alloc(0) };
    let query: pg.Submittable & {
      handleCommandComplete(message: { text: string }): void;
      handleReadyForQuery(): void;
      handleError(cause: Error): void;
    };
    const client = {
      query: (asked: typeof query) => {
        query = asked;
        asked.submit({
          query: (statement: string) => void (sent.statement = statement),
          stream: { write: (bytes: Buffer) => void (sent.bytes = bytes) },
        } as unknown as pg.Connection);
      },
    };
    const copied = copyEvents(client as unknown as pg.PoolClient, events, Date.UTC(2000, 0, 1) + 2, byMonth);
    return { sent, copied, answers: () => query };
  }

  const SIGNATURE = '5047434f50590aff0d0a00' + '00000000' + '00000000';
  const text = (value: string): string => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    return length.toString('hex') + bytes.toString('hex');
  };
  const message = (rows: string): string => {
    const data = `${SIGNATURE}${rows}ffff`;
    const length = Buffer.alloc(4);
    length.writeInt32BE(data.length / 2 + 4);
    return `64${length.toString('hex')}${data}6300000004`;
  };
  const [ACCEPTED, LANDED] = ['0000000800000000000003e8', '0000000800000000000007d0'];
  const TRACEPARENT = '00-a-b-01';

  it('are one message with seven columns each, null where there is no trace, and the end', () => {
    const { sent } = copying(
      [event('a'), event('é', { traceparent: TRACEPARENT, body: Buffer.from('{"é":1}') })],
      false,
    );
    assert.equal(
      sent.statement,
      'COPY events (id, type, producer, accepted_at, landed_at, body, traceparent) FROM STDIN (FORMAT binary)',
    );
    const rows = [
      `0007${text('a')}${text('t')}${text('p')}${ACCEPTED}${LANDED}${text('{}')}ffffffff`,
      `0007${text('é')}${text('t')}${text('p')}${ACCEPTED}${LANDED}${text('{"é":1}')}${text(TRACEPARENT)}`,
    ];
    assert.equal(sent.bytes.toString('hex'), message(rows.join('')));
  });

  it('by month come behind their ids, with the time of landing', () => {
    const { sent } = copying([event('a')], true);
    assert.match(sent.statement, /^COPY events_ids \(id, landed_at\) FROM STDIN \(FORMAT binary\); COPY events \(/);
    const row = `0007${text('a')}${text('t')}${text('p')}${ACCEPTED}${LANDED}${text('{}')}ffffffff`;
    assert.equal(sent.bytes.toString('hex'), message(`0002${text('a')}${LANDED}`) + message(row));
  });

  it('take the texts that are longest in UTF-8', () => {
    const long = '\uffff'.repeat(300);
    const { sent } = copying([event(long, { type: long, producer: long, traceparent: long })], true);
    assert.equal(sent.bytes.toString('hex').split(text(long)).length - 1, 5);
  });

  it('are as many as the last statement says, or fail with what the server says', async () => {
    const { copied, answers } = copying([event('a')], true);
    answers().handleCommandComplete({ text: 'COPY 5' });
    answers().handleCommandComplete({ text: 'COPY 12' });
    answers().handleReadyForQuery();
    assert.equal(await copied, 12);
    const failing = copying([event('a')], false);
    failing.answers().handleError(new Error('no room'));
    await assert.rejects(failing.copied, /no room/);
  });
});

describe('what PostgreSQL refuses', () => {
  it('is the data in these classes, and not where a month is missing', () => {
    for (const code of ['22021', '23505', '44000', '54000', 'P0001']) assert.equal(refuses(stateOf(code)), true, code);
    for (const code of ['08006', '40001', '42601', '53100', '57014', undefined])
      assert.equal(refuses(stateOf(code)), false, String(code));
    assert.equal(refuses(new Error('23505')), false);
    assert.equal(refuses(stateOf('23514', { constraint: 'mine' })), true);
    assert.equal(refuses(stateOf('23514')), false);
    assert.equal(lacksMonth(stateOf('23514')), true);
    assert.equal(lacksMonth(stateOf('23505')), false);
    assert.equal(lacksMonth(stateOf('23514', { constraint: 'mine' })), false);
    assert.equal(lacksMonth(new Error('23514')), false);
  });

  it('is the configuration in these classes, with the URI masked and the code', () => {
    const uri = 'postgres://shop:secret@h/db';
    const told = (cause: unknown): string => {
      const found = misconfigured(cause, uri);
      return found === cause ? 'itself' : found instanceof WarehouseMisconfigured ? found.message : assert.fail();
    };
    for (const code of ['28000', '3D000', '3F000', '42501']) {
      assert.match(told(stateOf(code)), new RegExp(`h/db: told by the server \\(SQLSTATE ${code}\\)$`));
      assert.doesNotMatch(told(stateOf(code)), /secret/);
    }
    assert.match(
      told(stateOf('28P01')),
      /h\/db: the server refused the password: told by the server \(SQLSTATE 28P01\)$/,
    );
    for (const code of ['42601', '08006', '23505', undefined])
      assert.equal(told(stateOf(code)), 'itself', String(code));
    assert.equal(told(new Error('ECONNREFUSED')), 'itself');
    assert.match(told(new WrongEncoding('LATIN1')), /h\/db: the database has the encoding LATIN1, and must have UTF8/);
    assert.match(told(new NewerSchema(3, 2, 'why')), /h\/db: the schema has version 3, and this program knows 2: why$/);
    assert.match(told(new NoMonth('no month')), /h\/db: no month$/);
  });

  it('is a call that took too long, by the words of either side, and no wait for a lock', () => {
    assert.equal(timedOut(stateOf('57014')), true);
    assert.equal(timedOut(stateOf('55P03')), false);
    assert.equal(timedOut(new Error('Query read timeout')), true);
    assert.equal(timedOut(new Error('other')), false);
    assert.equal(timedOut('Query read timeout'), false);
    assert.equal(sqlstateClass(stateOf('57014')), '57');
    assert.equal(sqlstateClass(new Error('57014')), undefined);
  });
});

describe('a transaction that was taken back for the sake of another one', () => {
  async function tries(failures: number, code = '40001') {
    const clock = new VirtualClock();
    const at: number[] = [];
    let ending: unknown;
    void transacted({ clock, random: { fraction: () => 1, uuid: () => '' } as never }, () => {
      at.push(clock.ms());
      return at.length <= failures ? Promise.reject(stateOf(code)) : Promise.resolve('done');
    }).then(
      (value) => (ending = value),
      (cause: unknown) => (ending = cause),
    );
    for (let ms = 0; ms < 1_000; ms += 10) await clock.advance(10);
    return { at, ending };
  }

  it('is tried again at once, then with growing pauses, six times in all', async () => {
    assert.deepEqual(await tries(5), { at: [0, 0, 10, 30, 70, 150], ending: 'done' });
    const failed = await tries(6);
    assert.equal(failed.at.length, 6);
    assert.ok(failed.ending instanceof pg.DatabaseError);
  });

  it('is tried once only where it failed for another reason', async () => {
    assert.equal((await tries(1, '23505')).at.length, 1);
    assert.equal((await tries(1, '40P01')).at.length, 2, 'a deadlock is one');
  });
});

describe('a migration', () => {
  const STEPS = [1, 2].map((version) => ({ version, sql: () => `step ${version}` }));

  /** One of a server that has this version, and fails at these statements, each as often as there are causes. */
  async function migrated(version: number, failures: Readonly<Record<string, Error[]>>, holder: object[] = []) {
    const clock = new VirtualClock();
    const did: string[] = [];
    let has = version;
    const query = (asked: string | { text: string }): Promise<unknown> => {
      const sql = typeof asked === 'string' ? asked : asked.text;
      did.push(sql.trim());
      const cause = Object.entries(failures)
        .find(([part]) => sql.includes(part))?.[1]
        .shift();
      if (cause !== undefined) return Promise.reject(cause);
      if (sql === 'COMMIT') has = 2;
      const row = sql.startsWith('SHOW')
        ? { server_encoding: 'UTF8' }
        : sql.includes('IS NOT NULL AS found')
          ? { found: has > 0 }
          : { version: has, bytewise: true };
      return Promise.resolve({ rows: sql.includes('pg_stat_activity') ? holder : [row] });
    };
    let ending: unknown = 'under way';
    void migrate(
      { query } as unknown as pg.PoolClient,
      { clock, random: { fraction: () => 0 } as never },
      'none',
      STEPS,
    ).then(
      (waits) => (ending = waits),
      (cause: unknown) => (ending = cause),
    );
    for (let turn = 0; turn < 40; turn += 1) await clock.advance(100);
    const count = (part: string): number => did.filter((sql) => sql.includes(part)).length;
    return { ending, count };
  }

  it('runs the steps that are missing, and waits a short time for a lock only where there are tables', async () => {
    const first = await migrated(0, {});
    assert.equal(first.count('step'), 2);
    assert.equal(first.ending, undefined);
    assert.equal(first.count('lock_timeout'), 0);
    const second = await migrated(1, {});
    assert.equal(second.count('step 1'), 0);
    assert.equal(second.count('step 2'), 1);
    assert.equal(second.count('lock_timeout'), 1);
    const done = await migrated(2, {});
    assert.equal(done.ending, undefined);
    assert.equal(done.count('BEGIN'), 0);
  });

  it('that waits for a lock says for whom where there are tables, and fails where there are none', async () => {
    const locked = (): Record<string, Error[]> => ({ 'step 2': [stateOf('55P03')] });
    assert.equal((await migrated(1, locked())).ending, 'it waits for a lock of another session');
    const holder = { pid: 7, name: 'report', seconds: 3 };
    assert.equal(
      (await migrated(1, locked(), [holder])).ending,
      'it waits for session 7 ("report"), whose last query began 3 s ago',
    );
    assert.equal(
      (await migrated(1, locked(), [{ ...holder, seconds: null }])).ending,
      'it waits for session 7 ("report")',
    );
    assert.ok((await migrated(0, locked())).ending instanceof pg.DatabaseError);
  });

  it('that fails is told where there are tables, and fails where there are none or no server says why', async () => {
    const failing = (cause: Error): Record<string, Error[]> => ({ 'step 2': [cause] });
    assert.equal((await migrated(1, failing(stateOf('42501')))).ending, 'told by the server (SQLSTATE 42501)');
    assert.ok((await migrated(0, failing(stateOf('42501')))).ending instanceof pg.DatabaseError);
    assert.match(String((await migrated(1, failing(new Error('cut')))).ending), /^Error: cut$/);
  });

  it('is tried again where another replica made the same, eight times in all', async () => {
    for (const code of ['40001', '23505', '42P07', '42710']) {
      const { ending, count } = await migrated(1, { 'step 2': Array.from({ length: 20 }, () => stateOf(code)) });
      assert.equal(count('step 2'), 8, code);
      assert.equal(count('ROLLBACK'), 8, code);
      assert.equal(ending, `told by the server (SQLSTATE ${code})`);
    }
  });

  it('does without advisory locks where the engine has none', async () => {
    for (const code of ['0A000', '42883']) {
      const { count } = await migrated(1, { pg_advisory: [stateOf(code)], 'step 2': [stateOf('42501')] });
      assert.equal(count('pg_advisory'), 1, code);
      assert.equal(count('BEGIN'), 2, code);
    }
  });
});

describe('months', () => {
  it('are named by year and month of UTC, and follow each other over the years', () => {
    assert.equal(monthOf(Date.UTC(2026, 11, 31, 23, 59, 59, 999)), '2026_12');
    assert.equal(beginningOf('2026_12'), '2026-12-01T00:00:00Z');
    assert.equal(later('2026_12', 1), '2027_01');
    assert.equal(later('2026_01', -1), '2025_12');
    assert.equal(later('2026_01', 12), '2027_01');
  });

  it('bound what is removed of all events, at the beginning of the month of now at the latest', () => {
    const [now, old] = [Date.UTC(2026, 4, 20), Date.UTC(2026, 2, 10)];
    const bound = (beforeMs: number, change = {}, byMonth = true): number =>
      pruneBound({ table: 'events', beforeMs, type: undefined, ...change }, byMonth, now);
    assert.equal(bound(old), Date.UTC(2026, 2, 1));
    assert.equal(bound(now + 90 * DAY_MS), Date.UTC(2026, 4, 1));
    assert.equal(bound(old, { type: 't' }), old);
    assert.equal(bound(old, { table: 'quarantine' }), old);
    assert.equal(bound(old, {}, false), old);
  });

  it('are asked for until the tables are there, and then no more', async () => {
    const answers: { months: boolean }[][] = [[], [{ months: true }], [{ months: false }]];
    let asked = 0;
    const byMonth = byMonthOf(() => Promise.resolve({ rows: answers[asked++] ?? [] }));
    assert.equal(await byMonth(), false);
    assert.equal(await byMonth(), true);
    assert.equal(await byMonth(), true);
    assert.equal(asked, 2);
    asked = 2;
    const none = byMonthOf(() => Promise.resolve({ rows: answers[asked++] ?? [] }));
    assert.equal(await none(), false);
    assert.equal(await none(), false);
    assert.equal(asked, 3);
  });

  it('find the row of an id by its line', () => {
    assert.equal(whereId('$1', false), 'id = $1');
    assert.equal(whereId('$1', true), 'id = $1 AND landed_at = (SELECT landed_at FROM events_ids WHERE id = $1)');
  });

  /** Months of a server that has these, and makes others unless it says why not. */
  function start(there: readonly string[], refusal?: Error, rollback?: Error) {
    const clock = new VirtualClock();
    const has = new Set(there);
    const did: string[] = [];
    let looks = 0;
    const query = (sql: string): Promise<unknown> => {
      const made =
        /CREATE TABLE IF NOT EXISTS events_(\S+) PARTITION OF events\s+FOR VALUES FROM \('(\S+)'\) TO \('(\S+)'\)/.exec(
          sql,
        );
      if (/^\s*SELECT right/.test(sql)) {
        looks += 1;
        return Promise.resolve({ rows: [...has].sort().map((month) => ({ month })) });
      }
      if (made === null) {
        did.push(sql);
        return sql === 'ROLLBACK' && rollback !== undefined ? Promise.reject(rollback) : Promise.resolve({ rows: [] });
      }
      if (refusal !== undefined) return Promise.reject(refusal);
      assert.equal(made[2], beginningOf(made[1] ?? ''));
      assert.equal(made[3], beginningOf(later(made[1] ?? '', 1)));
      has.add(made[1] ?? '');
      return Promise.resolve({ rows: [] });
    };
    const released: unknown[] = [];
    const pool = {
      query,
      connect: () => Promise.resolve({ query, release: (broken: unknown) => void released.push(broken) }),
    } as unknown as pg.Pool;
    return { clock, has, did, released, months: new Months(pool, clock), looks: () => looks };
  }
  const NOW = Date.UTC(2026, 4, 20);
  const year = Array.from({ length: 13 }, (_, at) => later('2026_05', at));

  it('are made from the one before now to a year ahead, in one transaction behind a lock', async () => {
    const { months, has, did, released } = start([]);
    assert.equal(await months.look(NOW), undefined);
    assert.deepEqual([...has].sort(), [later('2026_05', -1), ...year]);
    assert.deepEqual(did, ['BEGIN', 'SELECT pg_advisory_xact_lock($1)', 'COMMIT']);
    assert.deepEqual(released, [false]);
  });

  it('are made from now on where there are some, and not at all where all are there', async () => {
    const some = start(['2026_05']);
    await some.months.look(NOW);
    assert.deepEqual([...some.has].sort(), year);
    const all = start(year);
    await all.months.look(NOW);
    assert.deepEqual(all.did, []);
    assert.deepEqual(all.released, []);
  });

  it('are looked for again only where the one of now, or within an hour the next one, is not known', async () => {
    const { months, clock, looks } = start(year);
    await months.ready(NOW);
    await months.ready(NOW);
    assert.equal(looks(), 1);
    months.forget();
    await months.ready(NOW);
    assert.equal(looks(), 2);
    const alone = start(['2026_05'], new Error('no'));
    await alone.months.ready(NOW);
    const before = alone.looks();
    await alone.months.ready(NOW);
    await alone.clock.advance(3_599_999);
    await alone.months.ready(NOW);
    assert.equal(alone.looks(), before);
    await alone.clock.advance(1);
    await alone.months.ready(NOW);
    assert.ok(alone.looks() > before);
    await clock.advance(0);
  });

  it('that cannot be made are told where the next one is missing, and fail where that of now is', async () => {
    const no = stateOf('42501');
    assert.equal(
      await start(['2026_05'], no).months.look(NOW),
      'the partition events_2026_06 cannot be made: told by the server',
    );
    assert.equal(await start(['2026_05', '2026_06'], no).months.look(NOW), undefined);
    await assert.rejects(start(['2026_04'], no).months.look(NOW), {
      name: 'NoMonth',
      message: 'events has no partition events_2026_05, and cannot get it: told by the server',
    });
    const away = new Error('away');
    await assert.rejects(start(['2026_04'], away).months.look(NOW), away);
    await assert.rejects(start(['2026_06']).months.look(NOW), {
      name: 'NoMonth',
      message: 'the clock says 2026_05, and the oldest partition is events_2026_06: is the clock behind?',
    });
  });

  it('that cannot be made leave a session that serves the next call, unless that cannot be rolled back', async () => {
    const kept = start(['2026_05'], new Error('no'));
    await kept.months.look(NOW);
    assert.deepEqual(kept.did.slice(-1), ['ROLLBACK']);
    assert.deepEqual(kept.released, [false]);
    const broken = start(['2026_05'], new Error('no'), new Error('cut'));
    await broken.months.look(NOW);
    assert.deepEqual(broken.released, [true]);
  });

  it('that another program removes meanwhile end a step of pruning, and other errors fail it', async () => {
    const step = (cause: Error): Promise<unknown> =>
      prune(
        () => Promise.reject(cause),
        true,
        NOW,
        { table: 'events', beforeMs: NOW, type: undefined } as never,
        undefined,
        5,
      );
    assert.deepEqual(await step(stateOf('42P01')), { removed: 0, next: undefined });
    await assert.rejects(step(stateOf('42501')), { code: '42501' });
    await assert.rejects(step(new Error('cut')), /cut/);
  });
});

describe('a batch whose COPY was refused', () => {
  it('is inserted, as the next ones are for a second', async () => {
    const clock = new VirtualClock();
    let copies = 0;
    const client = {
      query: ({ callback }: { callback: (cause: Error | null, rows: number) => void }) => {
        copies += 1;
        callback(stateOf('23505'), 0);
      },
      release: () => undefined,
    };
    const asked: string[][] = [];
    const pool = {
      connect: () => Promise.resolve(client),
      query: (sql: string, values: readonly Buffer[]) => {
        asked.push([sql]);
        const ids = (values[0] as Buffer).toString().match(/[a-z]-\d/g) ?? [];
        return Promise.resolve({ rows: ids.map((id) => ({ id })) });
      },
    } as unknown as pg.Pool;
    const landing = new Landing(
      pool,
      { clock, random: { fraction: () => 0, uuid: () => '' } as never },
      () => Promise.resolve(false),
      new Months(pool, clock),
    );
    assert.deepEqual(await landing.land([event('b-1'), event('a-1')]), ['landed', 'landed']);
    assert.equal(copies, 1);
    await clock.advance(999);
    await landing.land([event('a-2')]);
    assert.equal(copies, 1);
    await clock.advance(1);
    await landing.land([event('a-3')]);
    assert.equal(copies, 2);
    for (const [sql = ''] of asked) assert.match(sql, /ON CONFLICT \(id\) DO NOTHING RETURNING id$/);
  });
});
