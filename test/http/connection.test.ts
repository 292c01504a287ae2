// One connection on a socket in memory, in virtual time: what it writes when, and how it ends.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Connection, type ConnectionHost } from '../../lib/http/connection.ts';
import { PIECE_CHARACTERS } from '../../lib/http/limits.ts';
import { HandOver } from '../../lib/http/node/hand-over.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { MemorySocket } from '../support/memory-socket.ts';
import { get, post, reading } from '../support/plain-wire.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LIMITS = { headersTimeoutMs: 1_000, requestTimeoutMs: 2_000, idleTimeoutMs: 5_000 };
/** Idle connections get this much beyond what they were told. */
const SLACK_MS = 1_000;
const GRACE_MS = 400;
const LAST = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';
const CERTIFICATE = {};
/** An answer that is longer than what leaves in one write. */
const LONG = 'x'.repeat(3 * PIECE_CHARACTERS);

interface Given {
  /** What the client does not take waits. */
  readonly takes?: boolean;
  readonly certificate?: unknown;
  readonly authorized?: boolean;
  readonly readsPlain?: boolean;
  /** Whether the producer may have another connection. */
  readonly known?: boolean;
  readonly onRequest?: (request: HttpRequest) => void;
}

/** A connection of a host that keeps what it is told. */
async function connected(given: Given = {}) {
  const clock = new VirtualClock();
  const socket = new MemorySocket(given.takes);
  socket.certificate = given.certificate;
  socket.authorized = given.authorized ?? false;
  const requests: HttpRequest[] = [];
  const waits: [holder: string, bytes: number][] = [];
  const told: string[] = [];
  const host: ConnectionHost<string> = {
    keepAlive: 'Keep-Alive: timeout=5\r\n',
    clock,
    handOver: new HandOver({ headerBytesMax: 16_384, idleTimeoutMs: LIMITS.idleTimeoutMs }, clock),
    readsPlain: given.readsPlain ?? true,
    wake: (woken) => {
      told.push('wake');
      clock.turnEnd(() => woken.flush());
    },
    request: (_, request) => {
      requests.push(request);
      given.onRequest?.(request);
    },
    mayReadOn: () => true,
    protocolFault: (fault) => {
      told.push(fault);
      return LAST;
    },
    known: () => given.known ?? true,
    waits: (_, holder, bytes) => void waits.push([holder, bytes]),
    closed: () => void told.push('closed'),
  };
  const connection = new Connection(socket.asTls, host, '10.0.0.1', 'context');
  await clock.settle();
  const send = async (text: string): Promise<void> => {
    socket.send(text);
    await clock.settle();
  };
  const answer = async (request = requests.at(-1), body = 'ok', close = false): Promise<void> => {
    request?.respond('id', { status: 200, contentType: 'text/plain', body }, close);
    await clock.settle();
  };
  const check = async (): Promise<void> => {
    connection.check(clock.ms(), LIMITS);
    await clock.settle();
  };
  const wakes = (): number => told.filter((what) => what === 'wake').length;
  return { clock, socket, connection, requests, waits, told, send, answer, check, wakes };
}

