// Clients of node-redis are made often: behind Sentinel three for each look at who is the master, twice a second.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { nodeRedisClient } from '../../lib/redis/server/node-redis.ts';
import { SYSTEM } from '../support/system.ts';

it('a client for another server takes no class of its own: a hundred take less than a second of CPU time', () => {
  nodeRedisClient('redis://127.0.0.1:1', 'test', SYSTEM.random);
  const before = process.cpuUsage();
  for (let port = 2; port < 102; port += 1) nodeRedisClient(`redis://127.0.0.1:${port}`, 'test', SYSTEM.random);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 1_000_000, `${user + system} µs`);
});
