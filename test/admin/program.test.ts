// ingest-admin's answers and exit codes, by the real program on a real Redis and both warehouses.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { environment } from '../support/gateway.ts';
import { Program } from '../support/program.ts';
import { startPostgres, type PostgresServer } from '../../bench/peers/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { postgresStore, sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

interface Status {
  readonly queue: {
    readonly servers: readonly { readonly faults: readonly string[] }[];
    readonly partitions: readonly {
      readonly stream: string;
      readonly events: number;
      readonly memoryBytes: number;
      readonly unread: number;
      readonly pending: number;
      readonly oldestUnlandedMs: number;
      readonly replicas: readonly { readonly name: string; readonly holds: number; readonly signMs?: number }[];
    }[];
  };
  readonly warehouse: { readonly events: number; readonly quarantine: readonly { code: string; rows: number }[] };
}

function describeAdmin(name: string, openStore: () => Promise<WarehouseStore>): void {
  describe(`ingest-admin with ${name}`, () => {
    let redis: TestRedis;
    let store: WarehouseStore;
    let consumer: Program;
    let admin: Admin;
    const put = (producer: string, body: string): Promise<unknown> =>
      redis.command('XADD', 'ingest', '*', 'producer', producer, 'body', body);

    before(async () => {
      redis = await TestRedis.start(['--appendonly', 'no']);
      store = await openStore();
      admin = new Admin(redis, store);
      consumer = new Program('ingest-consumer', { env: { ...admin.env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
      await consumer.listening();
      await put('shop', '{"id":"one","type":"t","text":"\u20ac"}');
      await put('shop', '\x1b[31mno json');
      await put('a\\b', '{"id":"one","type":"t"}');
      await eventually('they have landed', async () => {
        const rows = await store.quarantine().catch(() => []);
        return rows.length === 2 && (await store.count()) === 1;
      });
    });
    after(() => consumer.kill());

    it('tells how much there is, how far it is, who lands it, and what is wrong with the server', async () => {
      const { queue, warehouse } = await admin.json<Status>(0, 'status');
      const [partition] = queue.partitions;
      assert.ok(partition !== undefined && partition.memoryBytes > 0);
      assert.deepEqual([partition.stream, partition.events, partition.unread, partition.pending], ['ingest', 3, 0, 0]);
      assert.equal(partition.replicas.length, 1);
      assert.deepEqual(
        queue.servers.map(({ faults }) => faults.length),
        [1],
      );
      assert.equal(warehouse.events, 1);
      assert.deepEqual(
        warehouse.quarantine.map(({ code, rows }) => [code, rows]),
        [
          ['id_conflict', 1],
          ['invalid_event', 1],
        ],
      );
      const { out } = await admin.run('status');
      for (const shown of [/append-only file is off/, /ingest +3 /, /1 event, 2 quarantine rows/, /1 +id_conflict/])
        assert.match(out, shown);
    });

    it('tells all that is known of an event, for any producer', async () => {
      const found = await admin.json<{
        warehouse: { producer: string; body: string };
        quarantine: { producer: string }[];
      }>(0, 'event', 'one');
      assert.deepEqual(
        [found.warehouse.producer, found.warehouse.body],
        ['shop', '{"id":"one","type":"t","text":"\u20ac"}'],
      );
      assert.deepEqual(
        found.quarantine.map(({ producer }) => producer),
        ['a\\b'],
      );
      assert.match((await admin.run('event', 'one')).out, /warehouse: landed [^]*quarantine: [^]*id_conflict/);
      assert.equal((await admin.run('event', 'none')).code, 1);
    });

    it('lists rows, and shows a body that is no text as hex', async () => {
      const rows = await admin.json<{ entry: string; reason: string }[]>(0, 'quarantine', 'list', '--since', '1h');
      assert.equal(rows.length, 2);
      const [row] = await admin.json<{ entry: string }[]>(0, 'quarantine', 'list', '--reason', 'invalid_event');
      const shown = await admin.run('quarantine', 'show', row?.entry ?? '');
      assert.match(shown.out, /1b5b33316d6e6f206a736f6e/);
      assert.ok(!shown.out.includes('\x1b'));
      assert.equal((await admin.run('quarantine', 'list', '--since', '2100-01-01')).code, 1);
      assert.equal((await admin.run('quarantine', 'show', 'none')).code, 1);
    });

    it('changes nothing without --yes where there is nobody to ask', async () => {
      for (const line of [
        ['quarantine', 'drop', '--all'],
        ['quarantine', 'replay', '--all'],
        ['erase', 'one'],
      ]) {
        const { code, err } = await admin.run(...line);
        assert.equal(code, 2);
        assert.match(err, /--yes/);
      }
      assert.equal((await store.quarantine()).length, 2);
      assert.match((await store.events())[0]?.body ?? '', /text/);
    });

    it('watches by lines, and ends with 0 when it is told to', async () => {
      const program = admin.start('status', '--watch');
      await program.line(/ rows=1 quarantine=2$/);
      program.signal('SIGINT');
      assert.equal(await program.ended, 0);
    });

    it('says 5 where the warehouse is away, and 4 where the queue is', async () => {
      const nowhere = new Admin(redis, { uri: 'sqlite:/nonexistent/warehouse.db' });
      const { code, out } = await nowhere.run('status');
      assert.equal(code, 5);
      assert.match(out, /ingest +3 [^]*away: there is no such file/);
      assert.equal((await nowhere.run('quarantine', 'list')).code, 5);
      const noQueue = new Admin({ uri: 'redis://127.0.0.1:1' }, store);
      const erasing = await noQueue.run('erase', 'one', '--yes');
      assert.equal(erasing.code, 4);
      assert.match(erasing.err, /the queue does not answer/);
    });
  });
}

describeAdmin('SQLite', async () => sqliteStore());
describeAdmin('PostgreSQL', () => postgresStore(postgres));

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

describe("the README's rule for a Redis user of ingest-admin", () => {
  it('lets every command pass, and another key is refused', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    const store = sqliteStore();
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
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
    const file = join(temporaryFolder(), 'events.ndjson');
    writeFileSync(file, '{"id":"one","type":"t"}\n');
    for (const [code, ...line] of [
      [0, 'status'],
      [0, 'event', 'one'],
      [1, 'quarantine', 'replay', '--all', '--yes'],
      [0, 'erase', 'one', '--yes'],
      [0, 'quarantine', 'drop', '--all', '--yes'],
      [0, 'size', file],
    ] as const) {
      const ended = await admin.run(...line);
      assert.equal(ended.code, code, `${line.join(' ')}: ${ended.out}${ended.err}`);
      assert.doesNotMatch(ended.out + ended.err, /NOPERM|unknown/);
    }
    assert.equal(await redis.command('EXISTS', 'ingest'), 1);
    await consumer.kill();
  });
});
