// The reading side's parts, each with fakes around it, on a clock that a test moves.
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import {
  GroupVanished,
  REPLICA_LEASE_MS,
  type Delivery,
  type EntryName,
  type QueueState,
} from '../../lib/ingest/queue.ts';
import { TIME_MS_MAX } from '../../lib/ingest/warehouse.ts';
import { createLog, type Log } from '../../lib/process/log.ts';
import { EXIT, StartFailure } from '../../lib/process/program.ts';
import { EntryReading } from '../../lib/redis/read/entry-reading.ts';
import { joinReplicas } from '../../lib/redis/read/join-replicas.ts';
import { readingQueue } from '../../lib/redis/read/open-reader.ts';
import { PartitionedReader } from '../../lib/redis/read/partitioned-reader.ts';
import { PartitionReading } from '../../lib/redis/read/partition-reading.ts';
import type { StreamReader } from '../../lib/redis/read/stream-reader.ts';
import type { ConnectionListener, RedisConnection } from '../../lib/redis/server/client.ts';
import { decodedAgain, entriesOf as readEntries, readFrom } from '../../lib/redis/stream/entry.ts';
import { GROUP } from '../../lib/redis/stream/layout.ts';
import { NoAnswer, PartitionsDiffer, QueueRefusal, RedisError } from '../../lib/redis/wire/errors.ts';
import { Reply } from '../../lib/redis/wire/reply.ts';
import type { Argument } from '../../lib/redis/wire/script.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const NEVER = Symbol('no answer');
type Answer = string | Buffer | null | readonly Answer[];

/** As Redis writes it. */
function written(answer: Answer): Buffer {
  if (answer === null) return Buffer.from('*-1\r\n');
  if (typeof answer !== 'string' && !Buffer.isBuffer(answer))
    return Buffer.concat([Buffer.from(`*${answer.length}\r\n`), ...answer.map(written)]);
  const bytes = Buffer.from(answer as string);
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]);
}

const entry = (name: string, ...members: readonly Answer[]): Answer => [
  name,
  ['producer', 'p', 'body', '{}', ...members],
];
const entriesOf = (deliveries: readonly Delivery[]): string[] => deliveries.map((one) => one.entry);

/** A log that keeps its lines. */
function keeping(t: TestContext): { readonly log: Log; readonly lines: string[] } {
  const log = createLog('test', 'error').child({}, { level: 'silent' });
  const lines: string[] = [];
  for (const level of ['info', 'warn', 'error'] as const)
    t.mock.method(log, level, (...said: readonly unknown[]) => lines.push(`${level}: ${String(said.at(-1))}`));
  t.mock.method(log, 'child', () => log);
  return { log, lines };
}

