import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { queueAndProducer } from '../support/file-gateway.ts';
import { TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';

const { redis, pki, producer } = await queueAndProducer();
const UNREAD_MS = 30_000;

const residentMb = ({ child }: TestGateway): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024;

it('a gateway whose log nobody reads for 30 s answers every request as fast, in level memory', async (t) => {
  const gateway = await TestGateway.start(redis, pki, { INGEST_LOG_LEVEL: 'debug' });
  const client = gateway.client(producer);
  const loadFor = async (prefix: string, ms: number): Promise<Load> => {
    const load = new Load(client, prefix, 8, 10, true);
    await delay(ms);
    return load.stop();
  };
  const read = await loadFor('read', 5_000);
  gateway.child.stdout.pause();
  await loadFor('full', 5_000);
  const before = residentMb(gateway);
  const unread = await loadFor('unread', UNREAD_MS);
  const after = residentMb(gateway);
  gateway.child.stdout.resume();
  await gateway.line(/log lines are lost/);
  t.diagnostic(
    `slowest ${read.slowestMs.toFixed()} → ${unread.slowestMs.toFixed()} ms, ${before.toFixed()} → ${after.toFixed()} MB`,
  );
  assert.deepEqual([read.failures, unread.failures], [[], []]);
  assert.ok(unread.slowestMs < Math.max(100, 3 * read.slowestMs));
  assert.ok(after < before + 20);
  gateway.signal('SIGTERM');
  assert.equal((await gateway.exited()).code, 0);
  await gateway.line(/"msg":"stopped"/);
});
