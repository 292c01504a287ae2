import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HttpRequest } from '../../lib/http/request.ts';
import { answerOf, connected, get, post, reading } from '../support/connected.ts';

type Connected = Awaited<ReturnType<typeof connected>>;

const targets = ({ requests }: Connected): string[] => requests.map(({ head }) => head.target);
const bodies = ({ socket }: Connected): string[] => socket.taken.split(/HTTP\/1\.1 [^]*?\r\n\r\n/).slice(1);

describe('plain requests', () => {
  it('are answered in order', async () => {
    const at = await connected();
    await at.send(post('/a', '') + post('/b', '') + post('/c', ''));
    assert.deepEqual(targets(at), ['/a', '/b', '/c']);
    for (const n of [2, 1]) await at.answer(at.requests[n], `${n}`);
    assert.equal(at.socket.taken, '');
    await at.answer(at.requests[0], '0');
    assert.deepEqual(bodies(at), ['0', '1', '2']);
  });

  it('have one answer, and none once the client is gone', async () => {
    const at = await connected();
    await at.send(post('/a', '') + post('/b', ''));
    await at.answer(at.requests[0], 'first');
    await at.answer(at.requests[0], 'second');
    assert.deepEqual(bodies(at), ['first']);
    at.connection.destroy();
    await at.clock.settle();
    assert.equal(at.requests[1]?.gone, true);
    await at.answer(at.requests[1]);
    assert.deepEqual(bodies(at), ['first']);
  });

  it('stay unread while 256 answers are owed, or one look-up, and the connection is paused', async () => {
    for (const [request, most] of [
      [post('/a', ''), 256],
      [get('/a'), 1],
    ] as const) {
      const at = await connected();
      await at.send(request.repeat(most + 1));
      assert.equal(at.requests.length, most);
      assert.deepEqual(at.socket.readings, ['stopped']);
      await at.answer(at.requests[0]);
      assert.equal(at.requests.length, most + 1);
      assert.deepEqual(at.socket.readings, ['stopped', 'started']);
    }
  });

  it('stay unread while the answers before them are long or unread', async () => {
    const at = await connected({ takes: false, onRequest: (request, of) => answerOf(of, request) });
    await at.send(post('/a', ''));
    await at.send(post('/b', '').repeat(700));
    assert.ok(at.requests.length < 700, String(at.requests.length));
    for (let turn = 0; turn < 2_000 && at.requests.length < 701; turn += 1) {
      at.socket.takeOne();
      await at.clock.settle();
    }
    assert.equal(at.requests.length, 701);
  });

  it('are read 256 in a turn if they are answered as soon as they are read', async () => {
    const perTurn: number[] = [];
    const at = await connected({
      onRequest: (request, of) => {
        if (of.writable) perTurn[perTurn.length - 1] = (perTurn.at(-1) ?? 0) + 1;
        answerOf(of, request);
      },
    });
    perTurn.push(0);
    at.socket.send(post('/a', '').repeat(300));
    assert.deepEqual(perTurn, [256]);
    await at.clock.settle();
    assert.equal(bodies(at).length, 300);
  });

  it('may have an answer of bytes', async () => {
    const at = await connected();
    await at.send(get('/a'));
    const body = [Buffer.from([0xe9]), Buffer.from('b')];
    at.connection.respond(at.requests[0] as HttpRequest, 'id', { status: 200, contentType: 'a/b', body }, false);
    await at.clock.settle();
    assert.match(at.socket.taken, /\r\nContent-Length: 2\r\n[^]*\r\n\r\n\xe9b$/);
  });
});

