import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { Consumer, type ConsumerLimits, type ConsumerOptions } from '../../lib/consumer/consumer.ts';
import { LandingSlots, type Telemetry } from '../../lib/consumer/landing.ts';
import type { Delivery, EntryName, QueueReader } from '../../lib/ingest/queue.ts';
import type { LandingEvent, QuarantinedEntry, Warehouse } from '../../lib/ingest/warehouse.ts';
import { createLog } from '../../lib/process/log.ts';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const PRODUCER = 'urn:shop';
const BATCH_MAX = 25;

const limits = (): ConsumerLimits => ({ batchMax: BATCH_MAX, replicasMax: 6, streams: 1, slots: new LandingSlots() });
const silent = (): Telemetry => ({
  metrics: consumerMetrics(SYSTEM.clock),
  log: createLog('test', 'error').child({}, { level: 'silent' }),
});
const event = (id: string, data: unknown = ''): string => JSON.stringify({ id, type: 'order.paid', data });
const idsOf = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => `order-${String(at).padStart(6, '0')}`);

/** A queue in memory, in virtual time. `arrive` adds entries, and `calls` lists the calls of the consumer. */
function virtualQueue() {
  const clock = new VirtualClock();
  const calls: string[] = [];
  const waiting: Delivery[] = [];
  let wake = (): void => undefined;
  const arrive = async (...ids: readonly string[]): Promise<void> => {
    const about = { source: 'q', producer: PRODUCER, notes: {}, acceptedAtMs: 1 };
    for (const id of ids) waiting.push({ ...about, entry: id, body: Buffer.from(event(id)) });
    wake();
    await clock.settle();
  };
  const reader = {
    bodyBytesMax: 1_000,
    isFirst: true,
    register: () => Promise.resolve(true),
    join: () => Promise.resolve(false),
    read: async (max: number, _: number, waitMs: number) => {
      if (waiting.length === 0 && waitMs > 0) {
        const arrived = new Promise<void>((resolve) => (wake = resolve));
        await Promise.race([arrived, clock.sleep(waitMs)]);
      }
      return waiting.splice(0, max);
    },
    acknowledge: (entries: readonly EntryName[]) => {
      calls.push(`acknowledge ${entries.map(({ entry }) => entry).join()}`);
      return Promise.resolve(entries.length);
    },
    erased: () => Promise.resolve(new Set<string>()),
  };
  const warehouse = {
    prepare: () => Promise.resolve(undefined),
    haveLanded: (events: readonly unknown[]) => Promise.resolve(events.map(() => false)),
    quarantine: (entries: readonly QuarantinedEntry[]) => {
      calls.push(`quarantine ${entries.map(({ id }) => id).join()}`);
      return Promise.resolve();
    },
    land: (batch: readonly LandingEvent[]) => {
      calls.push(`land ${batch.map(({ id }) => id).join()}`);
      return Promise.resolve(batch.map(() => 'landed' as const));
    },
  };
  /** `changed` replaces calls of the queue and the warehouse. */
  const run = (
    t: TestContext,
    {
      schemas,
      fails = '',
      ...changed
    }: Partial<Pick<ConsumerOptions, 'schemas'> & QueueReader & Warehouse> & { fails?: string } = {},
  ) => {
    let failed = false;
    /** The first call of `fails` rejects. */
    const failing = <T extends object>(port: T): T =>
      new Proxy(port, {
        get: (of, name) => {
          if (name !== fails || failed) return Reflect.get(of, name) as unknown;
          return () => {
            failed = true;
            return Promise.reject(new Error('it fails once'));
          };
        },
      });
    const own = { reader: failing({ ...reader, ...changed }), warehouse: failing({ ...warehouse, ...changed }) };
    const ports = own as unknown as { reader: QueueReader; warehouse: Warehouse };
    const random = { ...SYSTEM.random, fraction: () => 0.5 };
    const telemetry = silent();
    const lines: string[] = [];
    for (const level of ['info', 'warn', 'error'] as const)
      t.mock.method(telemetry.log, level, (...given: readonly unknown[]) => lines.push(String(given.at(-1))));
    const consumer = new Consumer({ clock, random, ...ports, telemetry, limits: limits(), schemas });
    const done = consumer.run();
    t.after(() => consumer.stop());
    return { consumer, done, lines, metrics: telemetry.metrics, failed: () => failed };
  };
  return { clock, calls, arrive, reader, run };
}