describe('an entry that is read', () => {
  const read = (members: readonly Answer[], bytesMax?: number): Delivery => {
    const { deliveries } = readEntries(new Reply(written([['5-1', members]])), 'q/s', bytesMax);
    const [delivery = assert.fail()] = deliveries;
    return delivery;
  };

  it('came when it was appended, or when its member says, where that is a time', () => {
    const cameAt = (acceptedAt: string): number => read(['acceptedAt', acceptedAt]).acceptedAtMs;
    assert.equal(read([]).acceptedAtMs, 5);
    assert.equal(cameAt('17'), 17);
    for (const none of ['', 'x', '-1', '1.5', '17 ']) assert.equal(cameAt(none), 5, none);
    assert.equal(cameAt('9999999999999999'), TIME_MS_MAX);
    assert.equal(cameAt('00000000000000017'), 5, 'too long to be a time');
  });

  it('names the quarantine row that it replays, where a row may have that name', () => {
    const replayed = (row: string): string | undefined => read(['replayOf', row]).replayOf;
    assert.equal(replayed('q/s/1-1'), 'q/s/1-1');
    assert.equal(replayed('x'.repeat(256)), 'x'.repeat(256));
    for (const none of ['', 'a\nb', 'x'.repeat(257)]) assert.equal(replayed(none), undefined, none);
  });

  it('has no producer where the bytes of its name are no text, also next to others that are', () => {
    const named = (producer: string | Buffer): string | undefined => read(['producer', producer]).producer;
    for (const name of ['shop', 'shop', '', 'sh\u{1F600}p', 'shop']) assert.equal(named(name), name === '' ? '' : name);
    assert.equal(named(Buffer.from([0xff])), undefined);
    assert.equal(named(Buffer.from([0xff])), undefined);
    assert.equal(named('shop'), 'shop');
  });

  it('has its notes, and nothing of members that nobody knows', () => {
    const { notes, body } = read(['other', 'x', 'id', 'é', 'tracestate', 's', 'traceparent', 't', 'body', 'b']);
    assert.deepEqual(notes, { id: 'é', tracestate: 's', traceparent: 't' });
    assert.equal(String(body), 'b');
  });

  it('is left out if it was deleted, and its name counts as read', () => {
    assert.deepEqual(readEntries(new Reply(written([['7-2', null]])), 'q/s', undefined), {
      deliveries: [],
      last: '7-2',
    });
  });

  it('has the body as it was before it was compressed, and as it is on the queue where it cannot be decoded', () => {
    const frame = zstdCompressSync(Buffer.alloc(1_000, 'a'));
    const body = (encoding: string, bytes: Buffer, bytesMax?: number): Delivery =>
      read(['body', bytes, 'encoding', encoding], bytesMax);
    assert.equal(String(body('zstd', frame).body), 'a'.repeat(1_000));
    assert.deepEqual(body('gzip', frame).body, frame);
    assert.deepEqual(body('zstd', Buffer.from('none')).body, Buffer.from('none'));
    assert.equal(body('zstd', Buffer.from('none')).oversize, false);
    const long = body('zstd', frame, 999);
    assert.deepEqual(long.body, frame);
    assert.equal(long.oversize, true);
    assert.equal(body('zstd', frame, 1_000).oversize, false);
    const longest = zstdCompressSync(Buffer.alloc(256 << 10));
    assert.equal(body('zstd', longest).oversize, false, '256 KiB where no gateway has said');
    assert.equal(body('zstd', zstdCompressSync(Buffer.alloc((256 << 10) + 1))).oversize, true);
    const plain = read(['body', 'b']);
    const [again, same] = decodedAgain([long, plain], 1_000);
    assert.equal(String(again?.body), 'a'.repeat(1_000));
    assert.equal(again?.oversize, false);
    assert.equal(same, plain);
  });

  it('without a body has none, whatever its encoding', () => {
    const { body, oversize } = read(['encoding', 'zstd']);
    assert.equal(body, undefined);
    assert.equal(oversize, undefined);
  });

  it('names the server that it was read from, but for the first one', () => {
    const some = [read([])];
    assert.equal(readFrom(0, some), some);
    assert.equal(readFrom(2, some)[0]?.servers, 2);
  });
});

