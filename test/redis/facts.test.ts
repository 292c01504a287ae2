import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Server } from '../../lib/redis/wire/script.ts';
import {
  assertMaster,
  isMoved,
  isNotMaster,
  isRefusing,
  serverHello,
  serverInfo,
  serverName,
} from '../../lib/redis/server/facts.ts';
import { isPasswordRefused, RedisError } from '../../lib/redis/wire/errors.ts';
import type { RedisValue } from '../../lib/redis/wire/reply.ts';

const answering = (answer: RedisValue): Server => ({ send: () => Promise.resolve(answer) });
const refusing = (cause: Error): Server => ({ send: () => Promise.reject(cause) });

describe('an error of a server', () => {
  it('takes the first word of an error as its code, or ERR', () => {
    const codes = ['READONLY no', 'NOGROUP', 'Oops no', 'ERR x', 'no'].map((text) => new RedisError(text).code);
    assert.deepEqual(codes, ['READONLY', 'NOGROUP', 'ERR', 'ERR', 'ERR']);
  });

  it('recognizes errors of a replica, of a moved key, and of a server that refuses writes', () => {
    const kinds = ['READONLY', 'MASTERDOWN', 'LOADING', 'MOVED', 'NOREPLICAS', 'MISCONF', 'OOM', 'BUSY', 'ERR'];
    const are = (is: (cause: unknown) => boolean): string[] => kinds.filter((kind) => is(new RedisError(`${kind} x`)));
    assert.deepEqual(are(isNotMaster), ['READONLY', 'MASTERDOWN', 'LOADING']);
    assert.deepEqual(are(isMoved), ['MOVED']);
    assert.deepEqual(are(isRefusing), ['NOREPLICAS', 'MISCONF', 'OOM', 'BUSY']);
    for (const is of [isNotMaster, isMoved, isRefusing]) assert.equal(is(new Error('READONLY MOVED OOM')), false);
  });

  it('recognizes WRONGPASS and NOAUTH as refused passwords', () => {
    assert.equal(isPasswordRefused('WRONGPASS invalid'), true);
    assert.equal(isPasswordRefused('NOAUTH required'), true);
    assert.equal(isPasswordRefused('a NOAUTH required'), false);
  });
});

describe('the facts that a server reports', () => {
  it('reads INFO line by line, and reads nothing if the server refuses the command', async () => {
    const text = '# Server\r\nredis_version:7.0.15\r\nconfig_file:/a:b\r\n:empty\r\nplain\r\n';
    assert.deepEqual(
      [...(await serverInfo(answering(text)))],
      [
        ['redis_version', '7.0.15'],
        ['config_file', '/a:b'],
      ],
    );
    assert.equal((await serverInfo(refusing(new RedisError('NOPERM x')))).size, 0);
    await assert.rejects(serverInfo(refusing(new RedisError('LOADING x'))), /LOADING/);
    await assert.rejects(serverInfo(refusing(new Error('lost'))), /lost/);
  });

  it('names the server with its version, Redis or Valkey', () => {
    assert.equal(serverName(new Map([['redis_version', '7.0.15']])), 'Redis 7.0.15');
    const valkey = new Map([
      ['redis_version', '7.2.4'],
      ['valkey_version', '8.1.0'],
    ]);
    assert.equal(serverName(valkey), 'Valkey 8.1.0');
    assert.equal(serverName(new Map()), 'Redis of an unknown version');
  });

  it('accepts a master, and a server that does not know HELLO', async () => {
    await assertMaster(answering(['server', 'redis', 'role', 'master']));
    await assertMaster(answering(['server', 'proxy']));
    await assertMaster(answering('a proxy'));
    await assertMaster(refusing(new RedisError('ERR unknown command')));
    assert.equal((await serverHello(refusing(new RedisError('ERR unknown command')))).size, 0);
    await assert.rejects(assertMaster(answering(['role', 'replica'])), {
      name: 'RedisError',
      code: 'READONLY',
      message: 'READONLY the server is a replica, not a master',
    });
    await assert.rejects(assertMaster(refusing(new RedisError('MASTERDOWN x'))), /MASTERDOWN/);
    await assert.rejects(assertMaster(refusing(new Error('lost'))), /lost/);
  });
});
