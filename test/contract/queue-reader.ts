// The contract suite that every implementation of QueueReader (lib/ingest/queue.ts) must pass.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { GroupVanished, REPLICA_LEASE_MS, type Delivery, type QueueReader } from '../../lib/ingest/queue.ts';
import { eventually } from '../support/scope.ts';

export interface QueueUnderTest {
  open(): Promise<QueueReader>;
  /** Adds an entry and returns its name. A queue that sets the time of acceptance itself ignores `acceptedAtMs`. */
  put(members: Readonly<Record<string, string>>, acceptedAtMs?: number): Promise<string>;
  drop(entry: string): Promise<void>;
  pending(): Promise<number>;
  next?(): void;
  wipe(): Promise<void>;
  close(): Promise<void>;
}

const IDLE_MS = 40;
const NEVER_MS = 3_600_000;

const names = (deliveries: readonly Delivery[]): string[] => deliveries.map(({ entry }) => entry);

export function describeQueueReader(name: string, start: () => Promise<QueueUnderTest>): void {
  describe(`${name} as the queue's reading side`, () => {
    let queue: QueueUnderTest;
    let readers: QueueReader[] = [];
    const open = async (): Promise<QueueReader> => {
      const reader = await queue.open();
      readers.push(reader);
      return reader;
    };
    const putMany = async (count: number): Promise<string[]> => {
      const entries: string[] = [];
      while (entries.length < count) entries.push(await queue.put({ producer: 'shop', body: String(entries.length) }));
      return entries;
    };
    before(async () => {
      queue = await start();
    });
    beforeEach(() => {
      queue.next?.();
      return queue.wipe();
    });
    afterEach(async () => {
      await Promise.all(readers.map((reader) => reader.close()));
      readers = [];
    });
    after(() => queue.close());

    it('creates the group once, at the start of the queue, when several consumers join together', async () => {
      const members = await Promise.all([open(), open(), open()]);
      await queue.wipe();
      const entry = await queue.put({ producer: 'shop', body: '{}' });
      const made = await Promise.all(members.map((member) => member.join()));
      assert.equal(made.filter(Boolean).length, 1);
      assert.deepEqual(names((await members[0]?.read(10, NEVER_MS, 0)) ?? []), [entry]);
    });

    it('delivers each entry to one member, in order, byte for byte, and with its notes', async () => {
      const [one, other] = [await open(), await open()];
      await one.join();
      const before = Date.now();
      const first = await queue.put({ producer: 'sh\u{1F600}p', body: ' {"id":"\\u0000"}\n' });
      const second = await queue.put({ note: 'by hand' });
      const notes = { id: 'sh\u{1F600}p 1', traceparent: 't', tracestate: 's' };
      const third = await queue.put({ producer: 'shop', body: '{}', ...notes, another: 'x' });
      const deliveries = await one.read(1, NEVER_MS, 0);
      assert.deepEqual(names(deliveries), [first]);
      assert.equal(deliveries[0]?.producer, 'sh\u{1F600}p');
      assert.equal(deliveries[0].body?.toString(), ' {"id":"\\u0000"}\n');
      assert.ok(deliveries[0].acceptedAtMs >= before - 1_000 && deliveries[0].acceptedAtMs <= Date.now() + 1_000);
      const rest = await other.read(10, NEVER_MS, 0);
      assert.deepEqual(
        rest.map(({ entry, producer, body, notes }) => ({ entry, producer, body: body?.toString(), notes })),
        [
          { entry: second, producer: undefined, body: undefined, notes: {} },
          { entry: third, producer: 'shop', body: '{}', notes },
        ],
      );
    });

    it('delivers each entry with the same source to every member, and with another one after a wipe', async () => {
      const [one, other] = [await open(), await open()];
      await one.join();
      await queue.put({ producer: 'shop', body: '{}' });
      await queue.put({ producer: 'shop', body: '{}' });
      const [first] = await one.read(1, NEVER_MS, 0);
      const [second] = await other.read(1, NEVER_MS, 0);
      assert.match(first?.source ?? '', /^[^/]+\/[^/]+$/);
      assert.equal(second?.source, first?.source);
      await queue.wipe();
      await queue.put({ producer: 'shop', body: '{}' });
      await assert.rejects(one.read(1, NEVER_MS, 0), GroupVanished);
      await one.join();
      const [third] = await one.read(1, NEVER_MS, 0);
      assert.notEqual(third?.source, first?.source);
      assert.equal(third?.source.split('/')[1], first?.source.split('/')[1]);
    });

    it('waits for the first entry, at most for the given time', async () => {
      const reader = await open();
      await reader.join();
      const waiting = reader.read(10, NEVER_MS, 5_000);
      const entry = await queue.put({ producer: 'shop', body: '{}' });
      assert.deepEqual(names(await waiting), [entry]);
      assert.deepEqual(await reader.read(10, NEVER_MS, 20), []);
      assert.deepEqual(await reader.read(10, NEVER_MS, 0), [], 'and not at all');
    });

    it('claims entries that another member never acknowledged, once they are stale', async () => {
      const [dead, living] = [await open(), await open()];
      await dead.join();
      const entries = await putMany(2);
      assert.deepEqual(names(await dead.read(10, NEVER_MS, 0)), entries);
      assert.deepEqual(await living.read(10, NEVER_MS, 20), []);
      const claimed = await eventually('the entries are claimed', async () => {
        const deliveries = await living.read(10, IDLE_MS, 20);
        return deliveries.length > 0 && deliveries;
      });
      assert.deepEqual(names(claimed), entries);
      await living.acknowledge(claimed);
      assert.equal(await queue.pending(), 0);
    });

    it('claims a backlog that is larger than one read, piece by piece, before new entries', async () => {
      const dead = await open();
      await dead.join();
      const entries = await putMany(25);
      await dead.read(25, NEVER_MS, 0);
      const fresh = await queue.put({ producer: 'shop', body: 'new' });
      const oldest = Date.now();
      await eventually('the entries are stale', () => Date.now() - oldest > IDLE_MS);
      const living = await open();
      const seen: string[] = [];
      while (seen.length < 26) {
        const deliveries = await living.read(10, IDLE_MS, 0);
        seen.push(...names(deliveries));
        await living.acknowledge(deliveries);
      }
      assert.deepEqual(seen, [...entries, fresh]);
    });

    it('does not deliver an entry that was deleted after it was read, but the entries around it', async () => {
      const [dead, living] = [await open(), await open()];
      await dead.join();
      const entries = await putMany(9);
      await dead.read(10, NEVER_MS, 0);
      const there = entries.filter((_, at) => at % 3 !== 1);
      for (const entry of entries.filter((_, at) => at % 3 === 1)) await queue.drop(entry);
      const seen = new Map<string, Delivery>();
      await eventually('all came', async () => {
        for (const delivery of await living.read(4, IDLE_MS, 20)) seen.set(delivery.entry, delivery);
        return seen.size === there.length;
      });
      const deliveries = [...seen.values()];
      assert.deepEqual(names(deliveries), there);
      await living.acknowledge([]);
      await living.acknowledge([{ source: 'none/ingest', entry: '1-1' }]);
      assert.equal(await living.acknowledge(deliveries), there.length);
      assert.equal(await living.acknowledge(deliveries), 0);
    });

    it('reports that the group has vanished, and recreates it when it joins', async () => {
      const reader = await open();
      await queue.wipe();
      await assert.rejects(reader.read(10, NEVER_MS, 0), GroupVanished);
      await reader.join();
      const waiting = assert.rejects(reader.read(10, NEVER_MS, 5_000), GroupVanished);
      await queue.wipe();
      await waiting;
      const entry = await queue.put({ producer: 'shop', body: '{}' });
      assert.equal(await reader.join(), true);
      assert.deepEqual(names(await reader.read(10, NEVER_MS, 0)), [entry]);
    });

    it('counts consumers, refuses one too many, and frees the place of one that left', async () => {
      const replicas = await Promise.all(Array.from({ length: 6 }, open));
      const counted = await Promise.all(replicas.map((replica) => replica.register(5)));
      assert.deepEqual(counted.filter(Boolean).length, 5);
      const [refused] = replicas.filter((_, at) => counted[at] === false);
      assert.ok(refused !== undefined);
      assert.equal(await refused.register(5), false);
      assert.equal(await refused.register(6), true);
      await replicas[counted.indexOf(true)]?.close();
      const last = await open();
      assert.equal(await last.register(6), true);
    });

    it('has one first consumer, and another one after that has left', async () => {
      const members = await Promise.all([open(), open(), open()]);
      assert.ok(members.every(({ isFirst }) => isFirst));
      const firsts = async (): Promise<QueueReader[]> => {
        for (const member of [...members, ...members]) await member.register(6);
        return members.filter(({ isFirst }) => isFirst);
      };
      const [first, ...others] = await firsts();
      assert.ok(first !== undefined);
      assert.equal(others.length, 0);
      await first.close();
      members.splice(members.indexOf(first), 1);
      assert.equal((await firsts()).length, 1);
    });

    it('keeps the place of a live consumer beyond its lease', async () => {
      const [living, late] = [await open(), await open()];
      assert.equal(await living.register(1), true);
      const since = performance.now();
      await eventually(
        'the lease would have ended',
        async () => {
          assert.equal(await late.register(1), false);
          return performance.now() - since > REPLICA_LEASE_MS + 500;
        },
        REPLICA_LEASE_MS * 2,
      );
    });

    it('may be closed twice, and other consumers continue reading', async () => {
      const [reader, other] = [await open(), await open()];
      await reader.close();
      await assert.doesNotReject(reader.close());
      await other.join();
      const entry = await queue.put({ producer: 'shop', body: '{}' });
      assert.deepEqual(names(await other.read(10, NEVER_MS, 0)), [entry]);
    });
  });
}
