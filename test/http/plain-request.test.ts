// A plain request between its reader and its handler: exactly one word about its body, and one answer.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HeadReader, type PlainHead } from '../../lib/http/plain/parser.ts';
import { PlainRequest, type PlainOwner } from '../../lib/http/plain/side.ts';
import type { RequestListener } from '../../lib/http/request.ts';
import type { Answer } from '../../lib/http/respond.ts';
import { SYSTEM } from '../support/system.ts';

const OK: Answer = { status: 200, contentType: 'text/plain', body: 'ok' };

const OWNER: PlainOwner = {
  clock: SYSTEM.clock,
  keepAlive: 'Keep-Alive: timeout=5\r\n',
  gone: false,
  isLatest: () => true,
  bodyDecided: () => undefined,
  answered: () => undefined,
};

function headOf(fields: string): PlainHead {
  const head = new HeadReader().read(`POST /events HTTP/1.1\r\nHost: g\r\n${fields}\r\n`);
  assert.ok(typeof head === 'object', JSON.stringify(head));
  return head;
}

/** A request whose body of `announced` bytes came with its head where `body` is given, and all that is said of it. */
function requestOf(announced: number, body?: string, more: Partial<PlainOwner> = {}) {
  const events: string[] = [];
  const owner: PlainOwner = {
    ...OWNER,
    bodyDecided: () => events.push('decided'),
    answered: () => events.push('answered'),
    ...more,
  };
  const head = headOf(announced === 0 ? '' : `Content-Length: ${announced}\r\n`);
  const request = new PlainRequest(owner, head, body === undefined ? undefined : Buffer.from(body), 7);
  const listener: RequestListener = {
    aborted: () => events.push('aborted'),
    fault: (fault) => {
      events.push(fault);
      return true;
    },
  };
  request.listener = listener;
  const read = (bytesMax: number): void =>
    request.body(bytesMax, {
      bodyGrows: () => events.push('grows'),
      bodyRead: (bytes) => events.push(bytes === 'too large' ? bytes : `read ${bytes.toString()}`),
    });
  return { request, events, read };
}

describe('a plain request', () => {
  it('says what its head says', () => {
    const { head, listener, startMs } = new PlainRequest(OWNER, headOf(''), undefined, 7);
    assert.deepEqual([head.target, listener, startMs], ['/events', undefined, 7]);
    assert.equal(requestOf(0, undefined, { isLatest: () => false }).request.latest, false);
    assert.equal(requestOf(0).request.latest, true);
  });

  it('is complete with the last byte of its body', () => {
    const { request, read } = requestOf(4);
    assert.deepEqual([request.complete, request.bytesMissing, request.takesBody], [false, 4, false]);
    assert.deepEqual([request.restMayExceed(3), request.restMayExceed(4)], [true, false]);
    read(4);
    request.take(Buffer.from('abc'));
    assert.deepEqual([request.complete, request.bytesMissing, request.takesBody], [false, 1, true]);
    request.take(Buffer.from('d'));
    assert.deepEqual([request.complete, request.bytesMissing], [true, 0]);
    assert.equal(requestOf(0).request.complete, true);
    assert.equal(requestOf(2, 'ab').request.complete, true);
  });
});

