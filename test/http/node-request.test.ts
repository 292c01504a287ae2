// A request that node:http read, between its side and its handler, without a connection below it.
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import { defectOf, NodeRequest, type NodeRequestOwner } from '../../lib/http/node/request.ts';
import type { Answer } from '../../lib/http/respond.ts';
import { MemorySocket } from '../support/memory-socket.ts';

const OK: Answer = { status: 200, contentType: 'text/plain', body: 'ok' };

interface Given {
  readonly method?: string;
  /** Names and values by turns. */
  readonly fields?: readonly string[];
  readonly version?: readonly [major: number, minor: number];
  readonly expectsContinue?: boolean;
}

/** A request, what is said of it, and the parser that goes on with its body. */
function requestOf({ method = 'POST', fields = [], version = [1, 1], expectsContinue = false }: Given = {}) {
  const events: string[] = [];
  const socket = new MemorySocket();
  const message = new IncomingMessage(socket.asTls);
  const rawHeaders = ['Host', 'g', ...fields];
  for (let at = 0; at < rawHeaders.length; at += 2)
    message.headers[rawHeaders[at]?.toLowerCase() ?? ''] = rawHeaders[at + 1];
  Object.assign(message, { method, url: '/events', rawHeaders });
  [message.httpVersionMajor, message.httpVersionMinor] = version;
  const response = new ServerResponse(message);
  response.assignSocket(socket.asTls);
  const owner: NodeRequestOwner = {
    answered: (_, close) => events.push(close ? 'answered, and closes' : 'answered'),
  };
  const request = new NodeRequest(owner, message, response, expectsContinue, 7);
  request.listener = {
    aborted: () => events.push('aborted'),
    fault: (fault) => events.push(fault) > 0,
  };
  const read = (bytesMax: number): void =>
    request.receive(bytesMax, {
      bodyGrows: (bytes) => events.push(`grows ${bytes}`),
      bodyRead: (body) => events.push(body === 'too large' ? body : `read ${body.toString()}`),
    });
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const come = async (...pieces: readonly string[]): Promise<void> => {
    for (const piece of pieces) {
      message.push(Buffer.from(piece));
      await turn();
    }
  };
  const end = async (): Promise<void> => {
    message.complete = true;
    message.push(null);
    await turn();
  };
  return { request, message, socket, events, read, come, end, turn };
}

describe('the head of a request that node:http read', () => {
  it('has what matters of its fields, and nothing where they are not there', () => {
    const bare = {
      method: 'POST',
      target: '/events',
      defect: undefined,
      fieldCount: 1,
      contentType: undefined,
      contentEncoding: undefined,
      contentLength: undefined,
      authorization: undefined,
      cloudEventFields: undefined,
      traceparent: undefined,
      tracestate: undefined,
      requestId: undefined,
    };
    assert.deepEqual(requestOf().request.head, bare);
    const fields = [
      ...['Content-Type', 'a/b', 'Content-Encoding', 'gzip', 'Content-Length', '7', 'Authorization', 'Bearer x'],
      ...['Accept', 'c/d', 'CE-Id', '1', 'ce-type', 't', 'Traceparent', 'p', 'Tracestate', 's', 'X-Request-Id', 'mine'],
    ];
    assert.deepEqual(requestOf({ fields }).request.head, {
      ...bare,
      fieldCount: 11,
      contentType: 'a/b',
      contentEncoding: 'gzip',
      contentLength: 7,
      authorization: 'Bearer x',
      cloudEventFields: [
        ['ce-id', '1'],
        ['ce-type', 't'],
      ],
      traceparent: 'p',
      tracestate: 's',
      requestId: 'mine',
    });
  });

  for (const [what, given, defect] of [
    ['another version', { version: [2, 0] }, 'version'],
    ['a transfer coding that is not chunked', { fields: ['Transfer-Encoding', 'gzip, chunked'] }, 'transferCoding'],
    ['chunks, in either case', { fields: ['Transfer-Encoding', 'Chunked'] }, undefined],
    ['two hosts', { fields: ['Host', 'g'] }, 'host'],
    ['two types', { fields: ['Content-Type', 'a/b', 'content-type', 'a/b'] }, 'repeatedField'],
    ['two credentials', { fields: ['Authorization', 'a', 'authorization', 'a'] }, 'repeatedField'],
    ['one of each', { fields: ['Authorization', 'a', 'Content-Type', 'a/b'] }, undefined],
  ] as const satisfies readonly (readonly [string, Given, string | undefined])[])
    it(`with ${what} has ${defect === undefined ? 'no defect' : `the defect ${defect}`}`, () => {
      assert.equal(requestOf(given).request.head.defect, defect);
    });

  it('has a Host that is one, with HTTP/1.1', () => {
    const defect = (host: string | undefined, minor = 1): string | undefined =>
      defectOf({
        headers: { host },
        rawHeaders: host === undefined ? [] : ['Host', host],
        httpVersionMajor: 1,
        httpVersionMinor: minor,
      } as IncomingMessage);
    for (const host of ['g', 'G-1.example:8443', '127.0.0.1:1', '[::1]', '[::1]:443', 'g:'])
      assert.equal(defect(host), undefined, host);
    for (const host of ['', ' ', 'a b', 'a/b', 'a:123456', 'a:b', '[::1', '[g]', 'a@b:1', undefined])
      assert.equal(defect(host), 'host', String(host));
    assert.equal(defect(undefined, 0), undefined);
  });
});

const LENGTH = (bytes: number): Given => ({ fields: ['Content-Length', String(bytes)] });
const CHUNKED: Given = { fields: ['Transfer-Encoding', 'chunked'] };

