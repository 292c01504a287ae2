import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Delivery } from '../../lib/ingest/queue.ts';
import { memberName, StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import type { QueuePartition } from '../../lib/redis/stream/queue-partitions.ts';
import { describeQueueReader } from '../contract/queue-reader.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { openReader, partitionAt, QUIET_LOG } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const server = await TestRedis.start(['--appendonly', 'no']);

const readerOf = (part: QueuePartition): StreamReader =>
  new StreamReader({ ...SYSTEM, part, name: memberName(SYSTEM.random), log: QUIET_LOG });

/** Returns a server of its own, and a reader that has joined the group there. */
async function joinedReader(t: TestContext, settings: readonly string[]) {
  const own = await TestRedis.start(settings);
  return { own, reader: await openReader(t, own.uri) };
}

describeQueueReader('A Redis Stream', async () => ({
  open: async () => {
    const reader = readerOf(partitionAt(server.uri));
    assert.equal(await reader.open(20_000), true, reader.lastError);
    return reader;
  },
  put: async (members, acceptedAtMs) =>
    String(await server.command('XADD', STREAM, String(acceptedAtMs ?? '*'), ...Object.entries(members).flat())),
  drop: async (entry) => void (await server.command('XDEL', STREAM, entry)),
  pending: async () => Number(((await server.command('XPENDING', STREAM, GROUP)) as unknown[])[0]),
  wipe: async () => void (await server.command('FLUSHALL')),
  close: async () => undefined,
}));

describe('the reader of a Redis Stream', () => {
  it('claims an old entry after a thousand recent ones, and then reads one of its own that it never received', async (t) => {
    await server.command('FLUSHALL');
    const reader = await openReader(t, server.uri);
    const hold = async (holder: string, idleMs: number, names: readonly string[]): Promise<void> => {
      for (const name of names) await server.command('XADD', STREAM, name, 'body', '{}');
      await server.command('XREADGROUP', 'GROUP', GROUP, holder, 'STREAMS', STREAM, '>');
      await server.command('XCLAIM', STREAM, GROUP, holder, '0', ...names, 'IDLE', String(idleMs), 'JUSTID');
    };
    const recent = Array.from({ length: 1_000 }, (_, at) => `1-${at + 1}`);
    await hold('new', 0, recent);
    await hold(reader.name, 90_000, ['2-1']);
    await hold('old', 90_000, ['3-1']);
    const claimed = await reader.read(100, 60_000, 0);
    assert.deepEqual(
      claimed.map(({ entry }) => entry),
      ['3-1'],
    );
    const pending = (await server.command('XPENDING', STREAM, GROUP, '-', '+', '2000')) as readonly string[][];
    const holders = pending.map(([, holder]) => holder);
    assert.deepEqual(holders, [...recent.map(() => 'new'), reader.name, reader.name]);
    // A lost read, held back by a network, gave it the entry 2-1 after it had read its pending entries again.
    assert.ok((await reader.read(100, 60_000, 0)).some(({ entry }) => entry === '2-1'));
    await reader.acknowledge([{ source: '', entry: '2-1' }, ...claimed]);
  });

  it('does not acknowledge an entry on a server that has already replaced the one it was read from', async (t) => {
    const [old, next] = [await TestRedis.start(['--appendonly', 'no']), await TestRedis.start(['--appendonly', 'no'])];
    // The reading connection finds the old server, and the other connection finds the new one.
    const found = [old.uri, next.uri];
    const uri = { find: () => Promise.resolve(found.shift() ?? next.uri) };
    const reader = await openReader(t, old.uri, { uri });
    const put = (server: TestRedis, body: string): Promise<unknown> =>
      server.command('XADD', STREAM, '5-1', 'producer', 'p', 'body', body);
    await put(old, 'old');
    await put(next, 'next');
    await next.command('XREADGROUP', 'GROUP', GROUP, 'another', 'STREAMS', STREAM, '>');
    const read = await reader.read(1, 60_000, 5_000);
    assert.equal(String(read[0]?.body), 'old');
    const waiting = reader.read(1, 60_000, 200).catch(() => []);
    assert.equal(await reader.acknowledge(read), 0, 'the other connection acknowledges during a read');
    assert.deepEqual(await waiting, []);
    assert.equal(((await next.command('XPENDING', STREAM, GROUP)) as unknown[])[0], 1);
    await next.command('XADD', STREAM, '6-1', 'producer', 'p', 'body', 'later');
    let later: readonly Delivery[] = [];
    await eventually('both connections use the new server', async () => {
      later = await reader.read(1, 60_000, 50).catch(() => []);
      return later.length > 0;
    });
    assert.equal(String(later[0]?.body), 'later');
  });

  it('reads its entries again from a new server, and acknowledges those', async (t) => {
    const { own, reader } = await joinedReader(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
    await own.command('XADD', STREAM, '*', 'producer', 'p', 'body', 'kept');
    const first = await reader.read(1, 60_000, 5_000);
    await own.signal('SIGKILL');
    await own.start();
    // The two connections may notice the new server at different times, so the entries of each attempt are kept.
    let again: readonly Delivery[] = [];
    await eventually('it is read again', async () => {
      const read = await reader.read(1, 60_000, 1).catch(() => []);
      if (read.length > 0) again = read;
      return again.length > 0 && reader.state().available === true;
    });
    assert.equal(again[0]?.entry, first[0]?.entry);
    assert.equal(await reader.acknowledge(first), 0);
    await eventually('it is not in hand, so it is delivered again', async () => {
      again = await reader.read(1, 1, 1);
      return again.length > 0;
    });
    // If the connections noticed the new server at different times, the entry is delivered again.
    await eventually('it is acknowledged', async () => {
      const read = await reader.read(1, 60_000, 1);
      if (read.length > 0) again = read;
      return (await reader.acknowledge(again)) === 1;
    });
  });

  it('acknowledges again after a short demotion of its server that one of its connections did not notice', async (t) => {
    const { own, reader } = await joinedReader(t, ['--appendonly', 'no']);
    await own.command('REPLICAOF', '127.0.0.1', String(await freePort()));
    await assert.rejects(reader.read(1, 60_000, 1), /READONLY/);
    await own.command('REPLICAOF', 'NO', 'ONE'); // The server's history of writes has another name now.
    await own.command('XADD', STREAM, '*', 'producer', 'p', 'body', '{}');
    let read: readonly Delivery[] = [];
    await eventually('the entry is acknowledged during another read', async () => {
      const more = await reader.read(1, 60_000, 1).catch(() => []);
      if (more.length > 0) read = more;
      const waiting = reader.read(1, 60_000, 50).catch(() => []);
      await reader.acknowledge(read).catch(() => 0);
      const next = await waiting;
      if (next.length > 0) read = next;
      return read.length > 0 && ((await own.command('XPENDING', STREAM, GROUP)) as unknown[])[0] === 0;
    });
  });

  it('reads its pending entries once more after a lost reply, then new ones', async (t) => {
    await server.command('FLUSHALL');
    const reader = await openReader(t, server.uri);
    const pending = ['1-1', '1-2', '1-3', '1-4', '1-5'];
    for (const entry of pending) await server.command('XADD', STREAM, entry, 'producer', 'shop', 'body', '{}');
    assert.equal((await reader.read(10, 3_600_000, 0)).length, 5);
    await server.command('XADD', STREAM, '2-1', 'producer', 'shop', 'body', '{}');
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const entries: string[] = [];
    await eventually('all came', async () => {
      const deliveries = await reader.read(2, 3_600_000, 20).catch(() => []);
      entries.push(...deliveries.map(({ entry }) => entry));
      return entries.includes('2-1');
    });
    assert.deepEqual(entries, [...pending, '2-1']);
  });

  it('reports an event that was erased while a read waited for it', async (t) => {
    await server.command('FLUSHALL');
    const reader = await openReader(t, server.uri);
    const reading = reader.read(1, 3_600_000, 60_000);
    await eventually('it waits', async () =>
      /blocked_clients:1\r/.test(String(await server.command('INFO', 'clients'))),
    );
    await server.command('ZADD', `{${STREAM}}:erased`, String(Date.now() + 3_600_000), 'one');
    await server.command('XADD', STREAM, '*', 'producer', 'p', 'body', '{"id":"one","type":"t"}');
    const events = (await reading).map((event) => ({ ...event, id: 'one' }));
    assert.deepEqual([...(await reader.erased(events, 60_000))], ['one']);
  });

  it('reads nothing while its user lacks a right, names it, and does not call the group missing', async (t) => {
    const own = await TestRedis.start(['--appendonly', 'no']);
    const user = (...rights: readonly string[]): Promise<unknown> =>
      own.command('ACL', 'SETUSER', 'consumer', 'on', '>secret', '~*', '+@all', ...rights);
    await user();
    const reader = await openReader(t, `redis://consumer:secret@127.0.0.1:${own.port}`);
    for (const right of ['xpending', 'zcard']) {
      await user(`-${right}`);
      const causes = new Set<string>();
      await eventually('the right is named', async () => {
        const work =
          right === 'zcard' ? reader.erased([{ source: '', id: 'a', acceptedAtMs: 1 }]) : reader.read(1, 0, 0);
        await work.catch((cause: Error) => causes.add(cause.name));
        const state = reader.state();
        return (
          !state.available && state.reason.startsWith(`the Redis user lacks rights that this program needs: ${right}`)
        );
      });
      assert.ok(!causes.has('GroupVanished'));
      await user();
      await eventually('it is connected', () => reader.state().available);
      assert.deepEqual(await reader.read(1, 0, 0), []);
    }
  });

  it('rejects in time while the server is frozen, and reads again afterwards', async (t) => {
    await server.command('FLUSHALL');
    const reader = await openReader(t, server.uri);
    await server.signal('SIGSTOP');
    try {
      const before = performance.now();
      await Promise.all([
        assert.rejects(reader.read(10, 3_600_000, 100)),
        assert.rejects(reader.acknowledge([{ source: 'x/ingest', entry: '1-1' }])),
      ]);
      assert.ok(performance.now() - before < GENEROUS_MS, 'both had an end');
    } finally {
      await server.signal('SIGCONT');
    }
    await server.command('XADD', STREAM, '2-1', 'producer', 'shop', 'body', '{}');
    await eventually('it reads again', async () => (await reader.read(10, 3_600_000, 50).catch(() => [])).length > 0);
  });

  it("claims the entries of a member that died while the server's clock was ahead", async (t) => {
    const ahead = await TestRedis.startWithClock();
    ahead.setClock(25);
    const entry = await ahead.command('XADD', STREAM, '*', 'producer', 'shop', 'body', '{}');
    const dead = await openReader(t, ahead.uri);
    const [read] = await dead.read(1, 60_000, 0);
    assert.equal(read?.acceptedAtMs, Number.parseInt(String(entry), 10), 'by the clock of the server');
    const [seconds] = (await ahead.command('TIME')) as [string];
    await ahead.command('ZADD', `{${STREAM}}:replicas`, String(Number(seconds) * 1_000), dead.name);
    ahead.setClock(0);

    const reader = readerOf(partitionAt(ahead.uri));
    t.after(() => reader.close());
    assert.equal(await reader.open(20_000), true, reader.lastError);
    assert.equal(await reader.register(1), true, 'the place of the dead one is free');
    const taken = await eventually('it is taken over', async () => {
      const deliveries = await reader.read(10, 10_000, 20);
      return deliveries.length > 0 && deliveries;
    });
    assert.deepEqual(
      taken.map((delivery) => delivery.entry),
      [entry],
    );
  });
});
