// The server in this process: which connections it ends, when, and what it says of them.
import assert from 'node:assert/strict';
import { BlockList, connect as connectTcp } from 'node:net';
import { Duplex } from 'node:stream';
import { connect, type ConnectionOptions } from 'node:tls';
import { before, describe, it } from 'node:test';
import type { Connection } from '../../lib/http/connection.ts';
import type { HttpRequest } from '../../lib/http/request.ts';
import { HttpsServer, type ServerLimits } from '../../lib/http/server.ts';
import { RawConnection } from '../support/client.ts';
import { Pki } from '../support/pki.ts';
import { passedOn, proxyHeader } from '../support/proxied.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { repliesIn, requestText } from '../support/wire.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

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

  interface Given {
    readonly clock?: VirtualClock;
    readonly at?: number;
    readonly onRequest?: (request: HttpRequest) => void;
  }

  /** Keeps every request until it is answered by the test, and what ended early. */
  async function start(more: Partial<ServerLimits> = {}, given: Given = {}) {
    const requests: HttpRequest[] = [];
    const connections: Connection<undefined>[] = [];
    const told: string[] = [];
    const addresses: string[] = [];
    const server = new HttpsServer<undefined>(
      { cert: pki.server.certificate, key: pki.server.key },
      { ...LIMITS, ...more },
      {
        context: () => undefined,
        request: (connection, request) => {
          requests.push(request);
          connections.push(connection);
          const fault = (what: string): boolean => {
            told.push(what);
            request.respond('id', { status: 408, contentType: 'text/plain', body: what }, true);
            return true;
          };
          request.listener = { aborted: () => told.push('aborted'), fault };
          if (request.head.method === 'POST')
            request.body(100, { bodyGrows: () => undefined, bodyRead: (body) => told.push(String(body)) });
          given.onRequest?.(request);
        },
        protocolFault: last,
        plainHttp: () => last('plain'),
        closed: () => told.push('closed'),
        handshakeFailure: (reason, address) => {
          told.push(reason);
          addresses.push(address);
        },
      },
      { ...SYSTEM, ...(given.clock === undefined ? {} : { clock: given.clock }) },
    );
    const { port } = await server.listen('127.0.0.1', given.at ?? 0);
    atEnd(async () => {
      server.destroy();
      await server.drain();
    });
    const open = async (options: ConnectionOptions = {}): Promise<RawConnection> => {
      const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, ...options });
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
    return { server, port, requests, connections, told, addresses, open, tcp, answer };
  }

  /** Lets time pass until the server has ended this connection. */
  const untilEnded = (clock: VirtualClock, connection: RawConnection): Promise<boolean> =>
    eventually('it is ended', async () => {
      await clock.advance(50);
      return connection.ended || connection.closed;
    });

  it('that drains lets the answer that is owed leave, and then ends the connection, and idle ones at once', async () => {
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

  it('leaves every request to node:http where that is the reader', async () => {
    for (const httpReader of ['own', 'node'] as const) {
      const { server, open } = await start({ httpReader });
      await open();
      const states = (): readonly string[] => [...server.connections].map(({ state }) => state);
      await eventually('it has arrived', () => states().length === 1);
      assert.deepEqual(states(), [httpReader === 'own' ? 'plain' : 'node']);
    }
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
    const clock = new VirtualClock();
    const { told, tcp } = await start({ handshakeTimeoutMs: 300 }, { clock });
    const plain = tcp();
    let received = '';
    plain.on('data', (chunk: Buffer) => (received += chunk.toString()));
    plain.write('GET / HTTP/1.1\r\nHost: g\r\n\r\n');
    await eventually('it is answered', () => received === last('plain'));
    await eventually('it is told of', () => told.includes('not_tls'));
    tcp();
    await eventually('it is told of', async () => {
      await clock.advance(300);
      return told.includes('timeout');
    });
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

  it('resumes no session that was granted before its certificate changed', async () => {
    const { server, open } = await start();
    const options = { maxVersion: 'TLSv1.2' } as const;
    const session = (await open(options)).socket.getSession();
    assert.ok(session !== undefined);
    assert.equal((await open({ ...options, session })).socket.isSessionReused(), true);
    server.replaceTls({ cert: pki.server.certificate, key: pki.server.key });
    assert.equal((await open({ ...options, session })).socket.isSessionReused(), false);
  });

  it('says why it cannot listen', async () => {
    const { port } = await start();
    await assert.rejects(start({}, { at: port }), { code: 'EADDRINUSE' });
  });

  it('reads all requests of one read in a turn where they are answered at once', async () => {
    let [inTurn, most] = [0, 0];
    const onRequest = (request: HttpRequest): void => {
      if (inTurn === 0) setImmediate(() => (inTurn = 0));
      most = Math.max(most, (inTurn += 1));
      request.respond('id', { status: 200, contentType: 'text/plain', body: '' }, false);
    };
    const { open } = await start({}, { onRequest });
    const connection = await open();
    connection.write(requestText('GET /').repeat(200));
    await eventually('all are answered', () => repliesIn(connection.received).length === 200);
    assert.equal(most, 200);
  });

  describe('where there is no room for another connection', () => {
    it('closes the stranger that is idle for longest, and tells of it', async () => {
      const { told, addresses, open, tcp } = await start({ connectionsMax: 2 });
      const [first, second] = [await open(), await open()];
      const third = await open();
      await first.untilClosed();
      assert.deepEqual(told, ['limit', 'closed']);
      assert.deepEqual(addresses, ['127.0.0.1']);
      assert.equal(second.ended || third.ended, false);
      tcp();
      await eventually('the next one is told of', () => told.length === 4);
      assert.deepEqual(told.slice(2), ['limit', 'closed']);
    });

    it('has room again for each that was closed', async () => {
      const { told, open } = await start({ connectionsMax: 1 });
      for (let at = 0; at < 3; at += 1) {
        (await open()).socket.destroy();
        await eventually('it is closed', () => told.length === at + 1);
      }
      assert.deepEqual(told, ['closed', 'closed', 'closed']);
    });

    it('cuts one that has sent nothing before one whose handshake has begun', async () => {
      const { told, tcp } = await start({ connectionsMax: 2 });
      const hello = await new Promise<Buffer>((resolve) => {
        const write = (chunk: Buffer, _encoding: BufferEncoding, done: () => void): void => {
          resolve(chunk);
          done();
        };
        const client = connect({ socket: new Duplex({ read: () => undefined, write }) });
        atEnd(() => void client.destroy());
      });
      const begun = tcp();
      begun.write(hello);
      await new Promise((resolve) => begun.once('data', resolve));
      const silent = tcp();
      await new Promise((resolve) => silent.once('connect', resolve));
      const closed = new Promise((resolve) => silent.once('close', resolve));
      tcp();
      await closed;
      await eventually('it is told of', () => told.length > 0);
      assert.deepEqual(told, ['limit']);
      assert.equal(begun.closed, false);
    });

    it('cuts a handshake for another one, and tells of it once', async () => {
      const { told, tcp } = await start({ connectionsMax: 1 });
      const cut = tcp();
      await new Promise((resolve) => cut.once('connect', resolve));
      const closed = new Promise((resolve) => cut.once('close', resolve));
      tcp();
      await closed;
      await eventually('it is told of', () => told.length > 0);
      assert.deepEqual(told, ['limit']);
    });

    it('knows a connection by its producer, which then takes the place of another of its own', async () => {
      const { connections, requests, told, open, answer } = await start({ connectionsMax: 3 });
      const clients: RawConnection[] = [];
      for (let at = 0; at < 2; at += 1) {
        clients.push(await open());
        clients[at]?.write(requestText('GET /'));
        await eventually('its request is there', () => requests.length === at + 1);
        assert.equal(connections[at]?.know('shop'), true);
      }
      answer(requests[0]);
      await clients[0]?.until(/ok$/);
      clients.push(await open());
      clients[2]?.write(requestText('GET /'));
      await eventually('its request is there', () => requests.length === 3);
      assert.equal(connections[2]?.know('shop'), true);
      await clients[0]?.untilClosed();
      assert.equal(told.includes('limit'), true);
      clients.push(await open());
      clients[3]?.write(requestText('GET /'));
      await eventually('its request is there', () => requests.length === 4);
      assert.equal(connections[3]?.know('shop'), false, 'the others are busy');
    });
  });

  it('closes the connection that is behind for longest where its producer leaves too much unread', async () => {
    const { connections, requests, told, open, answer } = await start({
      unreadAnswers: { holderMax: 1_000_000, totalMax: 100_000_000 },
    });
    for (let at = 0; at < 2; at += 1) {
      const client = await open();
      client.socket.pause();
      client.write(requestText('GET /'));
      await eventually('its request is there', () => requests.length === at + 1);
      connections[at]?.know('shop');
      answer(requests[at], 'x'.repeat(16_000_000));
    }
    await eventually('one is closed', () => told.includes('closed'));
    assert.deepEqual(
      connections.map(({ state }) => state),
      ['closed', 'plain'],
    );
  });

  describe('behind a balancer', () => {
    const from = (...addresses: readonly string[]): { readonly proxyFrom: BlockList } => {
      const proxyFrom = new BlockList();
      for (const address of addresses) proxyFrom.addAddress(address);
      return { proxyFrom };
    };

    it("takes the client's address from the header, and the balancer's where that names none", async () => {
      const { port, connections, requests } = await start(from('127.0.0.1'));
      for (const [header, address] of [
        [proxyHeader('203.0.113.7'), '203.0.113.7'],
        [proxyHeader(Buffer.alloc(0), { command: 0x20, family: 0 }), '127.0.0.1'],
      ] as const) {
        const before = requests.length;
        const client = await passedOn({ port, pki }, header);
        client.write(requestText('GET /'));
        await eventually('its request is there', () => requests.length > before);
        assert.equal(connections[before]?.address, address);
      }
    });

    it('takes no connection of another, and none without a header', async () => {
      const { told, addresses, tcp } = await start(from('10.0.0.1'));
      const closed = new Promise((resolve) => tcp().once('close', resolve));
      await closed;
      assert.deepEqual(told, ['proxy_source']);
      assert.deepEqual(addresses, ['127.0.0.1']);
      const passing = await start(from('127.0.0.1'));
      const client = passing.tcp();
      client.write('GET / HTTP/1.1\r\n\r\n');
      await new Promise((resolve) => client.once('close', resolve));
      await eventually('it is told of', () => passing.told.length > 0);
      assert.deepEqual(passing.told, ['proxy_header']);
      assert.deepEqual(passing.addresses, ['127.0.0.1']);
    });

    it('waits five seconds for the header, and says nothing of a balancer that closes before', async () => {
      const clock = new VirtualClock();
      await clock.advance(10_000);
      const { told, tcp } = await start(from('127.0.0.1'), { clock });
      const opened = async () => {
        const socket = tcp();
        await new Promise((resolve) => socket.once('connect', resolve));
        await clock.settle();
        return socket;
      };
      const looking = await opened();
      looking.end();
      await new Promise((resolve) => looking.resume().once('close', resolve));
      const silent = await opened();
      await clock.advance(4_999);
      assert.equal(silent.closed, false);
      await clock.advance(251);
      await eventually('it is told of', () => told.length > 0);
      assert.deepEqual(told, ['proxy_header']);
    });
  });

  it("counts a handshake's time from its first byte, and that before it by itself", async () => {
    const clock = new VirtualClock();
    await clock.advance(10_000);
    const { told, tcp } = await start({ handshakeTimeoutMs: 1_000 }, { clock });
    const socket = tcp();
    await new Promise((resolve) => socket.once('connect', resolve));
    await clock.settle();
    await clock.advance(900);
    assert.deepEqual(told, []);
    socket.write(Buffer.from([0x16, 0x03, 0x01, 0x00, 0x70]));
    await clock.settle();
    await clock.advance(1_000);
    assert.deepEqual(told, []);
    await clock.advance(500);
    await eventually('it is told of', () => told.length > 0);
    assert.deepEqual(told, ['timeout']);
  });
});
