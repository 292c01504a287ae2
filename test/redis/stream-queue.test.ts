import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, it } from 'node:test';
import type { EventNotes } from '../../lib/ingest/queue.ts';
import { IdIndex } from '../../lib/redis/stream/id-index.ts';
import type { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { queueContract, Recorded, submitAll } from '../contract/queue.ts';
import { openQueue, openReplicated } from '../support/partition.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const redis = await TestRedis.start();

queueContract('a Redis Stream', async () => {
  const own = await TestRedis.start();
  return {
    open: (retentionMs) => openQueue(own.uri, retentionMs === undefined ? {} : { retentionMs }),
    land: () => own.land(),
    outage: async (during) => {
      await own.signal('SIGKILL');
      await during();
      await own.start();
    },
    bodies: async () => (await own.entries()).map(({ fields }) => fields['body'] ?? ''),
  };
});

async function slices(stream: string, server = redis): Promise<string[]> {
  const starts = (await server.command('GET', `{${stream}}:ids`)) as string | null;
  return starts?.split(' ') ?? [];
}

const sliceKeys = async (stream: string, server = redis): Promise<string[]> =>
  (await server.command('KEYS', `{${stream}}:ids:*`)) as string[];

async function indexFields(stream: string): Promise<number> {
  let fields = 0;
  for (const key of await sliceKeys(stream)) fields += Number(await redis.command('HLEN', key));
  return fields;
}

/** Moves the only slice nine hours into the past, so that the next event starts a new slice. */
async function age(stream: string): Promise<void> {
  const [start = ''] = await slices(stream);
  const older = String(Number(start) - 9 * 3_600_000);
  await redis.command('RENAME', `{${stream}}:ids:${start}`, `{${stream}}:ids:${older}`);
  await redis.command('SET', `{${stream}}:ids`, older);
}

/** Makes an event known in the only slice, which begins at `start`. */
async function putIndex(
  stream: string,
  secret: string,
  { id, producer, body, entry, start }: Readonly<Record<'id' | 'producer' | 'body' | 'entry' | 'start', string>>,
): Promise<void> {
  const index = new IdIndex(secret);
  const digests = [index.producerHash(producer), index.bodyHash(Buffer.from(body))].map((hash) => hash.slice(0, 8));
  await redis.command('HSET', `{${stream}}:ids:${start}`, index.field(id), digests.join('') + entry.slice(3));
  await redis.command('SET', `{${stream}}:ids`, start);
}

/** Opens a queue, which does not trim itself, whose index has the landed id `one` of the producer `q` past retention. */
async function knownFromYesterday(stream: string): Promise<StreamQueue> {
  await (await openQueue(redis.uri, { stream })).close();
  const secret = String(await redis.command('HGET', `{${stream}}:queue`, 'secret'));
  const oldMs = String(Date.now() - 25 * 3_600_000);
  await redis.command('XADD', stream, `${oldMs}-0`, 'producer', 'q', 'body', '{}');
  await putIndex(stream, secret, { id: 'one', producer: 'q', body: '{}', entry: `${oldMs}-0`, start: oldMs });
  await redis.command('HSET', `{${stream}}:looked`, 'at', String(Date.now()), 'oldest', '');
  return openQueue(redis.uri, { stream, makes: false });
}

const ids = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${prefix}-${at}`);

it('the notes of an event are members of its entry, also in a call with other events', async () => {
  const stream = 'notes';
  const queue = await openQueue(redis.uri, { stream });
  const noted = (id: string, notes: EventNotes): Recorded => Object.assign(new Recorded(id), { notes });
  const events = [
    new Recorded('plain'),
    noted('both', { id: 'both' }),
    new Recorded('plain-too', 'q', { text: 'a\nb' }),
    noted('/a \u{1F600}', { id: '/a \u{1F600}', traceparent: '00-a-b-01', tracestate: 'a=1, b' }),
    new Recorded('plain', 'p', { other: true }),
    new Recorded('both', 'q'),
  ];
  const outcomes = ['accepted', 'accepted', 'accepted', 'accepted', 'differing', 'conflict'];
  assert.deepEqual(await submitAll(queue, events), outcomes);
  const alone = noted('alone', { traceparent: '00-c-d-01' });
  assert.deepEqual(await submitAll(queue, [alone]), ['accepted']);
  const stored = (await redis.entries(stream)).map(({ fields }) => fields);
  const accepted = [...events.slice(0, 4), alone];
  const members = accepted.map(({ producer, text, notes }) => ({ producer, body: text, ...notes }));
  assert.deepEqual(stored, members);
  const found = await queue.find('/a \u{1F600}', 'p');
  assert.equal(found.kind === 'found' ? found.event.traceparent : found.kind, '00-a-b-01');
  const bare = await queue.find('plain', 'p');
  assert.equal(bare.kind === 'found' ? bare.event.traceparent : bare.kind, undefined);
});

async function outcomeOf(queue: StreamQueue, some: readonly string[], producer = 'p'): Promise<string> {
  const events = some.map((id) => new Recorded(id, producer));
  return [...new Set(await submitAll(queue, events))].join();
}

describe('the id index', () => {
  it('finds ids in every slice: duplicates, conflicts and lookups', async () => {
    const stream = 'sliced';
    const queue = await openQueue(redis.uri, { stream });
    const [older, newer] = [ids('older', 300), ids('newer', 300)];
    assert.equal(await outcomeOf(queue, older), 'accepted');
    await age(stream);
    assert.equal(await outcomeOf(queue, older), 'duplicate');
    assert.equal((await slices(stream)).length, 1, 'only an accepted event begins a slice');
    assert.equal(await outcomeOf(queue, newer), 'accepted');
    assert.equal((await slices(stream)).length, 2);
    assert.equal(await outcomeOf(queue, [...older, ...newer]), 'duplicate');
    assert.equal(await outcomeOf(queue, [...older, ...newer], 'q'), 'conflict');
    assert.deepEqual(
      await submitAll(queue, [
        new Recorded('older-0', 'q'),
        new Recorded('third'),
        new Recorded('newer-1'),
        new Recorded('third', 'q'),
        new Recorded('third'),
      ]),
      ['conflict', 'accepted', 'duplicate', 'conflict', 'duplicate'],
    );
    for (const id of ['older-0', 'older-299', 'newer-0', 'newer-299']) {
      // One event in a call has its own way through the script.
      assert.deepEqual(await submitAll(queue, [new Recorded(id)]), ['duplicate']);
      assert.deepEqual(await submitAll(queue, [new Recorded(id, 'q')]), ['conflict']);
      const found = await queue.find(id, 'p');
      assert.equal(found.kind === 'found' ? found.event.body.toString() : found.kind, new Recorded(id).text);
      assert.deepEqual(await queue.find(id, 'q'), { kind: 'unknown' });
    }
    assert.deepEqual([await redis.length(stream), await indexFields(stream)], [601, 601]);
  });

  it('knows the id of the oldest event that has not landed, however old', async (t) => {
    const own = await TestRedis.start(['--appendonly', 'no']);
    const queue = await openQueue(own.uri, { retentionMs: 200, after: t.after.bind(t) });
    const first = new Recorded('one');
    assert.deepEqual(await submitAll(queue, [first]), ['accepted']);
    const oldestMs = Number.parseInt((await own.entries())[0]?.entry ?? '', 10);
    await eventually('it is past retention, and reported as the oldest', async () => {
      const oldest = await own.command('HGET', '{ingest}:looked', 'oldest');
      return Date.now() > oldestMs + 200 && Number(oldest) === oldestMs;
    });
    assert.deepEqual(await submitAll(queue, [first.again()]), ['duplicate']);
  });

  it('starts a slice every third of retention, and removes a landed slice without a synchronous delete', async () => {
    const own = await TestRedis.start();
    const retentionMs = 2_100;
    const stream = 'ingest';
    const queue = await openQueue(own.uri, { retentionMs });
    let accepted = 0;
    let first: string | undefined;
    await eventually('the first slice is gone', async () => {
      assert.equal(await outcomeOf(queue, [`kept-${(accepted += 1)}`]), 'accepted');
      await own.land();
      const starts = await slices(stream, own);
      first ??= starts.at(-1);
      // Three slices within retention, one that reaches back beyond it, and up to three started since the last trim.
      assert.ok(starts.length <= 4 + 3, starts.join());
      for (let at = 1; at < starts.length; at += 1)
        assert.ok(Number(starts[at - 1]) - Number(starts[at]) >= retentionMs / 3, starts.join());
      return !starts.includes(first ?? '');
    });
    const keys = await sliceKeys(stream, own);
    assert.deepEqual(keys.sort(), (await slices(stream, own)).map((start) => `{ingest}:ids:${start}`).sort());
    const stats = String(await own.command('INFO', 'everything'));
    assert.match(stats, /^expired_keys:0\r$/m);
    assert.match(stats, /^cmdstat_unlink:calls=[1-9]/m);
    assert.doesNotMatch(stats, /^cmdstat_del:/m);
    assert.equal(await outcomeOf(queue, ['kept-1'], 'q'), 'accepted');
  });

  it('reads an entry whose first digits are greater by one than those of its slice', async () => {
    const stream = 'carried';
    // With a retention of 20 years, this old entry is still within retention.
    const queue = await openQueue(redis.uri, { stream, retentionMs: 20 * 365 * 24 * 3_600_000 });
    const body = '{"id":"carried","n":1}';
    await redis.command('XADD', stream, '1720000000005-3', 'producer', 'p', 'body', body);
    const secret = String(await redis.command('HGET', `{${stream}}:queue`, 'secret'));
    const about = { id: 'carried', producer: 'p', body, entry: '1720000000005-3' };
    await putIndex(stream, secret, { ...about, start: '1719999999990' });
    assert.deepEqual(await queue.find('carried', 'p'), {
      kind: 'found',
      event: { body: Buffer.from(body), acceptedAtMs: 1_720_000_000_005, traceparent: undefined },
    });
    assert.equal(await outcomeOf(queue, ['carried']), 'differing');
    assert.equal(await outcomeOf(queue, ['carried'], 'q'), 'conflict');
  });

  it('notes an id and appends its event, or neither', async () => {
    const stream = 'atomic';
    const queue = await openQueue(redis.uri, { stream });
    await submitAll(queue, [new Recorded('taken')]);
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      assert.equal((await queue.probe()).available, false);
      assert.equal(await outcomeOf(queue, ['refused-1', 'refused-2']), 'unavailable');
      await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await eventually('a new connection finds events', async () => (await queue.find('taken', 'p')).kind === 'found');
    } finally {
      await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    }
    assert.deepEqual([await redis.length(stream), await indexFields(stream)], [1, 1]);
    await eventually('it accepts again', async () => (await queue.probe()).available);
    assert.deepEqual(await submitAll(queue, [new Recorded('refused-1')]), ['accepted']);
  });

  it('compares an id that was accepted again after retention with its latest event, in any call', async () => {
    const stream = 'again';
    const queue = await knownFromYesterday(stream);
    const first = new Recorded('one');
    assert.deepEqual(await submitAll(queue, [first]), ['accepted']);
    assert.equal((await slices(stream)).length, 2);
    assert.deepEqual(await submitAll(queue, [first.again()]), ['duplicate']);
    assert.deepEqual(await submitAll(queue, [first.again(), new Recorded('two')]), ['duplicate', 'accepted']);
  });

  it('refuses the events of one call that the server cannot run, and no others', async () => {
    const stream = 'damaged';
    const queue = await knownFromYesterday(stream);
    await redis.command('HSET', `{${stream}}:looked`, 'at', 'no time');
    assert.equal(await outcomeOf(queue, ['one']), 'unavailable');
    assert.deepEqual(queue.state(), { available: true });
    assert.equal(await outcomeOf(queue, ['whole']), 'accepted');
  });

  it('calls an id a duplicate after its entry was deleted, and accepts it after the stream was', async () => {
    const stream = 'deleted';
    const queue = await openQueue(redis.uri, { stream });
    assert.equal(await outcomeOf(queue, ['one', 'two', 'three']), 'accepted');
    const [first] = await redis.entries(stream);
    await redis.command('XDEL', stream, first?.entry ?? '');
    assert.equal(await outcomeOf(queue, ['one', 'two']), 'duplicate');
    assert.equal(await outcomeOf(queue, ['one'], 'q'), 'conflict');
    assert.equal((await queue.find('one', 'p')).kind, 'unknown');
    await redis.command('DEL', stream);
    const events = ['two', 'two', 'new'].map((id) => new Recorded(id));
    assert.deepEqual(await submitAll(queue, events), ['accepted', 'duplicate', 'accepted']);
    assert.equal(await outcomeOf(queue, ['one']), 'accepted', 'the whole index went with the stream');
    await redis.command('DEL', stream);
    await openQueue(redis.uri, { stream });
    assert.equal(await redis.command('EXISTS', stream), 1, 'recreated for the group');
    assert.deepEqual(await sliceKeys(stream), [], 'no slice is left without a list that names it');
    assert.equal(await outcomeOf(queue, ['one']), 'accepted');
  });

  it('stores a keyed field of 14 characters and a value of 28 for each event', async () => {
    const found: string[][] = [];
    for (const stream of ['keyed', 'keyed-too']) {
      assert.equal(await outcomeOf(await openQueue(redis.uri, { stream }), ['one']), 'accepted');
      const [start = ''] = await slices(stream);
      found.push((await redis.command('HGETALL', `{${stream}}:ids:${start}`)) as string[]);
    }
    const [[field = '', value = ''] = [], [otherField = '', otherValue = ''] = []] = found;
    assert.deepEqual([field.length, value.length], [14, 28]);
    assert.notEqual(field, otherField);
    for (const digest of [0, 8]) assert.notEqual(value.slice(digest, digest + 8), otherValue.slice(digest, digest + 8));
  });
});

it('a script is sent again after the server has forgotten it, also with many calls at once', async () => {
  const stream = 'flushed';
  const calls: { readonly seconds: number; readonly events: number }[] = [];
  const observer = { onCall: (seconds: number, events: number): unknown => calls.push({ seconds, events }) };
  const queue = await openQueue(redis.uri, { stream, observer });
  await redis.command('SCRIPT', 'FLUSH');
  const events = Array.from({ length: 1_000 }, (_, at) => new Recorded(`flushed-${at}`));
  const sinceMs = performance.now();
  assert.deepEqual(new Set(await submitAll(queue, events)), new Set(['accepted']));
  const [sum, longest] = [
    calls.reduce((sum, one) => sum + one.events, 0),
    Math.max(...calls.map((one) => one.seconds)),
  ];
  assert.equal(sum, 1_000);
  assert.ok(longest > 0 && longest <= (performance.now() - sinceMs) / 1_000, `${longest} s`);
  assert.equal(await redis.length(stream), 1_000);
  await redis.command('SCRIPT', 'FLUSH');
  assert.equal((await queue.find('flushed-1', 'p')).kind, 'found');
});

describe('a server that does not answer', () => {
  it('accepts submissions while the server is silent for less than the timeout', async () => {
    const own = await TestRedis.start();
    const clock = new VirtualClock();
    const queue = await openQueue(own.uri, { clock });
    await own.signal('SIGSTOP');
    // Longer than the interval and the timeout of a probe together.
    await clock.advance(1_500);
    assert.equal(queue.state().available, false);
    const patient = new Recorded('patient');
    queue.submit(patient);
    await new Promise((resolve) => setImmediate(resolve));
    await own.signal('SIGCONT');
    assert.equal(await patient.outcome, 'accepted');
    await queue.close();
    await clock.advance(60_000);
    assert.equal(clock.pending, 0, 'no timer is left');
  });

  it('is unavailable for one reason, keeps no event, and is connected again every three seconds', async () => {
    const own = await TestRedis.start();
    const clock = new VirtualClock();
    const queue = await openQueue(own.uri, { clock, enqueueTimeoutMs: 150 });
    await own.signal('SIGSTOP');
    const reasons = new Set<string>();
    for (let at = 0; at < 60; at += 1) {
      queue.submit(new Recorded(`silent-${at}`));
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(250);
      const state = queue.state();
      if (!state.available) reasons.add(state.reason);
    }
    const offline = new Recorded('offline');
    queue.submit(offline);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([offline.settled, await queue.find('silent-1', 'p')], [1, { kind: 'unavailable' }]);
    await own.signal('SIGCONT');
    assert.deepEqual([...reasons], ['no answer within 150 ms']);
    await eventually('the queue is back', async () => {
      await clock.advance(1_000);
      return queue.state().available;
    });
    const bodies = (await own.entries()).map(({ fields }) => fields['body']);
    assert.deepEqual(
      bodies.filter((body) => body !== new Recorded('silent-0').text),
      [],
    );
    const connections = /total_connections_received:(\d+)/.exec(String(await own.command('INFO', 'stats')))?.[1];
    assert.ok(Number(connections) >= 4, String(connections));
    assert.deepEqual(await submitAll(queue, [new Recorded('silent-0')]), [
      bodies.length > 0 ? 'duplicate' : 'accepted',
    ]);
  });
});

it('a queue that waits for replicas needs the right to wait, and replaces each connection to a silent server', async (t) => {
  const own = await TestRedis.start();
  const clock = new VirtualClock();
  const { queue, connections } = openReplicated(t, own.uri, { clock });
  const connected = (): Promise<unknown> =>
    eventually('it is connected', async () => {
      await clock.advance(250);
      return connections.every(({ ready }) => ready);
    });
  await connected();
  await own.command('ACL', 'SETUSER', 'default', '-wait');
  connections[0]?.restart('again');
  const lacksWait = /lacks rights that this program needs: wait \(/;
  await eventually('the right is named', async () => {
    await clock.advance(250);
    return lacksWait.test(connections[0]?.lastError ?? '');
  });
  await own.command('ACL', 'SETUSER', 'default', '+wait');
  await connected();
  await own.signal('SIGSTOP');
  t.after(() => own.signal('SIGCONT'));
  await eventually('both are replaced', async () => {
    await clock.advance(250);
    return connections.every(({ lastError }) => lastError === 'the server does not answer');
  });
  await queue.close();
  await clock.advance(60_000);
  assert.equal(clock.pending, 0, 'no connection is left to try again');
});

/** Reads the length in another process, so that the event loop of this process does not turn. */
const lengthBlocking = (stream: string): number =>
  Number(execFileSync('redis-cli', ['-p', String(redis.port), 'XLEN', stream], { encoding: 'utf8' }));

it('a process accepts and finds every event although each of its turns takes longer than the timeout', async () => {
  const queue = await openQueue(redis.uri, { stream: 'held-up', enqueueTimeoutMs: 400 });
  const events = Array.from({ length: 4 }, (_, at) => new Recorded(`held-up-${at}`));
  for (const [at, one] of events.entries()) {
    queue.submit(one);
    await new Promise((resolve) => setImmediate(resolve));
    // Blocks until the reply has arrived at the socket, where it stays unread.
    const end = performance.now() + 500;
    while (performance.now() < end || lengthBlocking('held-up') <= at);
  }
  assert.deepEqual(
    await Promise.all(events.map(({ outcome }) => outcome)),
    events.map(() => 'accepted'),
  );
  const found = queue.find('held-up-0', 'p');
  await new Promise((resolve) => setImmediate(resolve));
  const end = performance.now() + 500;
  while (performance.now() < end);
  assert.equal((await found).kind, 'found');
});

it('a queue is unavailable while its user lacks a right or a key has another type, names it, and recovers', async (t) => {
  const own = await TestRedis.start();
  const user = (...rights: readonly string[]): Promise<unknown> =>
    own.command('ACL', 'SETUSER', 'gateway', 'on', '>secret', '~*', '+@all', ...rights);
  await user();
  const queue = await openQueue(`redis://gateway:secret@127.0.0.1:${own.port}`, { after: t.after.bind(t) });
  const reason = async (): Promise<string> => {
    const state = await queue.probe();
    return state.available ? '' : state.reason;
  };
  const refusedFor = async (id: string, expected: RegExp): Promise<void> => {
    assert.deepEqual(await submitAll(queue, [new Recorded(id)]), ['unavailable']);
    await eventually('the reason is known', async () => expected.test(await reason()));
  };
  const acceptsAgain = (id: string): Promise<unknown> =>
    eventually('it accepts again', async () => (await submitAll(queue, [new Recorded(id)]))[0] === 'accepted');
  await acceptsAgain('first');
  await user('-xadd');
  await refusedFor('a', /^the Redis user lacks rights that this program needs: xadd on ingest \(deploy/);
  await user();
  await acceptsAgain('a');
  await own.command('RENAME', '{ingest}:ids', '{ingest}:saved');
  await own.command('LPUSH', '{ingest}:ids', 'x');
  await refusedFor('b', /have the wrong type: \{ingest\}:ids \(rename them\)$/);
  await own.command('RENAME', '{ingest}:saved', '{ingest}:ids');
  await acceptsAgain('b');
});
