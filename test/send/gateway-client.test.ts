import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { GatewayClient, gatewayUrl } from '../../lib/send/gateway-client.ts';
import { NO_ANSWER, type Try } from '../../lib/send/try.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { Pki } from '../support/pki.ts';
import { SYSTEM } from '../support/system.ts';

const BODY = Buffer.from('{"id":"e-1","type":"t"}');
const ACCEPTED = '{"id":"e-1","status":"accepted"}';

/** A placeholder in an answer. The server replaces it with the X-Request-Id of the request. */
const REQUEST_ID = '<request id>';

let pki: Pki;
let server: Server;
/** The most unanswered requests per connection. */
let depth = 16;
let client: GatewayClient;
let hasty: GatewayClient;
let connections: TLSSocket[] = [];
let answer: (socket: TLSSocket, request: string) => void;

before(async () => {
  pki = await Pki.create();
  server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (socket) => {
    connections.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => answer(socket, chunk.toString('latin1')));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
after(() => {
  for (const socket of connections) socket.destroy();
  server.close();
});

async function makeClients(pipelining: number): Promise<void> {
  depth = pipelining;
  const { cert, key } = await pki.producer('hostile');
  const identity = { cert, key, ca: pki.authority.certificate, token: undefined };
  client = clientFor({ identity });
  hasty = clientFor({ identity, timeoutMs: 300 });
}

function closeClients(): void {
  client.close();
  hasty.close();
}

function clientFor(
  options: Pick<ConstructorParameters<typeof GatewayClient>[0], 'identity'> & { readonly timeoutMs?: number },
): GatewayClient {
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return new GatewayClient({ ...SYSTEM, url, connections: 4, pipelining: depth, timeoutMs: WITHIN_MS, ...options });
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

function every20Ms(socket: TLSSocket, text: string): void {
  const timer = setInterval(() => socket.write(text), 20);
  socket.once('close', () => clearInterval(timer));
}

for (const pipelining of [1, 16])
  describe(`with ${pipelining} requests on a connection`, () => {
    before(() => makeClients(pipelining));
    after(closeClients);
    describeTries();
  });

function describeTries(): void {
  describe('a try against a broken or hostile server', () => {
    it('treats a switch of protocols as no answer, and closes the connection', async () => {
      connections = [];
      assert.match(
        unanswered(await tryWith('HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')),
        /101/,
      );
      if (connections[0]?.destroyed === false) await once(connections[0], 'close');
      assert.equal(connections.length, 1);
    });

    it('ends at its time limit even if bytes keep arriving', async () => {
      answer = (socket) => {
        socket.write('HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n');
        every20Ms(socket, ' ');
      };
      assert.match(unanswered(await hasty.send(BODY)), /no answer within 300 ms/);
    });

    it('treats an interim answer as no answer, even if the answer follows', async () => {
      unanswered(await tryWith(`HTTP/1.1 103 Early Hints\r\n\r\n${response(202, ACCEPTED)}`));
    });

    it('ends at its time limit if the server never answers', async () => {
      answer = () => undefined;
      assert.match(unanswered(await hasty.send(BODY)), /no answer within 300 ms/);
    });

    for (const [what, body] of [
      ['names another id', '{"id":"e-2","status":"accepted"}'],
      ['names no id', '{"status":"accepted"}'],
      ['has another status', '{"id":"e-1","status":"received"}'],
      ['is not JSON', 'accepted'],
      ['is null', 'null'],
    ] as const) {
      it(`is not accepted by a 202 that ${what}`, async () => {
        unanswered(await tryWith(response(202, body)));
      });
    }

    it('is not accepted by a 202 of another content type', async () => {
      unanswered(await tryWith(response(202, ACCEPTED, 'Content-Type: text/html\r\n')));
      unanswered(await tryWith(response(202, ACCEPTED, '')));
    });

    it('is not accepted by another status', async () => {
      for (const status of [200, 201, 204, 304])
        unanswered(await tryWith(response(status, status === 204 || status === 304 ? '' : ACCEPTED)));
    });

    it('does not follow a redirect', async () => {
      connections = [];
      const text = unanswered(await tryWith(response(307, '', 'Location: https://127.0.0.1:1/events\r\n')));
      assert.match(text, /307/);
      assert.ok(connections.length <= 1);
    });

    it('treats a page of a proxy as no answer, and keeps its status', async () => {
      const result = await tryWith(response(502, '<html>Bad Gateway</html>', 'Content-Type: text/html\r\n'));
      assert.match(unanswered(result), /status 502/);
      assert.equal(result.kind === 'retry' && result.status, 502);
      assert.equal(result.kind === 'retry' && (result.answer as { body: unknown }).body, '<html>Bad Gateway</html>');
    });

    it('treats an error without a usable code or retryable as no answer', async () => {
      for (const members of [
        { code: 'INVALID_EVENT' },
        { retryable: true },
        { code: 7, retryable: true },
        { code: 'INVALID_EVENT', retryable: 'yes' },
        { code: 'RED\u001b[31m', retryable: false },
        { code: `A${'B'.repeat(64)}`, retryable: false },
        { code: '', retryable: false },
      ])
        unanswered(await tryWith(problem(members)));
    });

    it('reads no more than 64 KiB of an answer', async () => {
      assert.match(
        unanswered(await tryWith(response(202, `${ACCEPTED}${' '.repeat(65_536)}`))),
        /longer than 65536 bytes/,
      );
      const fits = await tryWith(response(202, `${ACCEPTED}${' '.repeat(65_536 - ACCEPTED.length)}`));
      assert.equal(fits.kind, 'accepted');
    });

    it('treats endless header fields, bad chunks and other nonsense as no answer', async () => {
      for (const text of [
        `HTTP/1.1 202 Accepted\r\nX: ${'a'.repeat(200_000)}\r\n\r\n`,
        'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n',
        'HTTP/1.1 202 Accepted\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
        'SSH-2.0-OpenSSH\r\n',
        'HTTP/1.1 999999999 X\r\n\r\n',
      ])
        unanswered(await tryWith(text));
    });

    it('treats an incomplete answer as no answer', async () => {
      answer = (socket) => socket.end(response(202, ACCEPTED).slice(0, -5));
      unanswered(await client.send(BODY));
    });

    it('accepts an answer that arrives before the body was sent, and closes that connection', async () => {
      connections = [];
      let answered = false;
      answer = (socket, request) => {
        if (answered) return;
        answered = true;
        socket.pause();
        socket.write(
          problem({ code: 'INVALID_EVENT', retryable: false }, 413).replace(REQUEST_ID, requestIdIn(request)),
        );
      };
      const { cert, key } = await pki.producer('early');
      const identity = { cert, key, ca: pki.authority.certificate, token: undefined };
      const patient = clientFor({ identity, timeoutMs: WITHIN_MS });
      const result = await patient.send(Buffer.alloc(32 * 1024 * 1024, 'a'));
      assert.equal(result.kind === 'refused' && result.status, 413);
      const [first] = connections;
      first?.resume();
      if (first?.destroyed === false) await once(first, 'close');
      patient.close();
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

    it('has no request id if the header is not usable', async () => {
      for (const header of ['', 'X-Request-Id: \u0080\r\n', `X-Request-Id: ${'a'.repeat(129)}\r\n`]) {
        const result = await tryWith(response(202, ACCEPTED, `Content-Type: application/json\r\n${header}`));
        assert.equal(result.kind === 'accepted' && result.requestId, undefined);
      }
    });

    it('is untrusted if the server is not trusted', async () => {
      const { cert, key } = await pki.producer('untrusting');
      const untrusting = clientFor({ identity: { cert, key, ca: undefined, token: undefined } });
      const result = await untrusting.send(BODY);
      untrusting.close();
      assert.equal(result.kind, 'untrusted');
      assert.match(
        result.kind === 'untrusted' ? result.reason : '',
        /\((UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN)\)$/,
      );
    });

    it('is another try if the connection is lost', async () => {
      answer = (socket) => socket.destroy();
      assert.match(unanswered(await client.send(BODY)), /\w/);
    });
  });

  describe('a request', () => {
    it('has the path, the length, the content type and the token', async () => {
      let seen = '';
      answer = (socket, request) => {
        seen += request;
        socket.write(response(202, ACCEPTED));
      };
      const { cert, key } = await pki.producer('plain');
      const asking = clientFor({ identity: { cert, key, ca: pki.authority.certificate, token: 'abc.def' } });
      assert.equal((await asking.send(BODY)).kind, 'accepted');
      asking.close();
      assert.match(seen, /^POST \/events HTTP\/1\.1\r\n/);
      assert.match(seen, /\r\nContent-Type: application\/json\r\n/);
      assert.match(seen, /\r\nAuthorization: Bearer abc\.def\r\n/);
      assert.match(seen, /\r\nContent-Length: 23\r\n/);
      assert.ok(seen.endsWith(BODY.toString()));
    });

    it('reuses its connection', async () => {
      connections = [];
      for (let at = 0; at < 3; at += 1) assert.equal((await tryWith(response(202, ACCEPTED))).kind, 'accepted');
      assert.ok(connections.length <= 1, String(connections.length));
    });
  });
}

describe('the URL of a gateway', () => {
  it('may have a host, a port and a path before /events', () => {
    for (const text of [
      'https://gateway',
      'https://gateway:8443/',
      'https://[::1]:8443/some/path',
      'http://127.0.0.1:80',
      'http://localhost',
      'http://[::1]',
    ])
      assert.equal(gatewayUrl(text).href, new URL(text).href);
    assert.equal(gatewayUrl(new URL('https://gateway')).href, 'https://gateway/');
  });

  for (const [text, why] of [
    ['gateway:8443', /expected an https URL/],
    ['nonsense', /expected an https URL/],
    ['http://gateway', /expected an https URL/],
    ['ftp://127.0.0.1', /expected an https URL/],
    ['http://localhost.example', /expected an https URL/],
    ['http://not-localhost', /expected an https URL/],
    ['https://gateway/events', /without \/events at its end/],
    ['https://gateway/some/events/', /without \/events at its end/],
    ['https://user:secret@gateway', /without a user/],
    ['https://user@gateway', /without a user/],
    ['https://gateway?x=1', /without a query/],
    ['https://gateway#x', /without a query/],
  ] as const) {
    it(`is refused: ${text}`, () => {
      assert.throws(
        () => gatewayUrl(text),
        (cause: unknown) => {
          assert.ok(cause instanceof TypeError);
          assert.match(cause.message, why);
          assert.doesNotMatch(cause.message, /secret/);
          return true;
        },
      );
    });
  }
});
