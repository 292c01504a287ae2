import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { PRODUCT } from '../campaign/broken-build.ts';
import { RedisServer } from './redis-server.ts';
import { runSeeds } from './runs.ts';
import { Store } from './store.ts';

const FOR_MS = 4_000;
const SEEDS_MAX = 100;

describe('a simulation', () => {
  it('finds no violation of the promise, and leaves the same trace when it is repeated', async () => {
    const parts = { server: await RedisServer.start(), store: await Store.open() };
    const { finding, accepted } = await runSeeds(parts, {
      from: 1,
      seeds: SEEDS_MAX,
      repeatedOneIn: 20,
      forMs: FOR_MS,
    });
    await parts.server.stop();
    parts.store.close();
    assert.equal(finding, undefined);
    assert.ok(accepted > 0);
  });

  it('has broken builds, as a campaign has, whose changes apply to the product', () => {
    const patches = globSync('test/careless/builds/*.patch', { cwd: PRODUCT });
    assert.ok(patches.length > 0);
    for (const patch of patches) execFileSync('git', ['apply', '--check', '--recount', '-C1', patch], { cwd: PRODUCT });
  });
});
