import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createServer, type TLSSocket } from 'node:tls';
import { Connections } from '../../lib/send/connections.ts';
import type { SenderIdentity } from '../../lib/send/identity.ts';
import { NO_ANSWER, type Try } from '../../lib/send/try.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';
import { listening } from './listening.ts';

const BODY = Buffer.from('{"id":"e-1","type":"t"}');
const ACCEPTED = '{"id":"e-1","status":"accepted"}';

/** A placeholder in an answer. The server replaces it with the X-Request-Id of the request. */
const REQUEST_ID = '<request id>';

let pki: Pki;
let producer: ClientCertificate;
let port: number;
/** The most unanswered requests per connection. */
let depth = 16;
let client: Connections;
let hasty: Connections;
const connections: TLSSocket[] = [];
let answer: (socket: TLSSocket, request: string) => unknown;

before(async () => {
  pki = await Pki.create();
  producer = await pki.producer('hostile');
  const server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (socket) => {
    connections.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => answer(socket, chunk.toString('latin1')));
  });
  port = await listening(server);
});
after(() => {
  for (const socket of connections) socket.destroy();
});

function makeClients(pipelining: number): void {
  depth = pipelining;
  client = clientFor();
  hasty = clientFor({}, 300);
}

function closeClients(): void {
  client.close();
  hasty.close();
}

function clientFor(differing: Partial<SenderIdentity> = {}, timeoutMs = WITHIN_MS): Connections {
  const url = new URL(`https://127.0.0.1:${port}`);
  const identity = { ...producer, ca: pki.authority.certificate, token: undefined, ...differing };
  const flow = { connections: 4, pipelining: depth, timeoutMs, isPatient: true };
  return new Connections({ ...SYSTEM, ...identity, ...flow, url });
}

async function tryWith(text: string, body = BODY): Promise<Try> {
  answer = (socket, request) => socket.write(text.replace(REQUEST_ID, requestIdIn(request)), 'latin1');
  return client.send(body);
}

const requestIdIn = (request: string): string => /^X-Request-Id: (.*)\r$/m.exec(request)?.[1] ?? '';

const response = (status: number, body: string, headers = 'Content-Type: application/json\r\n'): string =>
  `HTTP/1.1 ${status} Some Words\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

const problem = (members: object, status = 503, headers = ''): string =>
  response(
    status,
    JSON.stringify(members),
    `Content-Type: application/problem+json\r\nX-Request-Id: ${REQUEST_ID}\r\n${headers}`,
  );

function unanswered(result: Try): string {
  assert.equal(result.kind, 'retry', JSON.stringify(result));
  assert.equal(result.kind === 'retry' && result.code, NO_ANSWER);
  return result.kind === 'retry' ? String((result.answer as { error: unknown }).error) : '';
}

const chunks = (body: string): string =>
  `HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
const CHUNKED = `5;x=y\r\n${ACCEPTED.slice(0, 5)}\r\n1b\r\n${ACCEPTED.slice(5)}\r\n0\r\nX-Trailer: 1\r\n\r\n`;

const accepted = (contentType: string): string => response(202, ACCEPTED, contentType);

