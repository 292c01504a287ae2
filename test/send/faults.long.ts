import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { WITHIN_MS } from '../support/deadline.ts';
import { openLink } from '../support/link.ts';
import { Pipeline } from '../support/pipeline.ts';
import type { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

const SENDERS = 4;
const EVENTS_EACH = 4_000;
const BETWEEN = 1_500;

async function startAll(pipelining: number) {
  const redis = await TestRedis.start();
  const store = sqliteStore();
  const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri: store.uri });
  atEnd(() => pipeline.stop());
  const link = await openLink({ host: '127.0.0.1', port: Number(new URL(pipeline.url).port) });
  atEnd(() => link.close());
  const ids = Array.from({ length: SENDERS }, (_, sender) =>
    Array.from({ length: EVENTS_EACH }, (_event, at) => `shop-${sender}-${at}`),
  );
  for (const [sender, own] of ids.entries())
    writeFileSync(
      join(pipeline.stateDir, `${sender}.ndjson`),
      own.map((id) => `${JSON.stringify({ id, type: 'order.created' })}\n`).join(''),
    );
  const send = (sender: number): Program =>
    pipeline.send([
      ...['--url', `https://127.0.0.1:${link.port}`, '--pipelining', String(pipelining), '--concurrency', '32'],
      ...['--rate', '800', '--tries', '100000', '--timeout', '1500', `${sender}.ndjson`],
    ]);
  return { redis, store, pipeline, link, ids: ids.flat(), send };
}

describe('four senders and seven faults', () => {
  for (const pipelining of [1, 16])
    it(`lead to one row for every event, at pipelining depth ${pipelining}`, async () => {
      const { redis, store, pipeline, link, ids, send } = await startAll(pipelining);
      const senders = Array.from({ length: SENDERS }, (_, sender) => send(sender));
      const [, , , last] = senders;
      const allWait = (): boolean => senders.every(({ output }) => /waiting .* to try again/.test(output));
      const faults: readonly (() => Promise<unknown>)[] = [
        async () => {
          pipeline.gateway.signal('SIGSTOP');
          await eventually('every sender waits for the frozen gateway', allWait);
          pipeline.gateway.signal('SIGCONT');
        },
        async () => {
          await pipeline.gateway.kill();
          await pipeline.startGateway();
        },
        async () => {
          await redis.signal('SIGSTOP');
          await eventually('the gateway misses its queue', async () => (await pipeline.ready()).status === 503);
          await redis.signal('SIGCONT');
        },
        async () => {
          await redis.signal('SIGKILL');
          await redis.start();
        },
        async () => {
          await pipeline.replicas[0]?.program.kill();
          await pipeline.startConsumer();
        },
        async () => {
          link.cut();
          link.mend();
        },
        async () => {
          await last?.kill();
          senders[SENDERS - 1] = send(SENDERS - 1);
        },
      ];
      for (const [at, fault] of faults.entries()) {
        const queued = (at + 1) * BETWEEN;
        await eventually(`${queued} events are queued`, async () => (await redis.length()) >= queued, 2 * WITHIN_MS);
        await fault();
      }
      const codes = await Promise.all(senders.map(({ ended }) => ended));
      assert.deepEqual(codes, [0, 0, 0, 0], senders.map(({ output }) => output).join('\n'));
      await eventually('every event has a row', async () => (await store.count()) >= ids.length);
      assert.deepEqual((await store.events()).map(({ id }) => id).sort(), ids.sort());
      assert.deepEqual(await store.quarantine(), []);
    });
});
