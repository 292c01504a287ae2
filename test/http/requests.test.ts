import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { RawConnection } from '../support/client.ts';
import { last, startServer, type Given } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { postText, repliesIn, requestText } from '../support/wire.ts';
import type { ServerLimits } from '../../lib/http/connection.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

const start = (given: Given = {}, more: Partial<ServerLimits> = {}) =>
  startServer(pki, more, { certificate, ...given });

/** Answers each request with its target, and each event with its body. */
const echoing: Given = {
  onRequest: (request) => {
    const { method, target, requestId = '' } = request.head;
    const respond = (body: string): void =>
      request.respond(requestId, { status: 200, contentType: 'text/plain', body }, false);
    if (method === 'POST' && request.body !== undefined) respond(request.body.toString('latin1'));
    else if (method !== 'POST' || request.head.contentLength === 0) respond(target);
  },
};

const answersOf = async (connection: RawConnection, count: number): Promise<readonly string[]> => {
  await eventually(
    `${count} answers, not ${connection.received}`,
    () => repliesIn(connection.received).length >= count || connection.closed,
  );
  return repliesIn(connection.received).map(({ body }) => body);
};

async function answered(connection: RawConnection, text: string): Promise<RawConnection> {
  connection.write(text);
  await connection.untilClosed();
  return connection;
}

describe('requests on one connection', () => {
  const plain = (id: string, body = id): string => postText(body, [`X-Request-Id: ${id}`]);

  it('that are not plain wait for the answers that are owed, and none is answered twice', async () => {
    const { open, requests, answer } = await start();
    const connection = await open();
    connection.write(plain('a') + plain('b') + plain('c') + requestText('GET /d'));
    await eventually('the events are there', () => requests.length === 3);
    answer(requests[1], 'second');
    answer(requests[0], 'first');
    answer(requests[0], 'again');
    assert.deepEqual(await answersOf(connection, 2), ['first', 'second']);
    answer(requests[2], 'third');
    await eventually('the fourth is there', () => requests.length === 4);
    answer(requests[3], 'fourth');
    assert.deepEqual(await answersOf(connection, 4), ['first', 'second', 'third', 'fourth']);
  });

  it('are no more than 64 until an answer is written, and one for a client without a certificate', async () => {
    const { open, requests, answer } = await start();
    const connection = await open();
    connection.write(plain('a').repeat(100));
    await eventually('as many are there', () => requests.length === 64);
    for (let at = 0; at < 100; at += 1) {
      await eventually('the next one is there', () => requests.length > at);
      answer(requests[at]);
    }
    assert.equal((await answersOf(connection, 100)).length, 100);

    for (const text of [plain('a'), requestText('GET /c')]) {
      const before = requests.length;
      const stranger = await open({ cert: undefined, key: undefined });
      stranger.write(text.repeat(10));
      await eventually('one is there', () => requests.length > before);
      answer(requests.at(-1));
      await stranger.untilClosed();
      assert.deepEqual(
        repliesIn(stranger.received).map(({ headers }) => headers['connection']),
        ['close'],
      );
      assert.equal(requests.length, before + 1);
    }
  });

  it('are dropped after an answer that closes, as one to a client that was not told to continue does', async () => {
    const answer = { status: 200, contentType: 'text/plain', body: 'ok' };
    const { open, requests, told } = await start({
      onRequest: (request) => request.respond('id', answer, request.head.method !== 'PUT'),
    });
    const expecting = requestText('PUT /c', ['Expect: 100-continue', 'Content-Length: 3']);
    for (const text of [plain('a'), requestText('GET /c'), expecting]) {
      const before = requests.length;
      const connection = await open();
      connection.write(text.repeat(5));
      await connection.untilClosed();
      assert.equal(repliesIn(connection.received).length, 1);
      assert.equal(requests.length, before + 1);
    }
    assert.doesNotMatch(told.join(), /bug/);
  });
});

it('a stop answers the request behind one that is being handled', async () => {
  let isDraining = false;
  const { open, requests, answer } = await start({ draining: () => isDraining });
  const client = await open();
  client.write(postText('first') + requestText('GET /behind'));
  await eventually('the first is there', () => requests.length === 1);
  isDraining = true;
  answer(requests[0]);
  await eventually('the one behind is there', () => requests.length === 2);
  answer(requests[1]);
  await client.untilClosed();
  assert.deepEqual(
    repliesIn(client.received).map(({ headers }) => headers['connection']),
    ['keep-alive', 'close'],
  );
});

