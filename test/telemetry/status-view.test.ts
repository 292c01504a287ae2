// Runs the script of the status page, as it is served, with the document of jsdom and a clock of the test.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createContext, runInContext } from 'node:vm';
import { JSDOM } from 'jsdom';
import { statusPages } from '../../lib/telemetry/status-page.ts';
import { pageMetrics, SITUATIONS, type Situation } from './page-metrics.ts';

const START_MS = Date.UTC(2026, 0, 1);
const PAGE = statusPages()['/'].body;
const [, SCRIPT = ''] = /<script type="module">([^]*)<\/script>/.exec(PAGE) ?? [];

const all = (within: Element, selector: string): readonly Element[] => [...within.querySelectorAll(selector)];
const textsOf = (elements: Iterable<Element>): readonly string[] =>
  Array.from(elements, ({ textContent }) => textContent.replaceAll('\u00a0', ' '));

/** Opens the page in a browser of its own. `pass` lets seconds pass, in which each poll finds `one`. */
function opened(upS = 900) {
  let nowMs = START_MS;
  const { window } = new JSDOM(PAGE, { url: 'http://localhost/' });
  const { document } = window;
  // Without a layout, every width is 0.
  Object.defineProperty(window.HTMLElement.prototype, 'clientWidth', { value: 560 });
  const $ = (id: string) => document.getElementById(id) ?? assert.fail(`no element ${id}`);
  let answer: (path: string) => string = () => assert.fail('nobody answers');
  const timers: (readonly [run: () => void, everyMs: number])[] = [];
  const browser = {
    ...{ document, AbortSignal, addEventListener: () => undefined },
    Date: Object.assign(class extends Date {}, { now: () => nowMs }),
    requestAnimationFrame: (draw: () => void) => setImmediate(draw),
    setInterval: (run: () => void, everyMs: number) => timers.push([run, everyMs]),
    fetch: async (path: string) => {
      const text = answer(path);
      return { text: () => Promise.resolve(text), headers: new Headers({ Date: new Date(nowMs).toUTCString() }) };
    },
  };
  runInContext(`"use strict";${SCRIPT.replaceAll(/^export /gm, '')}`, createContext(browser));

  const pass = async (seconds: number, one: Situation | 'silence' | 'draining'): Promise<void> => {
    answer = (path) => {
      if (one === 'silence') throw new TypeError('fetch failed');
      const { unready: reason, reasons } = one === 'draining' ? {} : one;
      const parts = reasons && { unavailable: Object.keys(reasons), reasons };
      const ready = { ...(reason === undefined ? { status: 'ready' } : { status: 'unavailable', reason }), ...parts };
      const started = `process_start_time_seconds ${START_MS / 1000 - upS}\n`;
      return path === 'metrics'
        ? started + pageMetrics(Math.round((nowMs - START_MS) / 1000), one === 'draining' ? {} : one)
        : JSON.stringify(one === 'draining' ? { status: 'draining' } : ready);
    };
    for (const endMs = nowMs + seconds * 1000; nowMs < endMs;) {
      nowMs += 250;
      for (const [run, everyMs] of timers) if ((nowMs - START_MS) % everyMs === 0) run();
      for (let turns = 0; turns < 4; turns += 1) await turn();
    }
  };
  const shown = (...ids: readonly string[]): readonly string[] =>
    ids.map((id) => $(id).textContent.replaceAll('\u00a0', ' '));
  const tile = (label: string) => {
    const found = [...$('tiles').children].find((one) => one.firstElementChild?.textContent === label);
    const [, ...texts] = textsOf(found?.children ?? assert.fail(label));
    return [found?.className, ...texts, found?.children[3]?.getAttribute('href')];
  };
  const table = (id: string) =>
    all($(id), 'tbody tr').map(({ children }) =>
      textsOf(children).map((text, at) => [text, children[at]?.className.trim()].join('/')),
    );
  const hide = (seconds: number): void => void (nowMs += seconds * 1000);
  return { $, document, window, pass, hide, shown, tile, table };
}

