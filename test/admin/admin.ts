// Runs ingest-admin on a test's queue and warehouse.
import assert from 'node:assert/strict';
import { createLog } from '../../lib/process/log.ts';
import { openWarehouseAdmin } from '../../bin/warehouse-adapter.ts';
import { readCommandLine, type CommandLine } from '../../lib/admin/command-line.ts';
import { readAdminConfig } from '../../lib/admin/config.ts';
import { readSchema } from '../../lib/consumer/schemas.ts';
import { queueAdmin } from '../../lib/redis/admin/stream-admin.ts';
import { Program } from '../support/program.ts';
import { temporaryFolder } from '../support/scope.ts';
import type { WarehouseStore } from '../support/warehouse-store.ts';
import type { TestRedis } from '../support/redis.ts';
import { SYSTEM } from '../support/system.ts';

export interface Ended {
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

  /** Runs a command in this process, because a program costs a third of a second of CPU time. */
  async json<T>(code: number, ...args: readonly string[]): Promise<T> {
    const line = readCommandLine([...args, '--json'], SYSTEM.clock.epochMs()) as CommandLine;
    const { config = assert.fail() } = readAdminConfig(this.env, line.uses);
    const { queueUri: uri, queuePartitions: partitions } = config;
    const queue = queueAdmin({
      ...SYSTEM,
      uri,
      partitions,
      makes: line.changesQueue,
      log: createLog('check', 'error'),
    });
    const warehouse = openWarehouseAdmin(config.warehouseUri);
    let out = '';
    try {
      const done = await line.run({
        ...{ ...SYSTEM, sides: line.uses.sides, queue, warehouse, replicasRequired: config.queueReplicas },
        ...{ json: true, stopped: new AbortController().signal, progress: () => undefined, tell: () => undefined },
        print: (text) => void (out += text),
        printed: () => Promise.resolve(true),
        confirm: () => Promise.resolve(args.includes('--yes')),
        readSchema: (path) => readSchema(path, SYSTEM.clock),
      });
      assert.equal(Number(!done), code, out);
    } finally {
      await Promise.all([...queue.streams, warehouse].map((one) => one.close()));
    }
    return JSON.parse(out) as T;
  }
}