describe('the time limit of a connection', () => {
  it('is that of its first request if it has no certificate, and none while a request is being handled', async () => {
    const clock = new VirtualClock();
    const { open, server, requests, answer } = await start(
      { clock },
      { headersTimeoutMs: 5_000, idleTimeoutMs: 9_000 },
    );
    const [stranger, served] = [await open({ cert: undefined, key: undefined }), await open()];
    served.write(requestText('GET /'));
    await eventually('its request is there', () => requests.length === 1);
    await clock.advance(4_800);
    assert.equal(server.connections.length, 2);
    await clock.advance(300);
    await stranger.untilClosed();
    await clock.advance(60_000);
    answer(requests[0]);
    await served.until(/ok$/);
  });

  it('is the idle time for a client that does not read its answers, or ten seconds if it is no longer trusted', async () => {
    const clock = new VirtualClock();
    const { open, connections, requests, answer, told } = await start({ clock }, { idleTimeoutMs: 60_000 });
    for (const untrusted of [0, 1]) {
      const client = await open();
      client.write(requestText('GET /unread'));
      await eventually('its request is there', () => requests.length === untrusted + 1);
      client.socket.pause();
      answer(requests[untrusted], 'x'.repeat(16_000_000));
    }
    await clock.settle();
    connections[1]?.retire();
    for (const [ms, closed] of [
      [9_900, 0],
      [200, 1],
      [50_700, 1],
      [400, 2],
    ] as const) {
      await clock.advance(ms);
      await eventually(`${closed} are closed`, () => told.length >= closed);
      assert.equal(told.length, closed);
    }
  });
});

describe('a request that is not whole', () => {
  it('goes to node:http after half a second', async () => {
    const clock = new VirtualClock();
    const { open, server, requests } = await start({ clock });
    const text = postText('body');
    for (const at of [40, text.length - 2]) {
      const before = requests.length;
      const connection = await open();
      connection.write(text.slice(0, at));
      await eventually('it is arriving', () => server.connections.at(-1)?.isBusy);
      await clock.advance(500);
      connection.write(text.slice(at));
      await eventually('it is there', () => requests.length > before);
      assert.equal(requests.at(-1)?.body, undefined);
    }
  });

  it('goes to node:http after 16 pieces', async () => {
    const { open, requests, told } = await start();
    const connection = await open();
    connection.socket.setNoDelay(true);
    const text = postText('body');
    for (let at = 0; at < 16; at += 1) {
      connection.write(text.slice(at, at + 1));
      await new Promise((resolve) => setImmediate(resolve));
    }
    connection.write(text.slice(16));
    await eventually('its body is read', () => told.includes('body'));
    assert.equal(requests[0]?.body, undefined);
  });

  it('is answered with 400 if the client ends its side in the head, and is aborted in the body', async () => {
    const { open, told } = await start();
    const inHead = await open();
    inHead.socket.end(postText('body').slice(0, 40));
    await inHead.untilClosed();
    assert.equal(inHead.received, last('malformed'));
    const inBody = await open();
    inBody.socket.end(postText('body').slice(0, -1));
    await inBody.untilClosed();
    assert.equal(inBody.received, '');
    await eventually('it is aborted', () => told.includes('aborted'));
  });
});

describe('a method that node:http does not know', () => {
  it('is that of its request, in any pieces, and the next request is read', async () => {
    const { open, requests } = await start(echoing);
    const text = requestText('FOO /a', ['X-Request-Id: foo', 'Content-Length: 4'], 'body') + requestText('GET /b');
    for (const cut of [0, 1, 2, 3, 4, 10]) {
      const connection = await open();
      connection.socket.setNoDelay(true);
      const before = requests.length;
      connection.write(text.slice(0, cut));
      await new Promise((resolve) => setTimeout(resolve, 10));
      connection.write(text.slice(cut));
      assert.deepEqual(await answersOf(connection, 2), ['/a', '/b'], `cut at ${cut}`);
      const { method, requestId } = requests[before]?.head ?? {};
      assert.deepEqual([method, requestId], ['FOO', 'foo']);
      connection.socket.destroy();
    }
  });

  it('is not well-formed if it is no token, too long or cut off', async () => {
    const { open } = await start(echoing);
    const cutOff = await open();
    cutOff.socket.end('FO');
    await cutOff.untilClosed();
    assert.equal(cutOff.received, last('malformed'));
    for (const method of ['F@O', 'F'.repeat(33)])
      assert.equal(
        (await answered(await open(), `${method} / HTTP/1.1\r\nHost: a\r\n\r\n`)).received,
        last('malformed'),
      );
  });
});