describe('a consumer without a backlog', () => {
  it('lands the first event immediately, and those of the next 50 ms together', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    run(t);
    await clock.advance(3_000);
    for (let round = 0; round < 3; round += 1) {
      await arrive('first');
      assert.deepEqual(calls.splice(0), ['land first'], 'no time has passed');
      for (const id of ['a', 'b', 'c']) {
        await clock.advance(12.5);
        await arrive(id);
      }
      assert.deepEqual(calls, []);
      await clock.advance(12.5);
      assert.deepEqual(calls.splice(0), ['acknowledge first', 'land a,b,c']);
      await clock.advance(50);
      assert.deepEqual(calls.splice(0), ['acknowledge a,b,c']);
    }
  });

  it('leaves events of the next 250 ms to the first replica, unless it is the first', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    run(t, { isFirst: false });
    await clock.settle();
    for (const id of ['a', 'b']) await arrive(id);
    await clock.advance(249);
    assert.deepEqual(calls, ['land a']);
    await clock.advance(1);
    assert.deepEqual(calls, ['land a', 'acknowledge a', 'land b']);
  });

  it('acknowledges before it reads again, so that a read without events does not delay it', async (t) => {
    const { clock, calls, arrive, reader, run } = virtualQueue();
    const read = (...given: Parameters<typeof reader.read>): Promise<Delivery[]> => {
      calls.push('read');
      return reader.read(...given);
    };
    run(t, { read });
    await clock.settle();
    await arrive('a');
    await clock.advance(50);
    assert.deepEqual(calls, ['read', 'land a', 'acknowledge a', 'read']);
  });

  it('acknowledges immediately if a landing lasts longer than the pause', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    const landed = Promise.withResolvers<ReadonlySet<string>>();
    run(t, { erased: () => landed.promise });
    await clock.settle();
    await arrive('slow');
    await clock.advance(60);
    landed.resolve(new Set());
    await clock.settle();
    assert.deepEqual(calls, ['land slow', 'acknowledge slow']);
  });

  it('reads a backlog without a pause', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    await arrive(...idsOf(2_000));
    run(t);
    await clock.settle();
    await clock.settle();
    const landed = calls.flatMap((call) => (call.startsWith('land ') ? call.slice('land '.length).split(',') : []));
    assert.deepEqual(landed, idsOf(2_000));
    assert.ok(calls.length < 100, String(calls.length));
  });

  it('lands other events while some are checked, and at a stop waits for the check', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    const checked = Promise.withResolvers<void>();
    const schemas: ConsumerOptions['schemas'] = {
      has: ({ body }) => body.includes('slow'),
      check: async (_type, events) => {
        await checked.promise;
        return events.map(({ body }) => (body.includes('bad') ? ['bad'] : []));
      },
    };
    const { consumer, done, metrics } = run(t, { schemas });
    await clock.settle();
    const invalid = '';
    await arrive('slow', 'other', 'slow-bad', 'slow-too', invalid);
    assert.deepEqual(calls.splice(0), ['land other', 'quarantine ']);
    await clock.advance(50);
    await arrive('another');
    assert.deepEqual(calls.splice(0), ['acknowledge other,', 'land another']);
    consumer.stop();
    await clock.settle();
    assert.deepEqual(calls.splice(0), ['acknowledge another']);
    checked.resolve();
    await done;
    assert.deepEqual(calls, ['land slow,slow-too', 'quarantine slow-bad', 'acknowledge slow,slow-bad,slow-too']);
    const { matched, unmatched, unschematized } = metrics.schemaEvents;
    assert.deepEqual([matched.value, unmatched.value, unschematized.value], [2, 1, 2]);
  });
});

