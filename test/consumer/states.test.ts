// What a consumer says of itself while its queue or its warehouse comes and goes, on a clock that the test moves and
// with dependencies whose answers it gives; and what it alarms people about.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { Consumer } from '../../lib/consumer/consumer.ts';
import { readConsumerConfig } from '../../lib/consumer/config.ts';
import { consumerMetrics, replicaState } from '../../lib/consumer/metrics.ts';
import { QUARANTINE_REASONS } from '../../lib/consumer/quarantine.ts';
import { Watch } from '../../lib/consumer/watch.ts';
import {
  GroupVanished,
  type Delivery,
  type EntryName,
  type QueueReader,
  type QueueState,
} from '../../lib/ingest/queue.ts';
import { WarehouseMisconfigured, type LandingEvent, type Warehouse } from '../../lib/ingest/warehouse.ts';
import { createLog } from '../../lib/process/log.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const delivery = (at: number, change: Partial<Delivery> = {}): Delivery => ({
  entry: `1-${at}`,
  source: 'q/ingest',
  producer: 'shop',
  body: Buffer.from(`{"id":"order-${at}","type":"t"}`),
  notes: {},
  acceptedAtMs: 1,
  ...change,
});

/** A consumer whose dependencies do what the test says: an error to fail with, or nothing. */
function start(t: TestContext, migration?: string) {
  const clock = new VirtualClock();
  const answers: {
    queue: Error | undefined;
    warehouse: Error | undefined;
    reads: (readonly Delivery[])[];
    land: () => Promise<void>;
    /** Also those that bring something take 100 ms. */
    slowReads: boolean;
    /** Joining ends the fault of the queue. */
    joinMends: boolean;
  } = {
    queue: undefined,
    warehouse: undefined,
    reads: [],
    land: () => Promise.resolve(),
    slowReads: false,
    joinMends: false,
  };
  const seen = {
    joins: 0,
    reads: 0,
    readsMost: 0,
    /** How many entries each read may bring, and how long it may wait. */
    asked: [] as { readonly max: number; readonly waitMs: number }[],
    landed: [] as string[],
    acknowledged: [] as string[],
    lines: [] as string[],
    fields: [] as unknown[],
  };
  const ask = <T>(fault: Error | undefined, answer: () => T): Promise<T> =>
    fault === undefined ? Promise.resolve(answer()) : Promise.reject(fault);
  const reader = {
    bodyBytesMax: undefined,
    join: () => {
      if (answers.joinMends) answers.queue = undefined;
      return ask(answers.queue, () => {
        seen.joins += 1;
        return seen.joins > 1;
      });
    },
    read: async (max: number, _: number, waitMs: number) => {
      seen.asked.push({ max, waitMs });
      const read = answers.reads.shift();
      seen.reads += 1;
      seen.readsMost = Math.max(seen.readsMost, seen.reads);
      if (read === undefined || answers.queue !== undefined || answers.slowReads) await clock.sleep(100);
      seen.reads -= 1;
      return ask(answers.queue, () => read ?? []);
    },
    acknowledge: (entries: readonly EntryName[]) =>
      ask(answers.queue, () => {
        seen.acknowledged.push(...entries.map(({ entry }) => entry));
        return entries.length;
      }),
  } as unknown as QueueReader;
  const warehouse = {
    prepare: () => ask(answers.warehouse, () => migration),
    land: async (batch: readonly LandingEvent[]) => {
      await answers.land();
      return ask(answers.warehouse, () => {
        seen.landed.push(...batch.map(({ id }) => id));
        return batch.map(() => 'landed');
      });
    },
  } as unknown as Warehouse;
  const log = createLog('test', 'error').child({}, { level: 'silent' });
  for (const level of ['info', 'warn', 'error'] as const)
    t.mock.method(log, level, (...said: readonly unknown[]) => {
      seen.lines.push(`${level}: ${String(said.at(-1))}`);
      seen.fields.push(said[0]);
    });
  const metrics = consumerMetrics(QUARANTINE_REASONS, clock);
  const consumer = new Consumer({ ...SYSTEM, clock, reader, warehouse, metrics, log, batchMax: 8 });
  const done = consumer.run();
  t.after(async () => {
    consumer.stop();
    for (let tries = 0; tries < 20; tries += 1) await clock.advance(1_000);
    await done;
  });
  return { clock, answers, seen, consumer, metrics };
}

