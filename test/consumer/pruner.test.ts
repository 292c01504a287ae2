// What a consumer removes for its age, and when it does not: on a real file, with a clock of the test's own.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { Pruner } from '../../lib/consumer/pruner.ts';
import type { LandingEvent, Pruning, Warehouse } from '../../lib/ingest/warehouse.ts';
import { createLog } from '../../lib/process/log.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { sqliteStore, type SqliteStore } from '../support/warehouse-store.ts';

const DAY_MS = 86_400_000;

const event = (at: number): LandingEvent => ({
  id: `order-${at}`,
  type: 't',
  producer: 'shop',
  body: Buffer.from('{}'),
  acceptedAtMs: 1,
});

interface Running {
  readonly clock: VirtualClock;
  readonly store: SqliteStore;
  readonly calls: readonly Pruning[];
  /** Of its log. */
  readonly lines: readonly string[];
  /** What the warehouse says instead of removing rows. */
  readonly answers: { failure: Error | undefined };
  readonly pruned: () => Promise<string>;
}

/** A pruner on 1,200 rows, `ageDays` after they landed. */
async function start(
  t: TestContext,
  ageDays: number,
  retentionMs: Readonly<Record<Pruning['table'], number | undefined>>,
  oldestSeconds: () => number | undefined = () => 0,
): Promise<Running> {
  const store = sqliteStore();
  const real = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  await real.prepare();
  await real.land(Array.from({ length: 1_200 }, (_, at) => event(at)));
  const clock = new VirtualClock();
  clock.jump(Date.now() + ageDays * DAY_MS - clock.epochMs());
  const calls: Pruning[] = [];
  const answers: Running['answers'] = { failure: undefined };
  const prune: Warehouse['prune'] = (pruning, ...rest) => {
    calls.push(pruning);
    if (answers.failure !== undefined) return Promise.reject(answers.failure);
    return real.prune(pruning, ...rest);
  };
  const log = createLog('test', 'error').child({}, { level: 'silent' });
  const lines: string[] = [];
  for (const level of ['info', 'warn'] as const)
    t.mock.method(log, level, (fields: object, text: string) =>
      lines.push(`${level}: ${text} ${JSON.stringify(fields)}`),
    );
  const { pruned, registry } = consumerMetrics([], SYSTEM.clock);
  const pruner = new Pruner({
    ...SYSTEM,
    clock,
    warehouse: { prune },
    retentionMs,
    oldestSeconds,
    pruned,
    log,
  });
  const stopped = new AbortController();
  const running = pruner.run(stopped.signal);
  t.after(async () => {
    stopped.abort();
    await running;
    await real.close();
  });
  return {
    clock,
    store,
    calls,
    lines,
    answers,
    pruned: () => registry.getSingleMetricAsString('ingest_warehouse_pruned_total'),
  };
}

describe('a consumer with a retention', () => {
  it('removes old rows in batches, round by round, and counts them', async (t) => {
    const { clock, store, calls, lines, pruned } = await start(t, 11, { events: 10 * DAY_MS, quarantine: undefined });
    await eventually('all rows are gone', async () => {
      await clock.advance(1_000);
      return (await store.count()) === 0;
    });
    assert.ok(calls.length >= 3 && calls.every(({ table }) => table === 'events'), String(calls.length));
    assert.match(await pruned(), /ingest_warehouse_pruned_total\{table="events"\} 1200/);
    await eventually('it is logged', async () => {
      await clock.advance(1_000);
      return lines.length > 0;
    });
    assert.match(
      lines[0] ?? '',
      /^info: removed old rows of the warehouse \{"table":"events","rows":1200,"before":"20/,
    );
  });

  it('leaves younger rows alone, and all of them where it has none', async (t) => {
    const young = await start(t, 9, { events: 10 * DAY_MS, quarantine: undefined });
    const none = await start(t, 4_000, { events: undefined, quarantine: undefined });
    for (let round = 0; round < 200; round += 1) await young.clock.advance(1_000);
    await eventually('a round', () => young.calls.length > 0);
    assert.equal(await young.store.count(), 1_200);
    assert.deepEqual(young.lines, []);
    await none.clock.advance(1_000_000);
    assert.deepEqual([none.calls.length, await none.store.count()], [0, 1_200]);
  });

  it('begins a round half a minute to a minute after the one before', async (t) => {
    for (const [fraction, firstS] of [
      [0, 30],
      [0.999, 60],
    ] as const) {
      t.mock.method(SYSTEM.random, 'fraction', () => fraction);
      const { clock, calls } = await start(t, 1, { events: 1, quarantine: undefined });
      await clock.advance((firstS - 1) * 1_000);
      assert.equal(calls.length, 0);
      await clock.advance(1_000);
      await eventually('a round', () => calls.length === 1);
    }
  });

  it('says every ten minutes at most that it cannot remove rows, and why, and tries again', async (t) => {
    const { clock, calls, lines, answers } = await start(t, 1, { events: undefined, quarantine: 1 });
    answers.failure = new Error('locked');
    for (let second = 0; second < 590; second += 1) await clock.advance(1_000);
    assert.ok(calls.length >= 9, String(calls.length));
    assert.deepEqual(lines, [
      'warn: old rows of the warehouse could not be removed {"reason":"locked","table":"quarantine"}',
    ]);
    for (let second = 0; second < 120; second += 1) await clock.advance(1_000);
    assert.equal(lines.length, 2);
  });

  it('never removes what is younger than 48 hours', async (t) => {
    const { clock, store, calls } = await start(t, 1, { events: 1, quarantine: undefined });
    await eventually('a round', async () => {
      await clock.advance(1_000);
      return calls.length > 0;
    });
    assert.equal(await store.count(), 1_200);
  });

  it('waits while events wait on the queue, or while that is not known', async (t) => {
    let oldest: number | undefined = 31;
    const { clock, store, calls } = await start(t, 11, { events: DAY_MS, quarantine: DAY_MS }, () => oldest);
    for (let round = 0; round < 200; round += 1) await clock.advance(1_000);
    oldest = undefined;
    for (let round = 0; round < 200; round += 1) await clock.advance(1_000);
    assert.deepEqual([calls.length, await store.count()], [0, 1_200]);
    oldest = 0;
    await eventually('all rows are gone', async () => {
      await clock.advance(1_000);
      return (await store.count()) === 0;
    });
  });
});