describe('a fault', () => {
  it('is answered after the answers that are owed, and closes, even if the client ends its side at once', async () => {
    const { requests, open, answer } = await start({}, { headerBytesMax: 1_000 });
    for (const [text, fault] of [
      ['no request\r\n\r\n', 'malformed'],
      [requestText('GET /', ['A Field: x']), 'malformed'],
      [requestText('GET /', [`Long: ${'x'.repeat(20_000)}`]), 'headersTooLarge'],
      ['CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', 'connect'],
    ] as const)
      for (const [first, ends] of [requestText('GET /first'), postText('first')].flatMap((one) => [
        [one, false] as const,
        [one, true] as const,
      ])) {
        const connection = await open();
        const before = requests.length;
        if (ends) connection.socket.end(first + text, 'latin1');
        else connection.write(first + text);
        await eventually('the first is there', () => requests.length > before);
        answer(requests[before]);
        await connection.untilClosed();
        assert.ok(connection.received.endsWith(`\r\n\r\nok${last(fault)}`), connection.received);
      }
  });

  it('of a head is answered with its request id, if that has arrived once', async () => {
    const { open } = await start(echoing, { headerBytesMax: 1_000 });
    const long = `Long: ${'x'.repeat(3_000)}`;
    const id = 'X-Request-ID:  s\xe9ven ';
    for (const [text, answer] of [
      [requestText('GET /', [id, long]), 'headersTooLarge s\xe9ven'],
      [requestText('GET /', [long, id]), 'headersTooLarge s\xe9ven'],
      [requestText('POST /events', [id, 'Content-Length: 1', 'Content-Length: 2']), 'malformed s\xe9ven'],
      [requestText('GET /', ['Content-Length: x', id]), 'malformed s\xe9ven'],
      [requestText('GET /', ['A Field: x']) + requestText('GET /', [id]), 'malformed'],
      [requestText('GET /', ['A Field: x', id, 'X-Request-Id: eight']), 'malformed'],
      [`GET / HTTP/1.1\r\nHost: a\r\nA Field: x\r\nX-Request-Id: sev`, 'malformed'],
    ] as const)
      for (const first of ['', requestText('GET /a', ['X-Request-Id: a']), postText('b', ['X-Request-Id: b'])]) {
        const { received } = await answered(await open(), first + text);
        assert.ok(received.endsWith(last(answer)), `${text.slice(0, 80)}: ${received}`);
      }
  });

  it('reaches a client that keeps sending, which has a second to close its side', async () => {
    const clock = new VirtualClock();
    const { open, told } = await start({ clock });
    const connection = await open({ allowHalfOpen: true } as object);
    connection.write('no request\r\n\r\n');
    const sending = setInterval(() => connection.socket.writable && connection.write('x'.repeat(10_000)), 1);
    atEnd(() => clearInterval(sending));
    await connection.untilClosed();
    assert.equal(connection.received, last('malformed'));
    await clock.advance(900);
    assert.equal(told.length, 0);
    await clock.advance(200);
    await eventually('it is closed', () => told.includes('closed'));
    clearInterval(sending);
  });

  it('in a handler or in our code closes one connection and is reported', async () => {
    const { open, told } = await start({
      onRequest: () => {
        throw new Error('broken');
      },
    });
    for (const text of [postText('a'), requestText('GET /a')]) {
      const connection = await open();
      connection.write(text);
      await connection.untilClosed();
      await eventually('it is reported', () => told.includes('bug: Error: broken'));
      told.length = 0;
    }
  });

  it('of time limits is answered in a head or a body, but not before a request', async () => {
    const { told, requests, open, answer } = await start(
      {},
      { headersTimeoutMs: 300, requestTimeoutMs: 300, idleTimeoutMs: 300 },
    );
    const [head, body, nothing, lines] = [await open(), await open(), await open(), await open()];
    head.write(`${requestText('GET /')}GET / HTT`);
    await eventually('it is there', () => requests.length === 1);
    answer(requests[0]);
    body.write(requestText('POST /', ['Content-Length: 9', 'Content-Type: text/plain']));
    lines.write('\r\n\r\n');
    for (const connection of [head, body, nothing, lines]) await connection.untilClosed();
    assert.ok(head.received.endsWith(`ok${last('timeout')}`), head.received);
    assert.match(body.received, /^HTTP\/1\.1 408 [^]*\r\n\r\ntimeout$/);
    assert.deepEqual([nothing.received, lines.received], ['', '']);
    assert.ok(told.includes('timeout'));
  });
});

const chunked = (chunks: number, bytes: number): string =>
  requestText(
    'POST /',
    ['Transfer-Encoding: chunked'],
    `${`${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`.repeat(chunks)}0\r\n\r\n`,
  );

it('a chunked body is read in any number of chunks of 16 bytes, and refused with over 1,024 shorter ones', async () => {
  const { open, told } = await start();
  const good = await open();
  good.write(chunked(3_000, 16) + chunked(1_024, 1));
  await eventually('it is read', () => told.some((what) => what === 'x'.repeat(48_000)));
  // The end of the second body arrives in the same slice as the chunk that is one too many.
  for (const [chunks, bytes] of [
    [1_100, 15],
    [1_025, 1],
  ] as const) {
    const bad = await open();
    bad.write(chunked(chunks, bytes));
    await bad.untilClosed();
    const answers = repliesIn(bad.received).map(({ body, headers }) => [body, headers['connection']]);
    assert.deepEqual(answers, [['tinyChunks', 'close']]);
  }
});
