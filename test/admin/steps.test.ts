// The steps of ingest-admin's changes against a queue and a warehouse that a test answers for, on a virtual clock.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { audited } from '../../lib/admin/audit.ts';
import { readCommandLine, UsageError } from '../../lib/admin/command-line.ts';
import { runCommand } from '../../lib/admin/run-command.ts';
import type { Session } from '../../lib/admin/session.ts';
import type { EntryState, QueueAdmin } from '../../lib/ingest/queue-admin.ts';
import type { QuarantineBody, WarehouseAdmin } from '../../lib/ingest/warehouse-admin.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const row = (entry: string, change: Partial<QuarantineBody> = {}): QuarantineBody => ({
  entry,
  id: `id-${entry}`,
  traceparent: undefined,
  producer: 'shop',
  reason: 'schema: x',
  acceptedAtMs: 1,
  quarantinedAtMs: 2,
  bodyBytes: 2,
  body: Buffer.from('{}'),
  ...change,
});

/** Rows of a quarantine, and what becomes of each when it is replayed. */
class Bench {
  readonly clock = Object.assign(new VirtualClock(), {
    sleep: (ms: number): Promise<void> => this.clock.advance(ms),
  });
  readonly stop = new AbortController();
  readonly rows = new Map<string, QuarantineBody>();
  readonly calls: { readonly names: readonly string[]; readonly again: boolean }[] = [];
  readonly progress: string[] = [];
  /** Ends the way of a replayed row: it lands, or its entry is in this state. */
  fate: (name: string, times: number) => EntryState | 'lands' = () => 'lands';
  fresh = true;
  alive = 1;
  out = '';
  err = '';
  audits: unknown[] = [];

  constructor(...names: readonly string[]) {
    for (const name of names) this.rows.set(name, row(name));
  }

  session(change: { queue?: Partial<QueueAdmin>; warehouse?: Partial<WarehouseAdmin>; json?: boolean } = {}): Session {
    const names = (): string[] => [...this.rows.keys()].sort();
    const warehouse = {
      quarantineRow: (name: string) => Promise.resolve(this.rows.get(name)),
      quarantineCount: () => Promise.resolve(this.rows.size),
      quarantineNames: (_: unknown, after: string, limit: number) =>
        Promise.resolve(
          names()
            .filter((name) => name > after)
            .slice(0, limit),
        ),
      present: (asked: readonly string[]) => Promise.resolve(new Set(asked.filter((name) => this.rows.has(name)))),
      drop: (asked: readonly string[]) => Promise.resolve(asked.filter((name) => this.rows.delete(name)).length),
      eraseTraces: () => Promise.resolve(undefined),
      audit: (record: { changed: number | undefined }) => Promise.resolve(void this.audits.push(record.changed)),
      ...change.warehouse,
    };
    const queue = {
      replay: (rows: readonly { replayOf: string }[], again: boolean) => {
        this.calls.push({ names: rows.map(({ replayOf }) => replayOf), again });
        const fresh = this.fresh || again;
        return Promise.resolve(rows.map(({ replayOf }) => ({ source: 'q', entry: replayOf, fresh })));
      },
      states: (entries: readonly { entry: string }[]) =>
        Promise.resolve(
          entries.map(({ entry }) => {
            const times = this.calls.filter(({ names: some }) => some.includes(entry)).length;
            const fate = this.fate(entry, times);
            if (fate !== 'lands') return fate;
            this.rows.delete(entry);
            return 'done' as const;
          }),
        ),
      replicasAlive: () => Promise.resolve(this.alive),
      ...change.queue,
    };
    return {
      clock: this.clock,
      random: { uuid: () => 'uuid', fraction: () => 0.5 },
      queue,
      warehouse,
      json: change.json ?? false,
      print: (text: string) => void (this.out += text),
      tell: (text: string) => void (this.err += `${text}\n`),
      confirm: () => Promise.resolve(true),
      stopped: this.stop.signal,
      progress: () => ({
        update: (done: number, of: number) => void this.progress.push(`${done}/${of}`),
        stop: () => void this.progress.push('stopped'),
      }),
    } as unknown as Session;
  }

