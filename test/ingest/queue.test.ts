import assert from 'node:assert/strict';
import { it } from 'node:test';
import { QueueFailed } from '../../lib/ingest/queue-admin.ts';
import { GroupVanished, RETENTION_MS } from '../../lib/ingest/queue.ts';

it('the queue keeps an event for 24 hours', () => {
  assert.equal(RETENTION_MS, 86_400_000);
});

it('an error of the queue has its own name in a log', () => {
  assert.equal(String(new QueueFailed('words')), 'QueueFailed: words');
  assert.equal(String(new GroupVanished()), 'GroupVanished');
});