describe('a consumer in a backlog', () => {
  it('retries a failed batch while others land and are acknowledged, and logs that the warehouse is back', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    const ids = idsOf(1_200);
    await arrive(...ids);
    let failing: readonly string[] | undefined;
    let away = true;
    let landings = 0;
    const land = (batch: readonly LandingEvent[]): Promise<readonly 'landed'[]> => {
      landings += 1;
      const some = batch.map(({ id }) => id);
      if (landings === 2) failing = some;
      if (away && some[0] === failing?.[0]) return Promise.reject(new Error('the warehouse is unavailable'));
      return Promise.resolve(batch.map(() => 'landed' as const));
    };
    const { lines } = run(t, { land, release: () => Promise.resolve() });
    const acknowledged = (): readonly string[] =>
      calls.flatMap((call) => call.replace(/^acknowledge /, '').split(',')).toSorted();
    await clock.advance(30_000);
    assert.ok(failing !== undefined && landings > 8, `${landings}`);
    const missing = new Set(failing);
    assert.deepEqual(
      acknowledged(),
      ids.filter((id) => !missing.has(id)),
    );
    away = false;
    await clock.advance(10_000);
    assert.deepEqual(acknowledged(), ids);
    assert.equal(lines.at(-1), 'events are landing');
    assert.ok(lines.includes('the warehouse is back'));
  });

  it('lands what it has read while the queue is unavailable', async (t) => {
    const { clock, calls, arrive, reader, run } = virtualQueue();
    const ids = idsOf(4 * BATCH_MAX);
    await arrive(...ids);
    let reads = 0;
    const read = (...given: Parameters<typeof reader.read>): Promise<Delivery[]> =>
      (reads += 1) === 1 ? reader.read(...given) : Promise.reject(new Error('the connection was closed'));
    run(t, { read });
    await clock.advance(2_000);
    assert.equal(calls[0], `land ${ids.join()}`);
  });

  it('lands all events from a server that breaks connections with long replies', async (t) => {
    const { clock, calls, arrive, reader, run } = virtualQueue();
    const read = (...given: Parameters<typeof reader.read>): Promise<Delivery[]> =>
      given[0] > 2 ? Promise.reject(new Error('the connection was closed')) : reader.read(...given);
    run(t, { read });
    await arrive(...idsOf(9));
    await clock.advance(30_000);
    const landed = calls.flatMap((call) => (call.startsWith('land ') ? call.slice('land '.length).split(',') : []));
    assert.deepEqual(landed, idsOf(9));
  });
});

describe('a consumer after one failed call', () => {
  for (const [call, dependency] of [
    ['prepare', 'warehouse'],
    ['register', 'queue'],
    ['join', 'queue'],
    ['read', 'queue'],
    ['erased', 'queue'],
    ['land', 'warehouse'],
    ['quarantine', 'warehouse'],
    ['haveLanded', 'warehouse'],
    ['acknowledge', 'queue'],
  ] as const)
    it(`calls ${call} again, says that the ${dependency} is unavailable, and lands each event once`, async (t) => {
      const { clock, calls, arrive, run } = virtualQueue();
      const schemas: ConsumerOptions['schemas'] = {
        has: ({ body }) => body.includes('bad'),
        check: (_type, bodies) => Promise.resolve(bodies.map(() => ['bad'])),
      };
      const { consumer, failed, lines, metrics } = run(t, { schemas, fails: call });
      await clock.settle();
      await arrive('good', 'bad');
      await clock.advance(10_000);
      assert.equal(failed(), true);
      assert.deepEqual(
        lines.filter((line) => /unavailable|is back/.test(line)),
        [`the ${dependency} is unavailable; trying again until it works`, `the ${dependency} is back`],
      );
      const failures = (await metrics.failures.get()).values.filter(({ value }) => value > 0);
      assert.deepEqual(failures, [{ labels: { dependency }, value: 1 }]);
      assert.deepEqual([consumer.trouble, consumer.prepared, consumer.answers('queue')], [undefined, true, true]);
      assert.deepEqual(calls.filter((one) => one !== 'land good').toSorted(), [
        ...(calls.includes('acknowledge good') ? ['acknowledge bad', 'acknowledge good'] : ['acknowledge good,bad']),
        'quarantine bad',
      ]);
      assert.ok(calls.includes('land good'));
    });
});

it('a consumer whose read lasts as long as a claim removes the quarantine rows of what it lands', async (t) => {
  for (const [replyMs, releases] of [
    [9_000, 0],
    [11_000, 1],
  ] as const) {
    const { clock, calls, arrive, reader, run } = virtualQueue();
    const read = async (...given: Parameters<typeof reader.read>): Promise<Delivery[]> => {
      const deliveries = await reader.read(...given);
      await clock.sleep(deliveries.length > 0 ? replyMs : 0);
      return deliveries;
    };
    const release = (rows: readonly string[]): Promise<void> => {
      calls.push(`release ${rows.length}`);
      return Promise.resolve();
    };
    run(t, { read, release });
    await clock.settle();
    await arrive('late');
    await clock.advance(replyMs + 50);
    assert.deepEqual(calls, ['land late', ...(releases > 0 ? [`release ${releases}`] : []), 'acknowledge late']);
  }
});

