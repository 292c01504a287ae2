// The server that gateways talk to: the order of answers, pieces of any size, and what costs a connection.
import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { QueueServer } from '../../lib/dispatcher/queue-server.ts';
import type { Queue, QueueLookup, Submission } from '../../lib/ingest/queue.ts';
import { createLog } from '../../lib/process/log.ts';
import { version } from '../../lib/process/program.ts';
import { byteConnection } from '../../lib/redis/server/client.ts';
import { StreamQueue } from '../../lib/redis/accept/stream-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { accept, command, serve, Wire } from './queue-port.ts';
import { SYSTEM } from '../support/system.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

const memoryQueue = new MemoryQueue(new MemoryQueueStore());
/** A queue of which a test replaces what it is about. */
const anyQueue: Queue = {
  submit: (submission) => memoryQueue.submit(submission),
  find: (id, producer) => memoryQueue.find(id, producer),
  state: () => memoryQueue.state(),
  states: () => memoryQueue.states(),
  close: () => memoryQueue.close(),
};

describe('the server of a queue', () => {
  it('gives the answers in the order of the commands, also where a later one is known earlier', async () => {
    const store = new MemoryQueueStore();
    const held: (() => void)[] = [];
    const memory = new MemoryQueue(store);
    const slow: Queue = {
      ...anyQueue,
      submit: (submission) =>
        submission.id === 'slow' ? void held.push(() => submission.settle('shed')) : memory.submit(submission),
    };
    const { port } = await serve(slow);
    const wire = new Wire(port);
    wire.send(accept('one', 'slow', 'one') + command('PING') + accept('two') + accept());
    await eventually('all was handled', () => store.entries.length === 2 && held.length === 1);
    assert.equal(wire.received, '');
    held[0]?.();
    await wire.answers('$3\r\n041\r\n+PONG\r\n$1\r\n0\r\n$0\r\n\r\n');
  });

  it('reads commands in pieces of any size', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.socket.setNoDelay(true);
    for (const byte of Buffer.from(accept('é', '\u{1F600}') + command('INGEST.FIND', 'é', 'q'))) {
      wire.send(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await wire.answers('$2\r\n00\r\n*-1\r\n');
  });

  it('closes connections that do not speak the protocol, and no others', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const good = new Wire(port);
    good.send(command('PING'));
    const bad = [
      'GET / HTTP/1.1\r\n\r\n',
      '$-1\r\n',
      '*1\r\n*1\r\n$4\r\nPING\r\n',
      command('INGEST.ACCEPT', 'an id alone'),
      command('INGEST.FIND'),
      '*1\r\n:1\r\n',
    ].map((text) => {
      const wire = new Wire(port);
      wire.send(text);
      return wire;
    });
    await eventually('they are closed', () => bad.every(({ closed }) => closed));
    good.send(command('PING'));
    await good.answers('+PONG\r\n+PONG\r\n');
  });

  it('takes no command that is longer than the longest body needs', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.send('*4\r\n$13\r\nINGEST.ACCEPT\r\n$1\r\na\r\n$1\r\np\r\n$99999999999\r\n');
    await wire.answers('-ERR Protocol error: a length is no number\r\n');
    await wire.ended();
  });

  it('hands a connection over to what AUTH gives, and holds back what comes behind it', async () => {
    const [mine, theirs] = [new MemoryQueueStore(), new MemoryQueueStore()];
    const { port } = await serve(new MemoryQueue(mine), { other: new MemoryQueue(theirs) });
    const wire = new Wire(port);
    wire.send(accept('a') + command('AUTH', 'good') + accept('b') + accept('c'));
    await wire.answers('$1\r\n0\r\n+OK\r\n$1\r\n0\r\n$1\r\n0\r\n');
    assert.deepEqual(
      [mine, theirs].map(({ entries }) => entries.map(({ body }) => (JSON.parse(body ?? '') as { id: string }).id)),
      [['a'], ['b', 'c']],
    );
  });

  it('closes a connection whose AUTH is refused, and takes no command behind it', async () => {
    const store = new MemoryQueueStore();
    const { port, released } = await serve(new MemoryQueue(store));
    const wire = new Wire(port);
    wire.send(accept('before') + command('AUTH', 'user', 'wrong') + accept('behind') + command('AUTH', 'good'));
    await wire.answers('$1\r\n0\r\n-WRONGPASS invalid username-password pair\r\n');
    await wire.ended();
    assert.equal(store.entries.length, 1);
    assert.equal(released(), 0);
  });

  it('gives a grant back when another one takes its place, and when the connection ends', async () => {
    const { port, released } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.send(command('AUTH', 'good') + command('AUTH', 'user', 'good'));
    await wire.answers('+OK\r\n+OK\r\n');
    assert.equal(released(), 1);
    wire.socket.destroy();
    await eventually('both are given back', () => released() === 2);
  });

  it('answers what has come before it ends', async () => {
    const held: (() => void)[] = [];
    const memory = new MemoryQueue(new MemoryQueueStore());
    const slow: Queue = {
      ...anyQueue,
      submit: (submission) => void held.push(() => memory.submit(submission)),
    };
    const { server, port } = await serve(slow);
    const [busy, idle] = [new Wire(port), new Wire(port)];
    idle.send(command('PING'));
    await idle.answers('+PONG\r\n');
    busy.send(accept('last'));
    await eventually('it has come', () => held.length === 1);
    let isDrained = false;
    const drained = server.drain().then(() => (isDrained = true));
    await eventually('the idle one is closed', () => idle.closed);
    assert.deepEqual([busy.closed, isDrained], [false, false]);
    held[0]?.();
    await drained;
    await busy.answers('$1\r\n0\r\n');
  });

  it('does not listen on a port that is taken, and says so', async () => {
    const { port } = await serve(anyQueue);
    const unbound = new QueueServer({
      anonymous: { queue: anyQueue, release: () => undefined },
      authenticate: async () => 'not here',
      tls: undefined,
      clock: new VirtualClock(),
      log: LOG,
    });
    await assert.rejects(unbound.listen('127.0.0.1', port), { code: 'EADDRINUSE' });
  });

  it('says what it is to whoever takes it for a Redis server', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.send(command('XADD', 'ingest', '*', 'body', '{}') + command('SELECT', '1'));
    await eventually('both answers', () => wire.received.split('\r\n').length === 3);
    assert.match(
      wire.received,
      /^-ERR a dispatcher does not know this command.*dispatcher:\/\/\r\n-ERR a dispatcher has no/,
    );
  });
});

