// What servers say of themselves, in whatever form, and what is made of it.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Server } from '../../lib/redis/wire/script.ts';
import {
  assertMaster,
  isMoved,
  isNotMaster,
  isRefusing,
  serverHello,
  serverHistory,
  serverInfo,
  serverName,
} from '../../lib/redis/server/facts.ts';
import { Histories } from '../../lib/redis/server/histories.ts';
import { MasterWatch, type MasterLookup } from '../../lib/redis/server/master-lookup.ts';
import { isPasswordRefused, RedisError } from '../../lib/redis/wire/errors.ts';
import type { RedisValue } from '../../lib/redis/wire/reply.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const answering = (answer: RedisValue): Server => ({ send: () => Promise.resolve(answer) });
const refusing = (cause: Error): Server => ({ send: () => Promise.reject(cause) });

describe('an error of a server', () => {
  it('has the first word as its code where that is one, and ERR otherwise', () => {
    const codes = ['READONLY no', 'NOGROUP', 'Oops no', 'ERR x', 'no'].map((text) => new RedisError(text).code);
    assert.deepEqual(codes, ['READONLY', 'NOGROUP', 'ERR', 'ERR', 'ERR']);
  });

  it('says that the server is no master, has moved the key, or refuses writes for now', () => {
    const kinds = ['READONLY', 'MASTERDOWN', 'LOADING', 'MOVED', 'NOREPLICAS', 'MISCONF', 'OOM', 'BUSY', 'ERR'];
    const are = (is: (cause: unknown) => boolean): string[] => kinds.filter((kind) => is(new RedisError(`${kind} x`)));
    assert.deepEqual(are(isNotMaster), ['READONLY', 'MASTERDOWN', 'LOADING']);
    assert.deepEqual(are(isMoved), ['MOVED']);
    assert.deepEqual(are(isRefusing), ['NOREPLICAS', 'MISCONF', 'OOM', 'BUSY']);
    for (const is of [isNotMaster, isMoved, isRefusing]) assert.equal(is(new Error('READONLY MOVED OOM')), false);
  });

  it('is one of the password where it is WRONGPASS or NOAUTH', () => {
    assert.equal(isPasswordRefused('WRONGPASS invalid'), true);
    assert.equal(isPasswordRefused('NOAUTH required'), true);
    assert.equal(isPasswordRefused('a NOAUTH required'), false);
  });
});

describe('what a server says of itself', () => {
  it('is read line by line, and is nothing where it refuses to tell', async () => {
    const text = '# Server\r\nredis_version:7.0.15\r\nconfig_file:/a:b\r\n:empty\r\nplain\r\n';
    assert.deepEqual(
      [...(await serverInfo(answering(text), 'server'))],
      [
        ['redis_version', '7.0.15'],
        ['config_file', '/a:b'],
      ],
    );
    assert.equal((await serverInfo(refusing(new RedisError('NOPERM x')), 'server')).size, 0);
    await assert.rejects(serverInfo(refusing(new RedisError('LOADING x')), 'server'), /LOADING/);
    await assert.rejects(serverInfo(refusing(new Error('lost')), 'server'), /lost/);
  });

  it('names it with its version, Redis or Valkey', () => {
    assert.equal(serverName(new Map([['redis_version', '7.0.15']])), 'Redis 7.0.15');
    const valkey = new Map([
      ['redis_version', '7.2.4'],
      ['valkey_version', '8.1.0'],
    ]);
    assert.equal(serverName(valkey), 'Valkey 8.1.0');
    assert.equal(serverName(new Map()), 'Redis of an unknown version');
  });

  it('is that it is a master, or nothing where it does not know HELLO', async () => {
    await assertMaster(answering(['server', 'redis', 'role', 'master']));
    await assertMaster(answering(['server', 'proxy']));
    await assertMaster(answering('a proxy'));
    await assertMaster(refusing(new RedisError('ERR unknown command')));
    assert.equal((await serverHello(refusing(new RedisError('ERR unknown command')))).size, 0);
    await assert.rejects(assertMaster(answering(['role', 'replica'])), {
      name: 'RedisError',
      code: 'READONLY',
      message: 'READONLY the server is a replica, and no master',
    });
    await assert.rejects(assertMaster(refusing(new RedisError('MASTERDOWN x'))), /MASTERDOWN/);
    await assert.rejects(assertMaster(refusing(new Error('lost'))), /lost/);
  });
});

describe('the servers that connections have met', () => {
  const server = (history: string): Server => answering(`role:master\r\nmaster_replid:${history}\r\n`);

  it('are numbered by their histories in the order in which they were met, for all connections', async () => {
    const histories = new Histories();
    const [one, other] = [{}, {}];
    assert.equal(await serverHistory(server('a')), 'a');
    assert.equal(histories.of(one), 0);
    assert.equal(await histories.meet(server('a'), one), false, 'the first one is no other one');
    assert.equal(await histories.meet(server('a'), one), false);
    assert.equal(histories.of(one), 0);
    assert.equal(await histories.meet(server('b'), one), true);
    assert.equal(histories.of(one), 1);
    assert.equal(histories.of(other), 0);
    assert.equal(await histories.meet(server('b'), other), false);
    assert.equal(histories.of(other), 1);
    assert.equal(await histories.meet(server('a'), one), true);
    assert.equal(histories.of(one), 0);
  });

  it('are one where they do not tell', async () => {
    const [histories, connection] = [new Histories(), {}];
    for (let time = 0; time < 2; time += 1)
      assert.equal(await histories.meet(refusing(new RedisError('NOPERM x')), connection), false);
    assert.equal(histories.of(connection), 0);
  });
});

describe('the watch of a master', () => {
  /** A look-up that says in order what it is given, and the last of it from then on. */
  function watched(answers: (string | Error)[], watchMs?: number) {
    const clock = new VirtualClock();
    const told = { others: 0, looks: 0 };
    const find = (): Promise<string> => {
      told.looks += 1;
      const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? '';
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    };
    const lookup: MasterLookup = watchMs === undefined ? { find } : { find, watchMs };
    const watch = new MasterWatch(clock);
    const begin = (): void => watch.begin(lookup, 'redis://user:old@one:1/2', () => (told.others += 1));
    begin();
    return { clock, told, watch, begin };
  }

  it('looks again and again, also after a failure, and tells of another server once', async () => {
    const { clock, told } = watched(['redis://user:new@one:1/2', new Error('away'), 'redis://other:1'], 500);
    await clock.advance(499);
    assert.equal(told.looks, 0);
    await clock.advance(1);
    assert.equal(told.looks, 1);
    await clock.advance(500);
    assert.equal(told.others, 0);
    await clock.advance(500);
    assert.equal(told.others, 1);
    await clock.advance(5_000);
    assert.deepEqual(told, { others: 1, looks: 3 });
  });

  it('looks nowhere where the look-up asks for none', async () => {
    const { clock, told } = watched(['redis://other:1']);
    await clock.advance(5_000);
    assert.equal(told.looks, 0);
    assert.equal(clock.pending, 0);
  });

  it('tells nothing after its end, and is one however often it begins', async () => {
    const { clock, told, watch, begin } = watched(['redis://other:1'], 500);
    begin();
    assert.equal(clock.pending, 1);
    watch.end();
    assert.equal(clock.pending, 0);
    await clock.advance(5_000);
    assert.equal(told.looks, 0);
  });
});
