// The Redis Stream as a queue: the contract, and what is its own: the id index, scripts, time-outs.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { RedisConnection } from '../../lib/redis/client.ts';
import { StreamQueue } from '../../lib/redis/stream-queue.ts';
import { createLog } from '../../lib/runtime/log.ts';
import { queueContract, Recorded, submitAll, submitInTurns } from '../contract/queue.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';
/** Long: a busy machine must not turn an answer into a time-out here. */
const TIMEOUT_MS = 10_000;

interface Options {
  readonly retentionMs?: number | undefined;
  readonly stream?: string;
  readonly enqueueTimeoutMs?: number;
}

async function openQueue(redis: TestRedis, { retentionMs, stream, enqueueTimeoutMs = TIMEOUT_MS }: Options = {}): Promise<StreamQueue> {
  const connection = new RedisConnection({ uri: redis.uri, name: 'test', log: LOG });
  const queue = new StreamQueue({
    connection,
    enqueueTimeoutMs,
    log: LOG,
    ...(retentionMs === undefined ? {} : { retentionMs }),
    ...(stream === undefined ? {} : { stream }),
  });
  atEnd(() => queue.close());
  connection.open();
  await eventually('the queue is there', async () => connection.ready && (await queue.probe()).available);
  return queue;
}

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start();
});

queueContract('a Redis Stream', async () => {
  const own = await TestRedis.start();
  return {
    open: (retentionMs) => openQueue(own, { retentionMs }),
    bodies: async () => (await own.entries()).map(({ fields }) => fields['body'] ?? ''),
  };
});

/** The index' levels, current first: how many bits each has. */
async function levels(stream: string): Promise<number[]> {
  const stored = ((await redis.command('GET', `{${stream}}:levels`)) as string | null) ?? '8,0';
  return stored.split(';').map((level) => Number.parseInt(level, 10));
}

const indexKeys = async (stream: string): Promise<string[]> => (await redis.command('KEYS', `{${stream}}:*:*`)) as string[];

async function indexFields(stream: string): Promise<number> {
  let fields = 0;
  for (const key of await indexKeys(stream)) fields += Number(await redis.command('HLEN', key));
  return fields;
}

describe('the id index', () => {
  it('grows by a level when the stream outgrows it, finds every id across levels, and retires the old level', async () => {
    const stream = 'growing';
    const retentionMs = 6_000;
    const queue = await openQueue(redis, { stream, retentionMs });
    const events = Array.from({ length: 17_500 }, (_, at) => new Recorded(`grown-${at}`));
    await submitInTurns(queue, events.slice(0, 16_000), 2_000);
    assert.deepEqual(await levels(stream), [8]);
    await submitInTurns(queue, events.slice(16_000), 500);
    assert.deepEqual(await levels(stream), [11, 8]);
    const sample = events.filter((_, at) => at % 500 === 0 || at > 17_400);
    for (const { id } of sample) assert.equal((await queue.find(id, 'p')).kind, 'found', id);
    assert.deepEqual(new Set(await submitAll(queue, sample.map(({ id }) => new Recorded(id)))), new Set(['duplicate']));
    // Traffic walks the cursors; time does the rest.
    let n = 0;
    await eventually('the old level is retired and its keys are gone', async () => {
      await submitAll(queue, Array.from({ length: 200 }, () => new Recorded(`later-${n++}`)));
      if ((await levels(stream)).length > 1) return false;
      return !(await indexKeys(stream)).some((key) => key.startsWith(`{${stream}}:8:`));
    });
    assert.deepEqual(await levels(stream), [11]);
  });

  it('drops what is past retention as part of accepting, and keeps its keys compact', async () => {
    const stream = 'swept';
    const queue = await openQueue(redis, { stream, retentionMs: 300 });
    await submitAll(queue, Array.from({ length: 2_000 }, (_, at) => new Recorded(`old-${at}`)));
    const key = (await indexKeys(stream))[0] ?? '';
    assert.equal(await redis.command('OBJECT', 'ENCODING', key), 'listpack');
    await eventually('the last one is past retention', async () => (await queue.find('old-1999', 'p')).kind === 'unknown');
    // 256 buckets, and one is swept for every 32 events.
    const events = Array.from({ length: 256 * 32 }, (_, at) => new Recorded(`new-${at}`));
    await submitInTurns(queue, events, 256);
    const left: string[] = [];
    for (const one of await indexKeys(stream)) left.push(...((await redis.command('HKEYS', one)) as string[]).filter((field) => field.startsWith('old-')));
    assert.deepEqual(left, []);
    assert.ok((await redis.length(stream)) < 2_000 + events.length, 'the stream is trimmed too');
  });

  it('takes events while the clock goes back: entries stay in order and every id is found', async () => {
    const stream = 'clock';
    // What a clock that was an hour ahead has left behind.
    const ahead = Date.now() + 3_600_000;
    await redis.command('XADD', stream, `${ahead}-5`, 'producer', 'p', 'body', '{}');
    const queue = await openQueue(redis, { stream });
    const events = Array.from({ length: 300 }, (_, at) => new Recorded(`back-${at}`));
    assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
    assert.deepEqual(new Set(await submitAll(queue, events.map(({ id }) => new Recorded(id)))), new Set(['duplicate']));
    const entries = await redis.entries(stream);
    assert.deepEqual(entries.slice(1).map(({ fields }) => fields['body']), events.map(({ text }) => text));
    for (const { id, text } of events.slice(0, 20)) {
      const found = await queue.find(id, 'p');
      assert.equal(found.kind === 'found' ? found.event.text : found.kind, text);
    }
  });

  it('notes an id and appends its event, or neither', async () => {
    const stream = 'atomic';
    const queue = await openQueue(redis, { stream });
    await submitAll(queue, [new Recorded('taken')]);
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      assert.deepEqual(await submitAll(queue, [new Recorded('refused-1'), new Recorded('refused-2')]), ['unavailable', 'unavailable']);
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
    assert.deepEqual([await redis.length(stream), await indexFields(stream)], [1, 1]);
    assert.deepEqual(await submitAll(queue, [new Recorded('refused-1')]), ['accepted']);
  });
});