describe('the answers of the server of a queue', () => {
  it('are exact to HELLO, CLIENT and a probe of a queue that takes nothing', async () => {
    const { port } = await serve({ ...anyQueue, state: () => ({ available: false, reason: 'it is\r\nfull' }) });
    const wire = new Wire(port);
    wire.send(command('hello', '3') + command('CLIENT', 'SETNAME', 'x') + accept());
    const hello = ['server', 'ingest-dispatcher', 'version', version(), 'proto', '2', 'role', 'master'];
    await wire.answers(`${command(...hello)}+OK\r\n-ERR it is full\r\n`);
  });

  it('to a look-up are the event, with its trace where it has one, nothing, or that the queue is away', async () => {
    const found = (traceparent: string | undefined): QueueLookup => ({
      kind: 'found',
      event: { body: Buffer.from('é'), acceptedAtMs: 12, traceparent },
    });
    const answers: Readonly<Record<string, QueueLookup>> = {
      plain: found(undefined),
      traced: found('00-a-b-01'),
      unknown: { kind: 'unknown' },
      away: { kind: 'unavailable' },
    };
    const { port } = await serve({ ...anyQueue, find: async (id) => answers[id] ?? assert.fail() });
    const wire = new Wire(port);
    wire.send(
      Object.keys(answers)
        .map((id) => command('INGEST.FIND', id, 'p'))
        .join(''),
    );
    const away = '-ERR the queue that would have the event does not answer\r\n';
    await wire.answers(`${command('12', 'é')}${command('12', 'é', '00-a-b-01')}*-1\r\n${away}`);
  });

  it('say what was wrong with a command before the connection ends', async () => {
    const wrong = {
      [command('INGEST.ACCEPT', 'an id alone')]: 'an accepting call with a part too few',
      [command('INGEST.ACCEPT.NOTES', 'a', 'p', '{}')]: 'an accepting call with a part too few',
      [command('INGEST.FIND', 'an id alone')]: 'a command has a part too few',
      '*0\r\n': 'a command without a name',
      '*\r\n': 'a length is no number',
      '*1\r\n:1\r\n': 'what came is no array of strings',
    };
    const { port } = await serve(anyQueue);
    for (const [text, why] of Object.entries(wrong)) {
      const wire = new Wire(port);
      wire.send(text + command('PING'));
      await wire.answers(`-ERR Protocol error: ${why}\r\n`);
      await wire.ended();
    }
  });

  it('hide why the dispatcher itself failed, which its log tells', async () => {
    const lines: string[] = [];
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    mock.method(log, 'warn', ({ reason }: { readonly reason: string }) => lines.push(reason));
    const submit = (): void => {
      throw new Error('a bug');
    };
    const { port } = await serve({ ...anyQueue, submit }, { log });
    const wire = new Wire(port);
    wire.send(accept('a') + command('PING'));
    await wire.answers('-ERR the dispatcher failed on this\r\n');
    await wire.ended();
    assert.deepEqual(lines, ['a bug']);
  });

  it('are not sent for events whose connection broke, which the log tells', async () => {
    const held: Submission[] = [];
    const lines: string[] = [];
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    mock.method(log, 'warn', ({ reason }: { readonly reason: string }) => lines.push(reason));
    const { port, server } = await serve({ ...anyQueue, submit: (one) => void held.push(one) }, { log });
    const wire = new Wire(port);
    wire.send(accept('a'));
    await eventually('it has come', () => held.length === 1);
    wire.socket.resetAndDestroy();
    await eventually('it is noticed', () => server.connections === 0);
    held[0]?.settle('accepted');
    assert.deepEqual(lines, ['read ECONNRESET']);
  });

  it('give the producer of each event to the queue, and its notes where it has some', async () => {
    const submissions: Submission[] = [];
    const { port } = await serve({
      ...anyQueue,
      submit: (one) => {
        submissions.push(one);
        one.settle('accepted');
      },
    });
    const wire = new Wire(port);
    const events = ['a', '1', 'traceparent\nx\n', 'q', '2', '', 'q', '3', 'id\ny\ntracestate\n\n'];
    wire.send(command('INGEST.ACCEPT.NOTES', 'a', 'b', 'c', ...events));
    await wire.answers('$3\r\n000\r\n');
    assert.deepEqual(
      submissions.map(({ id, producer, text, notes }) => [id, producer, text, notes]),
      [
        ['a', 'a', '1', { traceparent: 'x' }],
        ['b', 'q', '2', undefined],
        ['c', 'q', '3', { id: 'y', tracestate: '' }],
      ],
    );
  });

  it('leave no grant behind that was decided too late for its connection', async () => {
    let late = 0;
    const { port, released, server } = await serve(anyQueue, {
      authenticate: async () => {
        await eventually('the connection is gone', () => server.connections === 0);
        return { queue: anyQueue, release: () => void (late += 1) };
      },
    });
    const wire = new Wire(port);
    wire.send(command('PING') + command('AUTH', 'good'));
    await wire.answers('+PONG\r\n');
    wire.socket.destroy();
    await eventually('it is given back', () => late === 1);
    assert.equal(released(), 0);
  });
});

