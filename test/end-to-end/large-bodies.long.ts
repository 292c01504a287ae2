import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, after, before } from 'node:test';
import { openLink } from '../support/link.ts';
import { Pipeline } from '../support/pipeline.ts';
import type { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { type WarehouseStore, postgresStore, sqliteStore } from '../support/warehouse-store.ts';
import { startPostgres, type PostgresServer } from '../support/postgres.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const [DEADLINE_MS, TIMEOUT_MS] = [150_000, 600_000];

const event = (id: string, bytes: number): string => {
  const bare = JSON.stringify({ id, type: 'order.paid', data: '' });
  return bare.replace('"data":""', `"data":"${'x'.repeat(Math.max(0, bytes - bare.length))}"`);
};

/** Redis builds the bodies, so the test does not have to send half a gigabyte. */
const ADD = `local body = ARGV[1] .. string.rep('x', ARGV[2]) .. ARGV[3]
redis.call('XADD', KEYS[1], '*', 'producer', 'shop', 'body', body)`;

const peakBytes = (program: Program): number =>
  KIB * Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${program.child.pid}/status`, 'utf8'))?.[1]);

interface Backlog {
  readonly name: string;
  readonly sizes: readonly number[];
  readonly bytesPerSecond?: number;
  readonly bodyBytesMax?: number;
  readonly memoryMax: number;
}

const SMALL = Array.from({ length: 1_500 }, () => 300);
const LARGE = Array.from({ length: 120 }, () => 4 * MIB - KIB);
const BACKLOGS = {
  overSlowLink: {
    name: '250 KiB, over a link of 8 MB/s',
    sizes: Array.from({ length: 160 }, () => 250 * KIB),
    bytesPerSecond: 8e6,
    memoryMax: 300 * MIB,
  },
  amongSmall: {
    name: '250 KiB behind many small ones, and before them',
    sizes: [...SMALL, ...Array.from({ length: 400 }, () => 250 * KIB), ...SMALL],
    memoryMax: 300 * MIB,
  },
  largest: {
    name: '4 MiB behind many small ones, and before them',
    sizes: [...SMALL, ...LARGE, ...SMALL],
    bodyBytesMax: 4 * MIB,
    memoryMax: 600 * MIB,
  },
} satisfies Readonly<Record<string, Backlog>>;

function describeBacklogs(
  warehouse: string,
  openStore: () => Promise<WarehouseStore>,
  backlogs: readonly Backlog[],
): void {
  describe(`a backlog on its way into ${warehouse}`, () => {
    for (const { name, sizes, bytesPerSecond, bodyBytesMax = 256 * KIB, memoryMax } of backlogs) {
      it(
        `lands with bodies of ${name}, in bounded memory, while the gateway keeps accepting`,
        { timeout: TIMEOUT_MS },
        async (t) => {
          const redis = await TestRedis.start(['--appendonly', 'no']);
          t.after(() => redis.signal('SIGKILL'));
          const link =
            bytesPerSecond === undefined ? undefined : await openLink({ host: '127.0.0.1', port: redis.port });
          link?.slow(bytesPerSecond);
          t.after(() => link?.close());
          const store = await openStore();
          const pipeline = await Pipeline.start({
            queueUri: redis.uri,
            warehouseUri: store.uri,
            replicas: 0,
            env: { INGEST_BODY_BYTES_MAX: String(bodyBytesMax), INGEST_ENQUEUE_TIMEOUT_MS: '2000' },
          });
          t.after(() => pipeline.stop());
          assert.equal(await redis.command('HGET', '{ingest}:queue', 'bodyBytesMax'), String(bodyBytesMax));
          for (const [at, bytes] of sizes.entries()) {
            const [begin, end] = event(`order-${at}`, 0).split('""') as [string, string];
            const xs = bytes - Buffer.byteLength(`${begin}""${end}`);
            await redis.command('EVAL', ADD, '1', 'ingest', `${begin}"`, String(xs), `"${end}`);
          }
          const { program } = await pipeline.startConsumer({
            INGEST_QUEUE_URI: `redis://127.0.0.1:${link?.port ?? redis.port}`,
          });
          let accepted = 0;
          await eventually(
            'all has landed',
            async () => {
              const { status, text } = await pipeline.post(event(`meanwhile-${accepted}`, 300));
              assert.equal(status, 202, text);
              accepted += 1;
              return (await store.count()) >= sizes.length;
            },
            DEADLINE_MS,
          );
          await eventually('what came meanwhile too', async () => (await store.count()) === sizes.length + accepted);
          const peak = peakBytes(program);
          assert.ok(peak < memoryMax, `${Math.round(peak / MIB)} MiB`);
          assert.deepEqual(await store.quarantine(), []);
        },
      );
    }
  });
}

let postgres: PostgresServer;
before(async () => {
  postgres = await startPostgres();
});
after(() => postgres.stop());

describeBacklogs('SQLite', async () => sqliteStore(), Object.values(BACKLOGS));
describeBacklogs('PostgreSQL', () => postgresStore(postgres), Object.values(BACKLOGS));
