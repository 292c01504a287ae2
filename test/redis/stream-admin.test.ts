import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { beforeEach, describe, it, type TestContext } from 'node:test';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { QueuedCopy } from '../../lib/ingest/queue-admin.ts';
import type { StreamAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { RETENTION_MS, type Outcome } from '../../lib/ingest/queue.ts';
import { openAdmin, openQueue, openReader, openReplicated } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

const SECRET = 'secret';
const TRACED = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' };
const body = (id: string): string => JSON.stringify({ id, type: 't', text: SECRET });

/** Redis' reply to DUMP is not text. */
const BYTES = "return tostring(string.find(redis.call('DUMP', KEYS[1]), ARGV[1], 1, true) ~= nil)";

const server = await TestRedis.start(['--appendonly', 'no', '--rdbcompression', 'no']);
beforeEach(() => server.command('FLUSHALL'));

async function openAccepting(
  t: TestContext,
): Promise<{ submit: (id: string) => Promise<Outcome>; queue: StreamQueue }> {
  const queue = await openQueue(server.uri, { after: t.after.bind(t) });
  const submit = (id: string): Promise<Outcome> =>
    new Promise((settle) => queue.submit({ id, producer: 'shop', body: Buffer.from(body(id)), notes: TRACED, settle }));
  return { submit, queue };
}

const sourceOf = async (redis: TestRedis): Promise<string> =>
  `${String(await redis.command('HGET', `{${STREAM}}:queue`, 'id'))}/${STREAM}`;

async function copies(admin: StreamAdmin, id: string, redis = server): Promise<readonly QueuedCopy[]> {
  await admin.clock();
  const source = await sourceOf(redis);
  return admin.copiesOfRows(
    id,
    (await redis.entries()).map(({ entry }) => `${source}/${entry}`),
  );
}

describe('erasing an entry', () => {
  it('keeps the id, the time of acceptance and the trace of an erased event, and nothing of its body', async (t) => {
    const [{ submit, queue }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    assert.equal(await submit('one'), 'accepted');
    const before = await queue.find('one', 'shop');
    const [copy] = await copies(admin, 'one');
    assert.ok(copy !== undefined && before.kind === 'found');
    const elsewhere = { ...copy, source: `another-queue/${STREAM}` };
    assert.equal(await admin.erase(elsewhere, 'one', erasedBody('one', 't')), 'gone');
    assert.equal(await admin.erase(copy, 'one', erasedBody('one', 't')), 'erased');
    assert.deepEqual(await queue.find('one', 'shop'), {
      kind: 'found',
      event: { ...before.event, body: Buffer.from(erasedBody('one', 't')) },
    });
    assert.equal(await submit('one'), 'differing');
    assert.ok(!JSON.stringify(await server.entries()).includes(SECRET));
    assert.equal(await server.length(), 1);
    assert.equal(await admin.erase(copy, 'one', erasedBody('one', 't')), 'gone');
  });

  it('states until when Redis holds the bytes, which later events do not put off', async (t) => {
    const [{ submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    for (const id of ['neighbor', 'one', 'other']) await submit(id);
    const untilMs: number[] = [];
    for (const id of ['one', 'other']) {
      const [copy] = await copies(admin, id);
      assert.ok(copy !== undefined);
      assert.equal(await admin.erase(copy, id, erasedBody(id, 't')), 'erased');
      untilMs.push((admin.bytesUntilMs ?? 0) - RETENTION_MS);
    }
    const [neighbor, replacement] = (await server.entries()).map(({ entry }) => Number.parseInt(entry, 10));
    assert.ok(neighbor !== undefined && replacement !== undefined);
    assert.deepEqual(untilMs, [replacement, replacement]);
    const about = (await server.command('XINFO', 'STREAM', STREAM)) as unknown[];
    assert.equal(about[about.indexOf('entries-added') + 1], 5, 'three events and two replacements');
    const holdsBytes = async (): Promise<boolean> =>
      String(await server.command('EVAL', BYTES, '1', STREAM, body('one'))) === 'true';
    assert.ok(await holdsBytes(), 'the neighbor has not been trimmed');
    await submit('later');
    await server.command('XTRIM', STREAM, 'MINID', String(replacement));
    assert.equal(await holdsBytes(), false);
    assert.equal(await server.length(), 3);
  });

  it('does not know until when if the block is not complete, also after a later erasure that knows', async (t) => {
    const [{ submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    for (const [id, blockBytes] of [
      ['one', '1000000'],
      ['other', '4096'],
    ] as const) {
      await server.command('CONFIG', 'SET', 'stream-node-max-bytes', blockBytes);
      await submit(id);
      const [copy] = await copies(admin, id);
      assert.equal(copy && (await admin.erase(copy, id, erasedBody(id, 't'))), 'erased');
      assert.equal(admin.bytesUntilMs, Number.POSITIVE_INFINITY);
    }
  });

  it('waits for a living consumer that holds the entry, but not for a dead one', async (t) => {
    const [{ submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    const reader = await openReader(t, server.uri);
    assert.equal(await reader.register(6), true);
    await submit('held');
    const [delivery] = await reader.read(1, 3_600_000, 1_000);
    const [copy] = await copies(admin, 'held');
    assert.ok(copy !== undefined);
    const erase = (): Promise<string> => admin.erase(copy, 'held', erasedBody('held', 't'));
    assert.equal(await erase(), 'held');
    assert.deepEqual(await admin.states([copy.entry]), ['held']);
    await reader.close();
    assert.equal(await erase(), 'erased');
    const { unread, pending } = (await admin.status()).partition;
    assert.deepEqual([unread, pending], [1, 0]);
    const other = await openReader(t, server.uri);
    const [again, ...more] = await other.read(10, 0, 1_000);
    assert.deepEqual(more, []);
    assert.equal(again?.body?.toString(), erasedBody('held', 't'));
    assert.equal(again.acceptedAtMs, delivery?.acceptedAtMs);
    assert.equal(again.replayOf?.replace(/~[0-9a-f]{16}$/, ''), `${delivery?.source}/${copy.entry}`);
  });

  it('refuses to erase an entry that was read from a previous server, whatever has its name now', async (t) => {
    const own = await TestRedis.start(['--appendonly', 'no', '--rdbcompression', 'no']);
    const admin = openAdmin(t, own.uri);
    const put = (id: string): Promise<unknown> =>
      own.command('XADD', STREAM, '5-1', 'producer', 'shop', 'body', body(id));
    await put('lost');
    const [lost] = await copies(admin, 'lost', own);
    assert.ok(lost !== undefined);

    // The restarted server has lost its data, so another entry can get the same name.
    await own.signal('SIGKILL');
    await own.start();
    await put('accepted');
    const found = await eventually('the admin is connected again', () =>
      copies(admin, 'accepted', own).then(
        ([copy]) => copy,
        () => undefined,
      ),
    );
    await assert.rejects(admin.erase(lost, 'lost', erasedBody('lost', 't')), /another server .*run the command again/);
    assert.ok(JSON.stringify(await own.entries()).includes('accepted'));
    assert.equal(await admin.erase(found, 'accepted', erasedBody('accepted', 't')), 'erased');
  });
});

describe('the note of an erasure', () => {
  it('is listed, the newest first, and applies to events that were accepted before it', async (t) => {
    const [admin, reader] = [openAdmin(t, server.uri), await openReader(t, server.uri)];
    const before = Date.now();
    await admin.noteErasure('one');
    const others = Array.from({ length: 1_000 }, (_, at) => ['1', `other-${at}`]).flat();
    await server.command('ZADD', `{${STREAM}}:erased`, ...others);
    const pages = await Promise.all([admin.erasures(0), admin.erasures(1_000)]);
    assert.deepEqual([pages[0].length, pages[0][0]?.id, pages[1].length], [1_000, 'one', 1], 'each is listed once');
    const source = await sourceOf(server);
    const erased = (id: string, acceptedAtMs: number): Promise<ReadonlySet<string>> =>
      reader.erased([
        { source, id, acceptedAtMs },
        { source, id: undefined, acceptedAtMs },
      ]);
    assert.deepEqual([...(await erased('one', before))], ['one']);
    assert.deepEqual([...(await erased('one', before + 3_600_000))], []);
    assert.deepEqual([...(await erased('two', before))], []);
    const nextMs = Date.now() + 60_000;
    await server.command('XADD', STREAM, `${nextMs}-1`, 'note', 'accepted last');
    await admin.noteErasure('one');
    assert.deepEqual([[...(await erased('one', nextMs))], [...(await erased('one', nextMs + 1))]], [['one'], []]);
    await server.command('XADD', STREAM, `${2n ** 64n - 1n}-1`, 'note', 'another program');
    await admin.noteErasure('one');
    const [hourLater, dayLater] = [Date.now() + 3_600_000, Date.now() + RETENTION_MS + 60_000];
    assert.deepEqual([[...(await erased('one', hourLater))], [...(await erased('one', dayLater))]], [['one'], []]);
  });

  it('made since the last read is found only by those who want an answer that is not older', async (t) => {
    const [admin, reader] = [openAdmin(t, server.uri), await openReader(t, server.uri)];
    await server.command('FLUSHALL');
    await reader.join();
    const events = [{ source: await sourceOf(server), id: 'one', acceptedAtMs: 1 }];
    const erased = async (ageMsMax?: number): Promise<string[]> => [...(await reader.erased(events, ageMsMax))];
    await reader.read(1, 3_600_000, 0);
    await admin.noteErasure('one');
    assert.deepEqual([await erased(60_000), await erased()], [[], ['one']]);
    await reader.read(1, 3_600_000, 0);
    assert.deepEqual(await erased(0), ['one']);
  });
});

const row = {
  replayOf: 'q/ingest/1-1',
  id: 'the source the-id',
  ...TRACED,
  producer: 'a\0b',
  body: Buffer.from([0x7b, 0xff, 0x00, 0x0a]),
  acceptedAtMs: 1_234,
};

describe('replaying rows', () => {
  it('replays the exact bytes, the producer, and the time of first acceptance', async (t) => {
    const [admin, reader] = [openAdmin(t, server.uri), await openReader(t, server.uri)];
    await admin.replay(row, false);
    const [delivery] = await reader.read(1, 3_600_000, 1_000);
    assert.deepEqual(delivery?.body, row.body);
    assert.deepEqual(
      [delivery?.producer, delivery?.acceptedAtMs, delivery?.replayOf, delivery?.notes],
      [row.producer, 1_234, row.replayOf, { id: row.id, traceparent: row.traceparent }],
    );
  });

  it('adds a row once while its replay is pending, and again only on request', async (t) => {
    const [admin, reader] = [openAdmin(t, server.uri), await openReader(t, server.uri)];
    const put = async (again: boolean): Promise<string> => {
      const { entry, fresh } = await admin.replay(row, again);
      return `${(await admin.states([entry]))[0]} ${fresh}`;
    };
    assert.equal(await put(false), 'unread true');
    assert.equal(await put(false), 'unread false');
    assert.equal(await put(true), 'unread false');
    const [copy] = await admin.copiesOfRows(row.id, [row.replayOf]);
    assert.equal(copy && (await admin.erase(copy, row.id, erasedBody(row.id, 't'))), 'erased');
    assert.equal(await put(false), 'unread false', 'its erased form is pending');
    const [delivery] = await reader.read(1, 3_600_000, 1_000);
    assert.equal(await put(true), 'held false');
    await reader.acknowledge(delivery === undefined ? [] : [delivery]);
    assert.equal(await put(false), 'done false');
    assert.equal(await put(true), 'unread true');
    await server.command('DEL', STREAM);
    await server.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
    assert.equal(await put(false), 'unread true');
  });
});

describe('the status of a stream', () => {
  const REPLICAS = `{${STREAM}}:replicas`;
  const sizeOf = async (key: string): Promise<number> => Number(await server.command('MEMORY', 'USAGE', key));

  it('names the reason why gateways accept no events, in the words of their readiness', async (t) => {
    const [{ queue, submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    const reasons = async (of: StreamQueue): Promise<readonly unknown[]> => {
      const state = await of.probe();
      return [state.available ? undefined : state.reason, (await admin.status()).partition.unavailable];
    };
    assert.deepEqual(await reasons(queue), [undefined, undefined]);
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    const [full, shown] = await reasons(queue).finally(() => server.command('CONFIG', 'SET', 'maxmemory', '0'));
    assert.match(String(full), /^OOM /);
    assert.equal(shown, full);
    await server.command('LPUSH', '{ingest}:ids', 'x');
    assert.equal(await submit('one'), 'unavailable');
    await eventually('both name the key', async () => {
      const [why, status] = await reasons(queue);
      return why === status && String(why).endsWith('have the wrong type: {ingest}:ids (rename them)');
    });
    await server.command('DEL', '{ingest}:ids');

    const { queue: replicated, connections } = openReplicated(t, server.uri, { enqueueTimeoutMs: 500 });
    await eventually('it is connected', () => connections.every(({ ready }) => ready));
    await eventually('both say the same', async () => {
      const [why, status] = await reasons(replicated);
      const isSame = status === `${String(why)}, at the gateway that connected last`;
      return isSame && /^0 replicas are connected and INGEST_QUEUE_REPLICAS is 1/.test(String(why));
    });
  });

  it('names every right that its user lacks, also those of scripts, and the keys of another type', async (t) => {
    const uri = `redis://admin:secret@127.0.0.1:${server.port}`;
    await server.command('ACL', 'SETUSER', 'admin', 'on', '>secret', '~*', '+@all', '-hget', '-xdel');
    const lacks =
      /^the Redis user lacks rights that this program needs: hget on \{ingest\}:looked, .*, xdel on ingest \(/;
    await assert.rejects(openAdmin(t, uri).status(), { message: lacks });
    await server.command('ACL', 'SETUSER', 'admin', '+@all');
    await server.command('SET', '{ingest}:erased', 'x');
    await assert.rejects(openAdmin(t, uri).erasures(0), { message: /wrong type: \{ingest\}:erased \(rename them\)$/ });
  });

  it("reports its size, the group's progress, its members, and the server", async (t) => {
    const [{ submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    const reader = await openReader(t, server.uri);
    for (const id of ['one', 'two', 'three']) await submit(id);
    await reader.read(1, 3_600_000, 1_000);
    await server.command('XREADGROUP', 'GROUP', GROUP, 'dead', 'COUNT', '1', 'STREAMS', STREAM, '>');
    await server.command('XGROUP', 'CREATECONSUMER', STREAM, GROUP, 'idle');
    const newest = Number(await server.command('GET', `{${STREAM}}:ids`));
    await server.command('SET', `{${STREAM}}:ids`, `${newest} ${newest - 9 * 3_600_000}`);
    await server.command('HSET', `{${STREAM}}:ids:${newest - 9 * 3_600_000}`, 'id', 'x'.repeat(1_000));
    const beatMs = Date.now();
    await server.command('ZADD', REPLICAS, String(beatMs - 10_000_000), 'gone');
    for (const name of ['alive', reader.name]) await server.command('ZADD', REPLICAS, String(beatMs), name);
    const { partition, server: about, run } = await admin.status();
    const { memoryBytes, oldestUnlandedMs, replicas, ...counts } = partition;
    const expected = { name: STREAM, stream: STREAM, events: 3, unread: 1, pending: 2, unavailable: undefined };
    assert.deepEqual(counts, expected);
    const slices = (await server.command('KEYS', `{${STREAM}}:ids:*`)) as readonly string[];
    const sizes = await Promise.all([STREAM, ...slices].map(sizeOf));
    assert.equal(slices.length, 2);
    assert.equal(
      memoryBytes,
      sizes.reduce((sum, size) => sum + size, 0),
    );
    const firstMs = Number.parseInt((await server.entries())[0]?.entry ?? '', 10);
    assert.ok(oldestUnlandedMs <= Date.now() - firstMs && oldestUnlandedMs >= beatMs - firstMs, `${oldestUnlandedMs}`);
    assert.deepEqual(
      new Map(replicas.map(({ name, holds, heartbeatMs: ms }) => [name, [holds, ms !== undefined]])),
      new Map([
        ['alive', [0, true]],
        ['dead', [1, false]],
        [reader.name, [1, true]],
      ]),
    );
    const ageMs = replicas.find(({ name }) => name === 'alive')?.heartbeatMs ?? -1;
    assert.ok(ageMs >= 0 && ageMs <= Date.now() - beatMs, `${ageMs}`);
    assert.equal(run, /run_id:(\w+)/.exec(String(await server.command('INFO', 'server')))?.[1]);
    assert.match(about.name, /^(?:Redis|Valkey) \d+\.\d+/);
    assert.deepEqual(about.partitions, [STREAM]);
    assert.deepEqual(about.faults, [
      'the append-only file is off: accepted events are lost with the server; set appendonly yes',
    ]);
    assert.equal(about.memoryLimitBytes, 0);
    assert.ok((about.memoryBytes ?? 0) > 100_000);
    assert.equal(await server.length(), 3);
    const copying = [connect(server.port), connect(server.port)];
    for (const one of copying) one.write('SYNC\r\n');
    await eventually('both copies are shown', async () => (await admin.status()).server.copies.length === 2);
    for (const one of copying) one.destroy();
  });

  it('creates nothing for a missing stream, and reports entries without a group as unread', async (t) => {
    const admin = openAdmin(t, server.uri, { makes: false });
    const seen = async (): Promise<readonly unknown[]> => {
      const { events, unread, pending, oldestUnlandedMs, replicas } = (await admin.status()).partition;
      return [events, unread, pending, oldestUnlandedMs > 0, replicas];
    };
    assert.deepEqual(await seen(), [0, 0, 0, false, []]);
    assert.deepEqual(await server.command('KEYS', '*'), []);
    await server.command('XADD', STREAM, '1000-0', 'producer', 'shop', 'body', body('old'));
    assert.deepEqual(await seen(), [1, 1, 0, true, []]);
    assert.deepEqual(await admin.states(['1000-0', '999-0']), ['unread', 'gone']);
    await server.command('XGROUP', 'CREATE', STREAM, 'of-others', '$');
    assert.deepEqual(await admin.states(['1000-0', '999-0']), ['unread', 'gone']);
  });

  it('finds an event by the id index, its replays and its quarantine rows, and no other event', async (t) => {
    const [{ submit }, admin] = [await openAccepting(t), openAdmin(t, server.uri)];
    assert.equal(await submit('one'), 'accepted');
    const copy = await admin.find('one');
    const [stored] = await server.entries();
    assert.ok(copy !== undefined && stored !== undefined);
    const source = await sourceOf(server);
    assert.deepEqual(copy, {
      ...{ stream: STREAM, source, entry: stored.entry, id: 'one', producer: 'shop', replayOf: undefined },
      ...{ acceptedAtMs: Number.parseInt(stored.entry, 10), body: Buffer.from(body('one')) },
    });
    assert.match(source, new RegExp(`^[0-9a-f-]{36}/${STREAM}$`));
    assert.equal(await admin.find('two'), undefined);
    const own = `${source}/${copy.entry}`;
    assert.deepEqual(await admin.copiesOfRows('one', [own, own]), [copy]);
    assert.deepEqual(await admin.copiesOfRows('two', [own]), []);
    assert.deepEqual(
      await admin.copiesOfRows('one', [`${own}~0123456789abcdef`]),
      [copy],
      "beside another event's row",
    );
    assert.deepEqual(
      await admin.copiesOfRows('one', [`other/${STREAM}/${copy.entry}`, `${source}/none`, `${source}/x${copy.entry}`]),
      [],
    );
    const replayed = await admin.replay({ ...row, replayOf: 'q/s/1-1', id: 'one' }, false);
    const entries = async (rows: readonly string[]): Promise<readonly string[]> =>
      (await admin.copiesOfRows('one', rows)).map(({ entry }) => entry);
    assert.deepEqual(await entries([]), [replayed.entry]);
    assert.deepEqual(await entries(['q/s/1-1', own]), [replayed.entry, copy.entry]);
    await server.command('XDEL', STREAM, copy.entry);
    assert.equal(await admin.find('one'), undefined);
  });

  it('reads entries with their states, and makes only acknowledged ones pending again', async (t) => {
    const [admin, reader] = [openAdmin(t, server.uri), await openReader(t, server.uri)];
    const add = (entry: string): Promise<unknown> =>
      server.command('XADD', STREAM, entry, 'producer', 'shop', 'body', body(entry));
    for (const entry of ['1000-0', '2000-0', '2000-1', '3000-0']) await add(entry);
    const read = await reader.read(10, 3_600_000, 1_000);
    await reader.acknowledge(read.filter(({ entry }) => entry !== '2000-1'));
    await add('4000-0');
    const states = async (): Promise<readonly string[]> =>
      (await admin.after('1000-0', '4000-0')).entries.map(({ entry, state }) => `${entry} ${state}`);
    assert.deepEqual(await states(), ['2000-0 done', '2000-1 held', '3000-0 done', '4000-0 unread']);
    const again = ['2000-0', '2000-1', '4000-0', '9000-0'].map((entry) => ({ source: '', entry }));
    assert.deepEqual(await admin.landAgain(again), ['held', 'held', 'unread', 'gone']);
    assert.deepEqual(await admin.states(['3000-0', '2000-1', '2000-0']), ['done', 'held', 'held']);
    const claimed = await eventually('the reader claims it', async () => {
      const some = await reader.read(10, 3_600_000, 100);
      return some.some(({ entry }) => entry === '2000-0') && some;
    });
    assert.deepEqual([claimed.length, await reader.acknowledge(claimed)], [1, 1]);
    assert.deepEqual((await states()).slice(0, 3), ['2000-0 done', '2000-1 held', '3000-0 done']);
  });

  it('reads a page that ends with the last possible name, and says that no entry can be added', async (t) => {
    const [admin, { queue, submit }] = [openAdmin(t, server.uri), await openAccepting(t)];
    const [last, end] = ['5-1', '18446744073709551615-18446744073709551615'];
    for (const entry of [last, end])
      await server.command('XADD', STREAM, entry, 'producer', 'shop', 'body', body('one'));
    const pageAfter = async (from: string): Promise<readonly unknown[]> => {
      const { entries, full } = await admin.after(from, end);
      return [...entries.map(({ entry }) => entry), full];
    };
    assert.deepEqual(
      [await pageAfter('0-0'), await pageAfter(last), await pageAfter(end)],
      [[last, end, false], [end, false], [false]],
    );
    const refusal = /the last possible name, .*runbook$/;
    assert.match((await admin.status()).partition.unavailable ?? '', refusal);
    await assert.rejects(admin.replay(row, false), refusal);
    assert.equal(await submit('two'), 'unavailable');
    await eventually('the gateway says so too', () => {
      const state = queue.state();
      return !state.available && refusal.test(state.reason);
    });
  });
});