describe('a connection', () => {
  it('answers a request at the end of the turn, and stays open', async () => {
    const { socket, connection, requests, send, answer } = await connected();
    await send(get('/a'));
    assert.equal(requests[0]?.head.target, '/a');
    assert.equal(connection.idle, false);
    requests[0].respond('id', { status: 200, contentType: 'text/plain', body: 'é' }, false);
    assert.equal(socket.taken, '');
    await answer();
    assert.match(socket.taken, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nKeep-Alive: timeout=5\r\n\r\n\xc3\xa9$/);
    assert.equal(connection.idle, true);
    assert.deepEqual(socket.ends, []);
  });

  it('is certified where OpenSSL accepted the certificate that the client showed, and only there', async () => {
    const of = async (certificate: unknown, authorized: boolean): Promise<boolean> =>
      (await connected({ certificate, authorized })).connection.certified;
    assert.equal(await of(undefined, false), false);
    assert.equal(await of(CERTIFICATE, false), false);
    assert.equal(await of(CERTIFICATE, true), true);
  });

  it('is a stranger until it becomes known, once, where the producer may have another', async () => {
    const { connection } = await connected();
    assert.equal(connection.holder, '');
    assert.equal(connection.know('shop'), true);
    assert.equal(connection.holder, 'shop');
    assert.throws(() => connection.know('shop'), /a connection becomes known once/);
    const short = await connected({ known: false });
    assert.equal(short.connection.know('shop'), false);
    assert.equal(short.connection.holder, '');
    assert.equal(short.connection.know('shop'), false, 'it may ask again');
  });

  it('is woken once until it was flushed, and flushed only where it was woken', async () => {
    const { clock, connection, wakes } = await connected();
    connection.wake();
    connection.wake();
    assert.equal(wakes(), 1);
    await clock.settle();
    connection.wake();
    assert.equal(wakes(), 2);
    await clock.settle();
    assert.throws(() => connection.flush(), /is flushed once for each time that it was awake/);
  });

  it('takes no request once nothing is read any more', async () => {
    const { connection, requests, send } = await connected();
    await send(get('/a'));
    connection.stopReading(false);
    assert.equal(connection.state, 'closing');
    await send(get('/b'));
    assert.equal(requests.length, 1);
    assert.throws(() => connection.request(requests[0] as HttpRequest), /requests come while the connection is read/);
  });

  it('says nothing to its host of bytes that wait, as long as the client takes its answers', async () => {
    const { waits, send, answer } = await connected();
    await send(get('/a'));
    await answer();
    assert.deepEqual(waits, []);
  });

  it('tells its host when it is closed, and that nothing waits then', async () => {
    const { clock, connection, told, waits } = await connected();
    connection.know('shop');
    connection.destroy();
    await clock.settle();
    assert.equal(connection.state, 'closed');
    assert.deepEqual(told, ['closed']);
    assert.deepEqual(waits, [['shop', 0]]);
    connection.wake();
    await clock.settle();
    connection.stopReading(true);
    assert.equal(connection.state, 'closed');
  });

  it('aborts a body that was arriving when it is closed', async () => {
    const said: string[][] = [];
    const { clock, connection, send } = await connected({ onRequest: (request) => said.push(reading(request)) });
    await send(post('/a', 'ab', 4));
    connection.destroy();
    await clock.settle();
    assert.deepEqual(said, [['aborted']]);
  });
});

describe('an answer that the client does not take', () => {
  it('waits in pieces, and those behind it in their order, and the host is told how many bytes', async () => {
    const { clock, socket, connection, waits } = await connected({ takes: false });
    connection.know('shop');
    const done: string[] = [];
    connection.write(LONG, 'latin1', () => done.push('long'));
    assert.deepEqual(waits, [['shop', PIECE_CHARACTERS + LONG.length]]);
    assert.equal(connection.writable, false);
    assert.equal(connection.idle, false);
    connection.write('\xe9', 'latin1');
    assert.deepEqual(waits.at(-1), ['shop', PIECE_CHARACTERS + LONG.length + 1]);
    socket.takeOne();
    await clock.settle();
    assert.deepEqual(waits.at(-1), ['shop', PIECE_CHARACTERS + LONG.length + 1], 'the part is held to its end');
    assert.deepEqual(done, []);
    socket.takeAll();
    await clock.settle();
    assert.ok(socket.taken === `${LONG}\xe9`);
    assert.deepEqual(waits.at(-1), ['shop', 0]);
    assert.deepEqual(done, ['long']);
    assert.equal(connection.idle, true);
  });

  it('leaves in one write up to twice the length of a piece', async () => {
    for (const [length, left] of [
      [2 * PIECE_CHARACTERS, 2 * PIECE_CHARACTERS],
      [2 * PIECE_CHARACTERS + 1, PIECE_CHARACTERS],
    ] as const) {
      const { socket, connection } = await connected({ takes: false });
      connection.write('x'.repeat(length), 'latin1');
      assert.equal(socket.writableLength, left);
      socket.takeOne();
      assert.equal(socket.taken.length, left);
    }
  });

  it('has a say when more may be written: at once where the client takes it, else once it did', async () => {
    const done: string[] = [];
    const quick = await connected();
    quick.connection.write('short', 'latin1', () => done.push('quick'));
    assert.deepEqual(done, ['quick']);
    const slow = await connected({ takes: false });
    slow.connection.write('x'.repeat(PIECE_CHARACTERS), 'latin1', () => done.push('slow'));
    assert.deepEqual(done, ['quick']);
    const before = slow.wakes();
    slow.socket.takeAll();
    await slow.clock.settle();
    assert.deepEqual(done, ['quick', 'slow']);
    assert.equal(slow.wakes(), before + 1);
    slow.connection.write('x'.repeat(PIECE_CHARACTERS), 'latin1');
    await slow.clock.settle();
    assert.deepEqual(done, ['quick', 'slow']);
  });

  it('is busy as long as a byte of it is with the socket', async () => {
    const { socket, connection, clock } = await connected({ takes: false });
    connection.write('short', 'latin1');
    assert.equal(connection.idle, false);
    socket.takeOne();
    await clock.settle();
    assert.equal(connection.idle, true);
  });

  it('is not written where our side has ended', async () => {
    const { socket, connection, clock } = await connected();
    connection.end(true);
    connection.write('late', 'latin1');
    await clock.settle();
    assert.equal(socket.taken, '');
    assert.equal(socket.errored, null);
  });

  it('is forgotten when the connection is closed', async () => {
    const { connection, clock } = await connected({ takes: false });
    connection.write(LONG, 'latin1');
    connection.destroy();
    await clock.settle();
    assert.equal(connection.writable, true);
  });
});

