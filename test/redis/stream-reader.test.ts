import assert from 'node:assert/strict';
import { beforeEach, describe, it, type TestContext } from 'node:test';
import { GroupVanished, REPLICA_LEASE_MS, type Delivery } from '../../lib/ingest/queue.ts';
import { joinReplicas } from '../../lib/redis/read/open-readers.ts';
import { memberName, StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { Script } from '../../lib/redis/wire/script.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { connectedTo, logged, openReader, partitionAt, QUIET_LOG } from '../support/partition.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const NEVER_MS = 3_600_000;
const REPLICAS = `{${STREAM}}:replicas`;

const server = await TestRedis.start(['--appendonly', 'no']);
beforeEach(() => server.command('FLUSHALL'));

/** Opens a reader that has not joined the group. */
async function opened(
  t: TestContext,
  { uri = server.uri, stream = STREAM, log = QUIET_LOG, clock = SYSTEM.clock } = {},
): Promise<StreamReader> {
  const part = partitionAt(uri, { stream });
  const reader = new StreamReader({ clock, part, name: memberName(SYSTEM.random), log });
  t.after(() => reader.close());
  assert.equal(await reader.open(20_000), true, reader.lastError);
  return reader;
}

/** Returns a server of its own, and a reader that has joined the group there. */
async function joinedReader(t: TestContext, settings: readonly string[]) {
  const own = await TestRedis.start(settings);
  return { own, reader: await openReader(t, own.uri) };
}

const put = async (members: Readonly<Record<string, string | Buffer>> = { producer: 'shop', body: '{}' }) =>
  String(await server.command('XADD', STREAM, '*', ...Object.entries(members).flat()));

const putMany = async (count: number): Promise<string[]> => {
  const entries: string[] = [];
  while (entries.length < count) entries.push(await put());
  return entries;
};

const names = (deliveries: readonly Delivery[]): string[] => deliveries.map(({ entry }) => entry);

const pending = async (redis = server): Promise<unknown> =>
  ((await redis.command('XPENDING', STREAM, GROUP)) as unknown[])[0];

describe('the reading side of a queue', () => {
  it('creates the group once, at the start of the queue, when several consumers join together', async (t) => {
    const [one, ...others] = [await opened(t), await opened(t), await opened(t)];
    await server.command('FLUSHALL');
    const entry = await put();
    const made = await Promise.all([one, ...others].map((member) => member?.join()));
    assert.equal(made.filter(Boolean).length, 1);
    for (const _ of [1, 2]) await others[0]?.close();
    assert.deepEqual(names((await one?.read(10, NEVER_MS, 0)) ?? []), [entry]);
  });

  it('delivers each entry to one member, in order, byte for byte, and with its notes', async (t) => {
    const [one, other] = [await openReader(t, server.uri), await openReader(t, server.uri)];
    const before = Date.now();
    const first = await put({ producer: 'sh\u{1F600}p', body: ' {"id":"\\u0000"}\n' });
    const second = await put({ note: 'by hand' });
    const notes = { id: 'sh\u{1F600}p 1', traceparent: 't', tracestate: 's' };
    const third = await put({ producer: 'shop', body: '{}', ...notes, another: 'x' });
    const fourth = await put({ producer: Buffer.of(0x73, 0xff), body: '{}' });
    const [delivery, ...more] = await one.read(1, NEVER_MS, 0);
    assert.deepEqual([delivery?.entry, delivery?.producer, more], [first, 'sh\u{1F600}p', []]);
    assert.equal(delivery?.body?.toString(), ' {"id":"\\u0000"}\n');
    assert.ok(delivery.acceptedAtMs >= before - 1_000 && delivery.acceptedAtMs <= Date.now() + 1_000);
    const rest = await other.read(10, NEVER_MS, 0);
    assert.deepEqual(
      rest.map(({ entry, producer, body, notes }) => ({ entry, producer, body: body?.toString(), notes })),
      [
        { entry: second, producer: undefined, body: undefined, notes: {} },
        { entry: third, producer: 'shop', body: '{}', notes },
        { entry: fourth, producer: undefined, body: '{}', notes: {} },
      ],
    );
    assert.match(delivery.source, /^[^/]+\/ingest$/);
    assert.equal(rest[0]?.source, delivery.source);
  });

  it('reports that the queue has vanished, also during a read, and has another source after it joins', async (t) => {
    const reader = await openReader(t, server.uri);
    await put();
    const [first] = await reader.read(1, NEVER_MS, 0);
    await server.command('FLUSHALL');
    await assert.rejects(reader.read(10, NEVER_MS, 0), GroupVanished);
    await reader.join();
    const waiting = assert.rejects(reader.read(10, NEVER_MS, 5_000), GroupVanished);
    await server.command('FLUSHALL');
    await waiting;
    const entry = await put();
    assert.equal(await reader.join(), true);
    const [again] = await reader.read(10, NEVER_MS, 0);
    assert.equal(again?.entry, entry);
    assert.notEqual(again.source, first?.source);
  });

  it('reports a group that another program recreated while it was disconnected, if it has read from it', async (t) => {
    const reader = await openReader(t, server.uri);
    const isVanished = (cause: unknown): boolean => cause instanceof GroupVanished;
    const reconnected = async (): Promise<unknown> => {
      await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      return eventually('it reads again', () => reader.read(10, NEVER_MS, 0).catch(isVanished));
    };
    assert.deepEqual(await reconnected(), []);
    await put();
    assert.equal((await reader.read(10, NEVER_MS, 0)).length, 1);
    await server.command('FLUSHALL');
    await server.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
    assert.equal(await reconnected(), true);
  });

  it('warns of events that land only with another form of the URI, in every stream that has some', async (t) => {
    for (const [stream, others] of [
      [STREAM, ['ingest-a', 'ingest-b']],
      ['ingest-b', [STREAM]],
    ] as const) {
      await server.command('FLUSHALL');
      for (const other of others) await server.command('XADD', other, '*', 'body', '{}');
      const { log, lines } = logged(t, 'warn');
      await opened(t, { stream, log });
      assert.deepEqual(
        lines.map(({ msg }) => /holds the queue (\S+):/.exec(msg)?.[1]),
        others,
      );
    }
  });

  it('learns of a longer body that a gateway accepts, and leaves no timer behind when it is closed', async (t) => {
    const clock = new VirtualClock();
    const reader = await opened(t, { clock });
    assert.equal(await reader.register(1), true);
    await reader.join();
    await server.command('HSET', `{${STREAM}}:queue`, 'bodyBytesMax', '4000000');
    assert.equal(reader.bodyBytesMax, undefined);
    // In steps in which the server answers, because a new connection asks too.
    await eventually('it is learned', async () => {
      await clock.advance(500);
      return reader.bodyBytesMax === 4_000_000;
    });
    await reader.close();
    await clock.advance(60_000);
    assert.equal(clock.pending, 0, 'no timer is left');
  });

  it('waits for the place of a dead replica for longer than its lease before it starts without one', async (t) => {
    const [clock, reader] = [new VirtualClock(), await opened(t)];
    await server.command('ZADD', REPLICAS, String(Date.now() + 4_000), 'dead');
    const { mock } = t.mock.method(reader, 'register');
    const config = { queueUri: server.uri, replicasMax: 1 };
    const joining = joinReplicas([reader], config, clock, new AbortController().signal, QUIET_LOG);
    for (let asked = 1; clock.ms() < REPLICA_LEASE_MS; asked += 1) {
      await eventually('it asks for a place', () => mock.callCount() === asked);
      await mock.calls[asked - 1]?.result;
      await clock.advance(250);
    }
    await mock.calls.at(-1)?.result;
    await server.command('DEL', REPLICAS);
    await clock.advance(250);
    await joining;
    assert.equal(reader.replicas, 1);
  });

  it('waits for the first entry, at most for the given time', async (t) => {
    const reader = await openReader(t, server.uri);
    const waiting = reader.read(10, NEVER_MS, 5_000);
    const entry = await put();
    assert.deepEqual(names(await waiting), [entry]);
    for (const waitMs of [20, 0]) assert.deepEqual(await reader.read(10, NEVER_MS, waitMs), []);
  });

  it('claims what another member did not acknowledge for long, in pieces, before new entries', async (t) => {
    const dead = await openReader(t, server.uri);
    const entries = await putMany(25);
    assert.deepEqual(names(await dead.read(25, NEVER_MS, 0)), entries);
    const deleted = entries.filter((_, at) => at % 3 === 1);
    for (const entry of deleted) await server.command('XDEL', STREAM, entry);
    const [patient, living] = [await openReader(t, server.uri), await openReader(t, server.uri)];
    assert.deepEqual(await patient.read(10, NEVER_MS, 20), []);
    const fresh = await put();
    await server.command('XCLAIM', STREAM, GROUP, dead.name, '0', ...entries, 'IDLE', '60000', 'JUSTID');
    const wanted = [...entries.filter((entry) => !deleted.includes(entry)), fresh];
    const seen: string[] = [];
    await eventually('all came', async () => {
      const deliveries = await living.read(10, 50_000, 0);
      assert.ok(deliveries.length <= 10);
      seen.push(...names(deliveries));
      assert.equal(await living.acknowledge(deliveries), deliveries.length);
      assert.equal(await living.acknowledge([...deliveries, { source: 'none/ingest', entry: '1-1' }]), 0);
      return seen.length >= wanted.length;
    });
    assert.deepEqual(seen, wanted);
  });

  it('counts consumers, refuses one too many, and has one first consumer, also after that has left', async (t) => {
    const replicas = await Promise.all(Array.from({ length: 6 }, () => opened(t)));
    assert.ok(replicas.every(({ isFirst }) => isFirst));
    const counted = await Promise.all(replicas.map((replica) => replica.register(5)));
    assert.equal(counted.filter(Boolean).length, 5);
    const refused = replicas[counted.indexOf(false)];
    assert.deepEqual([await refused?.register(5), await refused?.register(6)], [false, true]);
    const firsts = async (): Promise<StreamReader[]> => {
      for (const _ of [1, 2]) for (const replica of replicas) await replica.register(6);
      return replicas.filter(({ isFirst }) => isFirst);
    };
    const [first, ...others] = await firsts();
    assert.ok(first !== undefined && others.length === 0);
    replicas.splice(replicas.indexOf(first), 1);
    await first.close();
    assert.equal((await firsts()).length, 1);
    const last = await opened(t);
    assert.equal(await last.register(6), true);
    assert.equal(last.replicas, 6);
  });
});

describe('a replica', () => {
  const script = new Script('register.lua', 'fields.lua');
  async function registering(t: TestContext) {
    const connection = await connectedTo(server.uri, t);
    await server.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
    return (name: string, max = 0, idleMs = NEVER_MS): Promise<unknown> =>
      script.run(connection, STREAM, [name, String(NEVER_MS), String(max), GROUP, String(idleMs)]);
  }

  it('does not count a replica after its lease, or with a heartbeat from before the clock was set back', async (t) => {
    const register = await registering(t);
    const now = Date.now();
    for (const [name, at] of [
      ['dead', now - NEVER_MS - 1],
      ['ahead', now + NEVER_MS + 60_000],
      ['alive', now - NEVER_MS + 60_000],
    ] as const)
      await server.command('ZADD', REPLICAS, String(at), name);
    assert.deepEqual(((await register('one', 2)) as number[])[0], 2);
    assert.deepEqual(await server.command('ZRANGE', REPLICAS, '0', '-1'), ['alive', 'one']);
    const left = Number(await server.command('PTTL', REPLICAS));
    assert.ok(left > NEVER_MS - 60_000 && left <= NEVER_MS, `${left}`);
  });

  it('removes a dead member, but not one that holds an entry or was active lately', async (t) => {
    const register = await registering(t);
    const members = async (): Promise<unknown[]> =>
      ((await server.command('XINFO', 'CONSUMERS', STREAM, GROUP)) as unknown[][]).map(([, name]) => name);
    await put();
    await server.command('XREADGROUP', 'GROUP', GROUP, 'holding', 'STREAMS', STREAM, '>');
    for (const name of ['me', 'dead']) await server.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, name);
    await register('me');
    assert.deepEqual(await members(), ['dead', 'holding', 'me']);
    await eventually('the dead one has been idle', async () => {
      await register('me', 0, 1);
      return !(await members()).includes('dead');
    });
    await register('holding', -1);
    assert.deepEqual(await members(), ['holding', 'me'], 'what it holds would be lost from the list');
    await server.command('DEL', STREAM);
    assert.deepEqual(await register('me', -1), [0, 0], 'a stream that is gone has no members');
  });

  it('sends its heartbeat again after one was refused, and warns once while more run than its maximum', async (t) => {
    const { log, lines } = logged(t, 'warn');
    const reader = await opened(t, { log });
    const beats = (times: number): Promise<unknown> => {
      const seen = new Set<unknown>();
      return eventually('it has sent heartbeats', async () => {
        seen.add(await server.command('ZSCORE', REPLICAS, reader.name));
        return seen.size > times;
      });
    };
    assert.equal(await reader.register(1), true);
    await beats(1);
    assert.deepEqual(lines, [], 'it runs alone');
    await server.command('DEL', REPLICAS);
    await server.command('SET', REPLICAS, 'another type');
    await eventually('a heartbeat was refused', async () =>
      String(await server.command('INFO', 'errorstats')).includes('errorstat_WRONGTYPE'),
    );
    await server.command('DEL', REPLICAS);
    await eventually('it is counted again', async () => (await server.command('ZCARD', REPLICAS)) === 1);
    lines.length = 0;
    await server.command('ZADD', REPLICAS, String(Date.now() + 4_000), 'another');
    await eventually('it warns', () => lines.length > 0);
    await beats(2);
    assert.deepEqual(
      lines.map(({ replicas }) => replicas),
      [2],
    );
  });
});

