// `make status-picture` takes the README's picture of a healthy system that accepts 2,000 events a second. It fails if
// the machine is too busy for that.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { it } from 'node:test';
import { freePort } from '../support/free-port.ts';
import { TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { visit } from './browser.ts';

const [PRODUCERS, CONNECTIONS, EVENTS_PER_SECOND] = [5, 200, 2_000];
const PATH = new URL('../../.github/images/status-page.png', import.meta.url).pathname;

it('the status page of a healthy gateway', { timeout: 300_000 }, async () => {
  const [redis, pki, port] = await Promise.all([TestRedis.start(['--maxmemory', '4gb']), Pki.create(), freePort()]);
  const warehouse = { INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}` };
  const gateway = await TestGateway.start(redis, pki, { INGEST_ADMIN_ADDR: `127.0.0.1:${port}`, ...warehouse });
  for (let at = 0; at < 3; at += 1) {
    const env = { INGEST_QUEUE_URI: redis.uri, INGEST_CONSUMER_ADDR: '127.0.0.1:0', ...warehouse };
    await new Program('ingest-consumer', { env }).listening();
  }
  const clients = await Promise.all(
    Array.from({ length: PRODUCERS }, async (_, at) => gateway.client(await pki.producer(`producer-${at}`))),
  );
  const pauseMs = (1_000 * CONNECTIONS) / EVENTS_PER_SECOND;
  for (let at = 0; at < CONNECTIONS; at += 1) {
    const client = clients[at % PRODUCERS];
    assert.ok(client !== undefined);
    new Load(client, `c-${at}`, 1, pauseMs, true);
    // Connections that begin together would send their events together.
    await new Promise((resolve) => setTimeout(resolve, pauseMs / 10));
  }
  const { page } = await visit(`http://127.0.0.1:${port}/`, { viewport: { width: 1240, height: 832 } });
  await new Promise((resolve) => setTimeout(resolve, 150_000));
  const state = (await page.textContent('#state')) ?? '';
  const rate = Number(/([\d,]+)\/s accepted/.exec(state)?.[1]?.replace(',', ''));
  assert.ok(/^LIVE/.test(state) && rate > 0.95 * EVENTS_PER_SECOND, state);
  await page.screenshot({ path: PATH });
});