describe('what a peer may take of the server of a queue', () => {
  it('is five seconds for its first command, and thirty for any other', async () => {
    const clock = new VirtualClock();
    const { port, server } = await serve(new MemoryQueue(new MemoryQueueStore()), { clock });
    const [silent, slow, good] = [new Wire(port), new Wire(port), new Wire(port)];
    slow.send(command('PING') + '*2\r\n$20\r\nINGEST');
    good.send(command('PING'));
    await slow.answers('+PONG\r\n');
    await good.answers('+PONG\r\n');
    await eventually('all are there', () => server.connections === 3);
    await clock.advance(4_900);
    assert.equal(server.connections, 3);
    await clock.advance(400);
    await silent.ended();
    await clock.advance(20_000);
    good.send(command('PING'));
    await good.answers('+PONG\r\n+PONG\r\n');
    assert.equal(slow.closed, false);
    await clock.advance(5_000);
    await slow.ended();
    assert.equal(good.closed, false);
    assert.equal(server.connections, 1);
  });

  it('is sixteen look-ups at a time, whose answers it has not taken', async () => {
    const finds: (() => void)[] = [];
    const slow: Queue = {
      ...anyQueue,
      find: () => new Promise((resolve) => finds.push(() => resolve({ kind: 'unknown' }))),
    };
    const { port } = await serve(slow);
    const wire = new Wire(port);
    // Other commands make no room for look-ups.
    wire.send(command('PING').repeat(20));
    await wire.answers('+PONG\r\n'.repeat(20));
    wire.received = '';
    wire.send(Array.from({ length: 18 }, (_, at) => command('INGEST.FIND', String(at), 'p')).join('') + accept());
    await eventually('look-ups were asked', () => finds.length === 16);
    for (const find of finds.splice(0)) find();
    const tooMany = '-ERR too many look-ups at a time\r\n';
    await wire.answers('*-1\r\n'.repeat(16) + tooMany.repeat(2) + '$0\r\n\r\n');
    wire.received = '';
    wire.send(command('INGEST.FIND', 'again', 'p'));
    await eventually('it is asked', () => finds.length === 1);
    finds[0]?.();
    await wire.answers('*-1\r\n');
  });

  it('is 16,384 answers outstanding: the commands behind them wait, and none is lost', async () => {
    const held: Submission[] = [];
    const { port } = await serve({ ...anyQueue, submit: (submission) => void held.push(submission) });
    const wire = new Wire(port);
    wire.send(Array.from({ length: 20_000 }, (_, at) => accept(String(at))).join(''));
    await eventually('as many as there may be', () => held.length === 16_384);
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(held.length, 16_384);
    for (const submission of held.splice(0)) submission.settle('accepted');
    await eventually('the others', () => held.length === 20_000 - 16_384);
    for (const submission of held) submission.settle('shed');
    await wire.answers('$1\r\n0\r\n'.repeat(16_384) + '$1\r\n4\r\n'.repeat(20_000 - 16_384));
  });

  it('is no more than it reads: commands wait while it does not take its answers', async () => {
    let looked = 0;
    const body = Buffer.alloc(1 << 20, 'x');
    const { port } = await serve({
      ...anyQueue,
      find: () => {
        looked += 1;
        return Promise.resolve({ kind: 'found', event: { body, acceptedAtMs: 1, traceparent: undefined } });
      },
    });
    const wire = new Wire(port);
    wire.socket.pause();
    for (let at = 0; at < 200; at += 1) wire.send(command('INGEST.FIND', String(at), 'p'));
    await eventually('some were looked up', () => looked > 0);
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.ok(looked <= 40, String(looked));
  });

  it('is given back when its connection ends', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()), { receivedBytesMax: 1_000_000 });
    const unfinished = '*2\r\n$11\r\nINGEST.FIND\r\n$9999999\r\n';
    for (let turn = 0; turn < 3; turn += 1) {
      const wire = new Wire(port);
      wire.send(command('PING') + unfinished + 'x'.repeat(400_000));
      await wire.answers('+PONG\r\n');
      await eventually('all is written', () => wire.socket.writableLength === 0);
      for (let tick = 0; tick < 50; tick += 1) await new Promise((resolve) => setImmediate(resolve));
      assert.equal(wire.closed, false, `connection ${turn}`);
      wire.socket.destroy();
    }
  });

  it('closes the client’s connection that holds most of unfinished commands, and not the one that arrives', async () => {
    const store = new MemoryQueueStore();
    const { port } = await serve(new MemoryQueue(store), { receivedBytesMax: 1_900_000 });
    const good = new Wire(port);
    good.send(accept('first'));
    await good.answers('$1\r\n0\r\n');
    const unfinished = `*4\r\n$13\r\nINGEST.ACCEPT\r\n$1\r\na\r\n$1\r\np\r\n$9999999\r\n`;
    const holders = [700_000, 100_000, 100_000].map((bytes) => {
      const wire = new Wire(port);
      wire.send(unfinished + 'x'.repeat(bytes));
      return wire;
    });
    // Server and clients share one event loop: what was written is read in a few of its turns.
    await eventually('all is written', () => holders.every(({ socket }) => socket.writableLength === 0));
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(
      holders.some(({ closed }) => closed),
      false,
    );
    const [largest] = holders;
    const body = JSON.stringify({ id: 'large', type: 'a', pad: 'x'.repeat(600_000) });
    good.send(command('INGEST.ACCEPT', 'large', 'p', body));
    await good.answers('$1\r\n0\r\n$1\r\n0\r\n');
    await largest?.ended();
    assert.equal(holders.filter(({ closed }) => closed).length, 1);
    assert.equal(store.entries.at(-1)?.body, body);
  });
});

