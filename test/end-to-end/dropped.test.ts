// The short form of dropped.long.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '../support/scope.ts';
import { event, EVENTS, startHeld } from './dropped.ts';

describe('entries that the queue loses while a replica holds them', () => {
  it('land when the connection to the queue breaks and what is pending is read again', async () => {
    const { redis, store, pipeline, pending, bringBack } = await startHeld();
    await redis.command('XTRIM', 'ingest', 'MAXLEN', '0');
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    // It is read after what is pending.
    await eventually('the gateway accepts', async () => (await pipeline.post(event('after'))).status === 202);
    await eventually('it is read', async () => (await pending()) === EVENTS + 1);
    bringBack();
    await eventually('all have landed', async () => (await store.count()) === EVENTS + 1);
    await eventually('nothing is pending', async () => (await pending()) === 0);
    assert.deepEqual(await store.quarantine(), []);
    await pipeline.stop();
  });
});
