import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { connect, type ConnectionOptions } from 'node:tls';
import type { Connection } from '../../lib/http/connection.ts';
import { NodeRequest } from '../../lib/http/node/request.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import type { ServerLimits } from '../../lib/http/server.ts';
import type { RawConnection } from '../support/client.ts';
import { last, startServer, type Given, type TestContext } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { repliesIn, requestText } from '../support/wire.ts';

describe('the server', () => {
  let pki: Pki;
  before(async () => {
    pki = await Pki.create();
  });
  const start = (more: Partial<ServerLimits> = {}, given: Given = {}) => startServer(pki, more, given);

  const untilEnded = (clock: VirtualClock, connection: RawConnection): Promise<boolean> =>
    eventually('it is ended', async () => {
      await clock.advance(50);
      return connection.ended || connection.closed;
    });

  it('ends idle connections when it drains, and others after their answers', async () => {
    const clock = new VirtualClock();
    const { server, requests, open, answer } = await start({}, { clock });
    const [busy, idle] = [await open(), await open()];
    busy.write(requestText('GET /slow'));
    await eventually('it is there', () => requests.length === 1);
    let isDrained = false;
    const drained = server.drain().then(() => (isDrained = true));
    await untilEnded(clock, idle);
    idle.socket.end();
    assert.equal(isDrained, false);
    assert.equal(busy.ended, false);
    answer(requests[0]);
    await untilEnded(clock, busy);
    assert.match(busy.received, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nok$/);
    busy.socket.end();
    await drained;
  });

  for (const [reader, begin] of [
    ['the own reader', []],
    ['node:http', [requestText('HEAD /begin')]],
  ] as const)
    it(`answers pipelined requests in order, with ${reader}`, async () => {
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

  it('leaves every request to node:http if that is the configured reader', async () => {
    for (const httpReader of ['own', 'node'] as const) {
      const { requests, open } = await start({ httpReader });
      const connection = await open();
      connection.write(requestText('GET /'));
      await eventually('it has arrived', () => requests.length === 1);
      assert.equal(requests[0] instanceof NodeRequest, httpReader === 'node');
    }
  });

  it('answers an unreadable request after the answers that are owed, and closes', async () => {
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

  it('ends connections with a late head, a late body, or no request', async () => {
    const clock = new VirtualClock();
    const limits = { headersTimeoutMs: 300, requestTimeoutMs: 300, idleTimeoutMs: 300 };
    const { told, requests, open, answer } = await start(limits, { clock });
    const [head, body, nothing] = [await open(), await open(), await open()];
    head.write(`${requestText('GET /')}GET / HTT`);
    await eventually('it is there', () => requests.length === 1);
    answer(requests[0]);
    await head.until(/ok$/);
    body.write(requestText('POST /', ['Content-Length: 9', 'Content-Type: text/plain']));
    await eventually('it is there', () => requests.length === 2);
    for (const connection of [head, body, nothing]) await untilEnded(clock, connection);
    assert.ok(head.received.endsWith(`ok${last('timeout')}`), head.received);
    assert.match(body.received, /^HTTP\/1\.1 408 [^]*\r\n\r\ntimeout$/);
    assert.equal(nothing.received, '');
    assert.ok(told.includes('timeout'));
  });

  it('informs a handler that the client left in the middle of a body, with either reader', async () => {
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

  it('uses a new certificate for new handshakes, and keeps open connections', async () => {
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

  it('resumes no session from before a change of its certificate', async () => {
    const { server, open } = await start();
    const options = { maxVersion: 'TLSv1.2' } as const;
    const session = (await open(options)).socket.getSession();
    assert.ok(session !== undefined);
    assert.equal((await open({ ...options, session })).socket.isSessionReused(), true);
    server.replaceTls({ cert: pki.server.certificate, key: pki.server.key });
    assert.equal((await open({ ...options, session })).socket.isSessionReused(), false);
  });

  it('accepts TLS 1.2 only with forward secrecy and authenticated encryption, and no older version', async () => {
    const { port } = await start();
    const suite = (options: ConnectionOptions): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, ...options });
        socket.once('error', reject);
        socket.once('secureConnect', () => {
          resolve(socket.getCipher().name);
          socket.destroy();
        });
      });
    for (const ciphers of ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'])
      assert.equal(await suite({ ciphers, maxVersion: 'TLSv1.2' }), ciphers);
    for (const options of [
      { ciphers: 'ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0', maxVersion: 'TLSv1.2' },
      { ciphers: 'ALL:@SECLEVEL=0', minVersion: 'TLSv1', maxVersion: 'TLSv1.1' },
    ] as const)
      await assert.rejects(suite(options), { code: /^ERR_SSL_.*ALERT/ });
  });

  it('rejects with the reason if it cannot listen', async () => {
    const { port } = await start();
    await assert.rejects(start({}, { at: port }), { code: 'EADDRINUSE' });
  });

  it('reads all requests of one read in a turn if they are answered immediately', async () => {
    let [inTurn, most] = [0, 0];
    const onRequest = (request: HttpRequest, connection: Connection<TestContext>): void => {
      if (inTurn === 0) setImmediate(() => (inTurn = 0));
      most = Math.max(most, (inTurn += 1));
      connection.respond(request, 'id', { status: 200, contentType: 'text/plain', body: '' }, false);
    };
    const { open } = await start({}, { onRequest });
    const connection = await open();
    connection.write(requestText('GET /').repeat(200));
    await eventually('all are answered', () => repliesIn(connection.received).length === 200);
    assert.equal(most, 200);
  });
});
