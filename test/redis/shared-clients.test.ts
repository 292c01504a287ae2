import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { type Client, sharedClients } from '../../lib/redis/wire/redis-client.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';

interface Share {
  readonly client: Client;
  readonly told: string[];
  readonly leave: () => void;
  onLost: () => void;
}

interface Shared {
  readonly redis: TestRedis;
  readonly join: () => Share;
  readonly connections: () => Promise<number>;
}

async function share(t: TestContext): Promise<Shared> {
  const redis = await TestRedis.start();
  const shared = sharedClients();
  const join = (): Share => {
    const client = shared(redis.uri, 'shared');
    const told: string[] = [];
    const one: Share = {
      client,
      told,
      leave: () => client.leave(user),
      onLost: () => undefined,
    };
    const user = {
      onReady: () => void told.push('ready'),
      onLost: () => {
        told.push('lost');
        one.onLost();
      },
    };
    t.after(one.leave);
    client.join(user);
    return one;
  };
  const connections = async (): Promise<number> =>
    String(await redis.command('CLIENT', 'LIST')).split('name=shared ').length - 1;
  return { redis, join, connections };
}

const ready = (...shares: Share[]): Promise<unknown> =>
  eventually('they are told', () => shares.every(({ told }) => told.includes('ready')));
const echo = ({ client }: Share, word: string): Promise<unknown> => client.send(['ECHO', word]);

describe('clients that share a connection', () => {
  it('opens another connection for a client that gives up a silent server, and keeps the others on theirs', async (t) => {
    const { redis, join, connections } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    await redis.signal('SIGSTOP');
    t.after(() => redis.signal('SIGCONT'));
    const kept = echo(two, 'kept');
    one.leave();
    const again = join();
    await redis.signal('SIGCONT');
    assert.equal(await kept, 'kept');
    await ready(again);
    assert.deepEqual([await echo(again, 'again'), await echo(two, 'still')], ['again', 'still']);
    assert.equal(await connections(), 2);
    two.leave();
    await eventually('the old one ends with its last client', async () => (await connections()) === 1);
    await assert.rejects(echo(two, 'gone'));
    assert.deepEqual([one.told, two.told, again.told], [['ready'], ['ready'], ['ready']]);
  });

  it('notifies each client once when the connection breaks, except those that left before', async (t) => {
    const { redis, join } = await share(t);
    const [one, two] = [join(), join()];
    await ready(one, two);
    one.onLost = () => two.leave();
    const waiting = assert.rejects(one.client.send(['BLPOP', 'nothing', '0']));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await waiting;
    assert.deepEqual([one.told, two.told], [['ready', 'lost'], ['ready']]);
    const again = join();
    await ready(again);
    assert.equal(await echo(again, 'again'), 'again');
  });
});
