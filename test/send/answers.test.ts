import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { createClient, NO_ANSWER, type SendEventsOptions, type SendResult } from '../../lib/send/client.ts';
import { unansweredTry } from '../../lib/send/outcome.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { accepted, http, problem, serve, writeInPieces, type AnyServer, type Seen } from './server.ts';

const EVENT = { id: 'e-1', type: 't' };
const ACCEPTED = '{"id":"e-1","status":"accepted"}';

let server: AnyServer;
before(async () => {
  server = await serve();
});

type Result = SendResult<typeof EVENT>;

/** Sends one event of a new client, with one try. */
async function tried(answer: AnyServer['answer'], options: Partial<SendEventsOptions> = {}): Promise<Result> {
  server.answer = answer;
  const client = createClient({ ...server.options, tries: 1, timeoutMs: GENEROUS_MS, ...options });
  const result = await client.send(EVENT);
  await client.close();
  return result;
}

const writes =
  (text: string | ((seen: Seen) => string)) =>
  (seen: Seen): unknown =>
    seen.socket.write(typeof text === 'string' ? text : text(seen), 'latin1');

function unanswered(result: Result): string {
  assert.ok(result.kind === 'refused' && result.retryable && result.code === NO_ANSWER, JSON.stringify(result));
  return String((result.answer as { error: unknown }).error);
}

