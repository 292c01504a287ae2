// The contract suite that every implementation of lib/ingest/warehouse.ts must pass.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { erasedBody } from '../../lib/ingest/erased.ts';
import { parseEvent } from '../../lib/ingest/event.ts';
import { BatchRefused, type LandingEvent, type QuarantinedEntry, type Warehouse } from '../../lib/ingest/warehouse.ts';
import { eventually } from '../support/scope.ts';

export interface WarehouseUnderTest {
  open(): Warehouse;
  /** Counts the rows of a table without using the adapter under test. */
  count(table: 'events' | 'events_quarantine'): Promise<number>;
  takeAway(): void;
  bringBack(): void;
  close(): Promise<void>;
}

const ACCEPTED_AT_MS = Date.UTC(2026, 2, 4, 5, 6, 7, 89);

const event = (id: string, producer = 'shop', body = JSON.stringify({ id, type: 'order.paid' })): LandingEvent => ({
  id,
  type: 'order.paid',
  producer,
  body: Buffer.from(body),
  acceptedAtMs: ACCEPTED_AT_MS,
});

const poison = (entry: string, change: Partial<QuarantinedEntry> = {}): QuarantinedEntry => ({
  entry,
  producer: 'shop',
  reason: 'invalid_event: the body is not JSON',
  acceptedAtMs: ACCEPTED_AT_MS,
  body: Buffer.from('{'),
  ...change,
});

const HOSTILE_IDS = [
  ...['A', 'a', 'a ', ' a', 'é', 'e\u0301', 'ß', 'ss', 'İ', 'i', '\u{1F600}', '\u{1F600}'.repeat(256), '\u{10FFFF}'],
  ...["'", '"', '\\', '\\\\', '{', ',', 'NULL', '%', '_', '\u200b', '\ufeff', '\ufffd', '\ufffe'],
  ...['1', '01', '1.0', '--', '$1'],
];

const HOSTILE_BODIES = [
  '{"id":"x","type":"t","data":"\\u0000"}',
  '{"id":"x","type":"t","data":"\\ud800 \\udc00 \\ud83d"}',
  ' \t\r\n{ "id" : "x" , "type":"t", "n": 1.0e+400, "n": -0, "deep":[[[[]]]] } \n',
  '{"id":"x","type":"t","data":"\u{1F600}\u2028\u2029\u007f\\\\\\"\\/"}',
  '{"id":"x","type":"t","__proto__":null,"constructor":{"prototype":1}}',
  // This body is longer than a gateway accepts by default.
  `{"id":"x","type":"t","data":"${'x'.repeat(300 << 10)}"}`,
  `{"id":"x","type":"t","data":"${'\\\\'.repeat(60_000)}${'"'.replace('"', '\\"').repeat(60_000)}"}`,
];