describe('the end of a connection', () => {
  it('comes behind its last answer, also where that leaves in pieces', async () => {
    const { clock, socket, connection, send, answer } = await connected({ takes: false });
    await send(get('/a'));
    await answer(undefined, LONG, true);
    assert.equal(connection.state, 'closing');
    socket.takeOne();
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    socket.takeAll();
    await clock.settle();
    assert.ok(socket.taken.endsWith('\r\nConnection: close\r\n\r\n' + LONG));
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('leaves a client that may still be sending the time to read the last answer', async () => {
    const { clock, socket, connection } = await connected();
    connection.stopReading(true);
    connection.stopReading(false);
    connection.end(false);
    await clock.settle();
    assert.deepEqual(socket.ends, ['end']);
    await clock.advance(1_000);
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
    const done = await connected();
    done.connection.end(false);
    await done.clock.settle();
    assert.deepEqual(done.socket.ends, ['end', 'destroyed']);
  });

  it('reads on what still comes, and throws it away', async () => {
    const { clock, socket, connection, requests, send } = await connected();
    connection.pause();
    connection.end(true);
    await send(get('/a'));
    assert.equal(socket.readableLength, 0);
    socket.sendEnd();
    await clock.settle();
    assert.equal(requests.length, 0);
    assert.equal(socket.destroyed, true);
  });

  it('says last what it could not read', async () => {
    const { socket, told, send } = await connected();
    await send('no request\r\n\r\n');
    assert.equal(socket.taken, LAST);
    assert.deepEqual(socket.ends, ['end']);
    assert.deepEqual(
      told.filter((what) => what !== 'wake'),
      ['malformed'],
    );
  });

  it('comes when the client ends its side, once all is answered', async () => {
    const { clock, socket, send, answer } = await connected();
    await send(get('/a'));
    socket.sendEnd();
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    await answer();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('is sudden where it is aborted, unless our side has ended', async () => {
    const { socket, connection } = await connected();
    connection.abort();
    assert.equal(socket.destroyed, true);
    const ending = await connected({ takes: false });
    ending.connection.write('last', 'latin1');
    ending.connection.end(false);
    ending.connection.abort();
    assert.equal(ending.socket.destroyed, false);
  });
});

describe('a connection that gives way', () => {
  it('is destroyed where it is a stranger, is busy, or closes already', async () => {
    const stranger = await connected();
    stranger.connection.giveWay();
    assert.deepEqual(stranger.socket.ends, ['destroyed']);
    const busy = await connected();
    busy.connection.know('shop');
    await busy.send(get('/a'));
    busy.connection.giveWay();
    assert.deepEqual(busy.socket.ends, ['destroyed']);
    const closing = await connected();
    closing.connection.know('shop');
    closing.connection.end(true);
    await closing.clock.settle();
    closing.connection.giveWay();
    assert.deepEqual(closing.socket.ends, ['end', 'destroyed']);
  });

  it('is ended where it is known and nothing goes on there', async () => {
    const { clock, socket, connection } = await connected();
    connection.know('shop');
    connection.giveWay();
    assert.equal(connection.state, 'closing');
    await clock.settle();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });
});

describe('what takes too long on a connection', () => {
  it('is a head, which is answered, and the connection ends', async () => {
    const { clock, socket, told, send, check } = await connected();
    await send('GET / HTT');
    await clock.advance(LIMITS.headersTimeoutMs - 1);
    await check();
    assert.equal(socket.taken, '');
    await clock.advance(1);
    await check();
    assert.equal(socket.taken, LAST);
    assert.ok(told.includes('timeout'));
    assert.deepEqual(socket.ends, ['end']);
  });

  it("is a body, which is its handler's to answer, and the connection is closed where nobody does", async () => {
    const said: string[][] = [];
    const heard = await connected({ onRequest: (request) => said.push(reading(request)) });
    await heard.send(post('/a', 'a', 2));
    await heard.clock.advance(LIMITS.requestTimeoutMs);
    await heard.check();
    assert.deepEqual(said, [['timeout']]);
    assert.match(heard.socket.taken, /\r\n\r\ntimeout$/);
    const unheard = await connected();
    await unheard.send(post('/a', 'a', 2));
    await unheard.answer();
    await unheard.clock.advance(LIMITS.requestTimeoutMs);
    await unheard.check();
    assert.deepEqual(unheard.socket.ends, ['destroyed']);
  });

  it('is a next request, and the connection ends without a word', async () => {
    const { clock, socket, send, answer, check } = await connected({ certificate: CERTIFICATE, authorized: true });
    await send(get('/a'));
    await answer();
    await check();
    const { taken } = socket;
    await clock.advance(LIMITS.idleTimeoutMs + SLACK_MS - 1);
    await check();
    assert.deepEqual(socket.ends, []);
    await clock.advance(1);
    await check();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
    assert.equal(socket.taken, taken);
  });

  it('is the first request of a stranger sooner than that of a client with a good certificate', async () => {
    const stranger = await connected();
    const certified = await connected({ certificate: CERTIFICATE, authorized: true });
    for (const { clock, check } of [stranger, certified]) {
      await clock.advance(LIMITS.headersTimeoutMs);
      await check();
    }
    assert.deepEqual(stranger.socket.ends, ['end', 'destroyed']);
    assert.deepEqual(certified.socket.ends, []);
  });

  it('is an answer that the client does not take, and the connection is closed', async () => {
    const { clock, socket, send, answer, check } = await connected({ takes: false });
    await send(get('/a'));
    await answer(undefined, LONG);
    await check();
    await clock.advance(LIMITS.idleTimeoutMs + SLACK_MS - 1);
    socket.takeOne();
    await clock.settle();
    await check();
    await clock.advance(LIMITS.idleTimeoutMs + SLACK_MS - 1);
    await check();
    assert.deepEqual(socket.ends, [], 'it has taken some of it since');
    await clock.advance(1);
    await check();
    assert.deepEqual(socket.ends, ['destroyed']);
  });

  it('leaves a client a second to read the last answer, with either reader', async () => {
    for (const head of ['GET / HTT', 'PUT / HTT']) {
      const { clock, socket, told, send, check } = await connected();
      await send(head);
      await clock.advance(LIMITS.headersTimeoutMs);
      for (let looks = 0; looks < 4; looks += 1) {
        await check();
        assert.deepEqual(socket.ends, ['end'], head);
        await clock.advance(250);
      }
      assert.deepEqual(socket.ends, ['end', 'destroyed'], head);
      assert.deepEqual(
        told.filter((one) => one !== 'wake'),
        ['timeout', 'closed'],
      );
    }
  });
});

describe('a connection of a server that stops', () => {
  it('ends once nothing has gone on for a while', async () => {
    const { clock, socket, connection } = await connected();
    connection.endIdle(0, GRACE_MS);
    await clock.advance(GRACE_MS - 1);
    connection.endIdle(clock.ms(), GRACE_MS);
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    await clock.advance(1);
    connection.endIdle(clock.ms(), GRACE_MS);
    await clock.settle();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('does not end while an answer is owed, and is given the time anew after it', async () => {
    const { clock, socket, connection, send, answer } = await connected();
    connection.endIdle(0, GRACE_MS);
    await send(get('/a'));
    await clock.advance(GRACE_MS);
    connection.endIdle(clock.ms(), GRACE_MS);
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    await answer();
    connection.endIdle(clock.ms(), GRACE_MS);
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    await clock.advance(GRACE_MS);
    connection.endIdle(clock.ms(), GRACE_MS);
    await clock.settle();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('lets one that closes already have its time, and does not end it again', async () => {
    const { clock, socket, connection } = await connected();
    connection.end(true);
    await clock.settle();
    const listeners = socket.listenerCount('close');
    for (const atMs of [0, GRACE_MS, GRACE_MS + 50]) {
      connection.endIdle(atMs, GRACE_MS);
      await clock.settle();
    }
    assert.equal(socket.listenerCount('close'), listeners);
    assert.deepEqual(socket.ends, ['end']);
  });

  it('does not end where a request, or the beginning of one, has arrived in the same turn', async () => {
    for (const text of [get('/a'), post('/a', 'a', 2)]) {
      const { clock, socket, connection, requests } = await connected();
      connection.endIdle(0, GRACE_MS);
      await clock.advance(GRACE_MS);
      connection.endIdle(clock.ms(), GRACE_MS);
      socket.send(text);
      await clock.settle();
      assert.equal(requests.length, 1);
      assert.deepEqual(socket.ends, []);
    }
  });

  it('does not end where a request was answered in the same turn', async () => {
    const { clock, socket, connection } = await connected({
      onRequest: (request) => void request.respond('id', { status: 200, contentType: 'a/b', body: '' }, false),
    });
    connection.endIdle(0, GRACE_MS);
    await clock.advance(GRACE_MS);
    connection.wake();
    connection.endIdle(clock.ms(), GRACE_MS);
    socket.send(get('/a'));
    await clock.settle();
    assert.match(socket.taken, /^HTTP\/1\.1 200 OK/);
    assert.deepEqual(socket.ends, []);
  });
});

describe('a connection that is handed over', () => {
  const CHUNKED = 'POST /b HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n';

  it('goes to node:http with all that has come, once the answers before are written', async () => {
    const said: string[][] = [];
    const { connection, requests, send, answer } = await connected({
      onRequest: ({ head }) => said.push([head.target]),
    });
    await send(post('/a', '') + CHUNKED);
    assert.equal(connection.state, 'handing over');
    assert.deepEqual(said, [['/a']]);
    await answer(requests[0]);
    assert.equal(connection.state, 'node');
    assert.deepEqual(said, [['/a'], ['/b']]);
    assert.throws(() => connection.handOver(Buffer.alloc(0)), /no answer is owed when the connection is handed over/);
  });

  it('is node:http’s from the first byte where the own reader is not used', async () => {
    const { connection, requests, send, answer, socket } = await connected({ readsPlain: false });
    assert.equal(connection.state, 'node');
    await send(get('/a'));
    assert.equal(requests[0]?.head.target, '/a');
    await answer();
    assert.match(socket.taken, /^HTTP\/1\.1 200 OK\r\n/);
  });

  it('ends when the client has ended its side, before or after', async () => {
    for (const when of ['before', 'after']) {
      const { clock, connection, requests, socket, send, answer } = await connected();
      await send(post('/a', '') + CHUNKED);
      if (when === 'before') socket.sendEnd();
      await clock.settle();
      await answer(requests[0]);
      if (when === 'after') socket.sendEnd();
      await clock.settle();
      assert.equal(connection.state, 'node');
      assert.deepEqual(socket.ends, []);
      reading(requests[1] as HttpRequest);
      await clock.settle();
      assert.match(socket.taken, /\/b$/);
      assert.deepEqual(socket.ends, ['end', 'destroyed'], when);
    }
  });
});