describe('a consumer that starts', () => {
  it('has the trouble that it has not joined the queue, and none once it has', async (t) => {
    const { clock, consumer, seen } = start(t);
    assert.equal(consumer.trouble, 'the queue is not joined yet');
    assert.equal(consumer.prepared, false);
    assert.equal(consumer.warehouseAnswers, false);
    assert.equal(consumer.queueAnswers, true);
    await clock.advance(1_000);
    assert.equal(consumer.trouble, undefined);
    assert.equal(consumer.prepared, true);
    assert.equal(consumer.warehouseAnswers, true);
    assert.deepEqual(seen.lines, ['info: the warehouse is ready', 'info: events are landing']);
  });
});

describe('a consumer that reads', () => {
  it('waits for no events once a read brought as many as it might, and for a second once one brought less', async (t) => {
    const { clock, answers, seen } = start(t);
    await clock.advance(1_000);
    answers.reads.push([delivery(1), delivery(2)], [delivery(3)]);
    const before = seen.asked.length;
    await clock.advance(1_000);
    assert.deepEqual(seen.asked.slice(before, before + 2), [
      { max: 2, waitMs: 1_000 },
      { max: 4, waitMs: 0 },
    ]);
    assert.deepEqual(seen.asked.at(-1), { max: 4, waitMs: 1_000 });
  });

  it('reads less at a time when the queue fails, and as much as before when the warehouse does', async (t) => {
    const { clock, answers, seen } = start(t);
    answers.reads.push(...Array.from({ length: 3 }, () => Array.from({ length: 8 }, (_, at) => delivery(at))));
    await clock.advance(1_000);
    assert.equal(seen.asked.at(-1)?.max, 8);
    answers.warehouse = new Error('away');
    answers.reads.push([delivery(20)]);
    await clock.advance(5_000);
    answers.warehouse = undefined;
    await clock.advance(10_000);
    assert.equal(seen.asked.at(-1)?.max, 8);
    answers.queue = new Error('away');
    await clock.advance(2_000);
    answers.queue = undefined;
    await clock.advance(2_000);
    assert.equal(seen.asked.at(-1)?.max, 1);
  });

  it('has one read under way where the queue holds no more, and four in a backlog', async (t) => {
    const { clock, answers, seen } = start(t);
    await clock.advance(1_000);
    assert.equal(seen.readsMost, 1);
    const full = Array.from({ length: 12 }, (_, read) =>
      Array.from({ length: 16 }, (__, at) => delivery(read * 16 + at)),
    );
    answers.reads.push(...full);
    answers.slowReads = true;
    await clock.advance(2_000);
    assert.equal(seen.readsMost, 4);
    assert.equal(seen.landed.length, 12 * 16);
  });
});