export function describeWarehouse(name: string, start: () => Promise<WarehouseUnderTest>): void {
  describe(`${name} as a warehouse`, () => {
    let store: WarehouseUnderTest;
    let warehouse: Warehouse;
    before(async () => {
      store = await start();
      warehouse = store.open();
      const replicas = Array.from({ length: 6 }, () => store.open());
      await Promise.all(replicas.map((replica) => replica.prepare()));
      await Promise.all(replicas.map((replica) => replica.close()));
      await warehouse.prepare();
      await warehouse.probe();
    });
    after(async () => {
      await warehouse.close();
      await store.close();
    });

    it('keeps one row for an id, with the body, the type and the times of the first', async () => {
      const before = Date.now();
      assert.deepEqual(await warehouse.land([event('one')]), ['landed']);
      const other = event('one', 'shop', '{"id":"one","type":"order.paid","try":2}');
      assert.deepEqual(await warehouse.land([other]), ['reused']);
      const found = await warehouse.find('one', 'shop');
      assert.equal(found.kind, 'landed');
      const { landedAtMs: _, ...rest } = found;
      const text = '{"id":"one","type":"order.paid"}';
      const first = { kind: 'landed', text, type: 'order.paid', acceptedAtMs: ACCEPTED_AT_MS, traceparent: undefined };
      assert.deepEqual(rest, first);
      assert.ok(found.landedAtMs >= before - 1_000 && found.landedAtMs <= Date.now() + 1_000, 'landed now');
    });

    it("distinguishes a repeat from another producer's event, also in one batch", async () => {
      const batch = [event('mine'), event('mine'), event('mine', 'thief'), event('theirs', 'thief'), event('theirs')];
      assert.deepEqual(await warehouse.land(batch), ['landed', 'duplicate', 'conflict', 'landed', 'conflict']);
      assert.deepEqual(await warehouse.land(batch), ['duplicate', 'duplicate', 'conflict', 'duplicate', 'conflict']);
      assert.equal((await warehouse.find('mine', 'shop')).kind, 'landed');
      assert.deepEqual(await warehouse.find('mine', 'thief'), { kind: 'unknown' });
    });

    it('keeps every body byte for byte, and distinguishes a repeat from another body, also in one batch', async () => {
      for (const [at, body] of HOSTILE_BODIES.entries()) {
        assert.ok(parseEvent(Buffer.from(body)).valid, 'the example is an event');
        const [id, other] = [`repeat-${at}`, `${body} `];
        const batch = [event(id, 'shop', body), event(id, 'shop', other), event(id, 'shop', body)];
        assert.deepEqual(await warehouse.land(batch), ['landed', 'reused', 'duplicate']);
        assert.deepEqual(await warehouse.land(batch.toReversed()), ['duplicate', 'reused', 'duplicate']);
        assert.deepEqual(await warehouse.land([event(id, 'thief', other)]), ['conflict']);
        const row = await warehouse.find(id, 'shop');
        assert.ok(row.kind === 'landed' && Buffer.from(body).equals(Buffer.from(row.text)), id);
      }
    });

    it('treats an event and its erased form as the same event', async () => {
      const [whole, erased] = ['whole', 'erased'].map((id) => event(id));
      const erasedOf = (id: string): LandingEvent => event(id, 'shop', erasedBody(id, 'order.paid'));
      assert.deepEqual(await warehouse.land([whole as LandingEvent, erasedOf('erased')]), ['landed', 'landed']);
      assert.deepEqual(await warehouse.land([erasedOf('whole'), erased as LandingEvent]), ['duplicate', 'duplicate']);
      const found = await warehouse.find('whole', 'shop');
      assert.equal('text' in found ? found.text : found.kind, String(whole?.body));
    });

    it('reports in one call which events have landed, with their body or an erased one', async () => {
      const [erased, other] = ['asked-"erased\\"', 'asked-other'];
      await warehouse.land([
        event('asked'),
        event(erased, 'shop', erasedBody(erased, 'order.paid')),
        event(other, 'shop', erasedBody('another', 'order.paid')),
      ]);
      const asked: readonly (readonly [LandingEvent, boolean])[] = [
        [event('asked'), true],
        [event('asked', 'shop', '{}'), false],
        [event('asked', 'thief'), false],
        [event('asked', 'sh\0p'), false],
        [event('asked-never'), false],
        [event('asked'), true],
        [event(erased), true],
        [event(erased, 'thief'), false],
        [event(other), false],
      ];
      assert.deepEqual(
        await warehouse.haveLanded(asked.map(([one]) => one)),
        asked.map(([, landed]) => landed),
      );
      assert.deepEqual(await warehouse.haveLanded([]), []);
    });

    it('returns the verdicts in the order of the batch', async () => {
      const ids = Array.from({ length: 50 }, (_, at) => `order-${(at * 37) % 50}`);
      await warehouse.land(ids.filter((_, at) => at % 3 === 0).map((id) => event(id)));
      const verdicts = await warehouse.land(ids.map((id) => event(id)));
      assert.deepEqual(
        verdicts,
        ids.map((_, at) => (at % 3 === 0 ? 'duplicate' : 'landed')),
      );
      assert.deepEqual(await warehouse.land([]), []);
    });

    it('distinguishes ids that differ in any byte', async () => {
      assert.deepEqual(
        await warehouse.land(HOSTILE_IDS.map((id) => event(id, 'unicode'))),
        HOSTILE_IDS.map(() => 'landed'),
      );
      for (const id of HOSTILE_IDS) {
        const found = await warehouse.find(id, 'unicode');
        assert.ok(
          found.kind === 'landed' && found.text === JSON.stringify({ id, type: 'order.paid' }),
          JSON.stringify(id),
        );
      }
    });

    it('refuses a whole batch for one event that text cannot hold, and writes nothing', async () => {
      const rows = await store.count('events');
      await assert.rejects(warehouse.land([event('good'), event('bad', 'a\0b'), event('fine')]), BatchRefused);
      assert.equal(await store.count('events'), rows);
      assert.deepEqual(await warehouse.land([event('good'), event('fine')]), ['landed', 'landed']);
    });

    it('quarantines any bytes, once per entry', async () => {
      const body = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      const entries = [
        poison('7-1', { id: 'poisoned', producer: 'a\0b\\', body }),
        poison('7-2', { body: Buffer.alloc(0) }),
        poison('18446744073709551615-18446744073709551615', { acceptedAtMs: 8.64e15 }),
      ];
      await warehouse.quarantine(entries);
      await warehouse.quarantine(entries.map((entry) => ({ ...entry, reason: 'another' })));
      await warehouse.quarantine([]);
      assert.equal(await store.count('events_quarantine'), entries.length);
      const found = await warehouse.find('poisoned', 'a\0b\\');
      assert.ok(found.kind === 'rejected' && found.body.equals(body));
      assert.equal(found.reason, 'invalid_event: the body is not JSON');
      assert.equal(found.acceptedAtMs, ACCEPTED_AT_MS);
      assert.deepEqual(await warehouse.find('poisoned', 'a\\0b\\\\'), { kind: 'unknown' });
    });

    it('replaces a row in quarantine only with that of an erased event', async () => {
      const rows = await store.count('events_quarantine');
      const [erased, other] = ['replaced', 'kept'].map((id) => poison(`7-${id}`, { id }));
      assert.ok(erased !== undefined && other !== undefined);
      await warehouse.quarantine([erased, other]);
      const body = Buffer.from(erasedBody('replaced', undefined));
      await warehouse.quarantine([
        { ...erased, body },
        { ...other, body: Buffer.from('[') },
      ]);
      assert.equal(await store.count('events_quarantine'), rows + 2);
      const bodyOf = async (id: string): Promise<string> => {
        const found = await warehouse.find(id, 'shop');
        return found.kind === 'rejected' ? found.body.toString() : found.kind;
      };
      assert.deepEqual([await bodyOf('replaced'), await bodyOf('kept')], [body.toString(), '{']);
    });

    it('keeps the trace context of an event and of an entry in quarantine, beside others without one', async () => {
      const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
      const traced = (id: string): LandingEvent => ({ ...event(id), traceparent });
      // The second batch contains a row that exists already, so PostgreSQL lands it with INSERT instead of COPY.
      await warehouse.land([
        event('untraced-1'),
        traced('traced-1'),
        ...HOSTILE_IDS.slice(0, 9).map((id) => traced(`t${id}`)),
      ]);
      await warehouse.land([event('untraced-1'), traced('traced-2'), event('untraced-2')]);
      await warehouse.quarantine([
        poison('q/ingest/8-1', { id: 'traced-3', traceparent }),
        poison('q/ingest/8-2', { id: 'untraced-3' }),
      ]);
      for (const [id, kind] of Object.entries({ 1: 'landed', 2: 'landed', 3: 'rejected' }))
        for (const [name, expected] of Object.entries({ traced: traceparent, untraced: undefined })) {
          const found = await warehouse.find(`${name}-${id}`, 'shop');
          assert.equal(found.kind, kind);
          assert.equal('traceparent' in found ? found.traceparent : 'missing', expected);
        }
    });

    it('does not show rejected events to a producer with a similar name', async () => {
      const names = ['a\0b', 'a\\0b', 'a\\\\0b', 'ab', 'b\0a', 'a\u2400b'];
      for (const [at, producer] of names.entries())
        await warehouse.quarantine([poison(`10-${at}`, { id: `of-${at}`, producer })]);
      for (const at of names.keys()) {
        for (const [other, producer] of names.entries()) {
          const { kind } = await warehouse.find(`of-${at}`, producer);
          assert.equal(kind, other === at ? 'rejected' : 'unknown', JSON.stringify([names[at], producer]));
        }
      }
    });

    it('knows the producer of an id in every spelling of its name, and keeps the first one', async () => {
      const both = [event('cased', 'urn:Shop'), event('cased', 'urn:shop')];
      assert.deepEqual(await warehouse.land(both), ['landed', 'conflict'], 'this case distinguishes producers');
      assert.deepEqual(await warehouse.land(both), ['duplicate', 'conflict']);
      assert.deepEqual(await warehouse.find('cased', 'urn:shop'), { kind: 'unknown' });
      const [first, other] = ['Épicerie Web', 'épicerie WEB'];
      const batch = [event('spelled', first), event('spelled', other), event('spelled', 'epicerie web')];
      assert.deepEqual(await warehouse.land(batch), ['landed', 'duplicate', 'conflict']);
      assert.deepEqual(await warehouse.land([event('spelled', other)]), ['duplicate']);
      await warehouse.quarantine([poison('8-9', { id: 'rejected-spelled', producer: first })]);
      for (const name of [first, other]) {
        assert.equal((await warehouse.find('spelled', name)).kind, 'landed');
        assert.equal((await warehouse.find('rejected-spelled', name)).kind, 'rejected');
      }
      assert.equal((await warehouse.find('rejected-spelled', 'epicerie web')).kind, 'unknown');
    });

    it('keeps a row of each rejected entry of an id, and the landed event takes precedence before and after', async () => {
      const rows = await store.count('events_quarantine');
      for (const entry of ['8-3', '8-4']) {
        const sinceMs = Date.now();
        await eventually('the clock has gone on', () => Date.now() > sinceMs);
        await warehouse.quarantine([poison(entry, { id: 'rejected-twice', reason: entry })]);
        const latest = await warehouse.find('rejected-twice', 'shop');
        assert.equal(latest.kind === 'rejected' && latest.reason, entry, 'the latest one is shown');
      }
      assert.equal(await store.count('events_quarantine'), rows + 2);
      assert.deepEqual(await warehouse.find('rejected-twice', 'thief'), { kind: 'unknown' });
      assert.deepEqual(await warehouse.land([event('rejected-twice')]), ['landed']);
      await warehouse.quarantine([poison('8-5', { id: 'rejected-twice' })]);
      const row = await warehouse.find('rejected-twice', 'shop');
      assert.ok(row.kind === 'landed' && row.text === event('rejected-twice').body.toString());
      assert.deepEqual(await warehouse.land([event('rejected-twice')]), ['duplicate']);
    });

    it('removes the rows of entries that have landed by a replay, whatever their reason and however long their names', async () => {
      const before = await store.count('events_quarantine');
      const name = (first: string): string => first + '\u{10FFFD}'.repeat(255);
      for (const [one, other] of [
        ['q/s/2-1', 'q/s/2-2'],
        [name('a'), name('b')],
      ] as const) {
        await warehouse.quarantine([poison(one), poison(other)]);
        await warehouse.release([one, 'q/s/9-9']);
        assert.equal(await store.count('events_quarantine'), before + 1);
        await warehouse.release([]);
        await warehouse.release([other]);
        assert.equal(await store.count('events_quarantine'), before);
      }
    });

    it('does not know an id that no text column can hold', async () => {
      await warehouse.land([event('\ufffd lone')]);
      for (const id of ['never sent', 'a\0b', '\ud800 lone', '', 'x'.repeat(100_000)]) {
        assert.deepEqual(await warehouse.find(id, 'shop'), { kind: 'unknown' });
      }
    });

    it('lands each id once when consumers land the same events in opposite orders', async () => {
      const replicas = [store.open(), store.open(), store.open()];
      const ids = Array.from({ length: 400 }, (_, at) => `race-${at}`);
      const landed = await Promise.all(
        replicas.map(async (replica, turn) => {
          const mine = turn % 2 === 0 ? ids : ids.toReversed();
          const verdicts: string[] = [];
          for (let at = 0; at < mine.length; at += 40) {
            verdicts.push(...(await replica.land(mine.slice(at, at + 40).map((id) => event(id)))));
          }
          return verdicts.filter((verdict) => verdict === 'landed').length;
        }),
      );
      await Promise.all(replicas.map((replica) => replica.close()));
      assert.equal(
        landed.reduce((sum, count) => sum + count),
        ids.length,
      );
    });

    it('reports that it is unavailable, refuses no event for that, and works again afterwards', async () => {
      await warehouse.land([event('before')]);
      store.takeAway();
      await assert.rejects(warehouse.land([event('during')]), (cause) => !(cause instanceof BatchRefused));
      await assert.rejects(warehouse.quarantine([poison('9-1')]));
      await assert.rejects(warehouse.probe());
      assert.deepEqual(await warehouse.find('before', 'shop'), { kind: 'unavailable' });
      store.bringBack();
      assert.deepEqual(await warehouse.land([event('before'), event('during')]), ['duplicate', 'landed']);
      assert.equal((await warehouse.find('during', 'shop')).kind, 'landed');
      await warehouse.probe();
    });

    it('may be closed twice, and other consumers continue landing', async () => {
      const replica = store.open();
      await replica.probe();
      await replica.close();
      await assert.doesNotReject(replica.close());
      assert.deepEqual(await warehouse.land([event('after')]), ['landed']);
    });
  });
}
