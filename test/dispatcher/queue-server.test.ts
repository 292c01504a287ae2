// The server that gateways talk to: the order of answers, pieces of any size, and what costs a connection.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import type { Queue } from '../../lib/ingest/queue.ts';
import { createLog } from '../../lib/process/log.ts';
import { byteConnection } from '../../lib/redis/byte-client.ts';
import { QueueServer } from '../../lib/dispatcher/queue-server.ts';
import { StreamQueue } from '../../lib/redis/stream-queue.ts';
import { Recorded, submitAll } from '../contract/queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { atEnd, eventually } from '../support/scope.ts';

const LOG = createLog('test', 'error');
LOG.level = 'silent';

/** A server for this queue; AUTH with the password `good` gives `other`. */
async function serve(queue: Queue, other: Queue = queue): Promise<{ server: QueueServer; port: number }> {
  const grant = (of: Queue) => ({ queue: of, release: () => undefined });
  const server = new QueueServer({
    anonymous: grant(queue),
    authenticate: async (_user, password) => {
      await new Promise((resolve) => setImmediate(resolve));
      return password === 'good' ? grant(other) : 'invalid username-password pair';
    },
    tls: undefined,
    log: LOG,
  });
  const { port } = await server.listen('127.0.0.1', 0);
  atEnd(() => server.drain());
  return { server, port };
}

class Wire {
  readonly socket: Socket;
  received = '';
  closed = false;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.setEncoding('utf8').on('data', (piece: string) => (this.received += piece));
    this.socket.on('error', () => undefined).on('close', () => (this.closed = true));
    atEnd(() => void this.socket.destroy());
  }

  async answers(wanted: string): Promise<void> {
    await eventually('the answers', () => this.received.length >= wanted.length || this.closed);
    assert.equal(this.received, wanted);
  }
}

const command = (...parts: readonly string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`;

const accept = (...ids: readonly string[]): string =>
  command('INGEST.ACCEPT', ...ids, ...ids.flatMap((id) => ['p', JSON.stringify({ id, type: 'a' })]));

describe('the server of a queue', () => {
  it('gives the answers in the order of the commands, also where a later one is known earlier', async () => {
    const store = new MemoryQueueStore();
    const held: (() => void)[] = [];
    const memory = new MemoryQueue(store);
    const slow: Queue = {
      submit: (submission) =>
        submission.id === 'slow' ? void held.push(() => submission.settle('shed')) : memory.submit(submission),
      find: (id, producer) => memory.find(id, producer),
      state: () => memory.state(),
      states: () => memory.states(),
      close: () => memory.close(),
    };
    const { port } = await serve(slow);
    const wire = new Wire(port);
    wire.socket.write(accept('one', 'slow', 'one') + command('PING') + accept('two') + accept());
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
      wire.socket.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await wire.answers('$2\r\n00\r\n*-1\r\n');
  });

  it('closes connections that do not speak the protocol, and no others', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const good = new Wire(port);
    good.socket.write(command('PING'));
    const bad = [
      'GET / HTTP/1.1\r\n\r\n',
      '$-1\r\n',
      '*1\r\n*1\r\n$4\r\nPING\r\n',
      command('INGEST.ACCEPT', 'an id alone'),
      command('INGEST.FIND'),
      '*1\r\n:1\r\n',
    ].map((text) => {
      const wire = new Wire(port);
      wire.socket.write(text);
      return wire;
    });
    await eventually('they are closed', () => bad.every(({ closed }) => closed));
    good.socket.write(command('PING'));
    await good.answers('+PONG\r\n+PONG\r\n');
  });

  it('takes no command that is longer than the longest body needs', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.socket.write('*4\r\n$13\r\nINGEST.ACCEPT\r\n$1\r\na\r\n$1\r\np\r\n$99999999999\r\n');
    const piece = Buffer.alloc(4 << 20, 'x');
    let sent = 0;
    while (!wire.closed && sent < 200 << 20) {
      const full = !wire.socket.write(piece);
      sent += piece.length;
      if (full) await eventually('it goes on', () => wire.closed || !wire.socket.writableNeedDrain);
    }
    assert.ok(wire.closed && sent <= 128 << 20, `closed: ${wire.closed}, after ${sent} bytes`);
  });

  it('hands a connection over to what AUTH gives, holds back what comes behind it, and says no to a wrong password', async () => {
    const [mine, theirs] = [new MemoryQueueStore(), new MemoryQueueStore()];
    const { port } = await serve(new MemoryQueue(mine), new MemoryQueue(theirs));
    const wire = new Wire(port);
    wire.socket.write(
      command('AUTH', 'user', 'wrong') + accept('a') + command('AUTH', 'good') + accept('b') + accept('c'),
    );
    await wire.answers('-WRONGPASS invalid username-password pair\r\n$1\r\n0\r\n+OK\r\n$1\r\n0\r\n$1\r\n0\r\n');
    assert.deepEqual([mine.entries.length, theirs.entries.length], [1, 2]);
  });

  it('answers what has come before it ends', async () => {
    const held: (() => void)[] = [];
    const memory = new MemoryQueue(new MemoryQueueStore());
    const slow: Queue = {
      submit: (submission) => void held.push(() => memory.submit(submission)),
      find: (id, producer) => memory.find(id, producer),
      state: () => memory.state(),
      states: () => memory.states(),
      close: () => memory.close(),
    };
    const { server, port } = await serve(slow);
    const [busy, idle] = [new Wire(port), new Wire(port)];
    idle.socket.write(command('PING'));
    await idle.answers('+PONG\r\n');
    busy.socket.write(accept('last'));
    await eventually('it has come', () => held.length === 1);
    const drained = server.drain();
    await eventually('the idle one is closed', () => idle.closed);
    assert.equal(busy.closed, false);
    held[0]?.();
    await drained;
    await busy.answers('$1\r\n0\r\n');
  });

  it('says what it is to whoever takes it for a Redis server', async () => {
    const { port } = await serve(new MemoryQueue(new MemoryQueueStore()));
    const wire = new Wire(port);
    wire.socket.write(command('XADD', 'ingest', '*', 'body', '{}') + command('SELECT', '1'));
    await eventually('both answers', () => wire.received.split('\r\n').length === 3);
    assert.match(
      wire.received,
      /^-ERR a dispatcher does not know this command.*dispatcher:\/\/\r\n-ERR a dispatcher has no/,
    );
  });
});

describe('a queue by the commands of a dispatcher', () => {
  it('tells each event its own outcome, and takes the loss of the connection for an unknown one', async () => {
    const store = new MemoryQueueStore();
    const { server, port } = await serve(new MemoryQueue(store));
    const connection = byteConnection({ uri: `redis://127.0.0.1:${port}`, name: 'test', log: LOG });
    const queue = new StreamQueue({ connection, enqueueTimeoutMs: 10_000, log: LOG, behind: 'dispatcher' });
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
