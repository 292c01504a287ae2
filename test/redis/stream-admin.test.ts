// What an operator may change on the stream, asked of a real server: replays and erasures as atomic steps.
import assert from 'node:assert/strict';
import { before, beforeEach, describe, it, type TestContext } from 'node:test';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { QueuedCopy } from '../../lib/ingest/queue-admin.ts';
import { createLog } from '../../lib/process/log.ts';
import { byteConnection } from '../../lib/redis/server/client.ts';
import { StreamAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import { StreamTrimmer } from '../../lib/redis/stream/stream-trimmer.ts';
import type { Outcome } from '../../lib/ingest/queue.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const log = createLog('test', 'error').child({}, { level: 'silent' });
const SECRET = 'secret';
const body = (id: string): string => JSON.stringify({ id, type: 't', text: SECRET });

let server: TestRedis;
before(async () => {
  server = await TestRedis.start(['--appendonly', 'no']);
});
beforeEach(() => server.command('FLUSHALL'));

const openAdmin = (t: TestContext): StreamAdmin => {
  const admin = new StreamAdmin({ ...SYSTEM, uri: server.uri, log });
  t.after(() => admin.close());
  return admin;
};

async function openQueue(t: TestContext): Promise<{ submit: (id: string) => Promise<Outcome>; queue: StreamQueue }> {
  const connection = byteConnection({ ...SYSTEM, uri: server.uri, name: 'test', log });
  const queue = new StreamQueue({ ...SYSTEM, connection, enqueueTimeoutMs: 10_000, log });
  t.after(() => queue.close());
  connection.open();
  await eventually('the queue takes events', () => connection.ready);
  const submit = (id: string): Promise<Outcome> =>
    new Promise((settle) => queue.submit({ id, producer: 'shop', text: body(id), settle }));
  return { submit, queue };
}

async function openReader(t: TestContext): Promise<StreamReader> {
  const reader = new StreamReader({ ...SYSTEM, uri: server.uri, log });
  t.after(() => reader.close());
  assert.equal(await reader.open(10_000), true);
  await reader.join();
  return reader;
}

async function copies(admin: StreamAdmin, id: string): Promise<QueuedCopy[]> {
  const found: QueuedCopy[] = [];
  for await (const copy of admin.scan(id)) found.push(copy);
  return found;
}

describe('erasing an entry', () => {
  it('leaves the id taken, the time of acceptance, and nothing of the body', async (t) => {
    const [{ submit, queue }, admin] = [await openQueue(t), openAdmin(t)];
    assert.equal(await submit('one'), 'accepted');
    const before = await queue.find('one', 'shop');
    const [copy] = await copies(admin, 'one');
    assert.ok(copy !== undefined && before.kind === 'found');
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

  it('waits for a living consumer that has it in hand, and not for a dead one', async (t) => {
    const [{ submit }, admin, reader] = [await openQueue(t), openAdmin(t), await openReader(t)];
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
    const other = await openReader(t);
    const [again, ...more] = await other.read(10, 0, 1_000);
    assert.deepEqual(more, []);
    assert.equal(again?.body?.toString(), erasedBody('held', 't'));
    assert.equal(again.acceptedAtMs, delivery?.acceptedAtMs);
    assert.equal(again.replayOf, `${delivery?.source}/${copy.entry}`);
  });

  it('is not taken for a loss, before it was read or after', async (t) => {
    const [{ submit, queue }, admin, reader] = [await openQueue(t), openAdmin(t), await openReader(t)];
    for (const id of ['read', 'unread']) await submit(id);
    const [first] = await reader.read(1, 3_600_000, 1_000);
    await reader.acknowledge(first === undefined ? [] : [first]);
    const lost: number[] = [];
    const connection = byteConnection({ ...SYSTEM, uri: server.uri, name: 'test', log });
    t.after(() => connection.close());
    connection.open();
    await eventually('it is connected', () => connection.ready);
    const trimmer = new StreamTrimmer({
      ...SYSTEM,
      server: connection.values,
      stream: STREAM,
      retentionMs: 3_600_000,
      unlandedMs: 3_600_000,
      log,
      onLost: (events) => lost.push(events),
    });
    await trimmer.look();
    for (const id of ['read', 'unread'])
      for (const copy of await copies(admin, id)) await admin.erase(copy, id, erasedBody(id, 't'));
    await trimmer.look();
    await server.command('XADD', STREAM, '*', 'producer', 'shop', 'body', body('next'));
    await trimmer.look();
    assert.deepEqual(lost, []);
    await queue.probe();
  });

  it('finds an id however it is written, and no other', async (t) => {
    const admin = openAdmin(t);
    const id = 'a/"\\é\u{1F600}';
    const forms = [JSON.stringify({ id, type: 't' }), '{"id":"a\\/\\"\\\\\\u00e9\\ud83d\\ude00","type":"t"}'];
    for (const form of [...forms, JSON.stringify({ id: 'other', type: 't', text: id })])
      await server.command('XADD', STREAM, '*', 'producer', 'shop', 'body', form);
    for (let at = 0; at < 500; at += 1)
      await server.command('XADD', STREAM, '*', 'producer', 'shop', 'body', body(`n${at}`));
    await server.command('XADD', STREAM, '*', 'producer', 'shop', 'body', '{"id":"\\u006e499","type":"t"}');
    assert.deepEqual(
      (await copies(admin, id)).map((copy) => copy.body.toString()),
      forms,
    );
    assert.equal((await copies(admin, 'n499')).length, 2);
    await server.command('XADD', STREAM, '*', 'producer', 'shop', 'body', body('x'), 'id', 'source x');
    assert.equal((await copies(admin, 'source x')).length, 1);
    assert.equal((await copies(admin, 'x')).length, 0);
  });
});

describe('replaying rows', () => {
  const row = {
    replayOf: 'q/ingest/1-1',
    id: 'the source the-id',
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    producer: 'a\0b',
    body: Buffer.from([0x7b, 0xff, 0x00, 0x0a]),
    acceptedAtMs: 1_234,
  };

  it('brings the very bytes, the producer, and the time of the first acceptance', async (t) => {
    const [admin, reader] = [openAdmin(t), await openReader(t)];
    await admin.replay([row], false);
    const [delivery] = await reader.read(1, 3_600_000, 1_000);
    assert.deepEqual(delivery?.body, row.body);
    assert.deepEqual(
      [delivery?.producer, delivery?.acceptedAtMs, delivery?.replayOf, delivery?.notes],
      [row.producer, 1_234, row.replayOf, { id: row.id, traceparent: row.traceparent }],
    );
  });

  it('puts a row on the queue once while it is on its way, and again only when it is told to', async (t) => {
    const [admin, reader] = [openAdmin(t), await openReader(t)];
    const put = async (again: boolean): Promise<string> => {
      const [replayed] = await admin.replay([row], again);
      return `${(await admin.states([replayed?.entry ?? '']))[0]} ${replayed?.fresh}`;
    };
    assert.equal(await put(false), 'unread true');
    assert.equal(await put(false), 'unread false');
    assert.equal(await put(true), 'unread false');
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