describe('a consumer whose warehouse goes away', () => {
  it('says so once, keeps the batch, lands it when the warehouse is back, and says that too', async (t) => {
    const { clock, answers, seen, consumer, metrics } = start(t);
    await clock.advance(1_000);
    seen.lines.length = 0;
    answers.warehouse = new Error('refused');
    answers.reads.push([delivery(1), delivery(2)]);
    await clock.advance(5_000);
    assert.equal(consumer.trouble, 'the warehouse is away: refused');
    assert.equal(consumer.warehouseAnswers, false);
    assert.equal(consumer.queueAnswers, true);
    assert.ok(metrics.failures.counter({ dependency: 'warehouse' }).value > 1, 'it tries again');
    assert.deepEqual(seen.lines, ['error: the warehouse is away; trying again until it works']);
    assert.deepEqual(seen.fields.at(-1), { reason: 'refused', heldBack: 0 });
    assert.deepEqual(seen.acknowledged, []);
    answers.warehouse = undefined;
    await clock.advance(10_000);
    assert.equal(consumer.trouble, undefined);
    assert.deepEqual(seen.landed, ['order-1', 'order-2']);
    assert.deepEqual(seen.acknowledged, ['1-1', '1-2']);
    assert.deepEqual(seen.lines.slice(1), ['info: the warehouse is back', 'info: events are landing']);
  });

  it('tells one that cannot work as configured from one that is away', async (t) => {
    const { clock, answers, consumer } = start(t);
    await clock.advance(1_000);
    answers.warehouse = new WarehouseMisconfigured('no such database');
    answers.reads.push([delivery(1)]);
    await clock.advance(1_000);
    assert.equal(consumer.trouble, 'the warehouse cannot work as configured: no such database');
  });
});

describe('a consumer whose warehouse waits for a migration', () => {
  it('says what that waits for', async (t) => {
    const { clock, seen } = start(t, 'session 7');
    await clock.advance(1_000);
    const at = seen.lines.indexOf('warn: the migration of the warehouse waits, and events land without it: session 7');
    assert.deepEqual(seen.fields[at], { reason: 'session 7' });
  });
});

describe('a consumer whose queue goes away', () => {
  it('has that trouble until it is back, and joins no second time', async (t) => {
    const { clock, answers, seen, consumer } = start(t);
    await clock.advance(1_000);
    answers.queue = new Error('cut');
    await clock.advance(5_000);
    assert.equal(consumer.trouble, 'the queue is away: cut');
    assert.equal(consumer.queueAnswers, false);
    assert.equal(consumer.warehouseAnswers, true);
    answers.queue = undefined;
    answers.reads.push([delivery(1)]);
    await clock.advance(5_000);
    assert.equal(consumer.trouble, undefined);
    assert.equal(consumer.queueAnswers, true);
    assert.deepEqual(seen.acknowledged, ['1-1']);
    assert.equal(seen.joins, 1);
    assert.ok(seen.lines.includes('info: the queue is back'), seen.lines.join('\n'));
  });

  it('asks it no more once it has been told to stop', async (t) => {
    const { clock, answers, seen, consumer } = start(t);
    await clock.advance(1_000);
    answers.queue = new Error('cut');
    await clock.advance(5_000);
    const asked = seen.asked.length;
    consumer.stop();
    await clock.advance(5_000);
    assert.equal(seen.asked.length, asked);
  });

  it('does not read again before it has joined again, where the group has vanished', async (t) => {
    const { clock, answers, seen } = start(t);
    await clock.advance(1_000);
    answers.joinMends = true;
    answers.queue = new GroupVanished('gone');
    await clock.advance(2_000);
    assert.equal(seen.joins, 2);
  });

  it('joins again where the group has vanished, and counts that', async (t) => {
    const { clock, answers, seen, consumer, metrics } = start(t);
    await clock.advance(1_000);
    answers.queue = new GroupVanished('gone');
    await clock.advance(500);
    assert.ok(metrics.groupVanished.value >= 1);
    answers.queue = undefined;
    answers.reads.push([delivery(1)]);
    await clock.advance(5_000);
    assert.equal(seen.joins, 2);
    assert.equal(consumer.trouble, undefined);
    assert.deepEqual(seen.landed, ['order-1']);
    assert.ok(seen.lines.includes('warn: made the consumer group, from the beginning of the queue'));
  });
});

