import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { WarehouseMisconfigured } from '../../lib/ingest/warehouse.ts';
import { inspectPostgres } from '../../lib/postgres/inspect.ts';
import { freePort } from '../support/free-port.ts';
import { startPrivatePostgres } from '../support/postgres.ts';
import { atEnd, eventually, start, temporaryFolder } from '../support/scope.ts';

const ENSURE = new URL('../../bin/ensure-command', import.meta.url).pathname;
const POOLER = spawnSync(ENSURE, ['pgbouncer', 'pgbouncer'], { encoding: 'utf8' }).stdout.trim();

const server = await startPrivatePostgres({ durable: false });
atEnd(() => server.stop());
const uri = await server.freshDatabase();

for (const [mode, isSupported] of [
  ['session', true],
  ['transaction', false],
  ['statement', false],
] as const)
  it(`PgBouncer's ${mode} mode is ${isSupported ? 'supported' : 'refused'}`, async () => {
    const folder = temporaryFolder('pgbouncer-');
    chmodSync(folder, 0o777);
    const port = await freePort();
    const lines = [
      '[databases]',
      `* = host=${server.socketFolder} port=${new URL(uri).port} user=ingest`,
      '[pgbouncer]',
      `listen_addr=127.0.0.1`,
      `listen_port=${port}`,
      'unix_socket_dir=',
      'auth_type=any',
      `pool_mode=${mode}`,
      'ignore_startup_parameters=extra_float_digits',
    ];
    writeFileSync(join(folder, 'pgbouncer.ini'), lines.join('\n'));
    const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
    start(POOLER, [...user, join(folder, 'pgbouncer.ini')]);
    const inspected = async (): Promise<string> =>
      inspectPostgres(`postgres://ingest@127.0.0.1:${port}${new URL(uri).pathname}`, 'consumer').then(
        () => 'good',
        (cause: unknown) => (cause instanceof WarehouseMisconfigured ? 'refused' : undefined) as string,
      );
    assert.equal(await eventually('the pooler answers', inspected), isSupported ? 'good' : 'refused');
  });
