import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, linkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { withRunning } from '../../bin/state-folder.ts';
import { readCommandLine, type CommandLine } from '../../lib/admin/command-line.ts';
import { readAdminConfig } from '../../lib/admin/config.ts';
import type { Environment } from '../../lib/process/read-settings.ts';
import { environment } from '../support/gateway.ts';
import type { ServerStatus } from '../../lib/ingest/queue-admin.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore, type WarehouseStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';
import { landing, poison } from './in-process.ts';

interface Status {
  readonly queue?: { readonly partitions: readonly unknown[] };
  readonly warehouse?: unknown;
}

/** Makes the tables, with an event and a quarantine row. */
async function fill({ uri }: WarehouseStore): Promise<void> {
  const warehouse = createSqliteWarehouse({ path: uri.slice('sqlite:'.length) });
  await warehouse.prepare();
  await warehouse.land([landing('one')]);
  await warehouse.quarantine([poison('1-1')]);
  await warehouse.close();
}

describe('ingest-admin', () => {
  let redis: TestRedis;
  let store: WarehouseStore;
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
    store = sqliteStore();
    await fill(store);
  });

  it('creates no key on a queue that it only reads', { tags: ['long'] }, async () => {
    const empty = await TestRedis.start(['--appendonly', 'no']);
    for (const line of [['status'], ['event', 'one'], ['quarantine', 'list']])
      assert.equal((await new Admin(empty, store).run(...line)).code, 0, line.join(' '));
    assert.deepEqual(await empty.command('KEYS', '*'), []);
  });

  it('exits with 5 if the warehouse is unavailable, and with 4 if the queue is', async () => {
    const nowhere = new Admin(redis, { uri: 'sqlite:/nonexistent/warehouse.db' });
    const { code, out } = await nowhere.run('status');
    assert.equal(code, 5);
    assert.match(out, /ingest +0 [^]*unavailable: there is no such file/);
    const noQueue = new Admin({ uri: 'redis://127.0.0.1:1' }, store);
    const erasing = await noQueue.run('erase', 'one', '--yes');
    assert.equal(erasing.code, 4);
    assert.match(erasing.err, /the queue does not answer/);
    const asking = await noQueue.run('quarantine', 'drop', '--all');
    assert.deepEqual([asking.code, /Without a terminal, --yes is required/.test(asking.err)], [2, true], asking.err);
    assert.equal((await store.quarantine()).length, 1);
    const other = new Admin(redis, store);
    await other.json(1, 'erase', 'none');
    await redis.command('HSET', '{ingest}:queue', 'partitions', '3');
    assert.equal((await other.run('status')).code, 2, 'the setting must change, not the queue');
  });
});

