import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PIECE_CHARACTERS } from '../../lib/http/piece-writer.ts';
import { CERTIFICATE, connected, get, LAST, LIMITS, post, reading } from '../support/connected.ts';

/** The server closes an idle connection this much later than it announces. */
const SLACK_MS = 1_000;
const GRACE_MS = 400;
const LONG = 'x'.repeat(3 * PIECE_CHARACTERS);

describe('the end of a connection', () => {
  it('follows its last answer, even one in pieces', async () => {
    const { clock, socket, connection, send, answer } = await connected({ takes: false });
    await send(get('/a'));
    await answer(undefined, LONG, true);
    assert.equal(connection.reading, false);
    socket.takeOne();
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    socket.takeAll();
    await clock.settle();
    assert.ok(socket.taken.endsWith('\r\nConnection: close\r\n\r\n' + LONG));
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('leaves a client that still sends the time to read the last answer', async () => {
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

  it('discards further input', async () => {
    const { clock, socket, connection, host, requests, send } = await connected();
    connection.pause();
    connection.end(true);
    for (const target of ['/a', '/b']) {
      await send(get(target));
      assert.equal(socket.readableLength, 0);
    }
    socket.sendEnd();
    await clock.settle();
    assert.equal(host.turn.awake.length, 0);
    assert.equal(requests.length, 0);
    assert.equal(socket.destroyed, true);
  });

  it('follows the answer to an unreadable request', async () => {
    const { socket, told, send } = await connected();
    await send('no request\r\n\r\n');
    assert.equal(socket.taken, LAST);
    assert.deepEqual(socket.ends, ['end']);
    assert.deepEqual(told, ['malformed']);
  });

  it('follows the end of the client, after all answers', async () => {
    const { clock, socket, send, answer } = await connected();
    await send(get('/a'));
    socket.sendEnd();
    await clock.settle();
    assert.deepEqual(socket.ends, []);
    await answer();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });

  it('is immediate if it is aborted before our side has ended', async () => {
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
  it('is destroyed if it is a stranger, busy or closing', async () => {
    const stranger = await connected();
    stranger.connection.giveWay();
    assert.deepEqual(stranger.socket.ends, ['destroyed']);
    const busy = await connected({ producer: 'shop' });
    await busy.send(get('/a'));
    busy.connection.giveWay();
    assert.deepEqual(busy.socket.ends, ['destroyed']);
    const closing = await connected({ producer: 'shop' });
    closing.connection.end(true);
    await closing.clock.settle();
    closing.connection.giveWay();
    assert.deepEqual(closing.socket.ends, ['end', 'destroyed']);
  });

  it('ends normally if it is known and idle', async () => {
    const { clock, socket, connection } = await connected({ producer: 'shop' });
    connection.giveWay();
    assert.equal(connection.reading, false);
    await clock.settle();
    assert.deepEqual(socket.ends, ['end', 'destroyed']);
  });
});

describe('a connection that exceeds a time limit', () => {
  it('answers a late head and ends', async () => {
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

  it('has its handler answer a late body, or closes without a handler', async () => {
    const said: string[][] = [];
    const heard = await connected({ onRequest: (request, connection) => said.push(reading(request, connection)) });
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

  it('ends without an answer if no next request arrives', async () => {
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

  it('gives a stranger less time for its first request than a client with a good certificate', async () => {
    const stranger = await connected();
    const certified = await connected({ certificate: CERTIFICATE, authorized: true });
    for (const { clock, check } of [stranger, certified]) {
      await clock.advance(LIMITS.headersTimeoutMs);
      await check();
    }
    assert.deepEqual(stranger.socket.ends, ['end', 'destroyed']);
    assert.deepEqual(certified.socket.ends, []);
  });

  it('closes if the client does not read its answer', async () => {
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
      assert.deepEqual(told, ['timeout', 'closed']);
    }
  });
});

describe('a connection of a server that stops', () => {
  it('ends after it was idle for a while', async () => {
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

  it('does not end before an answer that is owed, and may be idle for a while after it', async () => {
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

  it('does not end a second time if it is closing', async () => {
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

  it('does not end if a request or its beginning has arrived in the same turn', async () => {
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

  it('does not end if a request was answered in the same turn', async () => {
    const { clock, socket, connection } = await connected({
      onRequest: (request, of) => of.respond(request, 'id', { status: 200, contentType: 'a/b', body: '' }, false),
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
