// ingest-admin with SQLite, on a terminal, and where it needs no warehouse.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { environment } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { describeAdmin } from './program.ts';

describeAdmin('SQLite', async () => sqliteStore());

describe('ingest-admin', () => {
  it('names every wrong key at once, and needs no warehouse to measure', async () => {
    const program = new Program('ingest-admin', { args: ['status'] });
    assert.equal(await program.ended, 2);
    for (const key of ['INGEST_QUEUE_URI', 'INGEST_WAREHOUSE_URI'])
      assert.match(program.output, new RegExp(`${key}: is required`));
  });

  it("measures what a file's events take, and leaves nothing behind", async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const file = join(temporaryFolder(), 'events.ndjson');
    const line = (at: number): string => JSON.stringify({ id: `0190-event-${at}`, type: 't', text: 'x'.repeat(260) });
    writeFileSync(file, `${Array.from({ length: 2_000 }, (_, at) => line(at)).join('\n')}\nno event\n`);
    const admin = new Admin(redis, { uri: '' });
    const size = await admin.json<{
      events: number;
      bytesPerEvent: Record<'body' | 'stream' | 'index' | 'total', number>;
    }>(0, 'size', file);
    const { body, stream, index, total } = size.bytesPerEvent;
    assert.equal(size.events, 2_000);
    assert.ok(body > 300 && stream > body && index > 20 && Math.abs(stream + index - total) <= 1, JSON.stringify(size));
    assert.match((await admin.run('size', file)).out, /1,000 +[\d.]+ GiB/);
    assert.deepEqual(await redis.command('KEYS', 'ingest-size*'), []);
    assert.deepEqual(await redis.command('KEYS', '{ingest-size*'), []);
    assert.equal((await admin.run('size', join(file, 'none'))).code, 2);
  });

  it('draws one screen again and again on a terminal, asks there, and takes no for an answer', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = sqliteStore();
    const { env } = new Admin(redis, store);
    const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    await consumer.listening();
    await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', 'no json');
    await eventually('it is in the quarantine', async () => (await store.quarantine().catch(() => [])).length === 1);
    const script = execFileSync(new URL('../../bin/ensure-command', import.meta.url).pathname, ['script', 'bsdutils'], {
      encoding: 'utf8',
    }).trim();
    const program = new URL('../../bin/ingest-admin', import.meta.url).pathname;
    const onTerminal = (line: string, rows = 40) => {
      const child = spawn(script, ['-qec', `stty rows ${rows} cols 120; exec ${program} ${line}`, '/dev/null'], {
        env: environment(env),
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const seen = { out: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (seen.out += text));
      const ended = new Promise((resolve) => child.once('exit', resolve));
      return { child, seen, ended };
    };

    // One of 0 rows does not know how many it has.
    for (const rows of [40, 0]) {
      const watching = onTerminal('status --watch', rows);
      await eventually('two looks', () => watching.seen.out.split('\x1b[H').length > 2);
      watching.child.stdin.write('\x03');
      assert.equal(await watching.ended, 0);
      assert.match(watching.seen.out, /quarantine row/);
    }

    for (const [answer, left] of [
      ['n', 1],
      ['y', 0],
    ] as const) {
      const dropping = onTerminal('quarantine drop --all');
      await eventually('it asks', () => dropping.seen.out.includes('[y/N]'));
      dropping.child.stdin.write(`${answer}\n`);
      assert.equal(await dropping.ended, left, dropping.seen.out);
      assert.equal((await store.quarantine()).length, left);
    }
    await consumer.kill();
  });
});
