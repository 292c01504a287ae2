import assert from 'node:assert/strict';
import { connect, createServer, type AddressInfo } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import tls from 'node:tls';
import { ByteClient } from '../../lib/redis/wire/byte-client.ts';
import type { Reply } from '../../lib/redis/wire/reply.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

interface Opened {
  readonly client: ByteClient;
  readonly errors: string[];
}

function open(t: TestContext, uri: string): Opened {
  const client = new ByteClient({ ...SYSTEM, uri, name: 'byte-client-test' });
  const errors: string[] = [];
  client.on('error', (cause: Error) => errors.push(cause.message));
  client.connect();
  t.after(() => client.destroy());
  return { client, errors };
}

const ready = ({ client }: Opened): Promise<unknown> => eventually('it is ready', () => client.isReady);
const text = async (reply: Promise<Reply>): Promise<string> => (await reply).text();

describe('the byte client', () => {
  it('authenticates, selects the database and sets its name when it connects', async (t) => {
    const redis = await TestRedis.start();
    await redis.command('ACL', 'SETUSER', 'shop', 'on', '>p@ss/w:rd', '~*', '+@all');
    const opened = open(t, `redis://shop:${encodeURIComponent('p@ss/w:rd')}@127.0.0.1:${redis.port}/3`);
    await ready(opened);
    const list = await text(opened.client.send(['CLIENT', 'LIST']));
    assert.match(list, /name=byte-client-test .*db=3 .*user=shop/);
  });

  it('connects to an IPv6 address, and to the default port if the URI has none', async (t) => {
    const server = createServer((socket) => socket.on('data', () => socket.write('+OK\r\n')));
    await new Promise<void>((resolve) => server.listen(0, '::1', resolve));
    t.after(() => server.close());
    const opened = open(t, `redis://[::1]:${(server.address() as AddressInfo).port}`);
    await ready(opened);
    opened.client.destroy();
    const other = open(t, 'redis://127.0.0.9');
    await eventually('it is refused', () => other.errors.length > 0);
    assert.match(other.errors[0] ?? '', /127\.0\.0\.9:6379/);
  });

  it("reports the server's reply to a wrong password, and keeps trying", async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, `redis://shop:wrong@127.0.0.1:${redis.port}`);
    await eventually('it tried twice', () => opened.errors.length >= 2);
    assert.match(opened.errors[0] ?? '', /^WRONGPASS/);
    assert.equal(opened.client.isReady, false);
    await redis.command('ACL', 'SETUSER', 'shop', 'on', '>wrong', '~*', '+@all');
    await ready(opened);
  });

  it('returns the replies in the order of the commands, errors included', async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, redis.uri);
    await ready(opened);
    const { client } = opened;
    const echoes = ['', 'é\u{1F600}', 'x'.repeat(500_000), '\r\n$5\r\n'].map((word) =>
      client.send(['ECHO', word]).then((reply) => reply.bytes().toString()),
    );
    const wrong = assert.rejects(client.send(['NOPE']), {
      name: 'RedisError',
      code: 'ERR',
      message: /^ERR unknown command/,
    });
    const last = text(client.send(['ECHO', 'last']));
    assert.deepEqual(await Promise.all(echoes), ['', 'é\u{1F600}', 'x'.repeat(500_000), '\r\n$5\r\n']);
    await wrong;
    assert.equal(await last, 'last');
  });

  it('fails every outstanding command when the connection breaks, queues none, and reconnects', async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, redis.uri);
    await ready(opened);
    const waiting = assert.rejects(opened.client.send(['BLPOP', 'nothing', '0']));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await waiting;
    await assert.rejects(opened.client.send(['PING']), /no connection/);
    await ready(opened);
    assert.equal(opened.errors.length, 1);
  });

  it('gives up a server that accepts the connection but sends nothing', async (t) => {
    const redis = await TestRedis.start();
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const opened = open(t, redis.uri);
    await eventually('it gave up once', () => opened.errors.length > 0);
    assert.match(opened.errors[0] ?? '', /does not answer/);
    await redis.signal('SIGCONT');
    await ready(opened);
  });

  it('reconnects after a reply without a command, or after bytes that are not a reply', async (t) => {
    for (const [unasked, reason] of [
      ['+PONG\r\n', /without a command/],
      ['%1\r\n+a\r\n+b\r\n', /not RESP2/],
    ] as const) {
      let connections = 0;
      const server = createServer((socket) => {
        connections += 1;
        socket.on('error', () => undefined);
        socket.once('data', () => socket.write('+OK\r\n'));
        socket.on('data', (bytes) => {
          if (bytes.includes('ECHO')) socket.write(`$1\r\nx\r\n${unasked}`);
        });
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      t.after(() => server.close());
      const opened = open(t, `redis://127.0.0.1:${(server.address() as AddressInfo).port}`);
      await ready(opened);
      await opened.client.send(['ECHO', 'x']).catch(() => undefined);
      await eventually('it is connected anew', () => connections === 2);
      assert.match(opened.errors[0] ?? '', reason);
      opened.client.destroy();
    }
  });

  it('authenticates with a user without a password', async (t) => {
    const redis = await TestRedis.start();
    await redis.command('ACL', 'SETUSER', 'open', 'on', 'nopass', '~*', '+@all');
    const opened = open(t, `redis://open@127.0.0.1:${redis.port}`);
    await ready(opened);
    assert.equal(await text(opened.client.send(['ACL', 'WHOAMI'])), 'open');
  });

  it('waits for outstanding replies before it closes, and sends nothing afterwards', async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, redis.uri);
    await ready(opened);
    const echo = text(opened.client.send(['ECHO', 'last']));
    await opened.client.close();
    assert.equal(await echo, 'last');
    await assert.rejects(opened.client.send(['PING']));
    assert.deepEqual(opened.errors, []);
  });

  it('never writes commands of a broken connection on the next one', async (t) => {
    const redis = await TestRedis.start();
    let holds = false;
    const client = new ByteClient({
      ...SYSTEM,
      uri: redis.uri,
      name: 'byte-client-test',
      gather: (write) => {
        if (!holds) write();
      },
    });
    const errors: Error[] = [];
    client.on('error', (cause: Error) => errors.push(cause));
    t.after(() => client.destroy());
    client.connect();
    await eventually('it is ready', () => client.isReady);
    holds = true;
    const lost = assert.rejects(client.send(['RPUSH', 'list', 'lost']));
    // The greeting of the next connection is also gathered, and may be sent before the reply to the kill arrives.
    const killed = redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await lost;
    holds = false;
    await killed;
    await eventually('it is ready again', () => client.isReady);
    assert.equal(await text(client.send(['ECHO', 'own'])), 'own');
    assert.equal(await redis.command('EXISTS', 'list'), 0);
    assert.equal(errors.length, 1);
  });

  it('uses TLS with rediss://, and trusts only servers of its authorities', async (t) => {
    const redis = await TestRedis.start();
    const authority = await CertificateAuthority.create(SYSTEM, 'test authority');
    const { certificate: cert, key } = await authority.issue({
      commonName: 'localhost',
      dnsNames: ['localhost'],
      server: true,
    });
    const names: unknown[] = [];
    const server = tls.createServer({ cert, key }, (socket) => {
      names.push(socket.servername);
      const plain = connect(redis.port, '127.0.0.1');
      socket.on('error', () => plain.destroy());
      socket.pipe(plain).pipe(socket);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, resolve));
    t.after(() => server.close());
    const stranger = open(t, `rediss://localhost:${port}`);
    await eventually('it refuses', () => stranger.errors.length > 0);
    assert.equal(stranger.client.isReady, false);
    stranger.client.destroy();
    const known = tls.getCACertificates('default');
    tls.setDefaultCACertificates([...known, authority.certificate]);
    t.after(() => tls.setDefaultCACertificates(known));
    const opened = open(t, `rediss://localhost:${port}`);
    await ready(opened);
    assert.equal(await text(opened.client.send(['ECHO', 'safe'])), 'safe');
    assert.equal(names.at(-1), 'localhost');
  });
});
