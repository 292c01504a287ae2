import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { Credentials, watchCredentials, type Places } from '../../lib/process/credentials.ts';
import type { ReadConfig } from '../../lib/process/env.ts';
import { createLog, type Log } from '../../lib/process/log.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const LOG = createLog('test', 'error').child({}, { level: 'silent' });

describe('credentials that change', () => {
  it('are put into a URI in place of those that it has, or taken out', () => {
    const some = new Credentials('redis+cluster://shop:p%40ss@a:1,b:2');
    assert.equal(some.applied('redis://a:1/3'), 'redis://shop:p%40ss@a:1/3');
    assert.equal(some.applied('rediss://old:x@[::1]:1'), 'rediss://shop:p%40ss@[::1]:1');
    assert.equal(new Credentials('redis://a').applied('redis://old@a'), 'redis://a');
    assert.equal(new Credentials('sqlite:/x?u=redis://a:b@h').applied('redis://h'), 'redis://h');
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

it('credentials that do not work are a warning in ten seconds, with the reason, and the end is told once', async () => {
  const clock = new VirtualClock();
  const lines: unknown[][] = [];
  const log = {
    warn: (...line: unknown[]) => lines.push(['warn', ...line]),
    info: (...line: unknown[]) => lines.push(['info', ...line]),
  } as unknown as Log;
  const one = new Credentials('redis://a:1@h');
  let failing = true;
  one.onChange(() => (failing ? Promise.reject(new Error('WRONGPASS')) : Promise.resolve()));
  await one.change('redis://a:1@h', 'the queue', clock, log);
  assert.deepEqual(lines, []);
  const change = one.change('redis://a:2@h', 'the queue', clock, log);
  await clock.advance(9_500);
  const warning = 'the queue: the new user and password do not work yet; the connections with the old ones stay';
  assert.deepEqual(lines, [['warn', { reason: 'WRONGPASS' }, warning]]);
  await clock.advance(1_000);
  assert.equal(lines.length, 2);
  failing = false;
  await clock.advance(1_000);
  await change;
  assert.deepEqual(lines.slice(2), [['info', 'the queue: all connections have the new user and password']]);
});

describe('the files of the URIs', () => {
  const KEYS = ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'] as const;

  /** Credentials of files that hold these URIs; `write` changes them and has them looked at. */
  async function watched(t: TestContext, queueUri: string, warehouseUri?: string) {
    const folder = temporaryFolder();
    const files = KEYS.map((key) => join(folder, key));
    const [queueFile = '', warehouseFile = ''] = files;
    const put = (uris: readonly string[]): void => files.forEach((file, at) => writeFileSync(file, uris[at] ?? ''));
    put([queueUri, warehouseUri ?? '']);
    const errors: string[] = [];
    const infos: string[] = [];
    const log = {
      ...LOG,
      info: (text: string) => infos.push(text),
      error: (text: string) => errors.push(text),
    } as unknown as Log;
    const read = (): ReadConfig<Places> => {
      const uri = readFileSync(queueFile, 'utf8');
      const problems = uri.startsWith('redis') ? [] : ['INGEST_QUEUE_URI: expected a URI'];
      const config = { queueUri: uri, warehouseUri: readFileSync(warehouseFile, 'utf8') || undefined };
      const log = { level: 'info', format: 'json' } as const;
      return { config: problems.length === 0 ? config : undefined, report: { problems, warnings: [] }, log };
    };
    const environment = { INGEST_QUEUE_URI_FILE: queueFile, INGEST_WAREHOUSE_URI_FILE: warehouseFile };
    const clock = new VirtualClock();
    const credentials = await watchCredentials({ queueUri, warehouseUri }, environment, read, clock, log);
    t.after(() => credentials.stop());
    const write = (...uris: readonly string[]): Promise<void> => {
      put(uris);
      return credentials.reload();
    };
    return { credentials, errors, infos, write, put, clock };
  }

  it('are looked at without a signal, each of them, until the watch is stopped', async (t) => {
    const { credentials, put, clock } = await watched(t, 'redis://a:1@one', 'postgres://w:1@h/db');
    const seen = async (what: () => boolean): Promise<void> => {
      await eventually('the change is seen', async () => {
        await clock.advance(250);
        return what();
      });
    };
    put(['redis://a:2@one', 'postgres://w:1@h/db']);
    await seen(() => credentials.queue[0]?.applied('redis://x') === 'redis://a:2@x');
    put(['redis://a:2@one', 'postgres://w:2@h/db']);
    await seen(() => credentials.warehouse.applied('postgres://h/db') === 'postgres://w:2@h/db');
    await eventually('the next look is due', () => clock.pending === 1);
    credentials.stop();
    assert.equal(clock.pending, 0);
  });

  it('give a new password to the queue where there is no warehouse', async (t) => {
    const { credentials, errors, write } = await watched(t, 'redis://a:1@one');
    await write('redis://a:2@one', '');
    assert.deepEqual(errors, []);
    assert.equal(credentials.queue[0]?.applied('redis://x'), 'redis://a:2@x');
  });

  it('give new users and passwords of every queue and of the warehouse', async (t) => {
    const { credentials, infos, write } = await watched(t, 'redis://a:1@one redis://b:1@two', 'postgres://w:1@h/db');
    await write('redis://a:2@one redis://b:3@two', 'postgres://v:4@h/db');
    assert.deepEqual(
      credentials.queue.map((one) => one.applied('redis://x')),
      ['redis://a:2@x', 'redis://b:3@x'],
    );
    assert.equal(credentials.warehouse.applied('postgres://h/db'), 'postgres://v:4@h/db');
    await eventually('all have been told of', () => infos.length === 3);
    assert.deepEqual(
      infos,
      ['the queue', 'the queue', 'the warehouse'].map(
        (name) => `${name}: all connections have the new user and password`,
      ),
    );
  });

  it('change nothing where they name one queue less, and the log says so', async (t) => {
    const { credentials, errors, write } = await watched(t, 'redis://a:1@one redis://b:1@two', 'postgres://w:1@h/db');
    await write('redis://a:2@one', 'postgres://w:1@h/db');
    assert.equal(credentials.queue[0]?.applied('redis://x'), 'redis://a:1@x');
    assert.deepEqual(errors, [
      'the URI of the queue or of the warehouse names another place now: that takes a restart',
    ]);
  });

  for (const [what, uris, error] of [
    ['another place', ['redis://a:2@other', 'postgres://w:1@h/db'], /names another place now/],
    ['another warehouse', ['redis://a:2@one', 'postgres://w:1@h/other'], /names another place now/],
    ['one queue more', ['redis://a:2@one redis://b:2@two', 'postgres://w:1@h/db'], /names another place now/],
    ['no warehouse any more', ['redis://a:2@one', ''], /names another place now/],
    ['what is wrong', ['one', 'postgres://w:1@h/db'], /cannot be used: INGEST_QUEUE_URI: expected a URI/],
  ] as const)
    it(`change nothing where they name ${what}, and the log says so`, async (t) => {
      const { credentials, errors, write } = await watched(t, 'redis://a:1@one', 'postgres://w:1@h/db');
      await write(...uris);
      assert.equal(credentials.queue[0]?.applied('redis://x'), 'redis://a:1@x');
      assert.equal(errors.length, 1);
      assert.match(errors[0] ?? '', error);
    });
});