describe('the watch over the queue and the warehouse', () => {
  const watch = (t: TestContext) => {
    const clock = new VirtualClock();
    const lines: string[] = [];
    const fields: unknown[] = [];
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    for (const level of ['warn', 'error'] as const)
      t.mock.method(log, level, (...said: readonly unknown[]) => {
        lines.push(`${level}: ${String(said.at(-1))}`);
        fields.push(said[0]);
      });
    const queue = { size: { memoryBytes: 0, memoryLimitBytes: 0, events: 1 } };
    const state = { prepared: true, probe: (): Promise<void> => Promise.resolve() };
    const watching = new Watch({
      ...{ queue: queue, warehouse: { probe: () => state.probe() }, clock, log },
      prepared: () => state.prepared,
    });
    watching.start();
    t.after(() => watching.close());
    return { clock, lines, fields, queue, state, watching };
  };

  for (const [memoryBytes, memoryLimitBytes, warns] of [
    [799, 1_000, false],
    [800, 1_000, true],
    [1_001, 1_000, true],
    [1_000, 0, false],
    [0, 0, false],
  ] as const)
    it(`${warns ? 'warns' : 'does not warn'} of ${memoryBytes} bytes in memory with a limit of ${memoryLimitBytes}`, async (t) => {
      const { clock, lines, queue } = watch(t);
      queue.size = { memoryBytes, memoryLimitBytes, events: 1 };
      await clock.advance(1_000);
      assert.equal(lines.filter((line) => /^warn: the queue is nearly full/.test(line)).length, warns ? 1 : 0);
    });

  it('says how full the queue is', async (t) => {
    const { clock, fields, queue } = watch(t);
    queue.size = { memoryBytes: 900, memoryLimitBytes: 1_000, events: 7 };
    await clock.advance(1_000);
    assert.deepEqual(fields, [{ events: 7, memoryBytes: 900, memoryLimitBytes: 1_000, percent: 90 }]);
  });

  it('repeats its warning once a minute', async (t) => {
    const { clock, lines, queue } = watch(t);
    queue.size = { memoryBytes: 1, memoryLimitBytes: 1, events: 1 };
    await clock.advance(59_000);
    assert.equal(lines.length, 1);
    await clock.advance(3_000);
    assert.equal(lines.length, 2);
  });

  it('asks the warehouse once it is prepared, and says why it cannot be written to until it can', async (t) => {
    const { clock, state, watching } = watch(t);
    state.prepared = false;
    state.probe = () => Promise.reject(new Error('read-only'));
    await clock.advance(2_000);
    assert.equal(watching.warehouseTrouble, undefined);
    state.prepared = true;
    await clock.advance(1_000);
    assert.equal(watching.warehouseTrouble, 'the warehouse is away: read-only');
    state.probe = () => Promise.reject(new WarehouseMisconfigured('no rights'));
    await clock.advance(1_000);
    assert.equal(watching.warehouseTrouble, 'the warehouse cannot work as configured: no rights');
    state.probe = () => Promise.resolve();
    await clock.advance(1_000);
    assert.equal(watching.warehouseTrouble, undefined);
    const { promise, resolve } = Promise.withResolvers<void>();
    state.probe = () => promise;
    await clock.advance(5_000);
    assert.equal(watching.warehouseTrouble, undefined);
    await clock.advance(1);
    assert.equal(watching.warehouseTrouble, 'the warehouse is away: it does not answer');
    resolve();
    await clock.advance(1_000);
    assert.equal(watching.warehouseTrouble, undefined);
  });
});