describe('the status page', () => {
  it('shows a healthy gateway, its figures, streams and files, and where each alert is explained', async () => {
    const { $, document, pass, shown, tile, table } = opened();
    await pass(1, 'silence');
    assert.deepEqual(shown('word', 'reason', 'next'), ['CONNECTING', '', '']);
    await pass(12, { refused: { INVALID_EVENT: [400, 20] } });
    assert.deepEqual(shown('word', 'next', 'name'), ['LIVE', '', 'ingest-gateway']);
    assert.match(shown('reason')[0] ?? '', /^Everything works: 2,000\/s accepted by this gateway, 2,000\/s landed/);
    assert.deepEqual(
      [$('state').className, $('word').className, $('next').hasAttribute('hidden')],
      ['good', 'good', true],
    );
    assert.equal(document.title, 'LIVE · ingest-gateway');
    assert.deepEqual(shown('about'), ['version 1.0.0 · node v26.1.0 · up 15 min']);
    const accepted = ['', '2,000/s', '26,000 since start', 'alert if Redis refuses', 'runbook#ingestqueueunavailable'];
    assert.deepEqual(tile('Accepted'), accepted);
    assert.deepEqual(tile('Queue memory').slice(0, 3), ['', '30%', '1.2 GiB of 4 GiB']);
    assert.deepEqual(table('streams-of-the-queue'), [['0/', 'available/good', '3/number', '2 ms/number']]);
    assert.deepEqual(table('tls-files'), [['cert/', 'in 60 days/number']]);
    const [events, times] = all($('charts'), 'svg').map((svg) => svg.getAttribute('aria-label'));
    assert.equal(events, 'Events per second, now: accepted 2,000/s, landed 2,000/s, INVALID_EVENT 20/s');
    assert.match(times ?? '', /^Time to answer POST \/events, now: p50 \d.*, p99 1\d\d\u00a0ms$/);
    const legend = textsOf(all($('charts'), 'ul:first-of-type > li')).slice(0, 3);
    assert.deepEqual(legend, ['accepted 2,000/s', 'landed 2,000/s', 'INVALID_EVENT 20/s']);
  });

  it('shows times and sizes in units that fit', async () => {
    for (const [upS, up, bytes, size] of [
      [8, '9 s', 900, '900 B of 1,023 B'],
      [118, '119 s', 900 << 10, '900 KiB of 1,023 KiB'],
      [7_140, '119 min', 900 << 20, '900 MiB of 1,023 MiB'],
      [172_000, '47.8 h', 900 * 2 ** 30, '900 GiB of 1,023 GiB'],
      [864_000, '10 days', 900 * 2 ** 40, '900 TiB of 1,023 TiB'],
    ] as const) {
      const { pass, shown, tile } = opened(upS);
      const limit = (bytes / 900) * 1023;
      await pass(1, { samples: { ingest_queue_memory_bytes: bytes, ingest_queue_memory_limit_bytes: limit } });
      assert.deepEqual([shown('about')[0]?.split(' · up ')[1], tile('Queue memory')[2]], [up, size]);
    }
  });

  it('shows all figures of a gateway and of a consumer', async () => {
    const refused = { INVALID_EVENT: [400, 20], QUEUE_UNAVAILABLE: [503, 5] } as const;
    const busy = { refused, accepted: 1_000, landed: 900, unlanded: () => 7, oldestS: () => 4 };
    const replicas = { ingest_queue_replicas: 2, ingest_queue_replicas_required: 1 };
    const consuming = {
      ...{ ingest_consumer_ready: 1, ingest_lookups_available: undefined, ingest_warehouse_available: 1 },
      ...{ ingest_landed_total: (seconds: number) => 300 * seconds, ingest_queue_memory_limit_bytes: 0 },
      'ingest_quarantined_total{reason="schema"}': (seconds: number) => Math.min(seconds, 2),
      'ingest_landing_delay_seconds_bucket{le="0.1"}': (seconds: number) => 60 * seconds,
      'ingest_landing_delay_seconds_bucket{le="0.5"}': (seconds: number) => 300 * seconds,
      'ingest_landing_delay_seconds_bucket{le="+Inf"}': (seconds: number) => 300 * seconds,
    };
    for (const [situation, wanted] of [
      [
        { ...busy, samples: replicas },
        [
          ...['Accepted: 1,000/s, 12,000 since start', 'Landed: 900/s, by all consumers'],
          ...['Waiting to land: 7, the oldest for 4 s', 'Consumers: 3, with a heartbeat'],
          ...['Refused: 25/s, 2.4 % of the requests', 'p99 of POST /events: 195ms, p50 0.8 ms'],
          ...['Warehouse: available, for look-ups', 'Queue memory: 30%, 1.2 GiB of 4 GiB · 2 of 1 replica'],
        ],
      ],
      [
        { ...busy, program: 'consumer', samples: consuming },
        [
          ...['Landed: 900/s, by all consumers', 'Landed by this one: 300/s, 3,600 since start'],
          ...['Waiting to land: 7, the oldest for 4 s', 'Consumers: 3, with a heartbeat'],
          ...['Quarantined: 1, in the last 10 min', 'Landing p99: 495ms, p50 250 ms'],
          ...['Warehouse: available, for rows', 'Queue memory: 1.2GiB, no limit is set'],
        ],
      ],
    ] as const) {
      const { $, pass, tile } = opened();
      await pass(12, situation);
      const labels = textsOf(all($('tiles'), ':scope > * > :first-child'));
      assert.deepEqual(
        labels.map((label) => `${label}: ${tile(label).slice(1, 3).join(', ')}`),
        wanted,
      );
    }
  });

  it('shows the worst problem with what to do, colors its tile, lists the others, and forgets them', async () => {
    const { $, document, pass, shown, tile } = opened();
    await pass(12, SITUATIONS['full'] ?? {});
    assert.deepEqual(shown('word', 'next'), ['NEARLY FULL', 'what to do: IngestQueueMemoryFull']);
    assert.deepEqual([$('state').className, $('next').getAttribute('href')], ['bad', 'runbook#ingestqueuememoryfull']);
    assert.equal(document.title, 'NEARLY FULL · ingest-gateway');
    assert.deepEqual([tile('Queue memory')[0], tile('Queue memory')[3]], ['bad', 'critical: IngestQueueMemoryFull']);
    assert.deepEqual([tile('Warehouse')[0], tile('Warehouse')[3]], ['warn', 'warning: IngestWarehouseUnavailable']);
    const others = () => Array.from($('more').children, ({ className, textContent }) => `${className} ${textContent}`);
    assert.deepEqual(
      others().map((text) => /^\w+ |\w+$/g.exec(text)?.[0]),
      ['warn '],
    );
    assert.match(others()[0] ?? '', /look-ups\..* IngestWarehouseUnavailable$/);
    await pass(12, {});
    assert.deepEqual([others(), shown('word', 'next'), tile('Warehouse')[0]], [[], ['LIVE', ''], '']);
    await pass(2, 'draining');
    assert.deepEqual([$('state').className, shown('word')], ['warn', ['STOPPING']]);
  });

  it('calls a silent process stale after three seconds and down after ten, until it answers', async () => {
    const { $, document, pass, hide, shown, tile } = opened();
    await pass(12, {});
    hide(60);
    await pass(1, 'silence');
    assert.deepEqual(shown('word'), ['LIVE'], 'a hidden page has not asked');
    await pass(1, {});
    for (const [seconds, word, level, old] of [
      [2, 'LIVE', 'good', ''],
      [3, 'STALE', 'warn', 'old'],
      [7, 'DOWN', 'bad', 'old'],
    ] as const) {
      await pass(seconds, 'silence');
      assert.deepEqual([shown('word')[0], $('state').className, document.body.className], [word, level, old]);
    }
    assert.match(shown('reason')[0] ?? '', /^No answer since /);
    await pass(1, {});
    assert.deepEqual([shown('word')[0], document.body.className], ['LIVE', '']);
    await pass(1, {});
    assert.equal(tile('Accepted')[1], '2,000/s', 'after the gap');
    const [, unlanded] = all(all($('charts'), 'svg')[3] ?? assert.fail(), 'path');
    assert.ok((unlanded?.getAttribute('d')?.split('M').length ?? 0) > 2, 'no line crosses a gap');
  });

  it('names each unavailable stream with its reason and alert, and each file that expires', async () => {
    const { $, pass, table } = opened();
    const samples = {
      ...{ 'ingest_queue_up{partition="1"}': 0, ingest_queue_lag_events: undefined },
      ...{ 'ingest_queue_lag_events{partition="0"}': 7, 'ingest_queue_lag_events{partition="1"}': 8 },
      'ingest_tls_certificate_expiry_seconds{file="cert"}': 13 * 86_400,
      'ingest_tls_certificate_expiry_seconds{file="client_ca"}': -60,
      'ingest_tls_certificate_expiry_seconds{file="crl"}': 3_600,
    };
    await pass(3, { samples, reasons: { 1: 'connect ECONNREFUSED 127.0.0.1:1' }, unready: 'frozen' });
    const down = 'unavailable: Redis: connection refused (127.0.0.1:1)/bad';
    const streams = [
      ['0/', 'available/good', '7/number', '2 ms/number'],
      ['1/', down, '8/number', '2 ms/number'],
    ];
    assert.deepEqual(table('streams-of-the-queue'), streams);
    const hrefs = (id: string) =>
      all($(id), 'a').map((link) => link.getAttribute('href')?.replace('runbook#ingest', ''));
    assert.deepEqual(hrefs('streams-of-the-queue'), ['partitionunavailable']);
    const files = [
      ['cert/', 'in 13 days/warn number'],
      ['client_ca/', 'expired/bad number'],
      ['crl/', 'in 0 days/bad number'],
    ];
    assert.deepEqual(table('tls-files'), files);
    assert.deepEqual(hrefs('tls-files'), ['certificateexpires', 'certificateexpires', 'crlexpires']);
    await pass(1, {});
    assert.deepEqual([table('streams-of-the-queue').length, table('tls-files').length], [1, 1]);
  });

  it('reads a chart at an earlier time by keyboard or pointer, and follows a program that becomes another', async () => {
    const { $, window, pass } = opened();
    await pass(30, {});
    await pass(10, { accepted: 2_000, landed: 0, unlanded: () => 40 });
    const [svg] = all($('charts'), 'svg');
    const waiting = () => all($('charts'), 'svg')[3]?.getAttribute('aria-label')?.replaceAll('\u00a0', ' ');
    const happens = async (type: string, more: object = {}): Promise<void> => {
      svg?.dispatchEvent(Object.assign(new window.Event(type), more));
      for (let turns = 0; turns < 4; turns += 1) await turn();
    };
    const now = 'Unlanded events and their age, now: unlanded 40, oldest (right axis) 2 ms';
    assert.equal(waiting(), now);
    for (let times = 0; times < 3; times += 1) await happens('keydown', { key: 'ArrowLeft' });
    const earlier = 'Unlanded events and their age, 15 seconds ago: unlanded 3, oldest (right axis) 2 ms';
    assert.equal(waiting(), earlier);
    await happens('keydown', { key: 'ArrowRight' });
    assert.match(waiting() ?? '', /, 10 seconds ago: /);
    await happens('blur');
    assert.equal(waiting(), now);
    // The first chart covers a minute, from 52 to 550 on its horizontal axis.
    await happens('pointermove', { offsetX: 550 - (550 - 52) / 4 });
    assert.equal(waiting(), earlier);
    await happens('pointerleave');
    await pass(12, { program: 'consumer', samples: { ingest_consumer_ready: 1, ingest_landed_total: 7 } });
    const titles = [
      'Events per second',
      'Landing delay',
      'Unlanded events and their age',
      'Consumers with a heartbeat',
    ];
    assert.deepEqual(textsOf(all($('charts'), 'h2')), titles);
    assert.equal($('name').textContent, 'ingest-consumer');
    assert.equal($('tiles').children.length, 8);
  });
});
