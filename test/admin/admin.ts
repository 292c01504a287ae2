// Runs ingest-admin on a test's queue and warehouse.
import assert from 'node:assert/strict';
import { createLog } from '../../lib/process/log.ts';
import { openWarehouseAdmin } from '../../bin/warehouse-adapter.ts';
import { readAdminConfig } from '../../lib/admin/config.ts';
import { queueAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { Program } from '../support/program.ts';
import { temporaryFolder } from '../support/scope.ts';
import type { WarehouseStore } from '../support/warehouse-store.ts';
import type { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';
import { runCommand } from './in-process.ts';

interface Ended {
  readonly code: number | NodeJS.Signals;
  readonly out: string;
  readonly err: string;
}

export class Admin {
  readonly env: Readonly<Record<string, string>>;

  constructor(
    redis: Pick<TestRedis, 'uri'>,
    store: Pick<WarehouseStore, 'uri'>,
    more: Readonly<Record<string, string>> = {},
  ) {
    const stateDir = temporaryFolder('ingest-admin-');
    this.env = {
      ...{ INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri, INGEST_STATE_DIR: stateDir },
      ...more,
    };
  }

  start(...args: readonly string[]): Program {
    return new Program('ingest-admin', { args, env: this.env });
  }

  async run(...args: readonly string[]): Promise<Ended> {
    const program = this.start(...args);
    let out = '';
    let err = '';
    program.child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    program.child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    return { code: await program.ended, out, err };
  }

  /** Runs a command in this process, and returns the value that it prints. */
  async json<T>(code: number, ...args: readonly string[]): Promise<T> {
    const { config = assert.fail() } = readAdminConfig(this.env);
    const { queueUri: uri, queuePartitions: partitions } = config;
    const queue = queueAdmin({ ...SYSTEM, uri, partitions, makes: true, log: createLog('check', 'error') });
    const warehouse = openWarehouseAdmin(config.warehouseUri);
    try {
      const ended = await runCommand({ queue, warehouse }, [...args, '--json']);
      assert.equal(ended.code, code, ended.out + ended.err);
      return JSON.parse(ended.out) as T;
    } finally {
      await Promise.all([...queue.streams, warehouse].map((one) => one.close()));
    }
  }
}