describe('the body of a plain request', () => {
  it('is available to the handler if it arrived with the head, as an empty one does', async () => {
    const at = await connected();
    await at.send(post('/a', 'abc') + post('/b', '') + post('/c', 'ab', 4));
    assert.deepEqual(
      at.requests.map(({ body }) => body?.toString()),
      ['abc', '', undefined],
    );
  });

  it('is read part by part, and the next request after it', async () => {
    const said: string[][] = [];
    const at = await connected({ onRequest: (request, of) => said.push(reading(request, of)) });
    await at.send(post('/a', 'ab', 6));
    await at.send('cd');
    await at.send(`ef${post('/b', '')}`);
    assert.deepEqual(said, [['read abcdef'], ['read ']]);
    assert.deepEqual(bodies(at), ['/a', '/b']);
    assert.equal(at.connection.idle, true);
  });

  it('waits unread, with everything after it, until its handler reads it or answers', async () => {
    for (const decide of [reading, (request: HttpRequest, of: Connected['connection']) => answerOf(of, request)]) {
      const at = await connected();
      await at.send(post('/a', 'ab', 4));
      await at.send(`cd${post('/b', '')}`);
      assert.deepEqual(targets(at), ['/a']);
      assert.deepEqual(at.socket.readings, ['stopped']);
      const [first] = at.requests;
      assert.deepEqual([first?.restMayExceed(3), first?.restMayExceed(4)], [true, false]);
      decide(first as HttpRequest, at.connection);
      await at.clock.settle();
      assert.deepEqual(targets(at), ['/a', '/b']);
      assert.equal(first?.restMayExceed(0), false);
      assert.deepEqual(at.socket.readings, ['stopped', 'started']);
    }
  });

  it('is discarded if its announced length is over the limit', async () => {
    const said: string[][] = [];
    const at = await connected({
      onRequest: (request, of) => {
        said.push(reading(request, of, 3));
        if (said.length === 1) answerOf(of, request);
      },
    });
    await at.send(post('/a', 'ab', 4));
    await at.send(`cd${post('/b', 'abc')}`);
    assert.deepEqual(said, [['too large'], ['read abc']]);
    assert.deepEqual(bodies(at), ['/a', '/b']);
  });

  it('keeps the connection busy until it has arrived, even if nobody reads it', async () => {
    const at = await connected({ onRequest: (request, of) => answerOf(of, request) });
    await at.send(post('/a', 'ab', 4));
    assert.deepEqual([bodies(at), at.connection.idle], [['/a'], false]);
    await at.send('cd');
    assert.equal(at.connection.idle, true);
  });

  it('is aborted without an answer if the client ends its side in the middle', async () => {
    const said: string[][] = [];
    const at = await connected({ onRequest: (request, of) => said.push(reading(request, of)) });
    at.socket.send(post('/a', '') + post('/b', 'ab', 4));
    at.socket.sendEnd();
    await at.clock.settle();
    assert.deepEqual(said, [['read '], ['aborted']]);
    assert.deepEqual(bodies(at), ['/a']);
    assert.deepEqual(at.socket.ends, ['end', 'destroyed']);
  });

  it('is not aborted by the end of the client if all of it waits unread', async () => {
    const at = await connected();
    await at.send(post('/a', 'ab', 4));
    await at.send('cd');
    at.socket.sendEnd();
    await at.clock.settle();
    reading(at.requests[0] as HttpRequest, at.connection);
    await at.clock.settle();
    assert.deepEqual(bodies(at), ['/a']);
    assert.deepEqual(at.socket.ends, ['end', 'destroyed']);
  });

  it('does not keep its parts, so that many short ones take no more memory than their length', async () => {
    const said: string[][] = [];
    const at = await connected({ onRequest: (request, of) => said.push(reading(request, of)) });
    await at.send(post('/a', '', 6));
    const parts = ['ab', 'c', 'd'].map((part) => Buffer.from(part));
    for (const part of parts) {
      at.socket.push(part);
      await at.clock.settle();
    }
    for (const part of parts.slice(1)) part.fill('x');
    await at.send('ef');
    assert.deepEqual(said, [['read abcdef']]);
  });
});

describe('the last request of a connection', () => {
  it('is the latest one only if no byte follows it', async () => {
    for (const [text, latest] of [
      [get('/a'), true],
      [`${get('/a')}G`, false],
      [get('/a') + get('/b'), false],
      [post('/a', 'ab', 3), true],
      [post('/a', 'abcd', 3), false],
    ] as const) {
      const at = await connected();
      await at.send(text);
      assert.equal(at.connection.isLatest(at.requests[0] as HttpRequest), latest, text);
    }
  });

  it('closes the connection after its answer, and later ones are neither read nor answered', async () => {
    const at = await connected();
    await at.send(post('/a', '') + post('/b', '') + post('/c', ''));
    await at.answer(at.requests[1], 'b', true);
    assert.equal(at.socket.taken, '', 'the answer before it is owed');
    await at.answer(at.requests[2], 'c');
    await at.answer(at.requests[0], 'a');
    assert.deepEqual(bodies(at), ['a', 'b']);
    assert.deepEqual(at.socket.ends, ['end', 'destroyed']);
  });

  it('leaves the client time to read its answer if the body had not arrived', async () => {
    const at = await connected({ onRequest: (request, of) => answerOf(of, request, true) });
    await at.send(post('/a', 'ab', 4));
    assert.deepEqual(at.socket.ends, ['end']);
    await at.clock.advance(1_000);
    assert.deepEqual(at.socket.ends, ['end', 'destroyed']);
  });

  it('is malformed if the client ends its side in the middle of the head', async () => {
    const at = await connected();
    await at.send('GET /a HT');
    at.socket.sendEnd();
    await at.clock.settle();
    assert.deepEqual(at.told, ['malformed', 'closed']);
  });
});