describe('the order in which a member reads', () => {
  function start(bodyBytesMax?: number) {
    const clock = new VirtualClock();
    const sent: string[][] = [];
    const answers: (Answer | Error | typeof NEVER)[] = [];
    const restarts: string[] = [];
    let listener: ConnectionListener = {};
    const connection = {
      bytesReceived: 0,
      tell: (more: ConnectionListener) => void (listener = more),
      restart: (reason: string) => void restarts.push(reason),
      send: (command: readonly Argument[]): Promise<Reply> => {
        sent.push(command.map(String));
        const answer = answers.shift() ?? null;
        if (answer === NEVER) return new Promise(() => undefined);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(new Reply(written(answer)));
      },
    };
    let servers = 0;
    const reading = new EntryReading({
      ...{ clock, connection: connection as unknown as RedisConnection<Reply>, stream: 's', member: 'me' },
      ...{ source: () => 'q/s', servers: () => servers, bodyBytesMax: () => bodyBytesMax },
    });
    /** What was asked since the last time: claims by the entry to begin at, reads by where they begin. */
    const asked = (): string[] =>
      sent
        .splice(0)
        .map((command) =>
          command[0] === 'XREADGROUP' ? `read ${command.at(-1)}` : `claim ${command[command.indexOf(GROUP) + 3]}`,
        );
    const read = async (...given: typeof answers): Promise<string[]> => {
      answers.push(...given);
      return entriesOf(await reading.read(5, 60_000, 100));
    };
    const lose = (): void => listener.onLost?.('cut');
    return {
      clock,
      connection,
      answers,
      reading,
      read,
      asked,
      sent,
      restarts,
      lose,
      setServers: (n: number) => (servers = n),
    };
  }
  const nothing: Answer = ['0-0', []];
  const ofStream = (...entries: readonly Answer[]): Answer => [['s', entries]];

  it('is what dead members took, looked for once a second, and then what is new', async () => {
    const { clock, read, asked } = start();
    assert.deepEqual(await read(nothing, ofStream(entry('5-1'))), ['5-1']);
    assert.deepEqual(asked(), ['claim -', 'read >']);
    await clock.advance(999);
    assert.deepEqual(await read(null), []);
    assert.deepEqual(asked(), ['read >']);
    await clock.advance(1);
    assert.deepEqual(await read(['0-0', [entry('1-1')]]), ['1-1']);
    assert.deepEqual(asked(), ['claim -']);
  });

  it('asks for so many entries, waits for so long, and claims what is so old', async () => {
    const { reading, sent } = start();
    await reading.read(5, 60_000, 100).catch(() => undefined);
    const [claim = [], read] = sent.splice(0);
    assert.deepEqual(claim.slice(2), ['1', 's', GROUP, 'me', '60000', '-', '5', '4194304', String(REPLICA_LEASE_MS)]);
    assert.equal(read, undefined);
    await reading.read(5, 60_000, 100);
    await reading.read(6, 60_000, 0);
    const begin = ['XREADGROUP', 'GROUP', GROUP, 'me', 'COUNT'];
    assert.deepEqual(sent, [
      [...begin, '5', 'BLOCK', '100', 'STREAMS', 's', '>'],
      [...begin, '6', 'STREAMS', 's', '>'],
    ]);
  });

  it('looks through the whole list of what was taken, and goes on where it had enough', async () => {
    const { clock, read, asked } = start();
    assert.deepEqual(await read(['(3-0', []], ['7-1', [entry('6-1')]]), ['6-1']);
    assert.deepEqual(asked(), ['claim -', 'claim (3-0']);
    assert.deepEqual(await read(['0-0', [entry('7-1')], []]), ['7-1']);
    assert.deepEqual(asked(), ['claim 7-1'], 'without waiting for a second');
    await read(null);
    assert.deepEqual(asked(), ['read >']);
    await clock.advance(1_000);
    await read(nothing, null);
    assert.deepEqual(asked(), ['claim -', 'read >']);
  });

  it('begins with what is to be claimed, and that from the beginning, after the group was joined', async () => {
    const { reading, read, asked } = start();
    await read(['7-1', [entry('6-1')], []]);
    reading.begin();
    await read(nothing, null);
    reading.begin();
    await read(nothing, null);
    assert.deepEqual(asked(), ['claim -', 'claim -', 'read >', 'claim -', 'read >']);
  });

  it('begins with what it took itself once an answer may have been lost, read by read', async () => {
    const { read, reading, asked, lose } = start();
    await read(nothing, null);
    asked();
    for (const cause of [new Error('broken'), new NoAnswer('late')]) {
      await assert.rejects(read(cause));
      assert.deepEqual(asked(), ['read >']);
      assert.deepEqual(await read(ofStream(entry('1-1'), entry('1-2'))), ['1-1', '1-2']);
      assert.deepEqual(await read(ofStream(entry('1-3'))), ['1-3']);
      assert.deepEqual(await read(ofStream(), null), []);
      assert.deepEqual(await read(null), []);
      assert.deepEqual(asked(), ['read 0', 'read 1-2', 'read 1-3', 'read >', 'read >']);
    }
    for (const lost of [lose, () => reading.readAgain()]) {
      lost();
      await read(null, null);
      assert.deepEqual(asked(), ['read 0', 'read >']);
    }
  });

  it('goes on where it was when an answer is lost while it reads again', async () => {
    const { read, asked, lose } = start();
    await read(nothing, null);
    lose();
    await read(ofStream(entry('1-1')));
    asked();
    await assert.rejects(read(new Error('broken')));
    await read(ofStream(entry('1-2')));
    assert.deepEqual(asked(), ['read 1-1', 'read 1-1']);
  });

  it('lost nothing where the server refused to read, and perhaps where a claim failed', async () => {
    const { clock, read, asked } = start();
    await read(nothing, null);
    await assert.rejects(read(new RedisError('OOM full')), /OOM/);
    asked();
    await read(null);
    assert.deepEqual(asked(), ['read >']);
    await clock.advance(1_000);
    // The script was not known, so nothing was run.
    await read(new RedisError('NOSCRIPT none'), nothing, null);
    assert.deepEqual(asked(), ['claim -', 'claim -', 'read >']);
    await read(null);
    assert.deepEqual(asked(), ['read >']);
    await clock.advance(1_000);
    await assert.rejects(read(new RedisError('ERR in the middle')), /middle/);
    asked();
    await read(null, null);
    assert.deepEqual(asked(), ['read 0', 'read >']);
  });

  it('asks again without waiting where its wait was ended by force', async () => {
    const { read, reading, sent } = start();
    await read(nothing, null);
    sent.length = 0;
    await read(new RedisError('UNBLOCKED the stream no longer exists'), null);
    assert.deepEqual(
      sent.map((command) => command.includes('BLOCK')),
      [true, false],
    );
    await assert.rejects(read(new RedisError('UNBLOCKED'), new RedisError('UNBLOCKED')), /UNBLOCKED/);
    await assert.rejects(read(new RedisError('OTHER')), /OTHER/);
    sent.length = 0;
    await reading.read(1, 1, 0);
    assert.equal(sent.length, 1);
  });

  it('fails with a group that has vanished where the server knows none', async () => {
    const { read, asked } = start();
    await assert.rejects(read(new RedisError('NOGROUP none')), GroupVanished);
    asked();
    await read(null);
    assert.deepEqual(asked(), ['read >'], 'nothing was lost');
  });

  it('waits for an answer three seconds longer than a read may wait, and then has the connection made anew', async () => {
    const { clock, read, restarts } = start();
    await read(nothing, null);
    const failures: unknown[] = [];
    void read(NEVER).catch((cause: unknown) => failures.push(cause));
    await clock.advance(0);
    await clock.advance(3_099);
    assert.equal(failures.length, 0);
    await clock.advance(1);
    assert.ok(failures[0] instanceof NoAnswer);
    assert.deepEqual(restarts, ['the server does not answer']);
  });

  it('waits as long again while bytes arrive', async () => {
    const { clock, connection, read, restarts } = start();
    await read(nothing, null);
    void read(NEVER).catch(() => undefined);
    await clock.advance(0);
    connection.bytesReceived = 1;
    await clock.advance(3_100);
    assert.deepEqual(restarts, []);
    await clock.advance(3_100);
    assert.equal(restarts.length, 1);
  });

  it('gives what it read from a later server with its number, and no body beyond the longest one', async () => {
    const { answers, reading, setServers } = start(10);
    setServers(3);
    const long = zstdCompressSync(Buffer.alloc(11));
    answers.push(nothing, [['s', [['1-1', ['body', long, 'encoding', 'zstd']]]]]);
    const [delivery] = await reading.read(1, 1, 0);
    assert.equal(delivery?.servers, 3);
    assert.equal(delivery.oversize, true);
  });
});