describe('the reader of a Redis Stream', () => {
  it('claims an old entry after a thousand recent ones, and then reads one of its own that it never received', async (t) => {
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
    assert.deepEqual(names(claimed), ['3-1']);
    const held = (await server.command('XPENDING', STREAM, GROUP, '-', '+', '2000')) as readonly string[][];
    const holders = held.map(([, holder]) => holder);
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
    assert.equal(await pending(next), 1);
    await next.command('XADD', STREAM, '6-1', 'producer', 'p', 'body', 'later');
    let later: readonly Delivery[] = [];
    await eventually('both connections use the new server', async () => {
      later = await reader.read(1, 60_000, 50).catch(() => []);
      return later.length > 0;
    });
    assert.equal(String(later[0]?.body), 'later');
  });

  it('is unavailable while one of its two connections is', async (t) => {
    const [found, dead] = [[server.uri], `redis://127.0.0.1:${await freePort()}`];
    const uri = { find: () => Promise.resolve(found.shift() ?? dead) };
    const reader = new StreamReader({
      ...SYSTEM,
      part: partitionAt(server.uri, { uri }),
      name: 'half',
      log: QUIET_LOG,
    });
    t.after(() => reader.close());
    assert.deepEqual([await reader.open(2_000), reader.state().available], [false, false]);
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
      return read.length > 0 && (await pending(own)) === 0;
    });
  });

  it('reads its pending entries once more after a lost reply, then new ones', async (t) => {
    const reader = await openReader(t, server.uri);
    const lost = ['1-1', '1-2', '1-3', '1-4', '1-5'];
    for (const entry of lost) await server.command('XADD', STREAM, entry, 'producer', 'shop', 'body', '{}');
    assert.equal((await reader.read(10, NEVER_MS, 0)).length, 5);
    await server.command('XADD', STREAM, '2-1', 'producer', 'shop', 'body', '{}');
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const entries: string[] = [];
    await eventually('all came', async () => {
      const deliveries = await reader.read(2, NEVER_MS, 20).catch(() => []);
      entries.push(...names(deliveries));
      return entries.includes('2-1');
    });
    assert.deepEqual(entries, [...lost, '2-1']);
  });

  it('reports an event that was erased while a read waited for it', async (t) => {
    const reader = await openReader(t, server.uri);
    const reading = reader.read(1, NEVER_MS, 60_000);
    await eventually('it waits', async () =>
      /blocked_clients:1\r/.test(String(await server.command('INFO', 'clients'))),
    );
    await server.command('ZADD', `{${STREAM}}:erased`, String(Date.now() + NEVER_MS), 'one');
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
    const reader = await openReader(t, server.uri);
    await server.signal('SIGSTOP');
    try {
      const before = performance.now();
      await Promise.all([
        assert.rejects(reader.read(10, NEVER_MS, 100)),
        assert.rejects(reader.acknowledge([{ source: 'x/ingest', entry: '1-1' }])),
      ]);
      assert.ok(performance.now() - before < GENEROUS_MS, 'both had an end');
    } finally {
      await server.signal('SIGCONT');
    }
    await server.command('XADD', STREAM, '2-1', 'producer', 'shop', 'body', '{}');
    await eventually('it reads again', async () => (await reader.read(10, NEVER_MS, 50).catch(() => [])).length > 0);
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

    const reader = await opened(t, { uri: ahead.uri });
    assert.equal(await reader.register(1), true, 'the place of the dead one is free');
    const taken = await eventually('it is taken over', async () => {
      const deliveries = await reader.read(10, 10_000, 20);
      return deliveries.length > 0 && deliveries;
    });
    assert.deepEqual(names(taken), [entry]);
  });
});
