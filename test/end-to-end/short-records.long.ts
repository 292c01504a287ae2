import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { holdShortRecords } from '../support/short-records.ts';
import { assertAlive } from '../support/verdicts.ts';
import { requestText } from '../support/wire.ts';

function peakMb(gateway: TestGateway): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]) / 1024;
}

const RECORDS = 40_000;
const CONNECTIONS = 10;
const GROWTH_MB_MAX = 25;

for (const reader of ['own', 'node'] as const)
  it(`${CONNECTIONS} connections that read no answers and send ${RECORDS} records of one byte cost < ${GROWTH_MB_MAX} MB (${reader})`, async (t) => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_HTTP_READER: reader,
      INGEST_IDLE_TIMEOUT_MS: '120000',
    });
    const client = gateway.client(await pki.producer('other'));
    const post = async (id: string): Promise<void> => {
      for (let at = 0; at < 300; at += 1) assert.equal((await client.post(event(`${id}-${at}`))).status, 202);
    };
    const held = await holdShortRecords({
      connections: CONNECTIONS,
      // The sockets cannot hold this many answers, but the gateway reads this many requests ahead.
      first: requestText('GET /metrics').repeat(700),
      text: 'x'.repeat(RECORDS),
      tls: { port: gateway.port, ca: pki.authority.certificate },
    });
    await post(`${reader}-before`);
    const beforeMb = peakMb(gateway);
    held.release();
    await post(`${reader}-after`);
    const grown = peakMb(gateway) - beforeMb;
    t.diagnostic(`${grown.toFixed()} MB`);
    assert.ok(grown < GROWTH_MB_MAX, `${grown.toFixed()} MB`);
    await assertAlive(gateway);
  });
