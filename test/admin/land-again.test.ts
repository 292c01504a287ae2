// `land-again` on one stream: which entries it concerns, how it asks, and what the group is then.
import assert from 'node:assert/strict';
import { before, beforeEach, describe, it, type TestContext } from 'node:test';
import { landAgain } from '../../lib/admin/land-again.ts';
import type { Session } from '../../lib/admin/session.ts';
import { createLog } from '../../lib/process/log.ts';
import { queueAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { GROUP, STREAM } from '../../lib/redis/stream/layout.ts';
import { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';

const LOG = createLog('test', 'error').child({}, { level: 'silent' });
const BASE_MS = 1_700_000_000_000;

let redis: TestRedis;
before(async () => {
  redis = await TestRedis.start(['--appendonly', 'no']);
});
/** Ten entries, one each second from BASE_MS on, of which the group has read the first eight. */
beforeEach(async () => {
  await redis.command('FLUSHALL');
  await redis.command('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM');
  for (let at = 0; at < 10; at += 1) await redis.command('XADD', STREAM, `${BASE_MS + at * 1_000}-0`, 'body', 'x');
  await redis.command('XREADGROUP', 'GROUP', GROUP, 'one', 'COUNT', '8', 'STREAMS', STREAM, '>');
  for (let at = 0; at < 8; at += 1) await redis.command('XACK', STREAM, GROUP, `${BASE_MS + at * 1_000}-0`);
});

interface Ran {
  readonly code: number;
  readonly said: string;
  readonly asked: readonly string[];
  /** What was recorded in the warehouse. */
  readonly audits: readonly { readonly command: string; readonly changed: number | undefined }[];
}

async function run(t: TestContext, sinceMs: number, agrees = true): Promise<Ran> {
  const queue = queueAdmin({ ...SYSTEM, uri: redis.uri, partitions: 1, log: LOG });
  t.after(() => Promise.all(queue.streams.map((stream) => stream.close())));
  let said = '';
  const asked: string[] = [];
  const audits: Ran['audits'][number][] = [];
  const say = (text: string): void => void (said += text);
  const session = {
    ...SYSTEM,
    queue,
    warehouse: { audit: (record: Ran['audits'][number]) => Promise.resolve(void audits.push(record)) },
    json: false,
    print: say,
    tell: say,
    confirm: (question: string) => Promise.resolve(asked.push(question) > 0 && agrees),
    progress: () => undefined,
  } as unknown as Session;
  const code = await landAgain(session, sinceMs);
  return { code, said, asked, audits };
}

const unread = async (): Promise<readonly string[]> => {
  const answer = await redis.command('XREADGROUP', 'GROUP', GROUP, 'two', 'STREAMS', STREAM, '>');
  const [[, entries]] = answer as [[string, [string, unknown][]]];
  return entries.map(([name]) => name);
};

describe('land-again', () => {
  it('has the group read again what it has read since a time, that millisecond included, and nothing before', async (t) => {
    const { code, said, asked, audits } = await run(t, BASE_MS + 5_000);
    assert.equal(code, 0);
    assert.match(asked.join(), /^Land 3 entries since 2023-11-14T22:13:25\.000Z again\?/);
    assert.match(said, /^3 entries/);
    assert.deepEqual(
      audits.map(({ command, changed }) => [command, changed]),
      [
        ['land-again', undefined],
        ['land-again', 3],
      ],
    );
    assert.deepEqual(
      await unread(),
      [5, 6, 7, 8, 9].map((at) => `${BASE_MS + at * 1_000}-0`),
    );
  });

  it('leaves the lag exact', async (t) => {
    await run(t, BASE_MS + 5_000);
    const [fields] = (await redis.command('XINFO', 'GROUPS', STREAM)) as (string | number)[][];
    assert.equal(fields?.[fields.indexOf('lag') + 1], 5);
  });

  it('asks first, and moves nothing after a no', async (t) => {
    const { code, asked } = await run(t, 0, false);
    assert.equal(code, 1);
    assert.match(asked.join(), /^Land 8 entries/);
    assert.equal((await unread()).length, 2);
  });

  it('never moves the group forward, past what it has not read', async (t) => {
    const { code, asked } = await run(t, BASE_MS + 9_000);
    assert.equal(code, 1);
    assert.deepEqual(asked, []);
    assert.equal((await unread()).length, 2);
  });

  it('counts more entries than one call looks at', async (t) => {
    const fill = `for n = 1, 5000 do redis.call('XADD', KEYS[1], '*', 'body', string.rep('x', 2000)) end`;
    await redis.command('EVAL', fill, '1', STREAM);
    await unread();
    assert.match((await run(t, 0)).asked.join(), /^Land 5,010 entries/);
    assert.equal((await unread()).length, 5_010);
  });
});