/** Answers that no gateway sends. */
const FOREIGN: readonly (readonly [what: string, ...texts: string[]])[] = [
  ['endless interim answers', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)],
  ['a 202 that names another id', response(202, '{"id":"e-2","status":"accepted"}')],
  ['a 202 that names no id', response(202, '{"status":"accepted"}')],
  ['a 202 that has another status', response(202, '{"id":"e-1","status":"received"}')],
  ['a 202 without a JSON object', response(202, 'accepted'), response(202, 'null')],
  ['a 202 of another content type', accepted('Content-Type: text/html\r\n'), accepted('')],
  ['another status', ...[200, 201].map((status) => response(status, ACCEPTED)), response(204, ''), response(304, '')],
  ['a redirect', response(307, '', 'Location: https://127.0.0.1:1/events\r\n')],
  [
    'an error without a usable code or retryable',
    ...[
      { code: 'INVALID_EVENT' },
      { retryable: true },
      { code: 7, retryable: true },
      { code: 'INVALID_EVENT', retryable: 'yes' },
      { code: 'RED\u001b[31m', retryable: false },
      { code: `A${'B'.repeat(64)}`, retryable: false },
      { code: '', retryable: false },
    ].map((members) => problem(members)),
  ],
  ['more than 64 KiB', response(202, `${ACCEPTED}${' '.repeat(65_536)}`)],
  ['endless header fields', `HTTP/1.1 202 Accepted\r\nX: ${'a'.repeat(200_000)}\r\n\r\n`],
  [
    'bad chunks',
    ...[
      'ZZ\r\n',
      '-1\r\n',
      '4\r\nabcdef\r\n',
      'fffffffff\r\n',
      `10001\r\n${'a'.repeat(100_000)}`,
      `0;${'a'.repeat(100_000)}`,
    ].map(chunks),
  ],
  ['a coding besides chunked', response(202, ACCEPTED, 'Transfer-Encoding: gzip, chunked\r\n')],
  ['chunks in HTTP/1.0', chunks(CHUNKED).replace('1.1', '1.0')],
  ['a length and chunks', chunks(CHUNKED).replace('\r\n', '\r\nContent-Length: 5\r\n')],
  ['two lengths', 'HTTP/1.1 202 Accepted\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
  ['another protocol', 'SSH-2.0-OpenSSH\r\n', 'HTTP/1.1 999999999 X\r\n\r\n'],
];

for (const pipelining of [1, 16])
  describe(`with ${pipelining} requests on a connection`, () => {
    before(() => makeClients(pipelining));
    after(closeClients);
    describeTries();
  });