describe('the body of a request that node:http read', () => {
  it('is read once all of its pieces have come', async () => {
    const { events, read, come, end } = requestOf(LENGTH(6));
    read(6);
    await come('ab', 'c', 'def');
    assert.deepEqual(events, []);
    await end();
    assert.deepEqual(events, ['read abcdef']);
  });

  it('is empty where none comes', async () => {
    const { events, read, end } = requestOf();
    read(6);
    await end();
    assert.deepEqual(events, ['read ']);
  });

  it('says how it grows where it announced no length', async () => {
    const { events, read, come, end } = requestOf(CHUNKED);
    read(6);
    await come('ab', 'c', 'def');
    await end();
    assert.deepEqual(events, ['grows 2', 'grows 1', 'grows 3', 'read abcdef']);
  });

  it('is too large with its first byte over the limit, and nothing more is said of it', async () => {
    for (const given of [LENGTH(6), CHUNKED]) {
      const { events, read, come, end } = requestOf(given);
      read(5);
      await come('abc', 'def', 'ghi');
      await end();
      assert.deepEqual(
        events.filter((one) => !one.startsWith('grows')),
        ['too large'],
      );
    }
  });

  it('has room for its announced length, or for twice what has come, and for no more than may be read of it', async () => {
    const roomOf = async (given: Given, bytesMax: number): Promise<number> => {
      const { request, come, end } = requestOf(given);
      let room = 0;
      const bodyRead = (body: Buffer | 'too large'): void => {
        assert.equal(body.toString(), 'x'.repeat(110_000));
        room = (body as Buffer).buffer.byteLength;
      };
      request.receive(bytesMax, { bodyGrows: () => undefined, bodyRead });
      await come(...Array.from({ length: 11 }, () => 'x'.repeat(10_000)));
      await end();
      return room;
    };
    assert.equal(await roomOf(LENGTH(110_000), 1_000_000), 110_000);
    assert.equal(await roomOf(CHUNKED, 1_000_000), 220_000);
    assert.equal(await roomOf(CHUNKED, 120_000), 120_000);
  });

  it('has one taker', () => {
    const { read } = requestOf();
    read(6);
    assert.throws(() => read(6), /a body has one taker/);
  });

  it('that does not come any more is aborted, where it was asked for', async () => {
    const { request, message, events, read, come, turn } = requestOf(LENGTH(6));
    read(6);
    await come('abc');
    assert.equal(request.gone, false);
    message.destroy();
    await turn();
    assert.deepEqual(events, ['aborted']);
    assert.equal(request.gone, true);
  });

  it('is thrown away from the answer on', async () => {
    const { request, message, events, read, come, end } = requestOf(LENGTH(6));
    read(6);
    await come('abc');
    request.respond('id', OK, false);
    await come('def');
    await end();
    assert.deepEqual(events, ['answered']);
    assert.equal(message.readableLength, 0);
    const unread = requestOf(LENGTH(3));
    unread.request.respond('id', OK, false);
    await unread.come('abc');
    assert.equal(unread.message.readableLength, 0);
  });

  it('is awaited with 100 (Continue), which is said when it is asked for', () => {
    const { request, socket, events, read } = requestOf({ ...LENGTH(3), expectsContinue: true });
    assert.equal(socket.taken, '');
    read(3);
    assert.equal(socket.taken, 'HTTP/1.1 100 Continue\r\n\r\n');
    request.respond('id', OK, false);
    assert.deepEqual(events, ['answered']);
  });

  it('may exceed what it has announced, and all where it has announced nothing or waits', () => {
    const exceeds = (given: Given, bytes: number): boolean => requestOf(given).request.restMayExceed(bytes);
    assert.equal(exceeds(LENGTH(3), 2), true);
    assert.equal(exceeds(LENGTH(3), 3), false);
    assert.equal(exceeds({}, 0), false);
    assert.equal(exceeds(CHUNKED, 1_000), true);
    assert.equal(exceeds({ ...LENGTH(3), expectsContinue: true }, 3), true);
    const whole = requestOf({ ...CHUNKED, expectsContinue: true });
    whole.message.complete = true;
    assert.equal(whole.request.restMayExceed(0), false);
  });
});

describe('the answer to a request that node:http read', () => {
  it('is given once', () => {
    const { request, socket, events } = requestOf();
    assert.equal(request.answered, false);
    request.respond('id', OK, true);
    assert.equal(request.answered, true);
    request.respond('id', OK, true);
    assert.deepEqual(events, ['answered, and closes']);
    assert.match(socket.taken, /\r\nConnection: close\r\n[^]*\r\n\r\nok$/);
  });

  for (const [what, given, closes] of [
    ['', {}, false],
    [' to a client that was not told to go on', { expectsContinue: true }, true],
    [' to what asks for another protocol', { fields: ['Upgrade', 'h2c'] }, true],
    [' to a body in chunks of HTTP/1.0', { ...CHUNKED, version: [1, 0] }, true],
    [' to a body in chunks of HTTP/1.1', CHUNKED, false],
    [' to one without a body of HTTP/1.0', { version: [1, 0] }, false],
    [' to one that must not be handled', { fields: ['Host', 'h'] }, true],
  ] as const satisfies readonly (readonly [string, Given, boolean])[])
    it(`${closes ? 'closes' : 'leaves'} the connection${what}`, () => {
      const { request, events } = requestOf(given);
      request.respond('id', OK, false);
      assert.deepEqual(events, [closes ? 'answered, and closes' : 'answered']);
    });

  it("to one that is late is its handler's, and nobody's where there is no handler", () => {
    const { request, events } = requestOf();
    assert.equal(request.fault('timeout'), true);
    assert.deepEqual(events, ['timeout']);
    request.listener = undefined;
    assert.equal(request.fault('timeout'), false);
  });
});
