import assert from 'node:assert/strict';
import { connect as connectTcp } from 'node:net';
import { duplexPair } from 'node:stream';
import { describe, it } from 'node:test';
import { connect, type ConnectionOptions } from 'node:tls';
import { createServer } from 'node:https';
import type { ServerLimits } from '../../lib/http/connection.ts';
import { takeListener } from '../../lib/http/node-server.ts';
import { RawConnection } from '../support/client.ts';
import { startServer, type Given } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { postText, requestText } from '../support/wire.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

describe('the server', () => {
  const start = (more: Partial<ServerLimits> = {}, given: Given = {}) =>
    startServer(pki, more, { certificate, ...given });

  it('leaves a connection whose handshake ends late the time for a request while it drains', async () => {
    const clock = new VirtualClock();
    const { server, tcp, requests, answer } = await start({}, { clock });
    const [near, far] = duplexPair();
    const wire = tcp();
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
});
