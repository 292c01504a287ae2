import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Credentials } from '../../lib/process/credentials.ts';
import { createLog } from '../../lib/process/log.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LOG = createLog('test', 'error').child({}, { level: 'silent' });

describe('credentials that change', () => {
  it('are put into a URI in place of those that it has, or taken out', () => {
    const some = new Credentials('redis+cluster://shop:p%40ss@a:1,b:2');
    assert.equal(some.applied('redis://a:1/3'), 'redis://shop:p%40ss@a:1/3');
    assert.equal(some.applied('rediss://old:x@[::1]:1'), 'rediss://shop:p%40ss@[::1]:1');
    assert.equal(new Credentials('redis://a').applied('redis://old@a'), 'redis://a');
    assert.equal(new Credentials('sqlite:/x@y').applied('sqlite:/x@y'), 'sqlite:/x@y');
    assert.equal(
      new Credentials('postgres://u:p@h/db').applied('postgres://h/db?host=/tmp/a@b'),
      'postgres://u:p@h/db?host=/tmp/a@b',
    );
  });

  it('are of the same place only where nothing but user and password differs', () => {
    const one = new Credentials('postgres://u:p@h/db');
    assert.ok(one.isSamePlace('postgres://v:q@h/db') && one.isSamePlace('postgres://h/db'));
    for (const other of ['postgres://u:p@h/other', 'postgres://u:p@i/db', 'postgresql://u:p@h/db'])
      assert.ok(!one.isSamePlace(other), other);
  });

  it('are tried again each second for the connections that could not be replaced, until the next change', async () => {
    const clock = new VirtualClock();
    const one = new Credentials('redis://a:1@h');
    const tried = { works: 0, fails: 0 };
    let known = '2';
    one.onChange(() => Promise.resolve(void (tried.works += 1)));
    one.onChange(async () => {
      tried.fails += 1;
      if (one.applied('redis://h') !== `redis://a:${known}@h`) throw new Error('WRONGPASS');
    });
    known = '3';
    const second = one.change('redis://a:2@h', 'the queue', clock, LOG);
    await clock.advance(2_500);
    assert.deepEqual(tried, { works: 1, fails: 3 });
    const third = one.change('redis://a:3@h', 'the queue', clock, LOG);
    await clock.advance(5_000);
    await Promise.all([second, third]);
    assert.equal(tried.works, 2);
  });
});