function describeTries(): void {
  describe('a try against a broken or hostile server', () => {
    for (const [what, ...texts] of FOREIGN)
      it(`treats ${what} as no answer`, async () => {
        for (const text of texts) unanswered(await tryWith(text));
      });

    it('ends at its time limit if the server never answers, even if bytes keep arriving', async () => {
      answer = () => undefined;
      assert.match(unanswered(await hasty.send(BODY)), /no answer within 300 ms/);
      answer = (socket) => {
        socket.write('HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n');
        const timer = setInterval(() => socket.write(' '), 20);
        socket.once('close', () => clearInterval(timer));
      };
      assert.match(unanswered(await hasty.send(BODY)), /no answer within 300 ms/);
    });

    it('treats a page of a proxy as no answer, and keeps its status', async () => {
      const result = await tryWith(response(502, '<html>Bad Gateway</html>', 'Content-Type: text/html\r\n'));
      assert.match(unanswered(result), /status 502/);
      assert.equal(result.kind === 'retry' && result.status, 502);
      assert.equal(result.kind === 'retry' && (result.answer as { body: unknown }).body, '<html>Bad Gateway</html>');
    });

    for (const [what, text] of [
      [
        'after interim answers',
        `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n${response(202, ACCEPTED)}`,
      ],
      ['in chunks', chunks(CHUNKED)],
      ['of HTTP/1.0', response(202, ACCEPTED).replace('1.1', '1.0')],
      [
        'of HTTP/1.0 that keeps the connection',
        response(202, ACCEPTED, 'Content-Type: application/json\r\nConnection: Keep-Alive\r\n').replace('1.1', '1.0'),
      ],
    ] as const)
      it(`accepts an answer ${what}, in pieces of any length`, async () => {
        for (const bytes of [1, 7, text.length]) {
          answer = async (socket) => {
            for (let at = 0; at < text.length; at += bytes)
              await new Promise((resolve) => socket.write(text.slice(at, at + bytes), () => setImmediate(resolve)));
          };
          for (const _ of [1, 2]) assert.equal((await client.send(BODY)).kind, 'accepted');
        }
      });

    it('accepts an answer without a length when the server closes the connection', async () => {
      const head = 'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\r\n';
      answer = (socket) => socket.end(head + ACCEPTED);
      for (const _ of [1, 2]) assert.equal((await client.send(BODY)).kind, 'accepted');
      answer = (socket) => socket.end(head + ACCEPTED + ' '.repeat(65_536));
      unanswered(await client.send(BODY));
    });

    it('accepts an answer of 64 KiB', async () => {
      const fits = await tryWith(response(202, `${ACCEPTED}${' '.repeat(65_536 - ACCEPTED.length)}`));
      assert.equal(fits.kind, 'accepted');
    });

    it('treats an incomplete answer as no answer', async () => {
      answer = (socket) => socket.end(response(202, ACCEPTED).slice(0, -5));
      unanswered(await client.send(BODY));
    });

    it('does not use a connection for another event after a surplus answer', async () => {
      answer = (socket) =>
        socket.write(`${response(202, ACCEPTED)}${response(202, '{"id":"e-2","status":"accepted"}')}`, 'latin1');
      await hasty.send(BODY);
      answer = () => undefined;
      unanswered(await hasty.send(Buffer.from('{"id":"e-2","type":"t"}')));
    });
  });

  describe('the result of an answer', () => {
    it('is another try after Retry-After, in seconds or as a date, and at most five minutes', async () => {
      const afterMs = async (header: string): Promise<number> => {
        const result = await tryWith(problem({ code: 'QUEUE_UNAVAILABLE', retryable: true }, 503, header));
        assert.equal(result.kind === 'retry' && result.code, 'QUEUE_UNAVAILABLE');
        return result.kind === 'retry' ? result.afterMs : Number.NaN;
      };
      assert.equal(await afterMs(''), 0);
      assert.equal(await afterMs('Retry-After: 7\r\n'), 7_000);
      for (const long of ['301', '9999999', '999999', '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT'])
        assert.equal(await afterMs(`Retry-After: ${long}\r\n`), 300_000, long);
      const page = response(503, '<html>', 'Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n');
      assert.equal(((await tryWith(page)) as { afterMs: number }).afterMs, 300_000, 'of a proxy');
      const inAMinute = await afterMs(`Retry-After: ${new Date(Date.now() + 60_000).toUTCString()}\r\n`);
      assert.ok(inAMinute > 55_000 && inAMinute <= 60_000, String(inAMinute));
      for (const none of ['soon', '-5', 'Thu, 01 Jan 1970 00:00:00 GMT'])
        assert.equal(await afterMs(`Retry-After: ${none}\r\n`), 0, none);
    });

    it('is a refusal if the body says retryable: false', async () => {
      const members = { code: 'EVENT_ID_CONFLICT', retryable: false, detail: 'taken' };
      const { requestId, ...result } = (await tryWith(problem(members, 409))) as Try & { requestId: string };
      assert.match(requestId, /^[\w-]+-\d+$/);
      assert.deepEqual(result, {
        kind: 'refused',
        code: 'EVENT_ID_CONFLICT',
        status: 409,
        answer: members,
      });
    });

    it('depends on retryable in the body, for any status', async () => {
      for (const status of [400, 401, 408, 409, 429, 500, 503])
        for (const retryable of [true, false]) {
          const { kind } = await tryWith(problem({ code: 'SOME_CODE', retryable }, status));
          assert.equal(kind, retryable ? 'retry' : 'refused', `${status}, retryable: ${retryable}`);
        }
    });

    it('is an acceptance with duplicate, differs and the request id', async () => {
      for (const [duplicate, differs] of [
        [false, false],
        [true, false],
        [true, true],
      ] as const) {
        const body = JSON.stringify({ id: 'e-1', status: 'accepted', duplicate, differs });
        const headers = 'Content-Type: application/json; charset=utf-8\r\nX-Request-Id: r-2\r\n';
        assert.deepEqual(await tryWith(response(202, body, headers)), {
          kind: 'accepted',
          duplicate,
          differs,
          requestId: 'r-2',
        });
      }
    });
  });

  describe('a request', () => {
    it('has the path, the length, the content type and the token', async () => {
      let seen = '';
      answer = (socket, request) => {
        seen += request;
        socket.write(response(202, ACCEPTED));
      };
      const asking = clientFor({ token: 'abc.def' });
      assert.equal((await asking.send(BODY)).kind, 'accepted');
      asking.close();
      assert.match(seen, /^POST \/events HTTP\/1\.1\r\n/);
      assert.match(seen, /\r\nContent-Type: application\/json\r\n/);
      assert.match(seen, /\r\nAuthorization: Bearer abc\.def\r\n/);
      assert.match(seen, /\r\nContent-Length: 23\r\n/);
      assert.ok(seen.endsWith(BODY.toString()));
    });
  });
}
