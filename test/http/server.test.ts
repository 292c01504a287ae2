// The server in this process: which connections it ends, when, and what it says of them.
import assert from 'node:assert/strict';
import { connect as connectTcp } from 'node:net';
import { connect } from 'node:tls';
import { before, describe, it } from 'node:test';
import type { HttpRequest } from '../../lib/http/request.ts';
import { HttpsServer, type ServerLimits } from '../../lib/http/server.ts';
import { RawConnection } from '../support/client.ts';
import { Pki } from '../support/pki.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { repliesIn, requestText } from '../support/wire.ts';
import { SYSTEM } from '../support/system.ts';

const LIMITS: ServerLimits = {
  handshakeTimeoutMs: 20_000,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 20_000,
  idleTimeoutMs: 20_000,
  headerBytesMax: 16_384,
  connectionsMax: 100,
  connectionsPerAddressMax: 0,
  unreadAnswers: { holderMax: 1 << 20, totalMax: 1 << 20 },
  httpReader: 'own',
  proxyFrom: undefined,
};

const last = (fault: string): string =>
  `HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: ${fault.length}\r\n\r\n${fault}`;

describe('the server', () => {
  let pki: Pki;
  before(async () => {
    pki = await Pki.create();
  });

  /** Keeps every request until it is answered by the test, and what ended early. */
  async function start(more: Partial<ServerLimits> = {}) {
    const requests: HttpRequest[] = [];
    const told: string[] = [];
    const server = new HttpsServer<undefined>(
      { cert: pki.server.certificate, key: pki.server.key },
      { ...LIMITS, ...more },
      {
        context: () => undefined,
        request: (_, request) => {
          requests.push(request);
          const fault = (what: string): boolean => {
            told.push(what);
            request.respond('id', { status: 408, contentType: 'text/plain', body: what }, true);
            return true;
          };
          request.listener = { aborted: () => told.push('aborted'), fault };
          if (request.head.method === 'POST')
            request.body(100, { bodyGrows: () => undefined, bodyRead: (body) => told.push(String(body)) });
        },
        protocolFault: last,
        plainHttp: () => last('plain'),
        closed: () => told.push('closed'),
        handshakeFailure: (reason) => told.push(reason),
      },
      SYSTEM,
    );
    const { port } = await server.listen('127.0.0.1', 0);
    atEnd(async () => {
      server.destroy();
      await server.drain();
    });
    const open = async (): Promise<RawConnection> => {
      const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate });
      const connection = new RawConnection(socket);
      await eventually('the handshake is done', () => socket.authorized);
      return connection;
    };
    const tcp = () => {
      const socket = connectTcp(port, '127.0.0.1');
      atEnd(() => void socket.destroy());
      return socket.on('error', () => undefined);
    };
    const answer = (request: HttpRequest | undefined, body = 'ok'): void =>
      void request?.respond('id', { status: 200, contentType: 'text/plain', body }, false);
    return { server, requests, told, open, tcp, answer };
  }

  it('that drains lets the answer that is owed leave, and then ends the connection, and idle ones at once', async () => {
    const { server, requests, open, answer } = await start();
    const [busy, idle] = [await open(), await open()];
    busy.write(requestText('GET /slow'));
    await eventually('it is there', () => requests.length === 1);
    let isDrained = false;
    const drained = server.drain().then(() => (isDrained = true));
    await idle.untilClosed();
    idle.socket.end();
    assert.equal(isDrained, false);
    assert.equal(busy.ended, false);
    answer(requests[0]);
    await busy.untilClosed();
    assert.match(busy.received, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nok$/);
    busy.socket.end();
    await drained;
  });

  for (const [reader, begin] of [
    ['the own reader', []],
    ['node:http', [requestText('HEAD /begin')]],
  ] as const)
    it(`reads requests that come together by ${reader} in their order, and answers each`, async () => {
      const { requests, open, answer } = await start();
      const connection = await open();
      for (const text of begin) {
        connection.write(text);
        await eventually('it is there', () => requests.length === 1);
        answer(requests[0], '');
        await connection.until(/200 OK/);
      }
      const before = requests.length;
      connection.write(Array.from({ length: 12 }, (_, at) => requestText(`GET /${at}`)).join(''));
      let most = 0;
      for (let answered = 0; answered < 12; answered += 1) {
        await eventually('the next one is there', () => requests.length > before + answered);
        most = Math.max(most, requests.length - before - answered);
        const request = requests[before + answered];
        assert.equal(request?.head.target, `/${answered}`);
        answer(request, String(answered));
      }
      await connection.until(/\r\n\r\n11$/);
      const bodies = repliesIn(connection.received, (place) => begin.length > place).map(({ body }) => body);
      assert.deepEqual(
        bodies.slice(-12),
        Array.from({ length: 12 }, (_, at) => String(at)),
      );
      if (begin.length > 0) assert.equal(most, 1, 'one at a time');
    });

  it('says what it cannot read, behind the answers that are owed, and closes', async () => {
    const { requests, open, answer } = await start({ headerBytesMax: 1_000 });
    for (const [text, fault] of [
      ['no request\r\n\r\n', 'malformed'],
      [requestText('GET /', [`Long: ${'x'.repeat(20_000)}`]), 'headersTooLarge'],
      ['CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', 'connect'],
    ] as const) {
      const connection = await open();
      const before = requests.length;
      connection.write(requestText('GET /first') + text);
      await eventually('the first is there', () => requests.length > before);
      answer(requests[before]);
      await connection.untilClosed();
      assert.ok(connection.received.endsWith(`\r\n\r\nok${last(fault)}`), connection.received);
    }
  });

  it('ends what takes too long: a head, a body, and a connection without a request', async () => {
    const { told, open } = await start({ headersTimeoutMs: 300, requestTimeoutMs: 300, idleTimeoutMs: 300 });
    const [head, body, nothing] = [await open(), await open(), await open()];
    head.write('GET / HTT');
    body.write(requestText('POST /', ['Content-Length: 9', 'Content-Type: text/plain']));
    for (const connection of [head, body, nothing]) await connection.untilClosed();
    assert.equal(head.received, last('timeout'));
    assert.match(body.received, /^HTTP\/1\.1 408 [^]*\r\n\r\ntimeout$/);
    assert.equal(nothing.received, '');
    assert.ok(told.includes('timeout'));
  });

  it('tells a handler that the client went away in the middle of a body, by either reader', async () => {
    const { told, open, requests } = await start();
    for (const fields of [['Content-Length: 9'], ['Transfer-Encoding: chunked']]) {
      const connection = await open();
      const before = requests.length;
      connection.write(requestText('POST /', fields));
      await eventually('it is there', () => requests.length > before);
      connection.socket.destroy();
      await eventually('it is over', () => told.filter((what) => what === 'closed').length > before);
      assert.equal(told.filter((what) => what === 'aborted').length, before + 1);
    }
  });

  it('says why a handshake failed: plain HTTP, which is answered, a reset, and one that takes too long', async () => {
    const { told, tcp } = await start({ handshakeTimeoutMs: 300 });
    const plain = tcp();
    let received = '';
    plain.on('data', (chunk: Buffer) => (received += chunk.toString()));
    plain.write('GET / HTTP/1.1\r\nHost: g\r\n\r\n');
    await eventually('it is answered', () => received === last('plain'));
    await eventually('it is told of', () => told.includes('not_tls'));
    tcp();
    await eventually('it is told of', () => told.includes('timeout'));
    const reset = tcp();
    reset.on('connect', () => reset.resetAndDestroy());
    await eventually('it is told of', () => told.includes('reset'));
  });

  it('serves a new certificate from the next handshake on, and those that are connected go on', async () => {
    const { server, open, requests, answer } = await start();
    const old = await open();
    const issued = await pki.authority.issue({ commonName: 'localhost', addresses: ['127.0.0.1'], server: true });
    server.replaceTls({ cert: issued.certificate, key: issued.key });
    const fresh = await open();
    const serial = ({ socket }: RawConnection): string | undefined => socket.getPeerX509Certificate()?.serialNumber;
    assert.equal(BigInt(`0x${serial(fresh)}`), BigInt(`0x${issued.serial}`));
    assert.notEqual(serial(old), serial(fresh));
    old.write(requestText('GET /'));
    await eventually('it is there', () => requests.length === 1);
    answer(requests[0]);
    await old.until(/\r\n\r\nok$/);
  });
});
