import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { ByteClient } from '../../lib/redis/wire/byte-client.ts';
import { SharedClients } from '../../lib/redis/server/shared-clients.ts';
import type { Client } from '../../lib/redis/server/client.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

interface Sharer {
  readonly client: Client;
  readonly told: string[];
}

interface Shared {
  readonly redis: TestRedis;
  readonly shared: SharedClients;
  readonly join: () => Sharer;
  readonly connections: () => Promise<number>;
}

async function share(t: TestContext): Promise<Shared> {
  const redis = await TestRedis.start();
  const shared = new SharedClients((uri) => new ByteClient({ ...SYSTEM, uri, name: 'shared' }));
  const join = (): Sharer => {
    const client = shared.open(redis.uri);
    const told: string[] = [];
    for (const event of ['ready', 'error', 'refused']) client.on(event, () => told.push(event));
    t.after(() => client.destroy());
    client.connect();
    return { client, told };
  };
  const connections = async (): Promise<number> =>
    String(await redis.command('CLIENT', 'LIST')).split('name=shared ').length - 1;
  return { redis, shared, join, connections };
}

const ready = (...sharers: Sharer[]): Promise<unknown> =>
  eventually('they are told', () => sharers.every(({ client, told }) => client.isReady && told.includes('ready')));
const echo = async ({ client }: Sharer, word: string): Promise<string> => (await client.send(['ECHO', word])).text();

describe('clients that share a connection', () => {
  it('opens one connection to each server, and notifies clients that join later', async (t) => {
    const { join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    const three = join();
    await ready(three);
    assert.equal(await connections(), 1);
    assert.deepEqual([one.told, two.told, three.told], [['ready'], ['ready'], ['ready']]);
  });

  it('notifies no client that has left', async (t) => {
    const { redis, join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    const three = join();
    three.client.destroy();
    const causes: unknown[] = [];
    one.client.on('error', (cause) => {
      causes.push(cause);
      two.client.destroy();
    });
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually('it stands again', () => one.told.length === 3);
    assert.match(String(causes), /closed by the other side|ECONNRESET/);
    assert.deepEqual([two.told, three.told], [['ready'], []]);
  });

  it('sends each client its own replies, and its own refusals only', async (t) => {
    const { join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    const [first, refusal, second] = await Promise.allSettled([
      echo(one, '1'),
      two.client.send(['NOPE']),
      echo(one, '2'),
    ]);
    assert.deepEqual(
      [first, second].map((settled) => settled.status === 'fulfilled' && settled.value),
      ['1', '2'],
    );
    assert.equal(refusal.status, 'rejected');
    assert.deepEqual([one.told, two.told], [['ready'], ['ready', 'refused']]);
  });

  it("gives up only one client's commands at a silent server, and opens another connection for it", async (t) => {
    const { redis, join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const given = assert.rejects(echo(one, 'given up'), /closed/);
    const kept = echo(two, 'kept');
    one.client.destroy();
    await given;
    const again = join();
    await redis.signal('SIGCONT');
    assert.equal(await kept, 'kept');
    await ready(again);
    assert.equal(await echo(again, 'again'), 'again');
    assert.equal(await echo(two, 'still'), 'still');
    assert.equal(await connections(), 2);
    assert.deepEqual([one.told, two.told, again.told], [['ready'], ['ready'], ['ready']]);
    two.client.destroy();
    await eventually('the old one ends with its last sharer', async () => (await connections()) === 1);
    await assert.rejects(echo(two, 'gone'), /closed/);
  });

  it('shares one connection again after the given-up commands have their replies', async (t) => {
    const { redis, join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const given = assert.rejects(echo(one, 'given up'), /closed/);
    const behind = echo(two, 'behind it');
    one.client.destroy();
    await given;
    await redis.signal('SIGCONT');
    assert.equal(await behind, 'behind it');
    const again = join();
    await ready(again);
    assert.equal(await connections(), 1);
  });

  it('keeps the connection for the other clients, and closes it with the last one', async (t) => {
    const { join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    one.client.destroy();
    one.client.destroy();
    const three = join();
    await ready(three);
    assert.equal(await connections(), 1);
    assert.equal(await echo(two, 'there'), 'there');
    two.client.destroy();
    assert.equal(await echo(three, 'there'), 'there');
    three.client.destroy();
    await eventually('it is closed', async () => (await connections()) === 0);
    const four = join();
    await ready(four);
    assert.equal(await connections(), 1);
  });

  it('notifies all clients when the connection breaks, fails their commands, and notifies them again', async (t) => {
    const { redis, join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    // The second client leaves while the error event is being emitted.
    two.client.on('error', () => two.client.destroy());
    const waiting = assert.rejects(one.client.send(['BLPOP', 'nothing', '0']));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await waiting;
    await eventually('it stands again', () => one.told.length === 3);
    assert.deepEqual(
      [one.told, two.told],
      [
        ['ready', 'error', 'ready'],
        ['ready', 'error'],
      ],
    );
    assert.equal(await echo(one, 'again'), 'again');
  });

  it('closes a client after its own replies', async (t) => {
    const { redis, join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    const last = echo(one, 'last');
    const waiting = two.client.send(['BLPOP', 'list', '0']);
    await one.client.close();
    assert.equal(await last, 'last');
    assert.equal(one.client.isReady, false);
    await redis.command('RPUSH', 'list', 'there');
    assert.deepEqual((await waiting).value(), ['list', 'there']);
    await two.client.close();
    await eventually('it is closed', async () => (await connections()) === 0);
  });

  it('closes a client at a silent server immediately if it is destroyed', async (t) => {
    const { redis, join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const given = assert.rejects(echo(one, 'given up'), /closed/);
    const closed = one.client.close();
    one.client.destroy();
    await closed;
    await given;
    assert.equal(two.client.isReady, true);
  });
});
