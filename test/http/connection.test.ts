import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PIECE_CHARACTERS } from '../../lib/http/piece-writer.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { CERTIFICATE, connected, get, post, reading } from '../support/connected.ts';

const LONG = 'x'.repeat(3 * PIECE_CHARACTERS);

describe('a connection', () => {
  it('writes an answer at the end of the turn and stays open', async () => {
    const { socket, connection, requests, send, answer } = await connected();
    await send(get('/a'));
    assert.equal(requests[0]?.head.target, '/a');
    assert.equal(connection.idle, false);
    connection.respond(requests[0], 'id', { status: 200, contentType: 'text/plain', body: 'é' }, false);
    assert.equal(socket.taken, '');
    await answer();
    assert.match(socket.taken, /^HTTP\/1\.1 200 OK\r\n[^]*\r\nKeep-Alive: timeout=5\r\n\r\n\xc3\xa9$/);
    assert.equal(connection.idle, true);
    assert.deepEqual(socket.ends, []);
  });

  it('is certified only if OpenSSL accepted the certificate of its client', async () => {
    const of = async (certificate: unknown, authorized: boolean): Promise<boolean> =>
      (await connected({ certificate, authorized })).connection.certified;
    assert.equal(await of(undefined, false), false);
    assert.equal(await of(CERTIFICATE, false), false);
    assert.equal(await of(CERTIFICATE, true), true);
  });

  it('accepts no request after reading has stopped', async () => {
    const { connection, requests, send } = await connected();
    await send(get('/a'));
    connection.stopReading(false);
    assert.equal(connection.reading, false);
    await send(get('/b'));
    assert.equal(requests.length, 1);
    assert.throws(() => connection.request(requests[0] as HttpRequest), /requests arrive while the connection is read/);
  });

  it('reports no waiting bytes while the client reads its answers', async () => {
    const { waits, send, answer } = await connected();
    await send(get('/a'));
    await answer();
    assert.deepEqual(waits, []);
  });

  it('reports its end, and that no bytes wait', async () => {
    const { clock, connection, told, waits } = await connected();
    connection.destroy();
    await clock.settle();
    assert.equal(connection.reading, false);
    assert.deepEqual(told, ['closed']);
    assert.deepEqual(waits, [0]);
    connection.wake();
    await clock.settle();
    connection.stopReading(true);
    assert.deepEqual(told, ['closed']);
  });

  it('aborts a body that was arriving when it is closed', async () => {
    const said: string[][] = [];
    const { clock, connection, send } = await connected({
      onRequest: (request, of) => said.push(reading(request, of)),
    });
    await send(post('/a', 'ab', 4));
    connection.destroy();
    await clock.settle();
    assert.deepEqual(said, [['aborted']]);
  });
});

describe('an answer that the client does not read', () => {
  it('waits in pieces, with later answers in order, and its bytes are reported', async () => {
    const { clock, socket, connection, waits } = await connected({ takes: false });
    const done: string[] = [];
    connection.write(LONG, 'latin1', () => done.push('long'));
    assert.deepEqual(waits, [PIECE_CHARACTERS + LONG.length]);
    assert.equal(connection.writable, false);
    assert.equal(connection.idle, false);
    connection.write('\xe9', 'latin1');
    assert.deepEqual(waits.at(-1), PIECE_CHARACTERS + LONG.length + 1);
    socket.takeOne();
    await clock.settle();
    assert.deepEqual(waits.at(-1), PIECE_CHARACTERS + LONG.length + 1, 'the part is held to its end');
    assert.deepEqual(done, []);
    socket.takeAll();
    await clock.settle();
    assert.ok(socket.taken === `${LONG}\xe9`);
    assert.equal(waits.at(-1), 0);
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

  it('reports immediately, or after the client has read it, that more may be written', async () => {
    const done: string[] = [];
    const quick = await connected();
    quick.connection.write('short', 'latin1', () => done.push('quick'));
    assert.deepEqual(done, ['quick']);
    const slow = await connected({ takes: false });
    slow.connection.write('x'.repeat(PIECE_CHARACTERS), 'latin1', () => done.push('slow'));
    assert.deepEqual(done, ['quick']);
    slow.socket.takeAll();
    await slow.clock.settle();
    assert.deepEqual(done, ['quick', 'slow']);
    slow.connection.write('x'.repeat(PIECE_CHARACTERS), 'latin1');
    await slow.clock.settle();
    assert.deepEqual(done, ['quick', 'slow']);
  });

  it('keeps its connection busy until its last byte', async () => {
    const { socket, connection, clock } = await connected({ takes: false });
    connection.write('short', 'latin1');
    assert.equal(connection.idle, false);
    socket.takeOne();
    await clock.settle();
    assert.equal(connection.idle, true);
  });

  it('is not written after our side has ended', async () => {
    const { socket, connection, clock } = await connected();
    connection.end(true);
    connection.write('late', 'latin1');
    await clock.settle();
    assert.equal(socket.taken, '');
    assert.equal(socket.errored, null);
  });

  it('is dropped when the connection closes', async () => {
    const { connection, clock } = await connected({ takes: false });
    connection.write(LONG, 'latin1');
    connection.destroy();
    await clock.settle();
    assert.equal(connection.writable, true);
  });
});

describe('a connection that is handed over', () => {
  const CHUNKED = 'POST /b HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n';

  it('goes to node:http with all waiting bytes, after the answers before it', async () => {
    const said: string[][] = [];
    const { connection, requests, send, answer } = await connected({
      onRequest: ({ head }) => said.push([head.target]),
    });
    await send(post('/a', '') + CHUNKED);
    assert.equal(connection.reading, false);
    assert.deepEqual(said, [['/a']]);
    await answer(requests[0]);
    assert.equal(connection.reading, true);
    assert.deepEqual(said, [['/a'], ['/b']]);
  });

  it('goes to node:http with its first byte if our own reader is off', async () => {
    const { requests, send, answer, socket } = await connected({ readsPlain: false });
    await send(get('/a'));
    assert.equal(requests[0]?.head.target, '/a');
    await answer();
    assert.match(socket.taken, /^HTTP\/1\.1 200 OK\r\n/);
  });

  it('ends if the client ends its side, before or after', async () => {
    for (const when of ['before', 'after']) {
      const { clock, connection, requests, socket, send, answer } = await connected();
      await send(post('/a', '') + CHUNKED);
      if (when === 'before') socket.sendEnd();
      await clock.settle();
      await answer(requests[0]);
      if (when === 'after') socket.sendEnd();
      await clock.settle();
      assert.equal(connection.reading, true);
      assert.deepEqual(socket.ends, []);
      reading(requests[1] as HttpRequest, connection);
      await clock.settle();
      assert.match(socket.taken, /\/b$/);
      assert.deepEqual(socket.ends, ['end', 'destroyed'], when);
    }
  });
});