describe('the settings of ingest-admin', () => {
  let redis: TestRedis;
  let store: WarehouseStore;
  before(async () => {
    redis = await TestRedis.start(['--appendonly', 'no']);
    store = sqliteStore();
    await fill(store);
  });

  it('are only those of the sides that a command uses', async () => {
    const queueAlone = { INGEST_QUEUE_URI: redis.uri };
    const warehouseAlone = { INGEST_WAREHOUSE_URI: store.uri };
    const missing = (env: Environment, line: string): string => {
      const { uses } = readCommandLine(line.split(' '), 0) as CommandLine;
      const { problems } = readAdminConfig(env, uses).report;
      return problems.map((problem) => /^(INGEST_\w+): is required/.exec(problem)?.[1]).join();
    };
    for (const [env, keys, line] of [
      [queueAlone, '', 'tail -n 1'],
      [queueAlone, 'INGEST_WAREHOUSE_URI', 'tail -n 1 --bodies'],
      [queueAlone, '', 'status'],
      [queueAlone, 'INGEST_WAREHOUSE_URI', 'erase one --yes'],
      [queueAlone, 'INGEST_WAREHOUSE_URI', 'reconcile'],
      [queueAlone, 'INGEST_WAREHOUSE_URI', 'quarantine list'],
      [{ ...queueAlone, INGEST_WAREHOUSE_URI: 'mysql://h/db' }, '', 'tail -n 1'],
      [{ ...queueAlone, INGEST_WAREHOUSE_URI_FILE: '/nonexistent' }, '', 'tail -n 1'],
      [warehouseAlone, '', 'status'],
      [warehouseAlone, '', 'quarantine list'],
      [warehouseAlone, '', 'quarantine drop --all --yes'],
      [warehouseAlone, 'INGEST_QUEUE_URI', 'quarantine replay --all --yes'],
      [warehouseAlone, 'INGEST_QUEUE_URI', 'tail'],
      [{}, 'INGEST_QUEUE_URI,INGEST_WAREHOUSE_URI', 'status'],
    ] as const)
      assert.equal(missing(env, line), keys, line);
    const queueOnly = new Admin(redis, { uri: '' });
    const status = await queueOnly.run('status', '--json');
    const { queue, warehouse } = JSON.parse(status.out) as Status;
    assert.deepEqual([status.code, queue?.partitions.length, warehouse], [0, 1, undefined]);
    const refused = await queueOnly.run('reconcile');
    assert.deepEqual([refused.code, /INGEST_WAREHOUSE_URI: is required/.test(refused.err)], [2, true]);
    const withoutQueue = await new Admin({ uri: '' }, store).run('status', '--json');
    assert.deepEqual([withoutQueue.code, (JSON.parse(withoutQueue.out) as Status).queue], [0, undefined]);
  });

  it('include the number of required replicas, which status shows beside those that are connected', async () => {
    const replica = await TestRedis.start(['--replicaof', '127.0.0.1', String(redis.port)]);
    await eventually('it is connected', async () =>
      String(await redis.command('INFO', 'replication')).includes('state=online'),
    );
    const admin = new Admin(redis, { uri: '' }, { INGEST_QUEUE_REPLICAS: '2' });
    const { queue } = JSON.parse((await admin.run('status', '--json')).out) as {
      queue: { servers: ServerStatus[]; replicasRequired: number };
    };
    const [{ role, port, copies } = assert.fail()] = queue.servers;
    assert.deepEqual([role, port, copies.length, queue.replicasRequired], ['master', redis.port, 1, 2]);
    assert.deepEqual([copies[0]?.address, copies[0]?.state], [`127.0.0.1:${replica.port}`, 'online']);
    assert.match((await admin.run('status')).out, /master on port \d+ with 1 replica, .* requires 2\n +127\.0\.0\.1/);
  });

  it('come from run.json if it is a file that only its owner can write, and only the two URIs', async () => {
    const stateDir = temporaryFolder();
    const path = join(stateDir, 'run.json');
    const uris = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri };
    const found = (): readonly [Environment, number] => {
      const warnings: string[] = [];
      const env = withRunning({ INGEST_STATE_DIR: stateDir }, (text) => void warnings.push(text));
      return [env, warnings.length];
    };
    const [read, ignored] = [{ ...uris, INGEST_STATE_DIR: stateDir }, { INGEST_STATE_DIR: stateDir }];
    writeFileSync(path, JSON.stringify({ ...uris, INGEST_QUEUE_PARTITIONS: '3', INGEST_UNKNOWN: 'x' }), {
      mode: 0o644,
    });
    assert.deepEqual(found(), [read, 0]);
    const own = { INGEST_STATE_DIR: stateDir, INGEST_QUEUE_URI_FILE: '/run/secrets/queue' };
    assert.deepEqual(withRunning(own, assert.fail), own);
    const program = new Program('ingest-admin', { args: ['status'], env: { INGEST_STATE_DIR: stateDir } });
    assert.equal(await program.ended, 0, program.output);
    for (const mode of [0o664, 0o646]) {
      chmodSync(path, mode);
      assert.deepEqual(found(), [ignored, 1], mode.toString(8));
    }
    chmodSync(path, 0o600);
    if (process.getuid?.() === 0) {
      chownSync(path, 65_534, 65_534);
      assert.deepEqual(found(), [ignored, 1], 'the file of another user');
      chownSync(path, 0, 0);
    }
    linkSync(path, `${path}.other`);
    assert.deepEqual(found(), [ignored, 1], 'a file with two names');
    rmSync(`${path}.other`);
    assert.deepEqual(found(), [read, 0]);
    renameSync(path, `${path}.own`);
    symlinkSync(`${path}.own`, path);
    assert.deepEqual(found(), [ignored, 0], 'a link');
  });
});

function onTerminal(env: Admin['env'], line: string) {
  const ensure = new URL('../../bin/ensure-command', import.meta.url).pathname;
  const script = execFileSync(ensure, ['script', 'bsdutils'], { encoding: 'utf8' }).trim();
  const program = new URL('../../bin/ingest-admin', import.meta.url).pathname;
  const child = spawn(script, ['-qec', `exec ${program} ${line}`, '/dev/null'], {
    env: environment(env),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const seen = { out: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (seen.out += text));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return { child, seen, ended };
}

it('ingest-admin asks on a terminal before a change, and accepts only yes', async () => {
  const store = sqliteStore();
  await fill(store);
  const { env } = new Admin({ uri: '' }, store);
  for (const [answer, rows] of [
    ['y', 1],
    ['yes', 0],
  ] as const) {
    const { child, seen, ended } = onTerminal(env, 'quarantine drop --all');
    await eventually('it asks', () => seen.out.includes('Type yes to go on:'));
    child.stdin.write(`${answer}\n`);
    assert.equal(await ended, rows, seen.out);
    assert.equal((await store.quarantine()).length, rows);
    assert.equal(seen.out.includes('nothing was changed'), answer === 'y', seen.out);
  }
});
