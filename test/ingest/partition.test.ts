import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { partitionOf } from '../../lib/ingest/partition.ts';
import { webhookEvents } from '../support/webhooks.ts';

const VECTORS: readonly (readonly [id: string, hash: number])[] = [
  ['', 0],
  ['a', 0xe8b7be43],
  ['123456789', 0xcbf43926],
  ['order-1', 0xe0b37fef],
  ['événement', 0xeb48f5be],
  ['\u{1F600}', 0x054db544],
  ['x'.repeat(256), 0x73ee1a10],
];

const COUNT = 100_000;

function unevenness(idOf: (at: number) => string, partitions: number): number {
  const counts = Array.from({ length: partitions }, () => 0);
  for (let at = 0; at < COUNT; at += 1) {
    const partition = partitionOf(idOf(at), partitions);
    counts[partition] = (counts[partition] ?? 0) + 1;
  }
  return Math.max(...counts.map((count) => Math.abs((count * partitions) / COUNT - 1)));
}

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

  it('spreads ids evenly: no partition has 3 % more than its share', () => {
    const webhooks = webhookEvents().map(({ id }) => id);
    const families: Readonly<Record<string, (at: number) => string>> = {
      'webhook ids': (at) => `${webhooks[at % webhooks.length]}/${Math.floor(at / webhooks.length)}`,
      'numbered webhook ids': (at) => `${at}-${webhooks[at % webhooks.length]}`,
      counters: String,
      'counters with a prefix': (at) => `evt_${at}`,
      'padded counters': (at) => `order-${String(at).padStart(12, '0')}`,
      'every hundredth number': (at) => String(100 * at),
      'hexadecimal counters': (at) => at.toString(16),
      'doubled counters': (at) => `${at}:${at}`,
      'counters behind letters of many bytes': (at) => `événement-${at}`,
      times: (at) => new Date(1_700_000_000_000 + 1_000 * at).toISOString(),
      digests: (at) => createHash('sha256').update(`e${at}`).digest('hex').slice(0, 32),
    };
    for (const [name, idOf] of Object.entries(families))
      for (const partitions of [2, 8, 16]) {
        const worst = unevenness(idOf, partitions);
        assert.ok(worst <= 0.03, `${name}, ${partitions} partitions: ${(100 * worst).toFixed(2)} %`);
      }
  });
});
