// The accepting side's parts, each with fakes around it, on a clock that a test moves.
import assert from 'node:assert/strict';
import { describe, it, mock, type TestContext } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { createLog } from '../../lib/process/log.ts';
import { EXIT, StartFailure } from '../../lib/process/program.ts';
import type { QueueState } from '../../lib/ingest/queue.ts';
import { startQueue, type AcceptingQueue } from '../../lib/redis/accept/open-queue.ts';
import { OutstandingCalls, settleAll } from '../../lib/redis/accept/outstanding-calls.ts';
import type { QueueDialect } from '../../lib/redis/accept/queue-dialect.ts';
import { QueueProbe } from '../../lib/redis/accept/queue-probe.ts';
import { ReplicatedSender } from '../../lib/redis/accept/replicated-sender.ts';
import { PartitionedQueue } from '../../lib/redis/accept/partitioned-queue.ts';
import { lookUp, StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { digestsOf } from '../../lib/redis/stream/id-index.ts';
import type { ConnectionListener, RedisConnection } from '../../lib/redis/server/client.ts';
import { PartitionsDiffer, QueueRefusal, RedisError } from '../../lib/redis/wire/errors.ts';
import { Reply } from '../../lib/redis/wire/reply.ts';
import type { Argument } from '../../lib/redis/wire/script.ts';
import { Recorded } from '../contract/queue.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const answer = (text: string): Reply => new Reply(Buffer.from(text));

/** What one of these said, or nothing so far. */
function outcomes(some: readonly Recorded[]): () => Promise<string[]> {
  const said = some.map(() => '');
  for (const [at, { outcome }] of some.entries()) void outcome.then((one) => (said[at] = one));
  return async () => {
    await new Promise((resolve) => setImmediate(resolve));
    return said;
  };
}

describe('the calls that have no answer yet', () => {
  function calls(clock = new VirtualClock()) {
    let overdue = 0;
    const outstanding = new OutstandingCalls(clock, 100, () => (overdue += 1));
    return { clock, outstanding, overdue: () => overdue };
  }

  it('are given up each when its own time is over, oldest first, and the queue counts as stalled from the first', async () => {
    const { clock, outstanding, overdue } = calls();
    const events = [new Recorded('one'), new Recorded('two')] as const;
    const said = outcomes(events);
    outstanding.began([events[0]]);
    await clock.advance(40);
    outstanding.began([events[1]]);
    await clock.advance(59);
    assert.deepEqual(await said(), ['', '']);
    assert.equal(outstanding.stalled, false);
    assert.equal(outstanding.silentMs, 0);
    await clock.advance(1);
    assert.deepEqual(await said(), ['unavailable', '']);
    assert.equal(outstanding.stalled, true);
    await clock.advance(39);
    assert.deepEqual(await said(), ['unavailable', '']);
    await clock.advance(1);
    assert.deepEqual(await said(), ['unavailable', 'unavailable']);
    assert.equal(overdue(), 2);
    assert.equal(outstanding.silentMs, 40);
    outstanding.serverSpoke();
    assert.equal(outstanding.stalled, false);
    assert.equal(outstanding.silentMs, 0);
  });

  it('have one timer, and none once all are answered and its time is over', async () => {
    const { clock, outstanding, overdue } = calls();
    const some = ['a', 'b', 'c'].map((id) => outstanding.began([new Recorded(id)]));
    assert.equal(clock.pending, 1);
    for (const at of [1, 0, 2]) {
      const call = some[at] ?? assert.fail();
      outstanding.remove(call);
      settleAll(call, 'accepted');
    }
    outstanding.remove(some[1] ?? assert.fail());
    await clock.advance(100);
    assert.equal(clock.pending, 0);
    assert.equal(overdue(), 0);
    const late = new Recorded('late');
    outstanding.began([late]);
    await clock.advance(100);
    assert.equal(late.settled, 1);
  });

  it('keep their time where one in front of them has its outcome already', async () => {
    const { clock, outstanding, overdue } = calls();
    const [first, second] = [new Recorded('first'), new Recorded('second')];
    const call = outstanding.began([first]);
    settleAll(call, 'accepted');
    settleAll(call, 'unavailable');
    await clock.advance(50);
    outstanding.began([second]);
    await clock.advance(50);
    assert.equal(overdue(), 0);
    assert.equal(second.settled, 0);
    await clock.advance(50);
    assert.equal(second.settled, 1);
    assert.equal(first.settled, 1);
    assert.equal(await first.outcome, 'accepted');
  });

  it('are given up by the time before the sockets were read, however long the reading took', async () => {
    const held: (() => void)[] = [];
    class Held extends VirtualClock {
      override turnEnd(run: () => void): void {
        held.push(run);
      }
    }
    const { clock, outstanding } = calls(new Held());
    const [first, second] = [new Recorded('first'), new Recorded('second')];
    outstanding.began([first]);
    await clock.advance(50);
    outstanding.began([second]);
    await clock.advance(50);
    await clock.advance(200);
    assert.equal(first.settled, 0, 'what has arrived is read first');
    held.shift()?.();
    assert.equal(first.settled, 1);
    assert.equal(second.settled, 0);
    await clock.advance(50);
    held.shift()?.();
    assert.equal(second.settled, 1);
  });

  it('are all given up when the queue is closed, and none is timed any more', () => {
    const { clock, outstanding } = calls();
    const events = ['a', 'b'].map((id) => new Recorded(id));
    for (const event of events) outstanding.began([event]);
    outstanding.close();
    for (const { settled } of events) assert.equal(settled, 1);
    assert.equal(clock.pending, 0);
  });
});

describe('events that are submitted', () => {
  /** A queue behind a dispatcher, whose answers a test gives in order. */
  function start(t: TestContext) {
    const clock = new VirtualClock();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const errors: unknown[] = [];
    t.mock.method(log, 'error', (...said: readonly unknown[]) => errors.push(said));
    const sent: string[][] = [];
    const waiting: { resolve: (reply: Reply) => void; reject: (cause: Error) => void }[] = [];
    const restarts: string[] = [];
    const calls: (readonly [seconds: number, events: number])[] = [];
    let listener: ConnectionListener = {};
    const connection = {
      ready: true,
      lastError: 'cut',
      values: {},
      tell: (more: ConnectionListener) => void (listener = more),
      restart: (reason: string) => void restarts.push(reason),
      close: () => Promise.resolve(),
      send: (command: readonly Argument[]): Promise<Reply> =>
        new Promise((resolve, reject) => {
          // A probe carries no events.
          if (command.length === 1) return;
          sent.push(command.map(String));
          waiting.push({ resolve, reject });
        }),
    };
    const queue = new StreamQueue({
      ...{ clock, random: { fraction: () => 0, uuid: () => '', bytes: () => Buffer.alloc(0) }, log },
      ...{ connection: connection as unknown as RedisConnection<Reply>, behind: 'dispatcher', enqueueTimeoutMs: 500 },
      onCall: (seconds, events) => calls.push([seconds, events]),
    });
    t.after(() => queue.close());
    const submit = async (events: readonly Recorded[]): Promise<void> => {
      for (const event of events) queue.submit(event);
      await new Promise((resolve) => setImmediate(resolve));
    };
    const answers = (text: string): void => waiting.shift()?.resolve(answer(text));
    const refuses = (cause: Error): void => waiting.shift()?.reject(cause);
    return {
      clock,
      queue,
      submit,
      sent,
      answers,
      refuses,
      errors,
      calls,
      connection,
      restarts,
      listener: () => listener,
    };
  }
  const several = (count: number, more = {}): Recorded[] =>
    Array.from({ length: count }, (_, at) => new Recorded(`id-${at}`, 'p', more));
  const of = (events: readonly Recorded[]): Promise<string[]> => Promise.all(events.map(({ outcome }) => outcome));

  it('have the outcome of their character each, and none that is known where it is another one', async (t) => {
    const { submit, answers, calls, clock } = start(t);
    const events = several(6);
    await submit(events);
    await clock.advance(250);
    answers('$6\r\n01234x\r\n');
    assert.deepEqual(await of(events), ['accepted', 'duplicate', 'conflict', 'differing', 'shed', 'unavailable']);
    assert.deepEqual(calls, [[0.25, 6]]);
  });

  it('are all unavailable where the answer is of another length or form, which is logged', async (t) => {
    const { submit, answers, errors } = start(t);
    for (const wrong of ['$1\r\n0\r\n', '$3\r\n000\r\n', '*1\r\n*1\r\n:0\r\n', ':2\r\n', '*0\r\n']) {
      const events = several(2);
      await submit(events);
      answers(wrong);
      assert.deepEqual(await of(events), ['unavailable', 'unavailable'], wrong);
      const [[fields, line] = []] = errors.splice(0) as [{ err: unknown; events: number }, string][];
      assert.equal(line, 'the queue gave a malformed answer');
      assert.equal(fields?.events, 2);
      assert.ok(fields.err instanceof Error);
    }
  });

  it('travel 256 in a call at most, and as many as have a million characters', async (t) => {
    const { submit, sent, answers, calls } = start(t);
    const many = several(257);
    await submit(many);
    assert.deepEqual(
      sent.splice(0).map((command) => (command.length - 1) / 3),
      [256, 1],
    );
    answers(`$256\r\n${'0'.repeat(256)}\r\n`);
    answers('$1\r\n1\r\n');
    assert.deepEqual(await of(many.slice(255)), ['accepted', 'duplicate']);
    assert.deepEqual(calls, [
      [0, 256],
      [0, 1],
    ]);
    const [bare = assert.fail()] = several(1, { text: '' });
    const half = (more: number): Recorded =>
      new Recorded('id-0', 'p', { text: 'x'.repeat((1 << 19) - bare.text.length + more) });
    assert.equal(half(0).text.length, 1 << 19);
    await submit([half(0), half(0)]);
    assert.equal(sent.splice(0).length, 1);
    await submit([half(0), half(1), half(0)]);
    assert.deepEqual(
      sent.splice(0).map((command) => (command.length - 1) / 3),
      [1, 1, 1],
    );
    await submit([half(1 << 20), half(0)]);
    assert.equal(sent.length, 2);
  });

  it('are refused at once without a connection, and while an answer is overdue', async (t) => {
    const { clock, submit, sent, connection, queue, answers } = start(t);
    connection.ready = false;
    const [one = assert.fail()] = several(1);
    await submit([one]);
    assert.equal(await one.outcome, 'unavailable');
    assert.equal(sent.length, 0);
    connection.ready = true;
    const [late = assert.fail(), next = assert.fail()] = several(2);
    await submit([late]);
    await clock.advance(500);
    assert.equal(await late.outcome, 'unavailable');
    await submit([next]);
    assert.equal(await next.outcome, 'unavailable');
    assert.equal(sent.length, 1);
    assert.deepEqual(queue.state(), { available: false, reason: 'no answer within 500 ms' });
    assert.deepEqual(await queue.find('one', 'p'), { kind: 'unavailable' });
    answers('$1\r\n0\r\n');
    await clock.settle();
    const [again = assert.fail()] = several(1);
    await submit([again]);
    answers('$1\r\n0\r\n');
    assert.equal(await again.outcome, 'accepted', 'a late answer is one, too');
    assert.equal(late.settled, 1);
  });

  it('that a server refused are unavailable, and the reason is known', async (t) => {
    const { submit, refuses, queue, connection } = start(t);
    const [one = assert.fail(), other = assert.fail()] = several(2);
    await submit([one]);
    refuses(new RedisError('OOM full'));
    assert.equal(await one.outcome, 'unavailable');
    assert.deepEqual(queue.state(), { available: false, reason: 'OOM full' });
    await submit([other]);
    connection.ready = false;
    refuses(new Error('broken'));
    assert.equal(await other.outcome, 'unavailable');
    assert.deepEqual(queue.state(), { available: false, reason: 'OOM full' });
  });

  it('are told of a connection that was lost, and of its server no more that it is silent', async (t) => {
    const { clock, submit, sent, queue, listener } = start(t);
    const [late = assert.fail(), next = assert.fail()] = several(2);
    await submit([late]);
    await clock.advance(500);
    listener().onLost?.('broken');
    assert.deepEqual(queue.state(), { available: false, reason: 'broken' });
    await submit([next]);
    assert.equal(sent.length, 2);
  });

  it('come by a new connection once their server has said nothing for seconds', async (t) => {
    const { clock, submit, restarts } = start(t);
    await submit(several(1));
    await clock.advance(1_000);
    assert.deepEqual(restarts, []);
    await clock.advance(9_000);
    assert.match(restarts[0] ?? '', /answer/);
  });

  it('are given up where the queue is closed', async (t) => {
    const { clock, submit, queue } = start(t);
    const events = several(2);
    await submit(events);
    await queue.close();
    assert.deepEqual(await of(events), ['unavailable', 'unavailable']);
    assert.equal(clock.pending, 0);
  });

  it('have notes in a call where one of them has, and else none', async (t) => {
    const { submit, sent } = start(t);
    const noted = Object.assign(new Recorded('noted'), { notes: { traceparent: 't', tracestate: 's' } });
    const [plain = assert.fail()] = several(1);
    await submit([plain]);
    await submit([plain, noted]);
    const [without = [], within = []] = sent;
    assert.deepEqual(without.slice(1), ['id-0', 'p', plain.text]);
    assert.deepEqual(within.slice(1), [
      ...['id-0', 'noted', 'p', plain.text, '', 'p', noted.text],
      'traceparent\nt\ntracestate\ns\n',
    ]);
    assert.notEqual(without[0], within[0]);
  });

  it('are looked up behind a dispatcher by what it answers', async (t) => {
    const { queue, answers, sent, clock } = start(t);
    const look = async (text: string): Promise<unknown> => {
      const found = queue.find('one', 'p');
      answers(text);
      return found;
    };
    assert.deepEqual(await look('*0\r\n'), { kind: 'unknown' });
    assert.deepEqual(await look('*2\r\n$1\r\n7\r\n$1\r\nb\r\n'), {
      kind: 'found',
      event: { acceptedAtMs: 7, body: Buffer.from('b'), traceparent: undefined },
    });
    assert.deepEqual(await look('*3\r\n$1\r\n7\r\n$1\r\nb\r\n$1\r\nt\r\n'), {
      kind: 'found',
      event: { acceptedAtMs: 7, body: Buffer.from('b'), traceparent: 't' },
    });
    assert.deepEqual(await look(':1\r\n'), { kind: 'unavailable' });
    assert.deepEqual(sent[0]?.slice(1), ['one', 'p']);
    const silent = queue.find('one', 'p', 100);
    await clock.advance(0);
    await clock.advance(100);
    assert.deepEqual(await silent, { kind: 'unavailable' });
  });
});

describe('a look-up of a stream', () => {
  const part = (value: string | Buffer): string => `$${Buffer.byteLength(value)}\r\n${value.toString('latin1')}\r\n`;
  /** What it finds of the id `one`, where the server has these six parts of each entry. */
  async function found(entries: readonly (readonly (string | Buffer)[])[], bodyBytesMax?: number) {
    const parts = entries.flat();
    const bytes = Buffer.from(`*${parts.length}\r\n${parts.map(part).join('')}`, 'latin1');
    const dialect = { find: () => Promise.resolve(new Reply(bytes)), bodyBytesMax: () => bodyBytesMax };
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    return lookUp(dialect as unknown as QueueDialect, new VirtualClock(), 'one', 'p', 1_000, log);
  }
  const BODY = '{"id":"one"}';

  it('is the entry whose event has the id: by its digests, else by its note, else by its body', async () => {
    const event = { acceptedAtMs: 7, body: Buffer.from(BODY), traceparent: undefined };
    assert.deepEqual(await found([['7', BODY, '', '', '', '']]), { kind: 'found', event });
    assert.deepEqual(await found([['7', BODY, 't', '', '', '']]), {
      kind: 'found',
      event: { ...event, traceparent: 't' },
    });
    const other = ['6', '{"id":"two"}', '', '', '', ''];
    assert.deepEqual(await found([other]), { kind: 'unknown' });
    assert.deepEqual(await found([other, ['7', BODY, '', '', '', '']]), { kind: 'found', event });
    assert.equal((await found([['6', '{"id":"two"}', '', '', 'one', '']])).kind, 'found');
    assert.deepEqual(await found([['7', BODY, '', '', 'two', '']]), { kind: 'unknown' });
    const digests = digestsOf({ id: 'one', producer: 'p', text: '' });
    assert.equal((await found([['6', '{"id":"two"}', '', '', '', digests]])).kind, 'found');
    const others = digestsOf({ id: 'two', producer: 'p', text: '' });
    assert.deepEqual(await found([['7', BODY, '', '', 'one', others]]), { kind: 'unknown' });
    assert.deepEqual(await found([]), { kind: 'unknown' });
  });

  it('is not to be had where the body is longer than gateways accept once it is decompressed', async () => {
    const entry = ['7', zstdCompressSync(BODY), '', 'zstd', '', ''];
    assert.equal((await found([entry], BODY.length)).kind, 'found');
    assert.deepEqual(await found([entry], BODY.length - 1), { kind: 'unavailable' });
  });
});

describe('a queue of several partitions', () => {
  it('takes events while one partition does, and else says why the first one does not', async () => {
    const AWAY = { available: false, reason: 'first' } as const;
    const states: QueueState[] = [AWAY, { available: true }];
    const closed: number[] = [];
    const parts = states.map((_, at) => ({
      state: () => states[at],
      close: () => Promise.resolve(void closed.push(at)),
    }));
    const queue = new PartitionedQueue(parts as unknown as readonly StreamQueue[]);
    assert.deepEqual(queue.state(), { available: true });
    assert.deepEqual(queue.states(), states);
    states[1] = { available: false, reason: 'second' };
    assert.deepEqual(queue.state(), AWAY);
    await queue.close();
    assert.deepEqual(closed, [0, 1]);
  });
});

describe('what the queue is known to be', () => {
  function probed(callTimeoutMs = 600) {
    const clock = new VirtualClock();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const lines: string[] = [];
    mock.method(log, 'info', (line: string) => void lines.push(line));
    mock.method(log, 'error', ({ reason }: { reason: string }, line: string) => void lines.push(`${line}: ${reason}`));
    const asked: { resolve: (reply: Reply) => void; reject: (cause: Error) => void }[] = [];
    const run = (): Promise<Reply> => new Promise((resolve, reject) => asked.push({ resolve, reject }));
    const dialect = { accept: { begin: () => [], run } } as unknown as QueueDialect;
    const connection = { ready: true, lastError: 'ECONNREFUSED' };
    const calls = new OutstandingCalls(clock, callTimeoutMs, () => undefined);
    const silent: string[] = [];
    const onSilent = (reason: string): void => void silent.push(reason);
    const about = { clock, dialect, calls, callTimeoutMs, onSilent, log };
    const probe = new QueueProbe({ ...about, connection: connection as unknown as RedisConnection<Reply> });
    const answers = async (): Promise<void> => {
      for (const { resolve } of asked.splice(0)) resolve(answer('$0\r\n\r\n'));
      await clock.settle();
    };
    return { clock, probe, asked, answers, connection, calls, silent, lines };
  }
  const reasonOf = (state: QueueState): string => (state.available ? '' : state.reason);

  it('is nothing before it was asked, and that it takes events once it has answered, logged once', async () => {
    const { clock, probe, asked, answers, lines } = probed();
    assert.equal(reasonOf(probe.state()), 'not asked yet');
    const state = probe.ask();
    assert.equal(reasonOf(await probe.ask()), 'not asked yet', 'it is being asked');
    assert.equal(asked.length, 1);
    await answers();
    assert.deepEqual(await state, { available: true });
    await clock.advance(399);
    assert.equal(asked.length, 0);
    await clock.advance(1);
    assert.equal(asked.length, 1);
    await answers();
    assert.deepEqual(lines, ['the queue takes events']);
    probe.close();
    await clock.advance(5_000);
    assert.equal(asked.length, 0);
  });

  it('is that it has not answered lately after a second, where a call may take longer', async () => {
    const { clock, probe, answers } = probed(2_000);
    void probe.ask();
    await answers();
    await clock.advance(1_000);
    assert.deepEqual(probe.state(), { available: true });
    await clock.advance(1);
    assert.equal(reasonOf(probe.state()), 'the queue has not answered lately');
  });

  it('is that it does not answer after 600 ms, and after three seconds of that the owner hears of it', async () => {
    const { clock, probe, answers, calls, silent, lines } = probed(100);
    void probe.ask();
    await answers();
    await clock.advance(400 + 599);
    assert.deepEqual(probe.state(), { available: true });
    await clock.advance(1);
    assert.equal(reasonOf(probe.state()), 'no answer within 600 ms');
    assert.equal(calls.stalled, true);
    assert.equal(calls.silentMs, 600, 'since it was asked');
    await clock.advance(2_400 - 1);
    assert.deepEqual(silent, []);
    await clock.advance(401);
    assert.deepEqual(silent, ['the server does not answer']);
    assert.deepEqual(lines, ['the queue takes events', 'the queue takes no events: no answer within 600 ms']);
    await answers();
    assert.equal(calls.stalled, false);
    assert.deepEqual(probe.state(), { available: true });
  });

  it('waits for no answer longer than the server may be silent', async () => {
    const { clock, probe } = probed(10_000);
    const state = probe.ask();
    await clock.advance(3_000);
    assert.equal(reasonOf(await state), 'no answer within 3000 ms');
  });

  it('is what the server says when it refuses, or why there is no connection', async () => {
    const { clock, probe, asked, answers, connection, calls, lines } = probed();
    void probe.ask();
    await answers();
    probe.refused(new RedisError('READONLY no writes'));
    probe.refused(new RedisError('READONLY no writes'));
    assert.equal(reasonOf(probe.state()), 'READONLY no writes');
    void probe.ask();
    asked.pop()?.reject(new RedisError('OOM full'));
    await clock.settle();
    assert.equal(reasonOf(probe.state()), 'OOM full');
    assert.equal(calls.stalled, false, 'a refusal is an answer');
    connection.ready = false;
    void probe.ask();
    asked.pop()?.reject(new Error('lost'));
    await clock.settle();
    assert.equal(reasonOf(probe.state()), 'ECONNREFUSED');
    assert.deepEqual(lines, ['the queue takes events', 'the queue takes no events: READONLY no writes']);
  });
});

describe('a call that replicas must have', () => {
  /** Connections whose answers a test gives, each in its order. */
  function sender(replicas: number, ready: readonly boolean[] = [true], timeoutMs = 1_000) {
    const sent: string[] = [];
    const waiting: ((reply: Reply | Error) => void)[] = [];
    const did: string[] = [];
    const connections = ready.map((is, at) => ({
      ready: is,
      lastError: 'gone',
      send: (command: readonly Argument[]) =>
        new Promise<Reply>((resolve, reject) => {
          sent.push(`${at}: ${command.join(' ')}`);
          waiting.push((reply) => (reply instanceof Error ? reject(reply) : resolve(reply)));
        }),
      open: () => void did.push(`opens ${at}`),
      restart: (reason: string) => void did.push(`restarts ${at}: ${reason}`),
      close: async () => void did.push(`closes ${at}`),
    }));
    const options = {
      stream: 's',
      replicas,
      timeoutMs,
      connections: connections as unknown as RedisConnection<Reply>[],
    };
    const replicated = new ReplicatedSender(options);
    const answers = async (...replies: readonly (string | Error)[]): Promise<void> => {
      for (const reply of replies) waiting.shift()?.(reply instanceof Error ? reply : answer(reply));
      await new Promise((resolve) => setImmediate(resolve));
    };
    return { replicated, sent, answers, did };
  }
  const ACCEPTED = '$2\r\n00\r\n';
  /** The first event is known, and the second one too, or not. */
  const known = (second: 0 | 1): string => `*2\r\n*2\r\n:1\r\n:${second}\r\n*0\r\n`;

  it('is followed by WAIT on its connection, and answered only once enough replicas have acknowledged it', async () => {
    const { replicated, sent, answers } = sender(2);
    let reply: Reply | undefined;
    const call = replicated.send(['CALL']).then((one) => (reply = one));
    assert.deepEqual(sent, ['0: CALL', '0: WAIT 2 600']);
    await answers(ACCEPTED);
    assert.equal(reply, undefined);
    await answers(':2\r\n');
    assert.equal((await call).text(), '00');
    const few = assert.rejects(replicated.send(['CALL']), {
      name: 'NotReplicated',
      message: '1 of 2 replicas acknowledged within 600 ms',
    });
    await answers(ACCEPTED, ':1\r\n');
    await few;
  });

  it('that has accepted nothing is followed by a write of its own, and that one counts', async () => {
    const { replicated, sent, answers } = sender(1);
    const call = assert.rejects(replicated.send(['CALL']), /^NotReplicated: 0 of 1/);
    await answers(known(1), ':1\r\n');
    assert.deepEqual(sent, ['0: CALL', '0: WAIT 1 600', '0: SET {s}:waited ', '0: WAIT 1 600']);
    await answers('+OK\r\n', ':0\r\n');
    await call;
    const some = replicated.send(['CALL']);
    await answers(known(0), ':1\r\n');
    await some;
    assert.equal(sent.length, 6, 'one of the two was accepted');
    const refused = assert.rejects(replicated.send(['CALL']), /READONLY/);
    await answers(known(1), ':1\r\n');
    await answers(new RedisError('READONLY'), new RedisError('READONLY'));
    await refused;
  });

  it('fails with what the server says, to the call or to WAIT', async () => {
    const { replicated, answers } = sender(1);
    const call = assert.rejects(replicated.send(['CALL']), /OOM/);
    await answers(new RedisError('OOM'), new RedisError('later'));
    await call;
    const wait = assert.rejects(replicated.send(['CALL']), /WAIT/);
    await answers(ACCEPTED, new RedisError('ERR WAIT'));
    await wait;
  });

  it('takes the connections by turns, passes over one that is not ready, and fails where none is', async () => {
    const { replicated, sent } = sender(1, [true, false, true], 1);
    for (let turn = 0; turn < 4; turn += 1) void replicated.send(['CALL']);
    assert.deepEqual(
      sent.filter((each) => each.endsWith('CALL')).map((each) => each[0]),
      ['2', '0', '2', '0'],
    );
    assert.ok(sent.includes('0: WAIT 1 1'), 'WAIT 1 0 would wait for ever');
    await assert.rejects(sender(1, [false, false]).replicated.send(['CALL']), {
      name: 'NoConnection',
      message: 'there is no connection to the queue (gone)',
    });
  });

  it('has all its connections opened, made anew and closed together', async () => {
    const { replicated, did } = sender(1, [true, true]);
    replicated.open();
    replicated.restart('silent');
    await replicated.close();
    assert.deepEqual(did, [
      ...['opens 0', 'opens 1', 'restarts 0: silent', 'restarts 1: silent', 'closes 0', 'closes 1'],
    ]);
  });
});

describe('the start of a program that accepts', () => {
  const URI = 'redis://shop:secret@queue:6379';
  interface Part {
    readonly ready?: boolean;
    readonly state?: QueueState;
    readonly refusal?: QueueRefusal;
  }

  /** How a start with such partitions ends, after so long. */
  async function started(parts: readonly Part[], afterMs: number, lastError = 'ECONNREFUSED') {
    const clock = new VirtualClock();
    const opened = parts.map(({ ready = true, state = { available: true }, refusal }) => {
      let listener: ConnectionListener = {};
      const connection = {
        ready,
        lastError,
        tell: (more: ConnectionListener) => void (listener = more),
        open: () => (refusal === undefined ? undefined : listener.onRefused?.(refusal)),
      };
      return { connection, queue: { probe: async () => state } };
    });
    let ending: 'started' | StartFailure | undefined;
    void startQueue(URI, { parts: opened } as unknown as AcceptingQueue, clock, 1_000).then(
      () => (ending = 'started'),
      (cause: unknown) => (ending = cause instanceof StartFailure ? cause : assert.fail(String(cause))),
    );
    await clock.advance(afterMs);
    return ending;
  }
  const full: QueueState = { available: false, reason: 'OOM full' };

  it('is over once every partition takes events, or at its time once one does', async () => {
    assert.equal(await started([{}, {}], 0), 'started');
    assert.equal(await started([{}, { state: full }], 1_000), undefined);
    assert.equal(await started([{ state: full }, {}], 1_050), 'started');
  });

  it('fails with the reason and the masked URI where none takes events in time', async () => {
    const ending = await started([{ state: full }, { ready: false }], 1_050);
    assert.ok(ending instanceof StartFailure);
    assert.equal(ending.exitCode, EXIT.queue);
    assert.match(ending.message, /^INGEST_QUEUE_URI=redis:.*queue:6379: the queue takes no events \(OOM full\); check/);
    assert.doesNotMatch(ending.message, /secret/);
    const away = await started([{ ready: false }], 1_050);
    assert.match(String(away), /takes no events \(ECONNREFUSED\); check that the server runs/);
    const password = await started([{ ready: false }], 1_050, 'WRONGPASS invalid');
    assert.match(String(password), /the queue refused the password \(WRONGPASS invalid\); check user and password/);
  });

  it('fails at once where a partition must not be worked with: 4, or 2 where a setting is wrong', async () => {
    const refused = await started([{ ready: false, refusal: new QueueRefusal('no rights') }, {}], 0);
    assert.ok(refused instanceof StartFailure);
    assert.equal(refused.exitCode, EXIT.queue);
    assert.match(refused.message, /: no rights$/);
    const differs = await started([{ ready: false, refusal: new PartitionsDiffer('8, not 4') }], 0);
    assert.ok(differs instanceof StartFailure);
    assert.equal(differs.exitCode, EXIT.configuration);
  });
});
