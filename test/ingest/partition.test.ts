import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { PartitionedQueue } from '../../lib/ingest/partitioned-queue.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';

const VECTORS: readonly (readonly [id: string, hash: number])[] = [
  ['', 0],
  ['a', 0xe8b7be43],
  ['123456789', 0xcbf43926],
  ['order-1', 0xe0b37fef],
  ['événement', 0xeb48f5be],
  ['\u{1F600}', 0x054db544],
  ['x'.repeat(256), 0x73ee1a10],
];

describe('the hash of an id', () => {
  it('hashes the test vectors to the same values forever', () => {
    for (const [id, hash] of VECTORS) assert.equal(partitionOf(id, 2 ** 32), hash, id);
  });

  it('has correct test vectors in deploy/scale.md', () => {
    const page = readFileSync(new URL('../../deploy/scale.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| `([^`|]+)` \| `0x([0-9a-f]{8})` \| (\d+) \| (\d+) \|$/gm)];
    assert.ok(rows.length >= 3, String(rows.length));
    for (const [, id = '', hash, of2, of8] of rows) {
      assert.equal(partitionOf(id, 2 ** 32), Number.parseInt(hash ?? '', 16), id);
      assert.deepEqual([partitionOf(id, 2), partitionOf(id, 8)], [Number(of2), Number(of8)], id);
    }
  });
});

describe('a queue of several queues', () => {
  const parts = [1, 2, 3].map(() => new MemoryQueue(new MemoryQueueStore()));
  const queue = new PartitionedQueue(parts, 'unavailable');

  it('is available while any of them is, and reports each', async () => {
    await parts[0]?.close();
    assert.deepEqual(queue.state(), { available: true });
    assert.deepEqual(
      queue.states().map(({ available }) => available),
      [false, true, true],
    );
  });

  it('closes all of them', async () => {
    await queue.close();
    assert.deepEqual(queue.state(), { available: false, reason: 'closed' });
  });
});