  run(line: string, session = this.session()): Promise<number> {
    const read = readCommandLine(line.split(' '), this.clock.epochMs());
    assert.ok(typeof read === 'object');
    return runCommand(session, read.command, () => undefined);
  }
}

describe('the steps of a replay', () => {
  const many = (count: number): string[] =>
    Array.from({ length: count }, (_, at) => `r-${String(at).padStart(4, '0')}`);

  it('are calls of 32 rows, with 256 rows on their way at most', async () => {
    const bench = new Bench(...many(600));
    let waiting = 0;
    let most = 0;
    const { warehouse: given } = bench.session();
    const warehouse = {
      present: (names: readonly string[]) => {
        most = Math.max(most, (waiting = names.length));
        return given.present(names);
      },
    };
    assert.equal(await bench.run('quarantine replay --all', bench.session({ warehouse })), 0);
    assert.equal(bench.out, '600 events landed\n');
    assert.ok(bench.calls.every(({ names, again }) => names.length <= 32 && !again));
    assert.deepEqual(
      bench.calls.flatMap(({ names }) => names),
      many(600),
      'each once',
    );
    assert.ok(most <= 256 && waiting > 0, `${most} on their way`);
    assert.deepEqual(bench.audits, [undefined, 600]);
    assert.deepEqual(bench.progress.slice(-2), ['600/600', 'stopped']);
  });

  it('have no more than 4 MiB of bodies in one call, and one body of any length', async () => {
    const bench = new Bench();
    for (const [name, megabytes] of [
      ['a', 5],
      ['b', 2],
      ['c', 2],
      ['d', 1],
    ] as const)
      bench.rows.set(name, row(name, { body: Buffer.alloc(megabytes << 20) }));
    assert.equal(await bench.run('quarantine replay --all'), 0);
    assert.deepEqual(
      bench.calls.map(({ names }) => names),
      [['a'], ['b', 'c'], ['d']],
    );
  });

  it('leave rows whose reason is invalid_entry, and name what was refused again or lost, twenty at most', async () => {
    const bench = new Bench(...many(23), 'lost', 'none');
    bench.rows.set('none', row('none', { reason: 'invalid_entry: x' }));
    bench.fate = (name) => (name === 'lost' ? 'gone' : 'done');
    assert.equal(await bench.run('quarantine replay --all'), 1);
    assert.match(
      bench.out,
      /^0 events landed\n23 rows could not land again and stayed in the quarantine\n {2}r-0000\n/,
    );
    assert.match(bench.out, /\n {2}r-0019\n {2}and 3 more\n1 row got lost on the queue [^\n]*; run again\n {2}lost\n/);
    assert.match(bench.out, /\n1 row cannot be replayed: there is no body, or no producer\n {2}none\n$/);
    assert.deepEqual(bench.audits, [undefined, 24]);
  });

  it('exit with 1 for one row that got lost, for one that was refused, and for one that cannot be replayed', async () => {
    for (const [fate, reason] of [
      ['gone', 'schema'],
      ['done', 'schema'],
      ['lands', 'invalid_entry'],
    ] as const) {
      const bench = new Bench('a');
      bench.rows.set('a', row('a', { reason }));
      bench.fate = () => fate;
      assert.equal(await bench.run('quarantine replay a'), 1, fate);
    }
    assert.equal(await new Bench('a').run('quarantine replay a'), 0);
  });

  it('put the replay of an earlier run on the queue again only where it ended and its row stayed', async () => {
    const bench = new Bench('ended', 'landed');
    bench.fresh = false;
    bench.fate = (name, times) => (name === 'ended' && times === 1 ? 'done' : 'lands');
    assert.equal(await bench.run('quarantine replay --all'), 0);
    assert.deepEqual(bench.calls, [
      { names: ['ended', 'landed'], again: false },
      { names: ['ended'], again: true },
    ]);
    assert.equal(bench.out, '2 events landed\n');
    assert.deepEqual(bench.audits, [undefined, 1], 'one was put there by this run');
  });

  it('wait for a consumer for 10 s, and longer where one gives a sign of life', async () => {
    const bench = new Bench('a');
    bench.alive = 0;
    bench.fate = () => 'unread';
    assert.equal(await bench.run('quarantine replay a --json', bench.session({ json: true })), 1);
    assert.match(bench.err, /^no consumer gives a sign of life: 1 event on the queue will land once one runs$/m);
    assert.ok(bench.clock.ms() > 10_000 && bench.clock.ms() < 10_200, `${bench.clock.ms()} ms`);
    assert.deepEqual(JSON.parse(bench.out), {
      landed: 0,
      refused: [],
      lost: [],
      notReplayed: [],
      waiting: 1,
      missing: 0,
    });
    const patient = new Bench('a');
    patient.fate = () => (patient.clock.ms() > 60_000 ? 'lands' : 'held');
    assert.equal(await patient.run('quarantine replay a'), 0);
  });

  it('ask how many events are put back, and count each row that has ended', async () => {
    const bench = new Bench('a', 'b', 'c', 'd');
    bench.rows.set('d', row('d', { reason: 'invalid_entry: x' }));
    bench.fate = (name) => (name === 'a' ? 'lands' : name === 'b' ? 'done' : 'gone');
    const questions: string[] = [];
    const session = Object.assign(bench.session(), {
      confirm: (question: string) => Promise.resolve(questions.push(question) > 0),
    });
    assert.equal(await bench.run('quarantine replay --all', session), 1);
    assert.deepEqual(questions, ['Put 4 events back on the queue?']);
    assert.deepEqual(bench.progress, ['4/4', 'stopped']);
  });

  it('begin no other row behind a stop', async () => {
    const bench = new Bench(...many(100));
    bench.fate = () => 'unread';
    const { queue: given } = bench.session();
    const queue = {
      replay: (...call: Parameters<QueueAdmin['replay']>) => given.replay(...call).finally(() => bench.stop.abort()),
    };
    assert.equal(await bench.run('quarantine replay --all', bench.session({ queue })), 1);
    assert.equal(bench.calls.length, 1);
    assert.match(bench.err, /interrupted; 32 events on the queue will land; run again for the rest/);
    assert.equal(bench.progress.at(-1), 'stopped');
  });
});

