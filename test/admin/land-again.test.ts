import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { InProcess, no } from './in-process.ts';

const BASE_MS = Date.UTC(2026, 0, 31);
const nameOf = (at: number): string => `${BASE_MS + at * 1_000}-0`;
const SINCE_5 = 'land-again --since 2026-01-31T00:00:05Z';

describe('land-again', () => {
  const admin = new InProcess();
  beforeEach(async () => {
    await admin.redis.command('XGROUP', 'CREATE', 'ingest', 'warehouse', '0', 'MKSTREAM');
    for (let at = 0; at < 10; at += 1) await admin.redis.command('XADD', 'ingest', nameOf(at), 'body', 'x');
    await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'one', 'COUNT', '8', 'STREAMS', 'ingest', '>');
    for (let at = 0; at < 8; at += 1) await admin.redis.command('XACK', 'ingest', 'warehouse', nameOf(at));
  });

  const unread = async (): Promise<readonly string[]> => {
    const answer = await admin.redis.command('XREADGROUP', 'GROUP', 'warehouse', 'two', 'STREAMS', 'ingest', '>');
    const [[, entries]] = answer as [[string, [string, unknown][]]];
    return entries.map(([name]) => name);
  };

  it('lets the group read again what it has read since a time, that millisecond included', async (t) => {
    const { code, out, questions } = await admin.run(t, SINCE_5);
    assert.equal(code, 0);
    assert.match(questions.join(), /^Land 3 entries since 2026-01-31T00:00:05\.000Z again\?/);
    assert.match(out, /^consumers land 3 entries/);
    assert.deepEqual(admin.rows(t, 'SELECT command, changed FROM ingest_audit'), [
      { command: 'land-again', changed: 3 },
    ]);
    const [fields] = (await admin.redis.command('XINFO', 'GROUPS', 'ingest')) as (string | number)[][];
    assert.equal(fields?.[fields.indexOf('lag') + 1], 5);
    assert.deepEqual(await unread(), [5, 6, 7, 8, 9].map(nameOf));
  });

  it('changes nothing after a no', async (t) => {
    assert.equal((await admin.run(t, SINCE_5, { confirm: no })).code, 1);
    assert.deepEqual(await unread(), [8, 9].map(nameOf));
  });

  it('never moves the group forward, past entries that it has not read', async (t) => {
    const { code, questions } = await admin.run(t, 'land-again --since 2026-01-31T00:00:09Z');
    assert.deepEqual([code, questions], [1, []]);
    assert.deepEqual(await unread(), [8, 9].map(nameOf));
  });

  it('finds more entries than one call reads', async (t) => {
    const fill = `for n = 1, 5000 do redis.call('XADD', KEYS[1], '*', 'body', string.rep('x', 2000)) end`;
    await admin.redis.command('EVAL', fill, '1', 'ingest');
    await unread();
    assert.match((await admin.run(t, 'land-again --since 2026-01-01')).out, /^consumers land 5,010 entries/);
    assert.equal((await unread()).length, 5_010);
  });
});
