import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, it } from 'node:test';
import { flood } from '../support/flooder.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive } from '../support/verdicts.ts';
import { requestText } from '../support/wire.ts';

let redis: TestRedis;
let pki: Pki;
let sender: ClientCertificate;
let other: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  [sender, other] = await Promise.all([pki.producer('sender'), pki.producer('other')]);
});

function peakMb(gateway: TestGateway): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8'))?.[1]) / 1024;
}

const CHUNK_BYTES = 16;

const inChunks = (body: string): string => {
  const chunks = body.match(new RegExp(`.{1,${CHUNK_BYTES}}`, 'g')) ?? [];
  return requestText(
    'POST /events',
    ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
    `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`,
  );
};

const SLOWEST_MS_MAX = 5_000;
const [TAKEN_WITHIN_MS, TIMEOUT_MS] = [400_000, 600_000];

/** `pad` is the size of each body. All connections send one body at the same time. */
function itTakesBytes(
  reader: 'own' | 'node',
  {
    connections,
    pad,
    growthMbMax,
  }: { readonly connections: number; readonly pad: number; readonly growthMbMax: number },
): void {
  it(
    `${connections} bodies of ${pad} bytes in chunks of 16 take < ${growthMbMax} MB, and others are answered meanwhile (${reader})`,
    { timeout: TIMEOUT_MS },
    async (t) => {
      const gateway = await TestGateway.start(redis, pki, {
        INGEST_HTTP_READER: reader,
        INGEST_REQUEST_TIMEOUT_MS: String(TIMEOUT_MS),
      });
      const client = gateway.client(other);
      const id = `${reader}-${pad}`;
      assert.equal((await client.post(event(id))).status, 202);
      const beforeMb = peakMb(gateway);
      const flooding = flood({
        connections,
        text: inChunks(event(`${id}-bytes`, { pad: 'x'.repeat(pad) })),
        reads: true,
        tls: { port: gateway.port, ca: pki.authority.certificate, cert: sender.cert, key: sender.key },
      });
      let asked = 1;
      let slowestMs = 0;
      await eventually(
        'all bodies were taken',
        async () => {
          const sinceMs = performance.now();
          assert.equal((await client.post(event(id))).json?.['duplicate'], true);
          slowestMs = Math.max(slowestMs, performance.now() - sinceMs);
          asked += 1;
          const taken = await gateway.metric('ingest_http_requests_total', { route: '/events', status: '202' });
          return taken === asked + connections;
        },
        TAKEN_WITHIN_MS,
      );
      await (await flooding).end();
      const grown = peakMb(gateway) - beforeMb;
      t.diagnostic(`${grown.toFixed()} MB; the other producer waited ${slowestMs.toFixed()} ms at most`);
      assert.ok(grown < growthMbMax, `${grown.toFixed()} MB`);
      assert.ok(slowestMs < SLOWEST_MS_MAX, `${slowestMs.toFixed()} ms`);
      await assertAlive(gateway);
    },
  );
}

itTakesBytes('own', { connections: 60, pad: 250_000, growthMbMax: 250 });
