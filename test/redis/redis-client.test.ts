import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import tls from 'node:tls';
import { causeOf, RedisError } from '../../lib/redis/wire/errors.ts';
import { type Client, RedisClient, sharedClients } from '../../lib/redis/wire/redis-client.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

interface Opened {
  readonly client: Client;
  /** `ready`, or the message of an error. */
  readonly told: string[];
  readonly leave: () => void;
  onLost: () => void;
}

function open(t: TestContext, uri: string, client: Client = new RedisClient(uri, 'client-test')): Opened {
  const told: string[] = [];
  const user = {
    onReady: () => told.push('ready'),
    onLost: (cause: unknown) => {
      told.push((causeOf(cause) as Error).message);
      opened.onLost();
    },
  };
  const opened: Opened = { client, told, leave: () => client.leave(user), onLost: () => undefined };
  t.after(opened.leave);
  client.join(user);
  return opened;
}

const eventuallyTold = ({ told: list }: Opened, message: RegExp): Promise<unknown> =>
  eventually(String(message), () => message.test(list.at(-1) ?? ''));

async function listen(t: TestContext, serve: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => serve(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

// The header of redis-client.ts lists these facts. A new version of the package needs a look at this list.
describe('the package redis 6.3.1, in what its documentation does not promise', () => {
  it('is installed', () => {
    const { version } = createRequire(import.meta.url)('redis/package.json') as { readonly version: string };
    assert.equal(version, '6.3.1', 'check the facts in the header of redis-client.ts, then name this version');
  });

  it('reads a command when it writes it, in the next check phase', async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, `redis://127.0.0.1:${redis.port}`);
    await eventuallyTold(opened, /^ready$/);
    const command = { length: 2, 0: 'ECHO', 1: 'early' };
    const reply = opened.client.send(command);
    command[1] = 'late';
    await new Promise((resolve) => setImmediate(resolve));
    command[1] = 'too late';
    assert.equal(await reply, 'late');
  });

  it('leaves no connection behind if it is destroyed while it connects', async (t) => {
    const connections = new Set<Socket>();
    let silent = 0;
    const uri = await listen(t, (socket) => {
      connections.add(socket);
      silent += 1;
      socket.on('data', () => undefined).on('close', () => connections.delete(socket));
    });
    for (let turns = 0; turns < 5 || silent === 0; turns += 1) {
      const opened = open(t, uri);
      for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      opened.leave();
      assert.deepEqual(opened.told, []);
    }
    await eventually('the server sees them go', () => connections.size === 0);
  });
});