it('a consumer without a place says so once, and reads as soon as one is free', async (t) => {
  const { clock, run } = virtualQueue();
  let isFree = false;
  const { consumer, lines } = run(t, { register: () => Promise.resolve(isFree) });
  await clock.advance(10_000);
  assert.equal(consumer.trouble, 'INGEST_CONSUMER_REPLICAS_MAX other consumers read the stream');
  isFree = true;
  await clock.advance(1_000);
  assert.equal(consumer.trouble, undefined);
  assert.deepEqual(lines, [
    'the warehouse is ready',
    'the stream is not read: INGEST_CONSUMER_REPLICAS_MAX other consumers read it',
    'a place is free: reading the stream',
    'events are landing',
  ]);
});

it('a consumer that is stopped waits for a slow acknowledgment', async (t) => {
  const { clock, calls, arrive, run } = virtualQueue();
  const acknowledged = Promise.withResolvers<void>();
  const acknowledge = async (entries: readonly EntryName[]): Promise<number> => {
    await acknowledged.promise;
    return entries.length;
  };
  const { consumer, done } = run(t, { acknowledge });
  let ended = false;
  void done.then(() => (ended = true));
  await clock.settle();
  await arrive('one');
  consumer.stop();
  await clock.advance(10_000);
  assert.deepEqual([calls, ended], [['land one'], false]);
  acknowledged.resolve();
  await done;
});

describe('a consumer whose warehouse cannot be migrated yet', () => {
  it('lands events meanwhile, logs why the migration waits, and retries it until it succeeds', async (t) => {
    const { clock, calls, arrive, run } = virtualQueue();
    const answers = ['it waits for session 7 ("report")', 'it waits for session 8 ("report")', undefined];
    const { consumer, lines } = run(t, { prepare: () => Promise.resolve(answers.shift()) });
    assert.equal(consumer.trouble, 'the warehouse is not prepared yet');
    await clock.settle();
    await arrive('one');
    assert.deepEqual([calls, consumer.prepared], [['land one'], true]);
    await clock.advance(10_000);
    assert.ok(lines.includes('the warehouse has been migrated'));
    assert.deepEqual(
      lines.filter((line) => line.includes('waits')),
      ['the migration of the warehouse waits, and events land without it: it waits for session 7 ("report")'],
      'not a line for each try',
    );
    assert.deepEqual(answers, []);
  });

  it('is not migrated after it was stopped', async (t) => {
    const { clock, run } = virtualQueue();
    let tries = 0;
    const prepare = async (): Promise<string | undefined> => {
      tries += 1;
      return tries < 50 ? 'it waits for session 7' : undefined;
    };
    const { consumer, done } = run(t, { prepare });
    await clock.settle();
    consumer.stop();
    await clock.advance(1_000);
    await done;
    assert.ok(tries <= 2, `${tries} tries`);
  });
});

describe('a consumer whose queue is unavailable', () => {
  it('keeps the first reason while the queue is silent, and reports another one', async (t) => {
    const { clock, run } = virtualQueue();
    const silences = ['no answer within 4000 ms', 'not connected to the queue (the server does not answer)'];
    let reasons = silences;
    const read = (): Promise<never> => Promise.reject(new Error(reasons[calls++ % reasons.length]));
    let calls = 0;
    const { consumer } = run(t, { read });
    for (let second = 0; second < 10; second += 1) {
      await clock.advance(1_000);
      assert.equal(consumer.trouble, `the queue is unavailable: ${silences[0]}`);
    }
    reasons = ['READONLY'];
    await clock.advance(2_000);
    assert.equal(consumer.trouble, 'the queue is unavailable: READONLY');
  });

  it('retries at least once a second, however long the outage lasts', async (t) => {
    const { clock, run } = virtualQueue();
    let asked = 0;
    run(t, { register: () => Promise.reject(new Error(`not connected to the queue ${(asked += 1)}`)) });
    for (let second = 0; second < 30; second += 1) {
      const before = asked;
      await clock.advance(1_000);
      assert.ok(asked > before, `not asked in second ${second}`);
    }
  });
});
