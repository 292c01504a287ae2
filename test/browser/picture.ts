// `make status-picture` takes the README's picture of a healthy system that accepts 1,000 events a second, and writes
// its figures to bench/figures.json. It fails if the machine is too busy for that.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { record } from '../../bench/figures.ts';
import { PacedLoad } from '../../bench/load/paced-load.ts';
import { machine } from '../../bench/machine.ts';
import { freePort } from '../support/free-port.ts';
import { TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { visit } from './browser.ts';

const [PRODUCERS, CONNECTIONS, EVENTS_PER_SECOND] = [5, 50, 1_000];
const [WARMUP_MS, SHOWN_MS, P99_MS_MAX] = [20_000, 150_000, 20];
const PATH = new URL('../../.github/images/status-page.png', import.meta.url).pathname;

it('the status page of a healthy gateway', { timeout: 300_000 }, async () => {
  const [redis, pki, port] = await Promise.all([TestRedis.start(['--maxmemory', '4gb']), Pki.create(), freePort()]);
  const warehouse = { INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}` };
  const gateway = await TestGateway.start(redis, pki, { INGEST_ADMIN_ADDR: `127.0.0.1:${port}`, ...warehouse });
  for (let at = 0; at < 3; at += 1) {
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0', ...warehouse };
    await new Program('ingest-consumer', { env }).listening();
  }
  await visit('about:blank'); // The first call installs the browser.
  const loads = await Promise.all(
    Array.from({ length: PRODUCERS }, async (_, at) => {
      const { cert, key } = await pki.producer(`producer-${at}`);
      return PacedLoad.open({
        ...{ caPath: pki.path('ca.pem'), certPath: pki.write(`${at}.pem`, cert), keyPath: pki.write(`${at}.key`, key) },
        ...{ port: gateway.port, connections: CONNECTIONS / PRODUCERS, ratePerS: EVENTS_PER_SECOND / PRODUCERS },
        ...{ bodyBytes: 300, warmupMs: WARMUP_MS, durationMs: SHOWN_MS + 10_000 },
      });
    }),
  );
  const results = Promise.all(loads.map((load) => load.run({ warm: () => undefined, done: () => undefined })));
  await wait(WARMUP_MS);
  const { page } = await visit(`http://127.0.0.1:${port}/`, { viewport: { width: 1240, height: 832 } });
  await wait(SHOWN_MS);
  const state = (await page.textContent('#state')) ?? '';
  const tile = await page.textContent('#tiles li:has(h2:text-is("p99 of POST /events")) .value');
  const picture = await page.screenshot();
  const ratePerS = Number(/([\d,]+)\/s accepted/.exec(state)?.[1]?.replace(',', ''));
  const shownMs = Number(/^([\d.]+)\s*ms$/.exec(tile ?? '')?.[1]);
  const p99Ms = Math.max(...(await results).map(({ latency }) => latency.p99));
  assert.ok(/^\s*LIVE/.test(state) && Math.abs(ratePerS / EVENTS_PER_SECOND - 1) < 0.05, state);
  // The browser and the load share the processors, so the producers' figure is held to the promise only.
  assert.ok(shownMs < P99_MS_MAX && p99Ms < 200, `p99 ${tile} on the page, ${p99Ms} ms at the producers`);
  writeFileSync(PATH, picture);
  const figure = (value: number) => ({ median: value, low: value, high: value });
  record('status-page', {
    ...{ ...machine(new Date()), command: 'make status-picture', rounds: 1 },
    sha256: createHash('sha256').update(picture).digest('hex'),
    figures: { 'gateway ratePerS': figure(ratePerS), 'gateway p99Ms': figure(shownMs) },
  });
});