describe('a client', () => {
  it('authenticates, selects the database and sets its name, and sends nothing else', async (t) => {
    const redis = await TestRedis.start();
    await redis.command('ACL', 'SETUSER', 'shop', 'on', '>p@ss/w:rd', '~*', '-@all', '+client|setname', '+select');
    await redis.command('ACL', 'SETUSER', 'open', 'on', 'nopass', '~*', '+@all');
    await redis.command('CONFIG', 'RESETSTAT');
    const shop = open(t, `redis://shop:${encodeURIComponent('p@ss/w:rd')}@127.0.0.1:${redis.port}/3`);
    await eventuallyTold(shop, /^ready$/);
    const list = String(await redis.command('CLIENT', 'LIST'));
    assert.match(list, /name=client-test .*db=3 .*user=shop/);
    assert.deepEqual(await redis.command('ACL', 'LOG'), []);
    const withoutPassword = open(t, `redis://open@127.0.0.1:${redis.port}`);
    await eventuallyTold(withoutPassword, /^ready$/);
    assert.equal(await withoutPassword.client.send(['ACL', 'WHOAMI']), 'open');
  });

  it('returns the replies in the order of the commands, as text or as bytes, errors included', async (t) => {
    const redis = await TestRedis.start();
    const opened = open(t, `redis://127.0.0.1:${redis.port}`);
    await eventuallyTold(opened, /^ready$/);
    const { client } = opened;
    const words = ['', 'é\u{1F600}', 'x'.repeat(500_000), '\r\n$5\r\n'];
    const [texts, bytes, refusal, none] = await Promise.all([
      Promise.all(words.map((word) => client.send(['ECHO', word]))),
      Promise.all(words.map((word) => client.sendForBytes(['ECHO', Buffer.from(word)]))),
      client.send(['NOPE']).catch(causeOf),
      client.send(['GET', 'none']),
    ]);
    assert.deepEqual(texts, words);
    assert.deepEqual(
      bytes,
      words.map((word) => Buffer.from(word)),
    );
    assert.ok(refusal instanceof RedisError && refusal.code === 'ERR');
    assert.equal(none, null);
    assert.ok(client.bytesReceived > 1_000_000);
  });

  it('ends after a reply without a command, after bytes that are not RESP2, and in the handshake', async (t) => {
    for (const [greeting, unasked] of [
      ['+OK\r\n', '+PONG\r\n'],
      ['+OK\r\n', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
      ['HTTP/1.1 400 Bad Request\r\n\r\n', ''],
    ] as const) {
      let connections = 0;
      const uri = await listen(t, (socket) => {
        connections += 1;
        socket.once('data', () => socket.write(greeting));
        socket.on('data', (bytes) => bytes.includes('ECHO') && socket.write(`$1\r\nx\r\n${unasked}`));
      });
      const opened = open(t, uri);
      if (unasked !== '') {
        await eventuallyTold(opened, /^ready$/);
        assert.equal(await opened.client.send(['ECHO', 'x']).catch(() => 'x'), 'x');
      }
      await eventuallyTold(opened, /^(?!ready)./);
      await assert.rejects(opened.client.send(['ECHO', 'y']));
      assert.equal(connections, 1);
    }
  });

  it('uses TLS with rediss://, and trusts only servers of its authorities', async (t) => {
    const redis = await TestRedis.start();
    const authority = new CertificateAuthority('test authority');
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
    await new Promise<void>((resolve) => server.listen(0, resolve));
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    await eventuallyTold(open(t, `rediss://localhost:${port}`), /unable to verify|self-signed|issuer/);
    const known = tls.getCACertificates('default');
    tls.setDefaultCACertificates([...known, authority.certificate]);
    t.after(() => tls.setDefaultCACertificates(known));
    const opened = open(t, `rediss://localhost:${port}`);
    await eventuallyTold(opened, /^ready$/);
    assert.equal(await opened.client.send(['ECHO', 'safe']), 'safe');
    assert.equal(names.at(-1), 'localhost');
    assert.ok(opened.client.bytesReceived > 0);
    await eventuallyTold(open(t, `rediss://127.0.0.1:${port}`), /altnames/);
  });
});

describe('clients that share a connection', () => {
  async function share(t: TestContext) {
    const redis = await TestRedis.start();
    const shared = sharedClients();
    const join = (): Opened => open(t, redis.uri, shared(redis.uri, 'shared'));
    const both = [join(), join()] as const;
    for (const one of both) await eventuallyTold(one, /^ready$/);
    return { redis, join, both };
  }
  const echo = ({ client }: Opened, word: string): Promise<unknown> => client.send(['ECHO', word]);

  it('opens another connection for a client that gives up a silent server, and keeps the others on theirs', async (t) => {
    const { redis, join, both } = await share(t);
    const [one, two] = both;
    const connections = async (): Promise<number> =>
      String(await redis.command('CLIENT', 'LIST')).split('name=shared ').length - 1;
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const kept = echo(two, 'kept');
    one.leave();
    const again = join();
    await redis.signal('SIGCONT');
    assert.equal(await kept, 'kept');
    await eventuallyTold(again, /^ready$/);
    assert.deepEqual([await echo(again, 'again'), await echo(two, 'still')], ['again', 'still']);
    assert.equal(await connections(), 2);
    two.leave();
    await eventually('the old one ends with its last client', async () => (await connections()) === 1);
    await assert.rejects(echo(two, 'gone'));
    assert.deepEqual([one.told, two.told, again.told], [['ready'], ['ready'], ['ready']]);
  });

  it('notifies each client once when the connection breaks, except those that left before', async (t) => {
    const { redis, join, both } = await share(t);
    const [one, two] = both;
    one.onLost = () => two.leave();
    const waiting = assert.rejects(one.client.send(['BLPOP', 'nothing', '0']));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await waiting;
    assert.match(one.told.join(), /^ready,(?:the server closed the connection|read ECONNRESET)$/);
    assert.deepEqual(two.told, ['ready']);
    const again = join();
    await eventuallyTold(again, /^ready$/);
    const left = join();
    left.leave();
    assert.equal(await echo(again, 'again'), 'again');
    assert.deepEqual(left.told, []);
  });
});
