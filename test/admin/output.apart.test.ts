import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { before, describe, it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { sqliteStore } from '../support/warehouse-store.ts';
import { Admin } from './admin.ts';

const ROWS = 1_500;

describe('a list of more rows than a pipe holds', () => {
  const store = sqliteStore();
  const admin = new Admin({ uri: 'redis://127.0.0.1:1' }, store);
  const list = ['quarantine', 'list', '--limit', String(ROWS), '--json'];
  before(async () => {
    const warehouse = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
    await warehouse.prepare();
    const rows = Array.from({ length: ROWS }, (_, at) => ({
      entry: `q/ingest/${at}-0`,
      producer: 'shop',
      reason: 'invalid_event: x',
      acceptedAtMs: 1,
      body: Buffer.of(at % 256),
    }));
    await warehouse.quarantine(rows);
    await warehouse.close();
  });

  it('is printed completely', async () => {
    const { code, out } = await admin.run(...list);
    assert.equal(code, 0);
    const entries = (JSON.parse(out) as { entry: string }[]).map(({ entry }) => entry);
    assert.equal(new Set(entries).size, ROWS);
    assert.deepEqual(entries, entries.toSorted().toReversed());
  });

  it('ends with 0 and no message if its reader closes the pipe', async () => {
    const program = admin.start(...list);
    let err = '';
    program.child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    program.child.stdout.once('data', () => program.child.stdout.destroy());
    assert.equal(await program.ended, 0);
    assert.equal(err, '');
  });

  it('does not change the exit code, the work and its record if the reader closes the pipe', async () => {
    const redis = await TestRedis.start(['--appendonly', 'no']);
    for (const id of ['a', 'b'])
      await redis.command('XADD', 'ingest', '*', 'producer', 'shop', 'body', `{"id":"${id}"}`);
    const looking = new Admin(redis, store);
    for (const [code, ...line] of [
      [1, 'quarantine', 'show', 'none', '--json'],
      [0, 'tail', '-n', '2', '--follow', '--bodies'],
    ] as const) {
      const program = looking.start(...line);
      program.child.stdout.destroy();
      assert.equal(await program.ended, code, line.join(' '));
    }
    const database = new DatabaseSync(store.uri.slice('sqlite:'.length), { timeout: 5_000 });
    const record = database.prepare("SELECT changed FROM ingest_audit WHERE command = 'tail'").get();
    database.close();
    assert.equal(record?.['changed'], 2);
  });

  for (const line of [list.join(' '), '--help'])
    it(`ends with 1 and a reason if its output cannot be written: ${line}`, () => {
      const shell = `'${new URL('../../bin/ingest-admin', import.meta.url).pathname}' ${line} > /dev/full`;
      const failing = (): unknown =>
        execFileSync('sh', ['-c', shell], { env: { PATH: process.env['PATH'], ...admin.env }, stdio: 'pipe' });
      assert.throws(failing, (cause: Error & { status: number; stderr: Buffer }) => {
        assert.equal(cause.stderr.toString(), 'ingest-admin: standard output cannot be written (ENOSPC)\n');
        return cause.status === 1;
      });
    });

  it('reads ids from a named pipe, and ends at a signal while it waits for them', async () => {
    const pipe = join(store.folder, 'ids');
    execFileSync('mkfifo', [pipe]);
    const reading = admin.run('erase', '--file', pipe, '--yes');
    await writeFile(pipe, 'one\na\tb\n');
    const { code, err } = await reading;
    assert.equal(code, 2);
    assert.match(err, /ids, line 2: invalid event id/);
    const args = ['erase', '--file', '-', '--yes'];
    const typed = new Program('ingest-admin', { args, env: admin.env, input: 'a\tb\n' });
    assert.deepEqual([await typed.ended, /-, line 1: invalid event id/.test(typed.output)], [2, true], typed.output);
    const { child, ended } = admin.start('erase', '--file', pipe, '--yes');
    const writer = await open(pipe, 'w');
    child.kill('SIGINT');
    assert.equal(await ended, 1);
    await writer.close();
  });

  it('ends at a signal while its output waits for a reader', async () => {
    const child = spawn(new URL('../../bin/ingest-admin', import.meta.url).pathname, list, {
      env: { PATH: process.env['PATH'], ...admin.env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    await new Promise((resolve) => child.stdout.once('readable', resolve));
    child.kill('SIGTERM');
    child.kill('SIGINT');
    assert.equal(await ended, 1);
  });
});