describe('the script', () => {
  it('is sent again when the server has forgotten it, also to many calls at once', async () => {
    const stream = 'flushed';
    const queue = await openQueue(redis, { stream });
    await redis.command('SCRIPT', 'FLUSH');
    const events = Array.from({ length: 1_000 }, (_, at) => new Recorded(`flushed-${at}`));
    assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
    assert.equal(await redis.length(stream), 1_000);
    await redis.command('SCRIPT', 'FLUSH');
    assert.equal((await queue.find('flushed-1', 'p')).kind, 'found');
  });
});

describe('a server that does not answer', () => {
  it('makes submissions unavailable in time, once, and refuses the next ones at once', async () => {
    const own = await TestRedis.start();
    const queue = await openQueue(own, { enqueueTimeoutMs: 200 });
    await own.signal('SIGSTOP');
    const events = Array.from({ length: 600 }, (_, at) => new Recorded(`frozen-${at}`));
    const start = performance.now();
    assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['unavailable']));
    const tookMs = performance.now() - start;
    assert.ok(tookMs >= 195 && tookMs < 1_500, `${tookMs} ms`);
    const at = performance.now();
    assert.deepEqual(await submitAll(queue, [new Recorded('next')]), ['unavailable']);
    assert.ok(performance.now() - at < 150);
    assert.deepEqual(await queue.find('frozen-1', 'p'), { kind: 'unavailable' });
    assert.equal(queue.state().available, false);

    await own.signal('SIGCONT');
    await eventually('the queue is there again', () => queue.state().available);
    // Whatever became of the first try, the retry tells the truth and adds each id once.
    const retries = await submitAll(queue, events.map(({ id }) => new Recorded(id)));
    assert.ok(retries.every((outcome) => outcome === 'accepted' || outcome === 'duplicate'));
    assert.equal(await own.length(), 600);
    for (const { settled } of events) assert.equal(settled, 1);
  });

  it('and is killed then settles each submission once', async () => {
    const own = await TestRedis.start();
    const queue = await openQueue(own, { enqueueTimeoutMs: 5_000 });
    await own.signal('SIGSTOP');
    const events = Array.from({ length: 300 }, (_, at) => new Recorded(`killed-${at}`));
    for (const one of events) queue.submit(one);
    await new Promise((resolve) => setImmediate(resolve));
    await own.signal('SIGKILL');
    assert.deepEqual(new Set(await Promise.all(events.map(({ outcome }) => outcome))), new Set(['unavailable']));
    for (const { settled } of events) assert.equal(settled, 1);
    await own.start();
    await eventually('the queue is there again', () => queue.state().available);
    assert.deepEqual(await submitAll(queue, [new Recorded('killed-0')]), ['accepted']);
  });
});

describe('a process that is held up for longer than the time-out in every turn', () => {
  it('still has each event accepted: the time counts from when the call was written, and what has arrived is read first', async () => {
    const queue = await openQueue(redis, { stream: 'held-up', enqueueTimeoutMs: 100 });
    const events = Array.from({ length: 12 }, (_, at) => new Recorded(`held-up-${at}`));
    for (const one of events) {
      queue.submit(one);
      await new Promise((resolve) => setImmediate(resolve));
      const end = performance.now() + 150;
      while (performance.now() < end);
    }
    assert.deepEqual(await Promise.all(events.map(({ outcome }) => outcome)), events.map(() => 'accepted'));
  });
});