const chunks = (body: string): string =>
  `HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
const CHUNKED = `5;x=y\r\n${ACCEPTED.slice(0, 5)}\r\n1b\r\n${ACCEPTED.slice(5)}\r\n0\r\nX-Trailer: 1\r\n\r\n`;

/** Answers that no gateway sends. */
const FOREIGN: Readonly<Record<string, readonly (string | ((seen: Seen) => string))[]>> = {
  'endless interim answers': ['HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)],
  'a 202 that names another id': [http(202, { id: 'e-2', status: 'accepted' })],
  'a 202 that names no id': [http(202, { status: 'accepted' })],
  'a 202 that has another status': [http(202, { id: 'e-1', status: 'received' })],
  'a 202 without a JSON object': [http(202, 'accepted'), http(202, 'null')],
  'a 202 of another content type': [http(202, ACCEPTED, 'Content-Type: text/html\r\n'), http(202, ACCEPTED, '')],
  'another status': [...[200, 201].map((status) => http(status, ACCEPTED)), http(204, ''), http(304, '')],
  'a redirect': [http(307, '', 'Location: https://127.0.0.1:1/events\r\n')],
  'an error without a usable code or retryable': [
    { code: 'INVALID_EVENT' },
    { retryable: true },
    { code: 7, retryable: true },
    { code: 'INVALID_EVENT', retryable: 'yes' },
    { code: 'RED\u001b[31m', retryable: false },
    { code: `A${'B'.repeat(64)}`, retryable: false },
    { code: '', retryable: false },
  ].map((members) => (seen: Seen) => problem(seen, members)),
  'an error without the X-Request-Id of its request': [http(400, { code: 'INVALID_EVENT', retryable: false })],
  'more than 64 KiB': [http(202, `${ACCEPTED}${' '.repeat(65_536)}`)],
  'endless header fields': [`HTTP/1.1 202 Accepted\r\nX: ${'a'.repeat(200_000)}\r\n\r\n`],
  'bad chunks': [
    'ZZ\r\n',
    '-1\r\n',
    '4\r\nabcdef\r\n',
    'fffffffff\r\n',
    `10001\r\n${'a'.repeat(100_000)}`,
    `0;${'a'.repeat(100_000)}`,
  ].map(chunks),
  'a coding besides chunked': [http(202, ACCEPTED, 'Transfer-Encoding: gzip, chunked\r\n')],
  'chunks in HTTP/1.0': [chunks(CHUNKED).replace('1.1', '1.0')],
  'a length and chunks': [chunks(CHUNKED).replace('\r\n', '\r\nContent-Length: 5\r\n')],
  'two lengths': ['HTTP/1.1 202 Accepted\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
  'another protocol': ['SSH-2.0-OpenSSH\r\n', 'HTTP/1.1 999999999 X\r\n\r\n'],
};

const WHOLE: Readonly<Record<string, string>> = {
  'after interim answers': `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n${accepted(EVENT)}`,
  'in chunks': chunks(CHUNKED),
  'of HTTP/1.0': accepted(EVENT).replace('1.1', '1.0'),
  'of HTTP/1.0 that keeps the connection': accepted(EVENT, 'Connection: Keep-Alive\r\n').replace('1.1', '1.0'),
  'of 64 KiB': http(202, `${ACCEPTED}${' '.repeat(65_536 - ACCEPTED.length)}`),
};

describe('a client of a broken or hostile server', () => {
  for (const [what, texts] of Object.entries(FOREIGN))
    it(`treats ${what} as no answer`, async () => {
      for (const text of texts) unanswered(await tried(writes(text)));
    });

  it('ends a try at its time limit if the server never answers, even if bytes keep arriving', async () => {
    const trickles = ({ socket }: Seen): void => {
      socket.write('HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n');
      const timer = setInterval(() => socket.write(' '), 20);
      socket.once('close', () => clearInterval(timer));
    };
    for (const answer of [() => undefined, trickles])
      assert.match(unanswered(await tried(answer, { timeoutMs: 300 })), /no answer within 300 ms/);
  });

  it('treats a page of a proxy as no answer, and keeps its status and text', async () => {
    const page = `<html>Bad Gateway</html>${'.'.repeat(2_000)}`;
    const result = await tried(writes(http(502, page, 'Content-Type: text/html\r\n')));
    assert.match(unanswered(result), /status 502/);
    assert.ok(result.kind === 'refused' && result.status === 502);
    assert.equal((result.answer as { body: unknown }).body, page.slice(0, 1_000));
  });

  for (const [what, text] of Object.entries(WHOLE))
    it(`accepts an answer ${what}, in pieces of any length`, async () => {
      for (const pipelining of [1, 16])
        for (const length of [1, 7, text.length].filter((one) => text.length / one < 1_000)) {
          server.answer = ({ socket }) => writeInPieces(socket, text, length);
          const client = createClient({ ...server.options, tries: 1, pipelining });
          for (const _ of [1, 2]) assert.equal((await client.send(EVENT)).kind, 'accepted');
          await client.close();
        }
    });

  it('accepts an answer without a length when the server closes the connection, and no incomplete one', async () => {
    const head = 'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\r\n';
    const ends = (text: string) => tried(({ socket }) => socket.end(text));
    assert.equal((await ends(head + ACCEPTED)).kind, 'accepted');
    unanswered(await ends(head + ACCEPTED + ' '.repeat(65_536)));
    unanswered(await ends(accepted(EVENT).slice(0, -5)));
  });

  it('accepts sixteen interim answers before each answer', async () => {
    server.answer = writes(`${'HTTP/1.1 103 Early\r\n\r\n'.repeat(16)}${accepted(EVENT)}`);
    const client = createClient({ ...server.options, tries: 1, connections: 1 });
    const before = server.connections;
    for (const _ of [1, 2]) assert.equal((await client.send(EVENT)).kind, 'accepted');
    assert.equal(server.connections, before + 1);
    await client.close();
  });

  it('does not use a connection for another event after a surplus answer', async () => {
    server.answer = writes(accepted(EVENT) + accepted({ id: 'e-2' }));
    const client = createClient({ ...server.options, tries: 1, timeoutMs: 300 });
    await client.send(EVENT);
    server.answer = () => undefined;
    assert.equal((await client.send({ id: 'e-2', type: 't' })).kind, 'refused');
    await client.close();
  });
});

it('a failure before an answer says what to do, by its code', () => {
  for (const [remedy, codes] of [
    [/no gateway at this address: .*check "url"/, 'ECONNREFUSED ENOTFOUND'],
    [/not trusted: .*"url" must name a host/, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [/not trusted: .*must be replaced/, 'CERT_HAS_EXPIRED CERT_NOT_YET_VALID CERT_REVOKED INVALID_PURPOSE'],
    [
      /not trusted: .*"ca" must contain/,
      'UNABLE_TO_GET_ISSUER_CERT SELF_SIGNED_CERT_IN_CHAIN CERT_UNTRUSTED INVALID_CA',
    ],
    [
      /refused the TLS handshake: .*check "cert"/,
      'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
    ],
    [/does not use TLS: .*check the port/, 'ERR_SSL_WRONG_VERSION_NUMBER ERR_SSL_PACKET_LENGTH_TOO_LONG'],
    [/^it failed$/, 'ECONNRESET ETIMEDOUT'],
  ] as const)
    for (const code of codes.split(' ')) {
      const found = unansweredTry(Object.assign(new Error('it failed'), { code }));
      assert.match(String((found as { answer: { error: unknown } }).answer.error), remedy, code);
    }
});

describe('the answer to an event', () => {
  it('delays the next try for Retry-After, in seconds or as a date, and for at most five minutes', async () => {
    const pauseMs = async (answer: AnyServer['answer']): Promise<number> => {
      const stop = new AbortController();
      let found = Number.NaN;
      const onRetry = (retry: { pauseMs: number }): void => {
        found = retry.pauseMs;
        stop.abort();
      };
      assert.equal((await tried(answer, { tries: 2, signal: stop.signal, onRetry })).kind, 'interrupted');
      return found;
    };
    const after = (header: string): Promise<number> =>
      pauseMs(writes((seen) => problem(seen, { code: 'QUEUE_UNAVAILABLE', retryable: true }, 503, header)));
    assert.equal(await after('Retry-After: 7\r\n'), 7_000);
    const date = new Date(Date.now() + 100_000).toUTCString();
    const both = `Retry-After: 1\r\nRetry-After: ${date}\r\nRetry-After: 30\r\n`;
    const latest = await after(both);
    assert.ok(latest > 90_000 && latest <= 100_000, String(latest));
    assert.equal(await after('Retry-After: 1\r\nRetry-After: 3000\r\n'), 300_000);
    for (const long of ['301', '9999999', '9'.repeat(400), 'Fri, 31 Dec 9999 23:59:59 GMT'])
      assert.equal(await after(`Retry-After: ${long}\r\n`), 300_000, long);
    const page = http(503, '<html>', 'Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n');
    assert.equal(await pauseMs(writes(page)), 300_000, 'of a proxy');
    const past = 'Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n';
    for (const none of ['', 'Retry-After: soon\r\n', 'Retry-After: -5\r\n', past])
      assert.ok((await after(none)) <= 100, none);
  });

  it('allows another try if the body says retryable: true, whatever its status', async () => {
    for (const status of [202, 400, 401, 408, 409, 429, 500, 503])
      for (const retryable of [true, false]) {
        const members = { id: 'e-1', status: 'shed', code: 'SOME_CODE', retryable, detail: 'taken' };
        const answers = (seen: Seen): string => (status === 202 ? http(202, members) : problem(seen, members, status));
        const result = await tried(writes(answers));
        assert.ok(result.kind === 'refused', JSON.stringify(result));
        const { code, answer } = result;
        assert.deepEqual([code, result.status, result.retryable, answer], ['SOME_CODE', status, retryable, members]);
        if (status !== 202) assert.match(result.requestId ?? '', /^[\w-]+-\d+$/);
      }
  });

  it('is an acceptance with duplicate, differs and the request id', async () => {
    for (const [duplicate, differs] of [
      [false, false],
      [true, false],
      [true, true],
    ]) {
      const headers = 'Content-Type: application/json; charset=utf-8\r\nX-Request-Id: r-2\r\n';
      const { event, tries, answerMs, durationMs, ...result } = (await tried(
        writes(http(202, { id: 'e-1', status: 'accepted', duplicate, differs }, headers)),
      )) as Result & { kind: 'accepted' };
      assert.deepEqual(result, { kind: 'accepted', duplicate, differs, requestId: 'r-2' });
      assert.ok(event === EVENT && tries === 1 && answerMs > 0 && durationMs >= answerMs);
    }
  });

  it('is asked for with the path, the length, the content type and the token', async () => {
    let seen: Seen | undefined;
    const answer = (one: Seen): unknown => (seen = one).socket.write(accepted(one));
    assert.equal((await tried(answer, { token: 'abc.def' })).kind, 'accepted');
    const { head = '', body } = seen ?? {};
    for (const line of ['Content-Type: application/json', 'Authorization: Bearer abc.def', 'Content-Length: 23'])
      assert.ok(/^POST \/events HTTP\/1\.1\r\n/.test(head) && head.includes(`\r\n${line}\r\n`), head);
    assert.equal(body, JSON.stringify(EVENT));
  });
});
