// Sentinels that are frozen, what is told at the start, and a planned fail-over.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { queueAddress } from '../../lib/process/queue-uri.ts';
import { sentinelLookup } from '../../lib/redis/server/sentinel-lookup.ts';
import { ProducerLoad } from '../support/producer-load.ts';
import { Program } from '../support/program.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { pipeline, sentinels, store } from './sentinel.ts';
import { SYSTEM } from '../support/system.ts';

describe('a sentinel that is frozen', () => {
  it('does not hold up those who ask for the master, as the others agree', async () => {
    const address = queueAddress(sentinels.uri);
    assert.ok(typeof address !== 'string' && address.kind === 'sentinel');
    const master = await sentinels.master();
    sentinels.freezeLast(true);
    try {
      // Who waits for all of them takes the time-out of one sentinel each time.
      await eventually('a look-up was shorter than the time-out', async () => {
        const startMs = performance.now();
        assert.equal(await sentinelLookup(address, SYSTEM).find(undefined), master.uri);
        return performance.now() - startMs < 900;
      });
    } finally {
      sentinels.freezeLast(false);
    }
  });
});

describe('replicas that do not acknowledge in time', () => {
  it('are told of at the start, and refused where durability is required', async () => {
    await sentinels.whole();
    const cases = [
      ['0', /has replicas \(2\) and INGEST_QUEUE_REPLICAS is 0/],
      ['3', /2 replicas are connected and INGEST_QUEUE_REPLICAS is 3/],
    ] as const;
    const programs = cases.map(([replicas]) => {
      const env = {
        INGEST_QUEUE_URI: sentinels.uri,
        INGEST_QUEUE_REPLICAS: replicas,
        INGEST_QUEUE_DURABILITY: 'require',
      };
      const own = { INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_STATE_DIR: temporaryFolder() };
      return new Program('ingest-gateway', { env: { ...env, ...own } });
    });
    for (const [at, program] of programs.entries()) {
      assert.equal(await program.ended, 4, program.output);
      assert.match(program.output, cases[at]?.[1] ?? /./);
    }
  });
});

describe('each event that was answered 202 has its row', () => {
  it('after a planned fail-over under load, but for what the old master took once it was begun', async () => {
    await sentinels.whole();
    const old = await sentinels.master();
    const during = new ProducerLoad(pipeline, 'during');
    await during.more(100);
    const begunMs = performance.now();
    await sentinels.failOver();
    const fresh = await sentinels.promoted(old);
    const before = await fresh.length();
    await eventually('the new master takes events', async () => (await fresh.length()) > before, 60_000);
    // The gateway has left the old master: what is begun from here on is the new one's.
    await during.stop();
    const load = new ProducerLoad(pipeline, 'after');
    await load.more(100);
    await load.stop();
    await load.assertLanded(store);
    await during.assertLanded(store, (acceptedMs) => acceptedMs < begunMs);
  });
});
