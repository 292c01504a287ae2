// Clients that make the gateway hold bytes: its memory stays bounded, and another producer is answered meanwhile.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { gather } from '../support/crowd.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { GENEROUS_MS } from '../support/deadline.ts';
import { atEnd, eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { postText, requestText } from '../support/wire.ts';

const { redis, pki, producer } = await queueAndProducer();
const attacker = await pki.producer('attacker');

const LARGE = event('large', { pad: 'x'.repeat(250_000) });
const FOUR_MIB = event('four', { pad: 'x'.repeat(4 << 20) });

const chunked = (body: string): string =>
  requestText(
    'POST /events',
    ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
    `${(body.match(/.{1,16}/g) ?? []).map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`,
  );

interface Attack {
  readonly text: string;
  readonly connections?: number;
  readonly reads?: boolean;
  readonly authenticated?: boolean;
  /** Text that follows in TLS records of one byte. */
  readonly records?: string;
  readonly growthMbMax?: number;
}

const METRICS = requestText('GET /metrics').repeat(2_500);
const LOOK_UPS = requestText('GET /events/large').repeat(2_500);
const BY_NODE = requestText('HEAD /health/live');

const ATTACKS: Readonly<Record<string, Attack>> = {
  'metrics, from nobody': { text: METRICS },
  'metrics, from nobody, by node:http': { text: `${BY_NODE}${METRICS}` },
  'requests that are refused': { text: requestText('PUT /x').repeat(2_000) },
  'look-ups of a large event': { text: LOOK_UPS, authenticated: true },
  'look-ups of a large event, by node:http': { text: `${BY_NODE}${LOOK_UPS}`, authenticated: true },
  'look-ups of a large event, whose answers are read': {
    text: LOOK_UPS,
    authenticated: true,
    reads: true,
    connections: 20,
  },
  'look-ups of an event of 4 MiB': {
    text: requestText('GET /events/four').repeat(4),
    ...{ authenticated: true, connections: 60, growthMbMax: 200 },
  },
  'a body in chunks of 16 bytes': {
    text: chunked(event('chunks', { pad: 'x'.repeat(250_000) })),
    ...{ authenticated: true, reads: true, connections: 60, growthMbMax: 250 },
  },
  'a head in records of one byte': {
    text: requestText('GET /metrics').repeat(700),
    ...{ records: 'x'.repeat(40_000), connections: 10 },
  },
};

describe('one client that opens many connections and sends', () => {
  let gateway: TestGateway;
  let warmMb = 0;
  const residentMb = (): number =>
    Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]) / 1024;

  before(async () => {
    const env = { INGEST_IN_FLIGHT_MAX: '100000', INGEST_REQUEST_TIMEOUT_MS: '600000' };
    gateway = await TestGateway.start(redis, pki, { ...env, INGEST_BODY_BYTES_MAX: String(8 << 20) });
    for (const body of [LARGE, FOUR_MIB]) assert.equal((await gateway.client(attacker).post(body)).status, 202);
    // A load grows the heap before anything is measured.
    const texts = Array.from({ length: 20_000 }, (_, at) => postText(event(`warm-${at}`)));
    const warm = await gateway.socket(producer);
    warm.write(texts.join(''));
    await eventually('the load is over', async () => (await gateway.metric('ingest_accepted_total')) >= 20_000);
    warm.socket.destroy();
    warmMb = residentMb();
  });

  for (const [name, attack] of Object.entries(ATTACKS)) {
    const { text, connections = 100, reads = false, authenticated = false, records, growthMbMax = 100 } = attack;
    it(`${name}: takes < ${growthMbMax} MB, and another producer is accepted`, { timeout: 300_000 }, async (t) => {
      const { cert, key } = authenticated ? attacker : {};
      let most = 0;
      const watch = setInterval(() => (most = Math.max(most, residentMb())), 100);
      atEnd(() => clearInterval(watch));
      const tls = { ca: pki.authority.certificate, cert, key };
      const { port } = gateway;
      const flooding = await gather({ port, connections, text, reads, tls, ...(records !== undefined && { records }) });
      const load = new Load(gateway.client(producer), `among-${name}`, 1, 10);
      await load.more(100);
      await load.stop();
      clearInterval(watch);
      await flooding.end();
      const hasEnded = async (): Promise<boolean> => (await gateway.metric('ingest_connections')) < 10;
      await eventually('all of it has ended', hasEnded, GENEROUS_MS);
      t.diagnostic(`${warmMb.toFixed()} → ${most.toFixed()} MB; slowest answer ${load.slowestMs.toFixed()} ms`);
      assert.deepEqual(load.failures, []);
      assert.ok(most - warmMb < growthMbMax, `${warmMb.toFixed()} → ${most.toFixed()} MB`);
      assert.ok(load.slowestMs < 5_000, `${load.slowestMs.toFixed()} ms`);
      await assertAlive(gateway);
    });
  }
});
