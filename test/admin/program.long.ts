// ingest-admin with PostgreSQL, on a terminal, and with a Redis user of few rights.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';
import { environment } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { describeAdmin } from './program.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

describeAdmin('PostgreSQL', () => postgresStore(postgres));

describe('ingest-admin', () => {
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

describe("the README's rule for a Redis user of ingest-admin", () => {
  it('lets every command pass, and another key is refused', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = sqliteStore();
    const readme = readFileSync(new URL('../../deploy/README.md', import.meta.url), 'utf8');
    const [, rule = ''] = /ACL SETUSER ingest-admin (.+)/.exec(readme) ?? [];
    await redis.command('ACL', 'SETUSER', 'ingest-admin', ...rule.replace('>PASSWORD', '>secret').split(' '));
    const consumer = new Program('ingest-consumer', {
      env: { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0' },
    });
    await consumer.listening();
    await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', '{"id":"one","type":"t"}');
    await redis.command('XADD', 'ingest', '*', 'producer', 'other', 'body', '{"id":"one","type":"t"}');
    await eventually('they are there', async () => (await store.quarantine().catch(() => [])).length === 1);
    const admin = new Admin({ uri: redis.uri.replace('//', '//ingest-admin:secret@') }, store);
    for (const [code, ...line] of [
      [0, 'status'],
      [0, 'event', 'one'],
      [1, 'quarantine', 'replay', '--all', '--yes'],
      [0, 'erase', 'one', '--yes'],
      [0, 'quarantine', 'drop', '--all', '--yes'],
      [0, 'land-again', '--since', '1h', '--yes'],
    ] as const) {
      const ended = await admin.run(...line);
      assert.equal(ended.code, code, `${line.join(' ')}: ${ended.out}${ended.err}`);
      assert.doesNotMatch(ended.out + ended.err, /NOPERM|unknown/);
    }
    assert.equal(await redis.command('EXISTS', 'ingest'), 1);
    await consumer.kill();
  });
});