describe('a queue by the commands of a dispatcher', () => {
  it('tells each event its own outcome, and takes the loss of the connection for an unknown one', async () => {
    const store = new MemoryQueueStore();
    const { server, port } = await serve(new MemoryQueue(store));
    const connection = byteConnection({ ...SYSTEM, uri: `redis://127.0.0.1:${port}`, name: 'test', log: LOG });
    const queue = new StreamQueue({ ...SYSTEM, connection, enqueueTimeoutMs: 10_000, log: LOG, behind: 'dispatcher' });
    atEnd(() => queue.close());
    connection.open();
    await eventually('it takes events', () => queue.state().available);
    const id = 'x'.repeat(256);
    const turn = [new Recorded(id), new Recorded(id), new Recorded(id, 'q'), new Recorded(id, 'p', { n: 1 })];
    assert.deepEqual(await submitAll(queue, turn), ['accepted', 'duplicate', 'conflict', 'differing']);
    const noted = Object.assign(new Recorded('noted'), {
      notes: { id: '/a \u{1F600}', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
    });
    assert.deepEqual(await submitAll(queue, [new Recorded('plain'), noted]), ['accepted', 'accepted']);
    assert.deepEqual(
      store.entries.slice(1).map(({ notes }) => notes),
      [{}, noted.notes],
    );
    const traced = await queue.find('noted', 'p');
    assert.equal(traced.kind === 'found' ? traced.event.traceparent : traced.kind, noted.notes.traceparent);
    const found = await queue.find(id, 'p');
    assert.equal(found.kind === 'found' ? found.event.body.toString() : found.kind, turn[0]?.text);
    assert.deepEqual(await queue.find(id, 'q'), { kind: 'unknown' });
    await server.drain();
    assert.deepEqual(await submitAll(queue, [new Recorded('later')]), ['unavailable']);
  });
});
