import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { openLink } from '../support/link.ts';
import { Pipeline } from '../support/pipeline.ts';
import { startPostgres } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { postgresStore, sqliteStore } from '../support/warehouse-store.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const [DEADLINE_MS, TIMEOUT_MS] = [150_000, 600_000];

const event = (id: string, data = ''): string => JSON.stringify({ id, type: 'order.paid', data });

/** Redis builds the bodies, so the test does not have to send half a gigabyte. */
const ADD = `local body = ARGV[1] .. string.rep('x', ARGV[2]) .. ARGV[3]
redis.call('XADD', KEYS[1], '*', 'producer', 'shop', 'body', body)`;

const sizes = (count: number, bytes: number): readonly number[] => Array.from({ length: count }, () => bytes);
const SMALL = sizes(1_500, 300);
const BACKLOGS = {
  '250 KiB, over a link of 8 MB/s': { sizes: sizes(160, 250 * KIB), bytesPerSecond: 8e6, limit: 256 * KIB, most: 300 },
  '250 KiB behind many small ones, and before them': {
    ...{
      sizes: [...SMALL, ...sizes(400, 250 * KIB), ...SMALL],
      bytesPerSecond: undefined,
      limit: 256 * KIB,
      most: 300,
    },
  },
  '4 MiB behind many small ones, and before them': {
    ...{
      sizes: [...SMALL, ...sizes(120, 4 * MIB - KIB), ...SMALL],
      bytesPerSecond: undefined,
      limit: 4 * MIB,
      most: 600,
    },
  },
} as const;

const postgres = await startPostgres();
atEnd(() => postgres.stop());

for (const [warehouse, openStore] of [
  ['SQLite', async () => sqliteStore()],
  ['PostgreSQL', () => postgresStore(postgres)],
] as const)
  describe(`a backlog on its way into ${warehouse}`, () => {
    for (const [name, { sizes, bytesPerSecond, limit, most }] of Object.entries(BACKLOGS))
      it(
        `lands with bodies of ${name}, in < ${most} MiB, while the gateway keeps accepting`,
        { timeout: TIMEOUT_MS },
        async (t) => {
          const redis = await TestRedis.start(['--appendonly', 'no']);
          t.after(() => redis.signal('SIGKILL'));
          const link = await openLink({ host: '127.0.0.1', port: redis.port });
          link.slow(bytesPerSecond);
          t.after(() => link.close());
          const store = await openStore();
          const pipeline = await Pipeline.start({
            ...{ queueUri: redis.uri, warehouseUri: store.uri, replicas: 0 },
            env: { INGEST_BODY_BYTES_MAX: String(limit), INGEST_ENQUEUE_TIMEOUT_MS: '2000' },
          });
          t.after(() => pipeline.stop());
          assert.equal(await redis.command('HGET', '{ingest}:queue', 'bodyBytesMax'), String(limit));
          for (const [at, bytes] of sizes.entries()) {
            const whole = event(`order-${at}`);
            const [begin, end] = [whole.slice(0, -2), whole.slice(-2)];
            await redis.command('EVAL', ADD, '1', 'ingest', begin, String(bytes - whole.length), end);
          }
          const { program } = await pipeline.startConsumer({ INGEST_QUEUE_URI: `redis://127.0.0.1:${link.port}` });
          let accepted = 0;
          const landed = async (): Promise<boolean> => {
            const { status, text } = await pipeline.post(event(`meanwhile-${accepted}`, 'x'.repeat(250)));
            assert.equal(status, 202, text);
            accepted += 1;
            return (await store.count()) >= sizes.length;
          };
          await eventually('all has landed', landed, DEADLINE_MS);
          await eventually('later ones, too', async () => (await store.count()) === sizes.length + accepted);
          const status = readFileSync(`/proc/${program.child.pid}/status`, 'utf8');
          const peak = Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / KIB;
          assert.ok(peak < most, `${Math.round(peak)} MiB`);
          assert.deepEqual(await store.quarantine(), []);
        },
      );
  });
