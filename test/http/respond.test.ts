import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, it } from 'node:test';
import { bytesOf, lastResponse, requestIdFrom, requestIdOf, respond, responseText } from '../../lib/http/respond.ts';
import { MemorySocket } from '../support/memory-socket.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const clock = new VirtualClock();
const OK = { status: 200, contentType: 'text/plain', body: 'ok' };

describe('a response as text', () => {
  it('has a head with the date of this second, and the body', () => {
    const answer = { ...OK, headers: ['Retry-After', '1', 'Allow', 'GET'] };
    const lines = (): readonly string[] =>
      responseText('mine', answer, 2, 'Keep-Alive: timeout=5\r\n', clock).split('\r\n');
    const expected = (date: string): readonly string[] => [
      'HTTP/1.1 200 OK',
      'Content-Type: text/plain',
      'Content-Length: 2',
      'X-Request-Id: mine',
      'Retry-After: 1',
      'Allow: GET',
      `Date: ${date}`,
      'Keep-Alive: timeout=5',
      '',
      'ok',
    ];
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:00 GMT'));
    clock.jump(999);
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:00 GMT'));
    clock.jump(1);
    assert.deepEqual(lines(), expected('Thu, 01 Jan 2026 00:00:01 GMT'));
  });

  it('has no reason for an unknown status, and no body if that is bytes', () => {
    const text = responseText('mine', { ...OK, status: 299, body: [Buffer.from('ab')] }, 2, '', clock);
    assert.match(text, /^HTTP\/1\.1 299 \r\n[^]*\r\nContent-Length: 2\r\n[^]*\r\n\r\n$/);
  });

  it('announces the end of the connection if it is the last', () => {
    const text = lastResponse('mine', { ...OK, body: 'é' }, clock);
    assert.match(text, /\r\nContent-Length: 2\r\n[^]*\r\nConnection: close\r\n\r\né$/);
  });

  it('counts a body in bytes', () => {
    assert.equal(bytesOf('aé'), 3);
    assert.equal(bytesOf([Buffer.from('ab'), Buffer.from('c')]), 3);
    assert.equal(bytesOf([]), 0);
  });
});

describe('the id of a request', () => {
  const isNew = (id: string): boolean => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id);

  it("is the caller's if it has up to 128 visible characters", () => {
    for (const id of ['a', '!~', 'x'.repeat(128)]) assert.equal(requestIdFrom(id, SYSTEM.random), id);
    for (const id of [undefined, '', 'a b', 'a\x7f', 'é', 'x'.repeat(129), 'a\n'])
      assert.ok(isNew(requestIdFrom(id, SYSTEM.random)), String(id));
  });

  it('is the same for a request that node:http read', () => {
    const request = new IncomingMessage(new Socket());
    assert.ok(isNew(requestIdOf(request, SYSTEM.random)));
    request.headers['x-request-id'] = 'mine';
    assert.equal(requestIdOf(request, SYSTEM.random), 'mine');
  });
});

describe("a response by node:http's writer", () => {
  function responding() {
    const socket = new MemorySocket();
    const response = new ServerResponse(new IncomingMessage(socket.asTls));
    response.assignSocket(socket.asTls);
    response.sendDate = false;
    response.shouldKeepAlive = true;
    return { socket, response };
  }
  const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n';

  it('has the common fields, its own fields, and the end of the connection', () => {
    for (const [close, line] of [
      [false, 'Connection: keep-alive\r\n'],
      [true, 'Connection: close\r\n'],
    ] as const) {
      const { socket, response } = responding();
      assert.equal(respond(response, 'mine', { ...OK, headers: ['Allow', 'GET'] }, close), true);
      assert.equal(
        socket.taken.replace(/Keep-Alive: [^]*?\r\n/, ''),
        `${HEAD}Content-Length: 2\r\nX-Request-Id: mine\r\nAllow: GET\r\n${line}\r\nok`,
      );
    }
  });

  it('has its body in UTF-8 or as the given bytes', () => {
    for (const [body, length, text] of [
      ['é', 2, '\xc3\xa9'],
      [[Buffer.from([0xff]), Buffer.from('b')], 2, '\xffb'],
    ] as const) {
      const { socket, response } = responding();
      respond(response, 'mine', { ...OK, body }, true);
      assert.ok(socket.taken.startsWith(`${HEAD}Content-Length: ${length}\r\n`), socket.taken);
      assert.ok(socket.taken.endsWith(`\r\n\r\n${text}`), socket.taken);
    }
  });

  it('is written once, and not to a client that is gone', () => {
    const { socket, response } = responding();
    respond(response, 'mine', OK, true);
    const { taken } = socket;
    assert.equal(respond(response, 'mine', OK, true), false);
    assert.equal(socket.taken, taken);
    const gone = responding();
    gone.response.destroy();
    assert.equal(respond(gone.response, 'mine', OK, true), false);
    assert.equal(gone.socket.taken, '');
  });
});