describe('the steps of other changes', () => {
  it('drop: the pages of a selection, no row beyond its limit, and what only the operator can do is said', async () => {
    const bench = new Bench(...Array.from({ length: 1_200 }, (_, at) => `r-${String(at).padStart(4, '0')}`));
    const eraseTraces = (): Promise<string> => Promise.resolve('VACUUM FULL');
    assert.equal(
      await bench.run('quarantine drop --all --limit 700', bench.session({ warehouse: { eraseTraces } })),
      0,
    );
    assert.deepEqual(bench.progress, ['500/700', '700/700', 'stopped']);
    assert.doesNotMatch(bench.err, /interrupted/);
    assert.equal(bench.rows.size, 500);
    assert.match(bench.err, /^VACUUM FULL$/m);
    const none = new Bench();
    assert.equal(await none.run('quarantine drop a'), 1);
    assert.equal(none.err, 'no such rows in the quarantine\n');
    const all = new Bench('a');
    assert.equal(await all.run('quarantine drop a'), 0);
    assert.doesNotMatch(all.err, /undefined/);
  });

  it('erase: wait for a consumer that holds the entry for 30 s, and say that it was not done', async () => {
    const copy = {
      source: 'q',
      entry: '1-0',
      stream: 's',
      id: 'a',
      producer: 'shop',
      acceptedAtMs: 1,
      replayOf: undefined,
    };
    const body = Buffer.from('{"id":"a","type":"t","n":1}');
    const erasing = async (letsGoMs: number) => {
      const bench = new Bench();
      const queue: Partial<QueueAdmin> = {
        length: () => Promise.resolve(100_001),
        copies: () => Promise.resolve([{ ...copy, body }]),
        erase: () => Promise.resolve(bench.clock.ms() >= letsGoMs ? 'erased' : 'held'),
      };
      const warehouse: Partial<WarehouseAdmin> = {
        landed: () => Promise.resolve(undefined),
        quarantineOf: () => Promise.resolve([]),
        land: () => Promise.resolve(),
      };
      return { bench, code: await bench.run('erase a', bench.session({ queue, warehouse })) };
    };
    const late = await erasing(Number.POSITIVE_INFINITY);
    assert.doesNotMatch(late.bench.err, /before|interrupted/);
    assert.equal(late.code, 1);
    assert.match(late.bench.err, /not done: a consumer holds 1 entry; run again when it has landed them/);
    assert.ok(late.bench.clock.ms() > 30_000 && late.bench.clock.ms() <= 30_200, `${late.bench.clock.ms()} ms`);
    const soon = await erasing(29_000);
    assert.equal(soon.code, 0);
    assert.match(soon.bench.out, /^erased: 1 entry on the queue/);
  });

  it('erase: look once at one event, and at each of several until a stop, and say what was found', async () => {
    const erasing = async (line: string, known: Readonly<Record<string, 'erased' | 'there'>>, stopAt?: string) => {
      const bench = new Bench();
      const questions: string[] = [];
      const looked: string[] = [];
      const erasedBody = (id: string): string => `{"id":"${id}","type":"t","erased":true}`;
      const queue: Partial<QueueAdmin> = {
        length: () => Promise.resolve(100_001),
        copies: (id) => {
          looked.push(id);
          if (id === stopAt) bench.stop.abort();
          return Promise.resolve([]);
        },
      };
      const warehouse: Partial<WarehouseAdmin> = {
        landed: (id) =>
          Promise.resolve(
            known[id] === undefined
              ? undefined
              : {
                  ...{ id, type: 't', producer: 'shop', acceptedAtMs: 1, landedAtMs: 1 },
                  body: known[id] === 'erased' ? erasedBody(id) : `{"id":"${id}","type":"t"}`,
                },
          ),
        quarantineOf: () => Promise.resolve([]),
        overwriteLanded: () => Promise.resolve(),
      };
      const session = Object.assign(bench.session({ queue, warehouse }), {
        confirm: (question: string) => Promise.resolve(questions.push(question) > 0),
      });
      const code = await bench.run(line, session);
      return { code, questions, looked, progress: bench.progress, err: bench.err.replace(/^audit: .*\n/m, '') };
    };
    const notSeen =
      'entries that are in no index are not looked for among the 100,001 entries of the queue; --scan looks at each\n';
    const one = await erasing('erase a', { a: 'there' });
    assert.equal(one.code, 0);
    assert.deepEqual(one.looked, ['a']);
    assert.equal(one.questions.length, 1);
    assert.equal(one.err, notSeen);
    const before = await erasing('erase a', { a: 'erased' });
    assert.equal(before.code, 0);
    assert.deepEqual(before.questions, [], 'there is nothing to ask about');
    assert.equal(before.err, `${notSeen}1 event had been erased before\n`);
    const several = await erasing('erase a b c', { a: 'there', b: 'erased' });
    assert.equal(several.code, 1);
    assert.deepEqual(several.looked, ['a', 'b', 'c']);
    assert.deepEqual(several.progress, ['1/3', '2/3', '3/3', 'stopped']);
    assert.equal(several.err, `${notSeen}1 event had been erased before\nno event with the id c was found\n`);
    const stopped = await erasing('erase a b c', { a: 'there', b: 'there', c: 'there' }, 'b');
    assert.equal(stopped.code, 1);
    assert.deepEqual(stopped.looked, ['a', 'b']);
    assert.equal(stopped.err, `${notSeen}interrupted; run again for the rest\n`);
  });

  it('schema try: count what a schema would refuse, show ten of it, and look no further behind a stop', async () => {
    const trying = async (pages: readonly (readonly string[])[], stopAt = Number.POSITIVE_INFINITY) => {
      const bench = new Bench();
      const warehouse: Partial<WarehouseAdmin> = {
        async *landedSince() {
          for (const [at, page] of pages.entries()) {
            if (at === stopAt) bench.stop.abort();
            yield await Promise.resolve(page.map((id) => ({ id, body: `{"id":"${id}"}` })));
          }
        },
      };
      const session = Object.assign(bench.session({ warehouse }), {
        readSchema: () => Promise.resolve((body: Buffer) => (body.includes('bad') ? ['is bad', 'twice'] : [])),
      });
      return { code: await bench.run('schema try t.json', session), bench };
    };
    const good = await trying([['a', 'b'], ['c']]);
    assert.equal(good.code, 0);
    assert.match(good.bench.out, /^0 of 3 events of t since \S+ would be refused\n$/);
    assert.equal(good.bench.err, '');
    assert.deepEqual(good.bench.progress, ['2/2', '3/3', 'stopped']);
    const bad = await trying([Array.from({ length: 11 }, (_, at) => `bad-${at}`)]);
    assert.equal(bad.code, 1);
    assert.match(bad.bench.out, /^11 of 11 events/);
    assert.match(bad.bench.out, /\n {2}bad-0 {2}is bad; twice\n(?: {2}bad-\d .*\n){9}$/);
    const stopped = await trying([['a'], ['b'], ['c']], 1);
    assert.equal(stopped.code, 1);
    assert.match(stopped.bench.out, /^0 of 2 events/);
    assert.equal(stopped.bench.err, 'interrupted: newer events were not looked at\n');
  });

  it('land-again: the number and the time for programs, and that there is nothing to read', async () => {
    const landing = async (entries: number, json: boolean) => {
      const bench = new Bench();
      let moved = 0;
      const queue: Partial<QueueAdmin> = {
        readSince: (_, counted) => {
          counted(entries);
          return Promise.resolve({ entries, landAgain: () => Promise.resolve(void (moved += 1)) });
        },
      };
      const questions: string[] = [];
      const session = Object.assign(bench.session({ queue, json }), {
        confirm: (question: string) => Promise.resolve(questions.push(question) > 0),
      });
      const code = await bench.run('land-again --since 2026-01-01', session);
      return { bench, code, moved, questions };
    };
    const since = '2026-01-01T00:00:00.000Z';
    const done = await landing(3, true);
    assert.deepEqual([done.code, done.moved, JSON.parse(done.bench.out)], [0, 1, { entries: 3, since }]);
    assert.deepEqual(done.bench.progress, ['3/3', 'stopped']);
    assert.deepEqual(done.bench.audits, [undefined, 3]);
    assert.deepEqual((await landing(1, true)).questions, [
      `Land 1 entry since ${since} again? Rows that are there stay as they are.`,
    ]);
    const none = await landing(0, true);
    assert.deepEqual([none.code, none.moved, JSON.parse(none.bench.out)], [1, 0, { entries: 0, since }]);
    assert.equal(none.bench.err, `the consumers have read no entry since ${since} that the queue still has\n`);
    assert.match(
      (await landing(3, false)).bench.out,
      /^3 entries since \S+ are to be landed again; ingest-admin status/,
    );
  });

  it('prune: statements of 1,000 rows with a pause between, until a stop', async () => {
    const bench = new Bench();
    const asked: unknown[] = [];
    const session = (steps: number): Session =>
      bench.session({
        queue: { status: () => Promise.resolve({ servers: [], partitions: [], away: [] }) },
        warehouse: {
          pruneBound: ({ beforeMs }) => Promise.resolve(beforeMs),
          prune: (_, from, limit) => {
            asked.push([from, limit, bench.clock.ms()]);
            if (asked.length === steps) bench.stop.abort();
            return Promise.resolve({ removed: 2, next: asked.length < 3 ? ['at', `${asked.length}`] : undefined });
          },
        },
      });
    assert.equal(await bench.run('prune --older-than 400d', session(9)), 0);
    assert.deepEqual(asked, [
      [undefined, 1_000, 0],
      [['at', '1'], 1_000, 10],
      [['at', '2'], 1_000, 20],
    ]);
    assert.equal(bench.clock.ms(), 20, 'no pause behind the last');
    assert.match(bench.out, /^removed 6 rows from before /);
    assert.deepEqual(bench.progress, ['2/2', '4/4', '6/6', 'stopped']);
    asked.length = 0;
    assert.equal(await bench.run('prune --older-than 400d', session(2)), 1);
    assert.match(bench.err, /interrupted; run again for the rest\n/);
    assert.deepEqual(bench.audits, [undefined, 6, undefined, 4]);
  });

  it('prune: ask about events, those of one type, or rows of the quarantine', async () => {
    const asking = async (line: string): Promise<readonly string[]> => {
      const bench = new Bench();
      const questions: string[] = [];
      const session = bench.session({
        queue: { status: () => Promise.resolve({ servers: [], partitions: [], away: [] }) },
        warehouse: { pruneBound: ({ beforeMs }) => Promise.resolve(beforeMs) },
      });
      Object.assign(session, { confirm: (question: string) => Promise.resolve(questions.push(question) < 0) });
      assert.equal(await bench.run(`prune --older-than 2025-01-01${line}`, session), 1);
      assert.equal(bench.out + bench.err, '');
      return questions;
    };
    const end = 'from before 2025-01-01T00:00:00.000Z, for good?';
    assert.deepEqual(await asking(''), [`Remove all events ${end}`]);
    assert.deepEqual(await asking(' --type t'), [`Remove all events of type t ${end}`]);
    assert.deepEqual(await asking(' --quarantine'), [`Remove all quarantine rows ${end}`]);
  });

  it('are recorded before they begin, with 400 characters of what they change on the line', async () => {
    const bench = new Bench();
    const what = 'x'.repeat(401);
    const change = (): Promise<0> => {
      assert.deepEqual(bench.audits, [undefined]);
      return Promise.resolve(0);
    };
    assert.equal(await audited(bench.session(), 'erase', what, change), 0);
    assert.match(bench.err, /^audit: 2026-01-01T00:00:00\.000Z \S+@\S+ erase x{400}…: 0 changed\n$/);
    const exact = new Bench();
    await audited(exact.session(), 'erase', 'y'.repeat(400), () => Promise.resolve(0));
    assert.match(exact.err, / erase y{400}: 0 changed\n$/);
  });
});