describe('what a replica says of itself', () => {
  const AWAY: QueueState = { available: false, reason: 'cut' };
  const LOOK = { unlanded: 1, oldestMs: 3_000, events: 1, memoryBytes: 1, memoryLimitBytes: 0 };

  function replica() {
    const metrics = consumerMetrics(QUARANTINE_REASONS, new VirtualClock());
    const consumer: { -readonly [K in 'stopping' | 'trouble' | 'warehouseAnswers' | 'queueAnswers']: Consumer[K] } = {
      stopping: false,
      trouble: undefined,
      warehouseAnswers: true,
      queueAnswers: true,
    };
    const watch: { warehouseTrouble: string | undefined } = { warehouseTrouble: undefined };
    const parts = new Map<string, QueueState>([['0', { available: true }]]);
    const state = replicaState(metrics, { consumer, watch, reader: { states: () => parts, replicas: 3 } });
    metrics.queue.looked('0', LOOK);
    const samples = async (): Promise<Record<string, string>> => {
      const { text } = await state.metrics(undefined);
      return Object.fromEntries(
        [...text.matchAll(/^ingest_(\S+) (\S+)$/gm)].map(([, name = '', value = '']) => [name, value] as const),
      );
    };
    return { consumer, watch, parts, state, samples };
  }

  it('is that it lands events, where nothing is wrong', async () => {
    const { state, samples } = replica();
    assert.deepEqual([state.draining(), state.unready(), state.unavailable()], [false, undefined, []]);
    const shown = await samples();
    assert.deepEqual(
      ['consumer_ready', 'warehouse_available', 'queue_available', 'queue_up{partition="0"}'].map(
        (name) => shown[name],
      ),
      ['1', '1', '1', '1'],
    );
    assert.equal(shown['consumer_replicas'], '3');
  });

  it('is the trouble of its loop before that of its look at the warehouse', async () => {
    const { consumer, watch, state, samples } = replica();
    watch.warehouseTrouble = 'the warehouse is away: read-only';
    assert.equal(state.unready(), 'the warehouse is away: read-only');
    assert.equal((await samples())['warehouse_available'], '0');
    consumer.trouble = 'the queue is away: cut';
    assert.equal(state.unready(), 'the queue is away: cut');
    assert.equal((await samples())['consumer_ready'], '0');
  });

  it('is that it is not ready while it stops, or has no answer of the warehouse', async () => {
    const { consumer, state, samples } = replica();
    consumer.warehouseAnswers = false;
    consumer.stopping = true;
    assert.equal(state.draining(), true);
    const shown = await samples();
    assert.deepEqual([shown['consumer_ready'], shown['warehouse_available']], ['0', '0']);
  });

  it('is which parts of the queue are away, by number or name, and no age of what has not landed', async () => {
    const { consumer, parts, state, samples } = replica();
    parts.set('0', AWAY).set('1', { available: true }).set('1-0', AWAY);
    consumer.queueAnswers = false;
    assert.deepEqual(state.unavailable(), [0, '1-0']);
    const shown = await samples();
    assert.deepEqual(
      ['0', '1', '1-0'].map((name) => shown[`queue_up{partition="${name}"}`]),
      ['0', '1', '0'],
    );
    assert.equal(shown['queue_available'], '0');
  });

  it('is that its only part cannot be read while the queue does not answer', async () => {
    const { consumer, samples } = replica();
    consumer.queueAnswers = false;
    assert.equal((await samples())['queue_up{partition="0"}'], '0');
  });
});

describe('the settings of a consumer', () => {
  it('name the queue and the warehouse where they are missing, and the queue where it is a dispatcher', () => {
    const problems = (environment: Record<string, string>): string =>
      readConsumerConfig(environment).report.problems.join('\n');
    assert.match(problems({}), /INGEST_QUEUE_URI/);
    assert.match(problems({}), /INGEST_WAREHOUSE_URI/);
    const through = { INGEST_QUEUE_URI: 'redis://a dispatcher://b', INGEST_WAREHOUSE_URI: 'sqlite:x' };
    assert.match(problems(through), /INGEST_QUEUE_URI.*consumers do not read through a dispatcher/);
    for (const uri of ['dispatcher://b', 'dispatchers://b'])
      assert.match(problems({ ...through, INGEST_QUEUE_URI: uri }), /consumers do not read through a dispatcher/);
    assert.match(problems({ INGEST_QUEUE_URI: 'redis://a' }), /WAREHOUSE_URI/);
    const both = readConsumerConfig({ INGEST_QUEUE_URI: 'redis://a redis://b', INGEST_WAREHOUSE_URI: 'sqlite:x' });
    assert.deepEqual(both.report.problems, []);
    assert.ok(both.config !== undefined);
  });
});