describe('the body of a plain request', () => {
  it('is given at once where all of it is there, also where there is none', () => {
    for (const [announced, body] of [
      [0, undefined],
      [3, 'abc'],
    ] as const) {
      const { request, events, read } = requestOf(announced, body);
      read(announced);
      assert.deepEqual(events, [`read ${body ?? ''}`]);
      assert.equal(request.takesBody, true);
    }
  });

  it('is read once its last part has come', () => {
    const { request, events, read } = requestOf(6);
    read(6);
    assert.deepEqual(events, ['decided']);
    for (const part of ['ab', 'c', 'def']) request.take(Buffer.from(part));
    assert.deepEqual(events, ['decided', 'read abcdef']);
  });

  it('keeps none of its parts once the next one has come, so that many short ones take no more than they are long', () => {
    const { request, events, read } = requestOf(6);
    read(6);
    const parts = ['ab', 'c', 'd'].map((part) => Buffer.from(part));
    for (const part of parts) request.take(part);
    for (const part of parts) part.fill('x');
    request.take(Buffer.from('ef'));
    assert.deepEqual(events, ['decided', 'read abcdef']);
  });

  it('is too large by its announced length, before a byte of it has come', () => {
    const { request, events, read } = requestOf(6);
    read(5);
    assert.deepEqual(events, ['decided', 'too large']);
    request.take(Buffer.from('abcdef'));
    assert.deepEqual(events, ['decided', 'too large']);
    const answered = requestOf(6);
    answered.read(5);
    answered.request.respond('id', OK, false);
    assert.deepEqual(answered.events, ['decided', 'too large', 'answered']);
  });

  it('that is answered before it has come is thrown away, and nothing more is said of it', () => {
    const { request, events } = requestOf(6);
    request.respond('id', OK, false);
    assert.deepEqual([request.takesBody, ...events], [true, 'decided', 'answered']);
    request.take(Buffer.from('abcdef'));
    request.cut();
    assert.deepEqual(events, ['decided', 'answered']);
    const whole = requestOf(3, 'abc');
    whole.request.respond('id', OK, false);
    assert.deepEqual([whole.request.takesBody, ...whole.events], [true, 'answered']);
  });

  it('is thrown away from the answer on, also where somebody has asked for it', () => {
    const { request, events, read } = requestOf(6);
    read(6);
    request.take(Buffer.from('abc'));
    request.respond('id', OK, false);
    request.take(Buffer.from('def'));
    request.cut();
    assert.deepEqual(events, ['decided', 'decided', 'answered']);
  });

  it('has one taker', () => {
    const { read } = requestOf(6);
    read(6);
    assert.throws(() => read(6), /one taker/);
  });

  it('that does not come any more is aborted, once, where it was asked for', () => {
    const { request, events, read } = requestOf(6);
    read(6);
    request.take(Buffer.from('abc'));
    assert.equal(request.gone, false);
    for (let times = 0; times < 2; times += 1) request.cut();
    assert.deepEqual(events, ['decided', 'aborted']);
    assert.equal(request.gone, true);
    const unasked = requestOf(6);
    unasked.request.cut();
    assert.deepEqual([unasked.request.gone, ...unasked.events], [true]);
  });

  it('that has been read is not aborted', () => {
    const { request, events, read } = requestOf(3);
    read(3);
    request.take(Buffer.from('abc'));
    request.cut();
    assert.deepEqual(events, ['decided', 'read abc']);
  });

  it('has no part before its use is decided, and none that is longer than the rest of it', () => {
    const { request, read } = requestOf(3);
    assert.throws(() => request.take(Buffer.from('abc')), /taken once its use is decided/);
    read(3);
    assert.throws(() => request.take(Buffer.from('abcd')), /no longer than the rest/);
    request.take(Buffer.from('abc'));
  });

  it("that is late is its handler's to answer for, and nobody's where there is no handler", () => {
    const { request, events } = requestOf(6);
    assert.equal(request.late(), true);
    assert.deepEqual(events, ['timeout']);
    assert.equal(new PlainRequest(OWNER, headOf(''), undefined, 0).late(), false);
  });
});

describe('the answer to a plain request', () => {
  it('is the whole response, and says how long the connection may idle, or that it ends', () => {
    for (const [close, line] of [
      [false, 'Keep-Alive: timeout=5\r\n'],
      [true, 'Connection: close\r\n'],
    ] as const) {
      const { request, events } = requestOf(0);
      assert.deepEqual([request.answer, request.respond('id', OK, close)], [undefined, true]);
      const text = request.answer ?? '';
      assert.ok(text.startsWith('HTTP/1.1 200 OK\r\n') && text.endsWith(`${line}\r\nok`), text);
      assert.deepEqual([request.closes, request.answerIsAscii, request.answerBody], [close, true, undefined]);
      assert.deepEqual(events, ['answered']);
    }
  });

  it('is given once', () => {
    const { request, events } = requestOf(0);
    request.respond('id', OK, false);
    const { answer } = request;
    assert.equal(request.respond('id', { ...OK, body: 'other' }, true), false);
    assert.deepEqual([request.answer, request.closes, events], [answer, false, ['answered']]);
  });

  it('is given to nobody who is gone', () => {
    const gone = requestOf(0, undefined, { gone: true });
    assert.equal(gone.request.gone, true);
    const cut = requestOf(3);
    cut.request.cut();
    for (const { request, events } of [gone, cut]) {
      assert.equal(request.respond('id', OK, false), false);
      assert.deepEqual([request.answer, ...events], [undefined]);
    }
  });

  it('tells whether it is ASCII, and its length in bytes', () => {
    const { request } = requestOf(0);
    request.respond('id', { ...OK, body: 'é' }, false);
    assert.equal(request.answerIsAscii, false);
    assert.match(request.answer ?? '', /\r\nContent-Length: 2\r\n/);
  });

  it('of bytes is a head, with the bytes beside it', () => {
    const { request } = requestOf(0);
    const body = [Buffer.from([0xff]), Buffer.from('ab')];
    request.respond('id', { ...OK, body }, false);
    assert.equal(request.answerBody, body);
    assert.match(request.answer ?? '', /\r\nContent-Length: 3\r\n[^]*\r\n\r\n$/);
    assert.equal(request.answerIsAscii, true);
  });
});