/** One partition whose server does what the test says: an error to fail with, or entries. */
function partition(source = 'q/s') {
  const did: string[] = [];
  const says = {
    joins: undefined as Error | undefined,
    reads: [] as (Error | readonly string[] | Promise<readonly string[]>)[],
    acknowledges: undefined as Error | undefined,
    connected: true,
    made: false,
    opened: true,
    registers: true,
    waiting: true,
    bodyBytesMax: 1 as number | undefined,
    replicas: 1,
  };
  const delivery = (name: string): Delivery => ({
    ...{ entry: name, source, producer: 'p', body: Buffer.alloc(0), notes: {}, acceptedAtMs: 1 },
  });
  const reader = {
    name: 'me',
    get bodyBytesMax() {
      return says.bodyBytesMax;
    },
    get replicas() {
      return says.replicas;
    },
    get waiting() {
      return says.waiting;
    },
    get lastError() {
      return `${source} is cut`;
    },
    open: async (ms: number) => {
      did.push(`open ${ms}`);
      return says.opened;
    },
    register: async (max: number) => {
      did.push(`register ${max}`);
      return says.registers;
    },
    registerLater: (max: number) => void did.push(`register later ${max}`),
    close: async () => void did.push('close'),
    states: (): ReadonlyMap<string, QueueState> =>
      new Map([['0', says.connected ? { available: true } : { available: false, reason: 'cut' }]]),
    join: async () => {
      did.push('join');
      if (says.joins !== undefined) throw says.joins;
      return says.made;
    },
    read: async (max: number, idleMs: number, waitMs: number) => {
      did.push(`read ${max} ${idleMs} ${waitMs}`);
      const some = says.reads.shift() ?? [];
      if (some instanceof Error) throw some;
      return (await some).map(delivery);
    },
    acknowledge: async (entries: readonly EntryName[]) => {
      did.push(`acknowledge ${entries.map((one) => one.entry).join()}`);
      if (says.acknowledges !== undefined) throw says.acknowledges;
      return entries.length;
    },
  };
  return { says, did, delivery, reader: reader as unknown as StreamReader };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const random = { fraction: () => 1, uuid: () => 'abcdefgh-1', bytes: () => Buffer.alloc(0) };

describe('one partition of several', () => {
  function start(t: TestContext) {
    const clock = new VirtualClock();
    const { log, lines } = keeping(t);
    const ends = { count: 0 };
    const fake = partition();
    const one = new PartitionReading('1', fake.reader, { clock, random, log }, () => (ends.count += 1));
    const begin = async (waitMs = 0): Promise<void> => {
      one.begin(4, 9, waitMs);
      await settled();
    };
    return { ...fake, clock, lines, one, begin, ends };
  }

  it('has one read under way, and none while something waits to be taken', async (t) => {
    const { says, did, one, begin, ends } = start(t);
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    says.reads.push(promise);
    await begin();
    assert.equal(one.polling, true);
    await begin();
    assert.deepEqual(did, ['read 4 9 0']);
    assert.equal(ends.count, 0);
    resolve(['1-1', '1-2', '1-3']);
    await settled();
    assert.equal(one.polling, false);
    assert.equal(ends.count, 1);
    await begin();
    assert.equal(did.length, 1);
    assert.deepEqual(entriesOf(one.take(2)), ['1-1', '1-2']);
    await begin();
    assert.equal(did.length, 1);
    assert.deepEqual(entriesOf(one.take(2)), ['1-3']);
    await begin(7);
    assert.deepEqual(did[1], 'read 4 9 7');
  });

  it('is not polled while its read waits for events', async (t) => {
    const { says, one, begin } = start(t);
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    says.reads.push(promise);
    await begin(7);
    assert.equal(one.polling, false);
    resolve([]);
    await settled();
  });

  it('is left alone for longer after each failure, up to a second, and is told of once', async (t) => {
    const { says, did, clock, lines, one, begin, ends } = start(t);
    const pauses: number[] = [];
    for (let failure = 0; failure < 7; failure += 1) {
      says.reads.push(new Error(`cut ${failure}`));
      await begin();
      const from = clock.ms();
      const reads = did.length;
      while (did.length === reads) {
        await clock.advance(25);
        says.reads[0] ??= new Error('cut');
        await begin();
      }
      pauses.push(clock.ms() - from);
      says.reads.length = 0;
      await settled();
    }
    assert.deepEqual(pauses.slice(0, 2), [50, 100]);
    assert.equal(pauses.at(-1), 1_000);
    assert.equal(one.fault?.message, 'cut 6');
    assert.deepEqual(lines, ['warn: a partition is away; the others are read on']);
    assert.ok(ends.count >= 7);
    await clock.advance(1_000);
    await begin();
    assert.equal(one.fault, undefined);
    says.reads.push(new Error('again'));
    await begin();
    assert.equal(lines.length, 2);
    await clock.advance(50);
    const reads = did.length;
    await begin();
    assert.equal(did.length, reads + 1, 'the first pause again');
  });

  it('is away for two seconds after it should have been read again, and then as its connection is', async (t) => {
    const { says, clock, one, begin } = start(t);
    assert.deepEqual(one.state, { available: true });
    says.reads.push(new Error('no rights'));
    await begin();
    const away = { available: false, reason: 'no rights' };
    assert.deepEqual(one.state, away);
    await clock.advance(50 + 1_999);
    assert.deepEqual(one.state, away);
    await clock.advance(1);
    assert.deepEqual(one.state, { available: true });
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    says.reads.push(promise);
    await begin(7);
    assert.deepEqual(one.state, away, 'while it is being read it is known');
    resolve([]);
    await settled();
    assert.deepEqual(one.state, { available: true });
    says.connected = false;
    assert.deepEqual(one.state, { available: false, reason: 'cut' });
  });

  it('is given what it is owed before it is read, until it has taken it', async (t) => {
    const { says, did, clock, one, begin, delivery } = start(t);
    one.owe([delivery('1-1')]);
    one.owe([delivery('1-2')]);
    says.acknowledges = new Error('cut');
    await begin();
    assert.deepEqual(did, ['acknowledge 1-1,1-2']);
    says.acknowledges = undefined;
    await clock.advance(1_000);
    await begin();
    await begin();
    assert.deepEqual(did.slice(1), ['acknowledge 1-1,1-2', 'read 4 9 0', 'read 4 9 0']);
  });

  it('is joined by its next read where it could not be joined', async (t) => {
    const { says, did, clock, lines, one, begin } = start(t);
    says.joins = new Error('cut');
    await assert.rejects(one.join(), /cut/);
    assert.equal(one.fault?.message, 'cut');
    says.joins = undefined;
    says.made = true;
    await begin();
    assert.deepEqual(did, ['join']);
    await clock.advance(1_000);
    await begin();
    await begin();
    assert.deepEqual(did, ['join', 'join', 'read 4 9 0', 'read 4 9 0']);
    assert.equal(lines.at(-1), 'warn: made the consumer group of a partition, from its beginning');
  });

  it('has vanished from the read that says so until it is joined again, and that is no fault', async (t) => {
    const { says, did, lines, one, begin } = start(t);
    says.reads.push(new GroupVanished('gone'));
    await begin();
    assert.equal(one.vanished, true);
    assert.equal(one.fault, undefined);
    await begin();
    assert.equal(did.length, 1);
    assert.equal(await one.join(), false);
    assert.equal(one.vanished, false);
    assert.deepEqual(lines, []);
    await begin();
    assert.equal(did.at(-1), 'read 4 9 0');
  });

  it('has not vanished where the read that says so began before it was joined', async (t) => {
    const { says, one, begin } = start(t);
    const { promise, reject } = Promise.withResolvers<readonly string[]>();
    says.reads.push(promise);
    await begin();
    await one.join();
    reject(new GroupVanished('gone'));
    await settled();
    assert.equal(one.vanished, false);
    assert.equal(one.polling, false);
  });
});

describe('several partitions that are read as one queue', () => {
  function start(t: TestContext, count: number) {
    const clock = new VirtualClock();
    const parts = Array.from({ length: count }, (_, at) => partition(`q/${at}`));
    const readers = new Map(parts.map(({ reader }, at) => [String(at), reader]));
    const reader = new PartitionedReader(readers, { clock, random, log: keeping(t).log });
    /** What a read gives, or its error, once it has ended. */
    const read = async (max: number, waitMs: number, ms = 0): Promise<string[] | Error> => {
      let given: string[] | Error | undefined;
      void reader.read(max, 9, waitMs).then(
        (some) => (given = some.map((one) => `${one.source} ${one.entry}`)),
        (cause: unknown) => (given = cause as Error),
      );
      await clock.advance(ms);
      return given ?? assert.fail('it has not ended');
    };
    return { clock, parts, reader, read };
  }

  it('share what is read ahead, and are asked for no more than there is room for', async (t) => {
    const { parts, reader } = start(t, 3);
    await reader.read(500, 9, 0);
    assert.deepEqual(parts[2]?.did, ['read 86 9 0']);
    await reader.read(5, 9, 0);
    assert.equal(parts[0]?.did[1], 'read 5 9 0');
  });

  it('come first by turns, and what there is no room for waits', async (t) => {
    const { parts, read } = start(t, 2);
    for (const { says } of parts) says.reads.push(['1-1', '1-2']);
    assert.deepEqual(await read(3, 0), ['q/1 1-1', 'q/1 1-2', 'q/0 1-1']);
    assert.deepEqual(await read(3, 0), ['q/0 1-2']);
    for (const { says } of parts) says.reads.push(['2-1']);
    assert.deepEqual(await read(3, 0), ['q/0 2-1', 'q/1 2-1']);
  });

  it('are waited for until the first brings something, or the time is over', async (t) => {
    const { clock, parts, read } = start(t, 2);
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const never = new Promise<readonly string[]>(() => undefined);
    parts[0]?.says.reads.push(never);
    parts[1]?.says.reads.push(promise);
    assert.deepEqual(await read(1, 100, 100), []);
    assert.equal(clock.pending, 0);
    clock.after(40, () => resolve(['1-1']));
    assert.deepEqual(await read(1, 100, 40), ['q/1 1-1']);
    assert.equal(clock.pending, 0);
  });

  it('fail together only', async (t) => {
    const { clock, parts, read } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    one.says.reads.push(new Error('one'));
    assert.deepEqual(await read(1, 0), []);
    await clock.advance(1_000);
    one.says.reads.push(new Error('one'));
    other.says.reads.push(new Error('other'));
    const failed = await read(1, 0);
    assert.ok(failed instanceof Error);
    assert.equal(failed.message, 'one');
  });

  it('vanish where the group of one has', async (t) => {
    const { parts, read } = start(t, 2);
    parts[1]?.says.reads.push(new GroupVanished('gone'));
    assert.ok((await read(1, 0)) instanceof GroupVanished);
  });

  it('are joined where one is, and the first says whether the group was made', async (t) => {
    const { parts, reader } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    other.says.made = true;
    assert.equal(await reader.join(), false);
    one.says.made = true;
    assert.equal(await reader.join(), true);
    one.says.joins = new Error('one');
    assert.equal(await reader.join(), false);
    other.says.joins = new Error('other');
    await assert.rejects(reader.join(), /^Error: one$/);
    one.says.joins = undefined;
    assert.equal(await reader.join(), true);
  });

  it('are acknowledged each by its own reader, now or once it is back', async (t) => {
    const { clock, parts, reader, read } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    for (const { says } of parts) says.reads.push(['1-1', '1-2']);
    await read(4, 0);
    const names = [one.delivery('1-1'), other.delivery('1-1'), other.delivery('1-2'), partition('q/x').delivery('9-9')];
    assert.equal(await reader.acknowledge(names), 3);
    assert.equal(one.did.at(-1), 'acknowledge 1-1');
    assert.equal(other.did.at(-1), 'acknowledge 1-1,1-2');
    for (const { says } of parts) says.acknowledges = new Error('cut');
    assert.equal(await reader.acknowledge([one.delivery('1-2')]), 1, 'it is owed while another one may work');
    for (const { says } of parts) says.acknowledges = undefined;
    await read(1, 0);
    assert.equal(one.did.at(-2), 'acknowledge 1-2');
    for (const { says } of parts) says.acknowledges = says.joins = new Error('cut');
    await assert.rejects(reader.join(), /cut/);
    await assert.rejects(reader.acknowledge([one.delivery('1-3')]), /cut/);
    assert.equal(await reader.acknowledge([]), 0);
    await clock.advance(0);
  });

  it('are opened and closed together, and there once one is', async (t) => {
    const { parts, reader } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    one.says.opened = false;
    assert.equal(await reader.open(5), true);
    other.says.opened = false;
    assert.equal(await reader.open(5), false);
    assert.equal(reader.lastError, 'partition 0: q/0 is cut; partition 1: q/1 is cut');
    await reader.close();
    for (const { did } of parts) assert.deepEqual(did, ['open 5', 'open 5', 'close']);
  });

  it('count replicas in the first one, and show life in the others', async (t) => {
    const { parts, reader } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    one.says.registers = false;
    assert.equal(await reader.register(3), false);
    assert.deepEqual(other.did, []);
    one.says.registers = true;
    assert.equal(await reader.register(3), true);
    assert.deepEqual(other.did, ['register later Infinity']);
    reader.registerLater(3);
    assert.deepEqual(one.did, ['register 3', 'register 3', 'register later 3']);
    assert.equal(other.did.length, 2);
    other.says.replicas = 5;
    assert.equal(reader.replicas, 1);
    assert.equal(reader.name, 'me');
  });

  it('wait where all of them do, and have the longest bodies of all once each has said', (t) => {
    const { parts, reader } = start(t, 2);
    const [one = assert.fail(), other = assert.fail()] = parts;
    assert.equal(reader.waiting, true);
    one.says.waiting = false;
    assert.equal(reader.waiting, false);
    other.says.bodyBytesMax = 7;
    assert.equal(reader.bodyBytesMax, 7);
    one.says.bodyBytesMax = undefined;
    assert.equal(reader.bodyBytesMax, undefined);
  });
});

describe('the readers of queues', () => {
  it('are one for one server, and for several partitions or queues those with their names', async (t) => {
    const clock = new VirtualClock();
    const { log } = keeping(t);
    const names = async (...uris: readonly string[]): Promise<string[]> => {
      const reader = readingQueue({ clock, random, log, uris, partitions: 2 });
      await reader.close();
      return [...reader.states().keys()];
    };
    assert.deepEqual(await names('redis://a'), ['0']);
    assert.deepEqual(await names('redis+cluster://a:1'), ['0', '1']);
    assert.deepEqual(await names('redis://a', 'redis://b'), ['0', '1']);
    const children = t.mock.method(log, 'child', () => log);
    assert.deepEqual(await names('redis://a', 'redis+cluster://b:1'), ['0', '1-0', '1-1']);
    const named = children.mock.calls.map(({ arguments: [bindings] }) => bindings as { partition?: string });
    assert.deepEqual(new Set(named.flatMap(({ partition = [] }) => partition)), new Set(['0', '1-0', '1-1']));
  });

  it('look a cluster up, and show the user and the password of each queue', async (t) => {
    const { log } = keeping(t);
    const nowhere = readingQueue({ ...SYSTEM, log, uris: ['redis+cluster://127.0.0.1:1'], partitions: 1 });
    t.after(() => nowhere.close());
    assert.equal(await nowhere.open(1), false);
    await eventually('no node is there', () => nowhere.lastError.includes('ECONNREFUSED'));
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const reader = readingQueue({ ...SYSTEM, log, uris: [redis.uri.replace('//', '//shop:secret@')] });
    t.after(() => reader.close());
    assert.equal(await reader.open(1), false);
    await eventually('the password is refused', () => reader.lastError.startsWith('WRONGPASS'));
  });
});

describe('the start of a consumer at its queue', () => {
  const CONFIG = { queueUri: 'redis://u:secret@h', replicasMax: 3 };

  function start(t: TestContext) {
    const clock = new VirtualClock();
    const { log, lines } = keeping(t);
    const { reader, says, did } = partition();
    const stopped = new AbortController();
    const registers: (boolean | Error)[] = [];
    reader.register = async (max: number) => {
      did.push(`register ${max}`);
      const answer = registers.shift() ?? false;
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const join = async (ms: number): Promise<'started' | Error | undefined> => {
      let ending: 'started' | Error | undefined;
      void joinReplicas(reader, CONFIG, clock, stopped.signal, log).then(
        () => (ending = 'started'),
        (cause: unknown) => (ending = cause as Error),
      );
      for (let at = 0; at < ms; at += 250) await clock.advance(250);
      await settled();
      return ending;
    };
    return { reader, says, did, lines, stopped, registers, join };
  }

  it('takes a place, as soon as there is one', async (t) => {
    const { did, registers, join } = start(t);
    registers.push(false, new Error('cut'), true);
    assert.equal(await join(500), 'started');
    assert.deepEqual(did, ['open 5000', 'register 3', 'register 3', 'register 3']);
  });

  it('fails where all places stay taken, a little longer than a dead replica counts', async (t) => {
    const { join } = start(t);
    const { join: shorter } = start(t);
    assert.equal(await shorter(REPLICA_LEASE_MS + 1_250), undefined);
    const failed = await join(REPLICA_LEASE_MS + 1_500);
    assert.ok(failed instanceof StartFailure);
    assert.equal(failed.exitCode, EXIT.replicas);
    assert.equal(
      failed.message,
      'INGEST_CONSUMER_REPLICAS_MAX=3: as many replicas run already; stop one, or raise this key for every replica',
    );
  });

  it('goes on without a place where the queue says nothing, and takes one later', async (t) => {
    const { did, lines, registers, join } = start(t);
    registers.push(...Array.from({ length: 100 }, () => new Error('cut')));
    assert.equal(await join(REPLICA_LEASE_MS + 1_500), 'started');
    assert.equal(did.at(-1), 'register later 3');
    assert.equal(lines[0], 'warn: the queue does not take commands');
  });

  it('fails with the reason where there is no queue, and says what was refused', async (t) => {
    const { reader, says, join } = start(t);
    says.opened = false;
    says.waiting = false;
    const away = await join(0);
    assert.ok(away instanceof StartFailure);
    assert.equal(away.exitCode, EXIT.queue);
    assert.match(away.message, /q\/s is cut/);
    assert.doesNotMatch(away.message, /secret/);
    for (const [refusal, code] of [
      [new QueueRefusal('no rights'), EXIT.queue],
      [new PartitionsDiffer('8, not 4'), EXIT.configuration],
    ] as const) {
      reader.open = () => Promise.reject(refusal);
      const refused = await join(0);
      assert.ok(refused instanceof StartFailure);
      assert.equal(refused.exitCode, code);
    }
    reader.open = () => Promise.reject(new RangeError('a bug'));
    assert.ok((await join(0)) instanceof RangeError);
  });

  it('waits for a queue that is there and takes no commands, and says so', async (t) => {
    const { says, did, lines, join } = start(t);
    says.opened = false;
    assert.equal(await join(0), 'started');
    assert.deepEqual(did, ['open 5000', 'register later 3']);
    assert.deepEqual(lines, ['error: the queue is there and takes no commands; starting, and waiting until it does']);
  });

  it('ends without a place and without a failure where it is told to stop', async (t) => {
    const { did, stopped, join } = start(t);
    stopped.abort();
    assert.equal(await join(0), 'started');
    assert.deepEqual(did, ['open 5000']);
    const later = start(t);
    const joining = later.join(1_000);
    later.stopped.abort();
    assert.equal(await joining, 'started');
    assert.equal(later.did.filter((one) => one === 'register 3').length <= 1, true);
  });
});