describe('the bounds of the command line', () => {
  const NOW_MS = Date.UTC(2026, 0, 2);
  const read = (line: string): unknown => {
    const found = readCommandLine(line.split(' '), NOW_MS);
    assert.ok(typeof found === 'object');
    return found.command;
  };

  it('are 1 and 999,999,999 rows, and six digits of a unit of time', () => {
    const list = (line: string): { limit: number; filter: { sinceMs?: number } } =>
      read(`quarantine list ${line}`) as ReturnType<typeof list>;
    assert.deepEqual(
      [list('--limit 1').limit, list('--limit 999999999').limit, list('--json').limit],
      [1, 999_999_999, 50],
    );
    for (const [text, agoMs] of [
      ['1s', 1e3],
      ['1m', 6e4],
      ['1h', 36e5],
      ['1d', 864e5],
      ['999999s', 999_999e3],
    ] as const)
      assert.equal(list(`--since ${text}`).filter.sinceMs, NOW_MS - agoMs, text);
    for (const wrong of [
      '--limit 1000000000',
      '--limit -1',
      '--since 1000000s',
      '--since x1s',
      '--since 1sx',
      '--since 1w',
    ])
      assert.throws(() => list(wrong), UsageError, wrong);
  });

  it('are 48 hours of age for rows to remove, that very moment included', () => {
    assert.deepEqual(read('prune --older-than 48h'), {
      kind: 'prune',
      pruning: { table: 'events', beforeMs: NOW_MS - 48 * 36e5, type: undefined },
    });
    assert.throws(() => read('prune --older-than 172799s'), /expected 48h at least/);
  });

  it('take options of other commands for a mistake, and --json and --yes with each', () => {
    const lines = ['status', 'event a', 'quarantine show a', 'land-again --since 1h', 'schema try t.json', 'erase a'];
    for (const line of lines) {
      read(`${line} --json --yes`);
      for (const other of ['--all', '--quarantine', '--reason r', '--limit 1'])
        assert.throws(() => read(`${line} ${other}`), /has no meaning for this command/, `${line} ${other}`);
    }
    assert.deepEqual(read('status --watch'), { kind: 'status', watch: true });
    assert.deepEqual(read('schema try x/t.json'), { kind: 'try', path: 'x/t.json', sinceMs: NOW_MS - 864e5 });
  });
});
