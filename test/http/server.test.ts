import assert from 'node:assert/strict';
import { createServer } from 'node:https';
import { BlockList, connect as connectTcp } from 'node:net';
import { Duplex, duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import { connect, type ConnectionOptions } from 'node:tls';
import type { ServerLimits } from '../../lib/http/connection.ts';
import { takeListener } from '../../lib/http/node-server.ts';
import { RawConnection } from '../support/client.ts';
import { last, startServer, type Given } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { passedOn, proxyHeader } from '../support/proxied.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { postText, requestText } from '../support/wire.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

describe('the server', () => {
  const start = (more: Partial<ServerLimits> = {}, given: Given = {}) =>
    startServer(pki, more, { certificate, ...given });

  it('leaves a connection whose handshake ends late the time for a request while it drains', async () => {
    const clock = new VirtualClock();
    const { server, open, tcp, requests, answer } = await start({}, { clock });
    const [near, far] = duplexPair();
    const [wire, idle] = [tcp(), await open()];
    wire.pipe(far);
    const release = Promise.withResolvers<void>();
    far.once('data', (hello: Buffer) => {
      wire.write(hello);
      void release.promise.then(() => far.pipe(wire));
      far.pause();
    });
    const late = new RawConnection(connect({ socket: near, ca: pki.authority.certificate, ...certificate }));
    await eventually('the client has its keys', () => late.socket.authorized);
    const drained = server.drain();
    await clock.advance(5_000);
    await idle.untilClosed();
    release.resolve();
    await eventually('the handshake is done', () => server.connections.length === 1);
    await clock.advance(300);
    late.write(requestText('GET /late'));
    await eventually('the request arrives', () => requests.length === 1 || late.ended);
    assert.equal(late.ended, false, 'the connection was closed');
    answer(requests[0], 'in time', true);
    await late.until(/in time/);
    late.socket.end();
    await drained;
  });

  it('knows a connection from the same address and port as an earlier one, whose reset is not read yet', async () => {
    const { server, port, requests, answer, told, tcp } = await start({ connectionsMax: 2 });
    const first = tcp();
    const reset = connect({ socket: first, ca: pki.authority.certificate, ...certificate }).on(
      'error',
      () => undefined,
    );
    reset.write(requestText('GET /') + requestText('GET /next').repeat(10_000));
    await eventually('its request is there', () => requests.length === 1);
    const { localPort = 0 } = first;
    first.resetAndDestroy();
    const again = new RawConnection(
      connect({ socket: connectTcp({ port, localPort }), ca: pki.authority.certificate, ...certificate }),
    );
    await eventually('both are known', () => again.socket.authorized && server.connections.length === 2);
    answer(requests[0]);
    await eventually('the first is closed', () => told.includes('closed'));
    again.write(requestText('GET /again'));
    await eventually('its request is there', () => requests.at(-1)?.head.target === '/again');
    answer(requests.at(-1));
    await again.until(/ok$/);
    assert.equal(server.connections.length, 1);
    server.destroy();
    await again.untilClosed();
  });

  it('accepts TLS 1.2 with forward secrecy and authenticated encryption, also with a new certificate, which ends sessions', async () => {
    const { port, open, server } = await start();
    const suite = (options: ConnectionOptions): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, ...options });
        socket.once('error', reject);
        socket.once('secureConnect', () => {
          resolve(socket.getCipher().name);
          socket.destroy();
        });
      });
    const version = { maxVersion: 'TLSv1.2' } as const;
    const session = (await open(version)).socket.getSession();
    assert.ok(session !== undefined);
    const isReused = async (): Promise<boolean> => (await open({ ...version, session })).socket.isSessionReused();
    assert.equal(await isReused(), true);
    for (const change of [
      () => undefined,
      () => server.replaceTls({ cert: pki.server.certificate, key: pki.server.key }),
    ]) {
      change();
      for (const ciphers of ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'])
        assert.equal(await suite({ ciphers, ...version }), ciphers);
      for (const options of [
        { ciphers: 'ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0', ...version },
        { ciphers: 'ALL:@SECLEVEL=0', minVersion: 'TLSv1', maxVersion: 'TLSv1.1' },
      ] as const)
        await assert.rejects(suite(options), { code: /^ERR_SSL_.*ALERT/ });
    }
    assert.equal(await isReused(), false);
  });

  it('does not start on a version of node with other listeners, and names that version', async () => {
    const server = createServer({ cert: pki.server.certificate, key: pki.server.key });
    server.on('secureConnection', () => undefined);
    assert.throws(
      () => takeListener(server, 'secureConnection'),
      new RegExp(`node ${process.version} has 2 listeners`),
    );
    const fresh = createServer({ cert: pki.server.certificate, key: pki.server.key });
    assert.equal(typeof takeListener(fresh, 'secureConnection'), 'function');
  });

  it('uses the fast path unless it is switched off', async () => {
    for (const httpReader of ['own', 'node'] as const) {
      const { requests, open } = await start({ httpReader });
      const connection = await open();
      connection.write(postText('body'));
      await eventually('it has arrived', () => requests.length === 1);
      assert.equal(requests[0]?.body === undefined, httpReader === 'node');
    }
  });

  it('reports why a handshake failed: plain HTTP, which it answers, a reset, or a time limit', async () => {
    const { told, tcp } = await start({ handshakeTimeoutMs: 300 });
    const plain = tcp();
    let received = '';
    plain.on('data', (chunk: Buffer) => (received += chunk.toString()));
    plain.write('GET / HTTP/1.1\r\nX-Request-Id: 7\r\nHost: g\r\n\r\n');
    await eventually('it is answered', () => received === last('plain 7'));
    await eventually('it is told of', () => told.includes('not_tls'));
    const reset = tcp();
    reset.on('connect', () => reset.resetAndDestroy());
    await eventually('it is told of', () => told.includes('reset'));
    const silent = tcp();
    const stalled = tcp();
    stalled.write(Buffer.from([0x16, 0x03, 0x01, 0x00, 0x70]));
    for (const socket of [silent, stalled]) socket.resume();
    await eventually('both are told of', () => told.filter((what) => what === 'timeout').length === 2);
    assert.deepEqual([...told].sort(), ['not_tls', 'reset', 'timeout', 'timeout']);
  });

  const clientHello = (): Promise<Buffer> =>
    new Promise((resolve) => {
      const write = (chunk: Buffer, _encoding: BufferEncoding, done: () => void): void => {
        resolve(chunk);
        done();
      };
      const client = connect({ socket: new Duplex({ read: () => undefined, write }) });
      atEnd(() => void client.destroy());
    });

  it('accepts all waiting connections before most of their handshakes, and begins with the newest', async () => {
    const { open, told, tcp } = await start({ connectionsMax: 1_000 });
    const hello = await clientHello();
    let begun = 0;
    for (let at = 0; at < 400; at += 1) {
      const socket = tcp();
      socket.write(hello);
      socket.once('data', () => (begun += 1));
    }
    await open();
    assert.ok(begun < 200, `${begun} handshakes began before that of the newest connection`);
    await eventually('all have begun', () => begun === 400);
    assert.deepEqual(told, []);
  });

  describe('at its limit of connections', () => {
    it('closes the stranger that is idle for longest, and reports it', async () => {
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

    it('has room again after one has closed', async () => {
      const { told, open } = await start({ connectionsMax: 1 });
      for (let at = 0; at < 3; at += 1) {
        (await open()).socket.destroy();
        await eventually('it is closed', () => told.length === at + 1);
      }
      assert.deepEqual(told, ['closed', 'closed', 'closed']);
    });

    it('closes a silent stranger before one in the handshake', async () => {
      const { told, tcp } = await start({ connectionsMax: 2 });
      const hello = await clientHello();
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

    it('replaces a connection of the same producer if that holds all known places', async () => {
      const { connections, requests, told, open, answer } = await start({ connectionsMax: 3 });
      const clients: RawConnection[] = [];
      for (let at = 0; at < 3; at += 1) {
        const client = await open();
        clients.push(client);
        client.write(requestText('GET /'));
        await eventually('its request is there', () => requests.length === at + 1);
        Object.assign(connections[at]?.context ?? {}, { producer: 'shop' });
        if (at === 1) answer(requests[0]);
      }
      clients.push(await open());
      await clients[0]?.untilClosed();
      assert.equal(told.includes('limit'), true);
      assert.deepEqual(
        clients.map(({ closed }) => closed),
        [true, false, false, false],
      );
    });
  });

  describe('with a balancer', () => {
    const from = (...addresses: readonly string[]): { readonly proxyFrom: BlockList } => {
      const proxyFrom = new BlockList();
      for (const address of addresses) proxyFrom.addAddress(address);
      return { proxyFrom };
    };

    it("has the client's address from a header in any pieces, or the balancer's if the header has none", async () => {
      const { port, connections, requests } = await start(from('127.0.0.1'), { host: '::' });
      const header = proxyHeader('203.0.113.7');
      const cases = [0, 1, 15, header.length - 1, header.length].map((cut) => [header, '203.0.113.7', cut] as const);
      const local = proxyHeader(Buffer.alloc(0), { command: 0x20, family: 0 });
      for (const [bytes, address, cut] of [...cases, [local, '::ffff:127.0.0.1', 0] as const]) {
        const before = requests.length;
        const client = await passedOn({ port, pki }, bytes, undefined, cut);
        client.write(requestText('GET /'));
        await eventually('its request is there', () => requests.length > before);
        assert.equal(connections[before]?.address, address);
      }
    });

    it('accepts no connection from another address, and none without a header', async () => {
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

    it('waits five seconds for the header, then as long as ever for the handshake, and lets a balancer look', async () => {
      const clock = new VirtualClock();
      await clock.advance(10_000);
      const { told, tcp } = await start(from('127.0.0.1'), { clock });
      const opened = async (bytes?: Buffer) => {
        const socket = tcp();
        if (bytes !== undefined) socket.write(bytes);
        await new Promise((resolve) => socket.once('connect', resolve));
        await clock.settle();
        return socket;
      };
      const looking = await opened();
      looking.end();
      await new Promise((resolve) => looking.resume().once('close', resolve));
      const silent = await opened();
      await opened(proxyHeader('203.0.113.7'));
      await clock.advance(4_999);
      assert.equal(silent.closed, false);
      await clock.advance(251);
      await eventually('it is told of', () => told.length > 0);
      await clock.advance(10_000);
      assert.deepEqual(told, ['proxy_header']);
      await clock.advance(10_000);
      await eventually('it is told of', () => told.length > 1);
      await clock.advance(200);
      await opened();
      await clock.advance(5_300);
      await eventually('it is told of', () => told.length > 2);
      assert.deepEqual(told, ['proxy_header', 'timeout', 'proxy_header'], 'also after a time without connections');
    });
  });
});
