import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { Load } from '../support/load.ts';
import { TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { freePort, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { assertFits, PATIENCE, visit } from './browser.ts';
import { pageMetrics, SITUATIONS, type Situation } from '../telemetry/page-metrics.ts';
import { ServedPage } from './served-page.ts';

const PICTURES = join(import.meta.dirname, '../../.ingest/pictures');

const word = (page: Page): Promise<string | null> => page.textContent('#word');
const becomes = (page: Page, state: string): Promise<true> =>
  eventually(`the page says ${state}`, async () => (await word(page)) === state || undefined, PATIENCE.timeout);
const tile = (page: Page, label: string, part = '.value'): Promise<string | null> =>
  page.textContent(`#tiles li:has(h2:text-is("${label}")) ${part}`);
const numberIn = (text: string | null): number => Number.parseFloat((text ?? '').replaceAll(',', ''));
const shows = (page: Page, label: string, part: string, wanted: number): Promise<true> =>
  eventually(
    `${label} shows ${wanted}`,
    async () => numberIn(await tile(page, label, part)) === wanted,
    PATIENCE.timeout,
  );
const picture = (page: Page, name: string) => page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });

before(() => void mkdirSync(PICTURES, { recursive: true }));

describe('the status page of a gateway', () => {
  let redis: TestRedis;
  let pki: Pki;
  let producer: ClientCertificate;
  let gateway: TestGateway;
  let admin: string;
  let env: Record<string, string>;

  before(async () => {
    redis = await TestRedis.start();
    pki = await Pki.create();
    producer = await pki.producer('shown');
    admin = `127.0.0.1:${await freePort()}`;
    env = { INGEST_ADMIN_ADDR: admin };
    gateway = await TestGateway.start(redis, pki, env);
  });

  it('shows its metrics under load, and loads nothing from other origins', async () => {
    const warehouse = `sqlite:${join(temporaryFolder(), 'warehouse.db')}`;
    const landingEnv = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: warehouse };
    const consumer = new Program('ingest-consumer', { env: { ...landingEnv, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    const consumerUrl = await consumer.listening();
    const load = new Load(gateway.client(producer), 'shown', 12, 20);
    const { page, faults } = await visit(`http://${admin}/`);
    const landing = await visit(consumerUrl);
    await load.more(400);
    await becomes(page, 'LIVE');
    await becomes(landing.page, 'LIVE');
    await eventually('there is a rate', async () => numberIn(await tile(page, 'Accepted')) > 0, PATIENCE.timeout);
    await picture(page, 'gateway-under-load');
    await picture(landing.page, 'consumer-under-load');
    await load.stop();
    const accepted = await gateway.metric('ingest_accepted_total');
    await shows(page, 'Accepted', '.note', accepted);
    await shows(landing.page, 'Landed by this one', '.note', accepted);
    await shows(page, 'Waiting to land', '.value', 0);
    assert.equal(await tile(landing.page, 'Warehouse'), 'available');
    assert.match((await page.getAttribute('svg >> nth=0', 'aria-label')) ?? '', /^Events per second, now: accepted/);
    assert.match((await page.textContent('#about')) ?? '', /^version \d+\.\d+\.\d+\S* · node v\d+\S* · up /);
    assert.deepEqual([...faults, ...landing.faults], []);
  });

  it('shows STALE and then DOWN for a dead process, and LIVE when it is back', async () => {
    const { page, faults } = await visit(`http://${admin}/`);
    await becomes(page, 'LIVE');
    gateway.signal('SIGKILL');
    await gateway.exited();
    await becomes(page, 'STALE');
    assert.match((await page.textContent('#reason')) ?? '', /^No answer since /);
    await becomes(page, 'DOWN');
    await picture(page, 'down');
    gateway = await TestGateway.start(redis, pki, env);
    await becomes(page, 'LIVE');
    await redis.signal('SIGKILL');
    await becomes(page, 'REFUSING');
    assert.match((await page.textContent('#reason')) ?? '', /^Redis: connection refused/);
    const isUnavailable = async () => (await page.textContent('td.bad'))?.startsWith('unavailable: ');
    await eventually('the stream is unavailable', isUnavailable, PATIENCE.timeout);
    await picture(page, 'queue-unavailable');
    assert.deepEqual(faults, []);
  });
});

describe('the status page', () => {
  /** Serves the metrics of a process that is in this situation, and has been for a minute. */
  async function show(situation: Situation, samples: Readonly<Record<string, number>> = {}): Promise<ServedPage> {
    const served = await ServedPage.start();
    const started = performance.now() - 60_000;
    const shown = { ...situation, samples: { ...situation.samples, ...samples } };
    served.metrics = () => pageMetrics((performance.now() - started) / 1000, shown);
    served.unready = situation.unready;
    return served;
  }

  it('shows a hostile label, reason or version as text', async () => {
    const hostile = '<img src=x onerror=alert(1)>';
    const expiry = `ingest_tls_certificate_expiry_seconds{file="${hostile}"}`;
    const samples = { [`ingest_queue_up{partition="${hostile}"}`]: 0, [expiry]: 5 };
    const served = await show({ refused: { [hostile]: [400, 9] }, unready: hostile }, samples);
    const { page, faults } = await visit(served.url);
    await becomes(page, 'REFUSING');
    assert.ok((await page.textContent('#reason'))?.includes(hostile));
    await page.waitForSelector(`.legend >> text=${hostile}`);
    assert.ok((await page.textContent('#tables'))?.includes(hostile));
    assert.equal(await page.locator('img').count(), 0);
    assert.deepEqual(faults, []);
  });

  it('links from a tile to the chapter of the runbook', async () => {
    const served = await show(SITUATIONS['full'] ?? {});
    const { page, faults } = await visit(served.url);
    await becomes(page, 'NEARLY FULL');
    await page.locator('#tiles li:has(h2:text-is("Queue memory")) a').focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(/runbook#ingestqueuememoryfull/);
    await eventually('the chapter is in view', async () => (await page.evaluate<number>('scrollY')) > 100);
    assert.deepEqual(faults, []);
  });

  // test/telemetry has every situation, and what the page shows.
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`is readable in the ${colorScheme} color scheme, and fits 360 pixels`, async () => {
      const served = await show(SITUATIONS['no consumers'] ?? {});
      const { page, faults } = await visit(served.url, { colorScheme, viewport: { width: 360, height: 740 } });
      await page.waitForSelector('.legend >> text=accepted');
      await becomes(page, 'NOT LANDING');
      assert.equal(await page.getAttribute('#word', 'class'), 'bad');
      await assertFits(page);
      const back = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
      const [red = 0] = /\d+/.exec(back) ?? [];
      assert.equal(Number(red) < 128, colorScheme === 'dark', back);
      await picture(page, `narrow-${colorScheme}`);
      await page.setViewportSize({ width: 1280, height: 900 });
      await picture(page, `wide-${colorScheme}`);
      assert.deepEqual(faults, []);
    });
  }

  it('needs no more memory after four minutes than after one', async () => {
    let seconds = 0;
    const served = await show({});
    served.metrics = () => pageMetrics((seconds += 1));
    const { page } = await visit('about:blank');
    await page.clock.install();
    await page.goto(served.url, PATIENCE);
    await becomes(page, 'LIVE');
    const session = await page.context().newCDPSession(page);
    const bytes = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Runtime.getHeapUsage')).usedSize;
    };
    // The page skips a poll while the previous one is in progress, so the loop counts the polls that were answered.
    const advance = async (polls: number): Promise<void> => {
      for (const until = seconds + polls; seconds < until;) await page.clock.fastForward(1_000);
    };
    await advance(60);
    const [early, nodes] = [await bytes(), await page.locator('*').count()];
    await advance(180);
    // Some objects may survive one garbage collection, but only leaked objects survive all of them.
    await eventually(`at most 300,000 bytes more than ${early}`, async () => (await bytes()) < early + 300_000);
    assert.ok((await page.locator('*').count()) < nodes + 50);
  });
});
