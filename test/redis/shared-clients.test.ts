import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { SharedClients } from '../../lib/redis/server/shared-clients.ts';
import { type Client, RedisClient } from '../../lib/redis/wire/redis-client.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

interface Share {
  readonly client: Client;
  readonly told: string[];
}

interface Shared {
  readonly redis: TestRedis;
  readonly join: () => Share;
  readonly connections: () => Promise<number>;
}

async function share(t: TestContext): Promise<Shared> {
  const redis = await TestRedis.start();
  const shared = new SharedClients((uri, name) => new RedisClient(uri, name));
  const join = (): Share => {
    const client = shared.open(redis.uri, 'shared');
    const told: string[] = [];
    for (const event of ['ready', 'error'] as const) client.on(event, () => told.push(event));
    t.after(() => client.destroy());
    client.connect();
    return { client, told };
  };
  const connections = async (): Promise<number> =>
    String(await redis.command('CLIENT', 'LIST')).split('name=shared ').length - 1;
  return { redis, join, connections };
}

const ready = (...shares: Share[]): Promise<unknown> =>
  eventually('they are told', () => shares.every(({ told }) => told.includes('ready')));
const echo = ({ client }: Share, word: string): Promise<unknown> => client.send(['ECHO', word]);

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

  it('opens another connection for a client that gives up a silent server, and keeps the others on theirs', async (t) => {
    const { redis, join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const kept = echo(two, 'kept');
    one.client.destroy();
    const again = join();
    await redis.signal('SIGCONT');
    assert.equal(await kept, 'kept');
    await ready(again);
    assert.deepEqual([await echo(again, 'again'), await echo(two, 'still')], ['again', 'still']);
    assert.equal(await connections(), 2);
    two.client.destroy();
    await eventually('the old one ends with its last client', async () => (await connections()) === 1);
    await assert.rejects(echo(two, 'gone'));
    assert.deepEqual([one.told, two.told, again.told], [['ready'], ['ready'], ['ready']]);
  });

  it('notifies each client once when the connection breaks, except those that left before', async (t) => {
    const { redis, join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    one.client.on('error', () => two.client.destroy());
    const waiting = assert.rejects(one.client.send(['BLPOP', 'nothing', '0']));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await waiting;
    assert.deepEqual([one.told, two.told], [['ready', 'error'], ['ready']]);
    const again = join();
    await ready(again);
    assert.equal(await echo(again, 'again'), 'again');
  });

  it('closes the connection with the last client', async (t) => {
    const { join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    one.client.destroy();
    assert.equal(await echo(two, 'there'), 'there');
    two.client.destroy();
    await eventually('it is closed', async () => (await connections()) === 0);
  });
});
