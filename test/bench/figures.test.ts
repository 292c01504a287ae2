// Every figure in the pages and pictures has a run in bench/figures.json. `FIGURES=write` writes the figures of that
// file into the pages.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CASES, roundsWanted } from '../../bench/cases.ts';
import { atRate } from '../../bench/cases/ordinary.ts';
import { besidePeer } from '../../bench/cases/saturation.ts';
import { figuresOf, readMeasurements, type Figure } from '../../bench/figures.ts';
import type { MetricName } from '../../bench/metrics.ts';
import { costChart } from '../../bench/report/cost-chart.ts';

const ROOT = new URL('../../', import.meta.url);
const measurements = readMeasurements();

/** A figure as the pages write it. */
type Written = () => string;

/** Returns `undefined` if the case has no run. */
function figure(name: string, key: string): Figure | undefined {
  const measurement = measurements[name];
  const found = measurement?.figures[key];
  assert.ok(measurement === undefined || found !== undefined, `bench/figures.json has no "${key}" of "${name}"`);
  return found;
}

/** A dash stands for a figure without a run. */
const rounded = (value: number | undefined, digits: number): string =>
  value === undefined
    ? '–'
    : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

const scaled = (value: Figure | undefined, factor: number): number | undefined => value && value.median * factor;

const median =
  (name: string, label: string, metric: MetricName, digits = 0, divisor = 1): Written =>
  () =>
    rounded(scaled(figure(name, `${label} ${metric}`), 1 / divisor), digits);

const ratio = (name: string, of: string, against: string, metric: MetricName = 'totalUs'): Written =>
  median(name, `${of} / ${against}`, metric, 2);

const saturated = (peer: string, metric?: MetricName): Written => ratio('saturation', besidePeer(peer), peer, metric);

const ordinary = (peer: string, ratePerS: number): Written =>
  ratio('ordinary', atRate('gateway', ratePerS), atRate(peer, ratePerS));
const WHOLE = '1,000/s, PostgreSQL and 3 consumers';

function wholeRow(ratePerS: string, consumers: number): Statement {
  const label = `${ratePerS}/s, ${consumers === 1 ? 'SQLite' : 'PostgreSQL and 3 consumers'}`;
  const columns = (['serverUs', 'redisUs', 'consumersUs'] as const).map((metric) => median('whole', label, metric));
  return consumers === 1
    ? [`| ${ratePerS} | 1, SQLite | {} | {} | {} | | {} |`, ...columns, median('whole', label, 'restShare', 2)]
    : [
        `| ${ratePerS} | 3, PostgreSQL | {} | {} | {} | {} | {} |`,
        ...[...columns, median('whole', label, 'warehouseUs'), median('whole', label, 'restShare', 2)],
      ];
}

function ordinaryRow(server: string, title: string, ratePerS: number): Statement {
  const label = atRate(server, ratePerS);
  const of = (metric: MetricName, digits = 0): Written => median('ordinary', label, metric, digits);
  const start = `| ${ratePerS.toLocaleString('en-US')} | ${title} |`;
  const costs = [of('serverUs'), of('redisUs'), of('p50Ms', 1), of('p99Ms', 1)];
  return /nginx|limit/.test(server)
    ? [`${start} {} | {} | {} | {} | | |`, ...costs]
    : [`${start} {} | {} | {} | {} | {} | {} |`, ...costs, of('youngCollections'), of('fullCollections')];
}

/** Cores in use at a rate, at the cost per event that was measured at `label`. */
const cores =
  (ratePerS: number, label: string): Written =>
  () =>
    rounded(scaled(figure('whole', `${label}, PostgreSQL and 3 consumers totalUs`), ratePerS / 1e6), 1);

/** A text in a page with `{}` in place of each figure, and its figures. */
type Statement = readonly [string, ...Written[]];

const STATEMENTS: Readonly<Record<string, readonly Statement[]>> = {
  'README.md': [
    [
      'an accepted event takes {} times the CPU time of nginx with Lua, which makes one `XADD` and knows no duplicates, and {} times that of Fastify with ioredis',
      ...[saturated('nginx'), saturated('fastify')],
    ],
    ['At 2,000 events/s, it takes {} and {} times', ordinary('nginx', 2_000), ordinary('fastify', 2_000)],
    ['at 500 events/s, {} and {} times', ordinary('nginx', 500), ordinary('fastify', 500)],
    ['At 1,000 events/s, an event costs {} µs of CPU time on its whole way', median('whole', WHOLE, 'totalUs')],
    [
      'pipelines 16 requests on each connection: {} events/s, {} times the rate',
      ...[median('sender', 'depth 16', 'ratePerS'), median('sender', 'depth 16 / reference', 'ratePerS', 1)],
    ],
  ],
  'bench/README.md': [
    [
      '| accepted events/s and p99 at saturation | {} and {} ms |',
      ...[median('saturation', 'gateway', 'ratePerS'), median('saturation', 'gateway', 'p99Ms', 1)],
    ],
    [
      '| CPU time per event at saturation, gateway and Redis / nginx with Lua and Redis | {} |',
      ...[saturated('nginx')],
    ],
    ['| the same / Fastify and Redis | {} |', saturated('fastify')],
    ['| gateway alone / empty `node:https` server | {} |', saturated('floor', 'serverUs')],
    [
      '| JavaScript heap per event: gateway, empty `node:https` server, Fastify | {}, {} and {} kB |',
      median('saturation', besidePeer('floor'), 'heapBytes', 1, 1_000),
      ...(['floor', 'fastify'] as const).map((peer) => median('saturation', peer, 'heapBytes', 1, 1_000)),
    ],
    ['| memory per idle mutual-TLS connection | {} kB |', median('idle-connections', 'gateway', 'bytesEach', 0, 1_000)],
    [
      '| landing in SQLite: 1,200,000 waiting events | {}/s, including the startup of the consumer |',
      median('landing', 'consumer', 'ratePerS'),
    ],
    [
      '| Redis memory per queued event of 300 bytes | {} bytes; {} with',
      ...['default', 'runbook'].map((settings) => median('queue-memory', `300 bytes, ${settings}`, 'bytesEach')),
    ],
    [
      '| `ingest-send` with a file, one event at a time on 16 connections | {} events/s; {} with its defaults |',
      ...['reference', 'depth 16'].map((depth) => median('sender', depth, 'ratePerS')),
    ],
    ...[500, 2_000].flatMap((ratePerS) =>
      Object.entries({
        gateway: 'gateway',
        'node reader': 'gateway with `INGEST_HTTP_READER=node`',
        fastify: 'Fastify, one `XADD`',
        nginx: 'nginx with Lua, one `XADD`',
        'floor with Redis': '`node:https`, one Redis reply',
        limit: 'C with OpenSSL, no Redis',
      }).map(([server, title]) => ordinaryRow(server, title, ratePerS)),
    ),
    // Settings, not figures.
    ['CPU time in µs per event of 300 bytes'],
    ['one consumer reads every 50 ms and the others every 250 ms, so the events of 50 ms'],
    ...[1, 3].flatMap((consumers) => ['200', '1,000', '5,000'].map((ratePerS) => wholeRow(ratePerS, consumers))),
    [
      'at 1,000/s, Redis, three consumers and PostgreSQL together cost {} times as much as the gateway, and Redis and one consumer with SQLite {} times',
      ...[median('whole', WHOLE, 'restShare', 2), median('whole', '1,000/s, SQLite', 'restShare', 2)],
    ],
    [
      'At 1,000/s with three consumers, half of the events land within {} ms and 99 % within {} ms. An event needs {} bytes in Redis, and {} kB on disk',
      ...[median('whole', WHOLE, 'p50Ms'), median('whole', WHOLE, 'p99Ms'), median('whole', WHOLE, 'bytesEach')],
      median('whole', WHOLE, 'diskBytesEach', 1, 1_000),
    ],
    [
      'An empty `node:https` server needs {} µs of CPU time per request on this machine. The gateway needs {} µs with the fast path and {} µs without it',
      ...['floor', besidePeer('node reader'), 'node reader'].map((one) => median('saturation', one, 'serverUs')),
    ],
  ],
  'deploy/scale.md': [
    ...(
      [
        ['100 | 2', cores(100, '200/s')],
        ['1,000 | 2', cores(1_000, '1,000/s')],
        ['5,000 | 2', cores(5_000, '5,000/s')],
        ['20,000 | 5', cores(20_000, '5,000/s')],
      ] as const
    ).map(([gateways, written]): Statement => [`| ${gateways} | 3 | ANY | {} |`, written]),
    [
      'about {} µs of CPU time per event at that rate',
      median('whole', '5,000/s, PostgreSQL and 3 consumers', 'serverUs'),
    ],
    ['events/s × 86,400 × {} bytes, divided by', median('queue-memory', '300 bytes, runbook', 'bytesEach')],
  ],
  'deploy/RUNBOOK.md': [300, 1_000].flatMap((bytes) =>
    (['default', 'runbook'] as const).map((settings): Statement => [
      `| ${bytes.toLocaleString('en-US')} | ${settings === 'default' ? 'default' : 'as below'} | {} |`,
      median('queue-memory', `${bytes} bytes, ${settings}`, 'bytesEach'),
    ]),
  ),
  'openapi/PRODUCERS.md': [
    ['`ingest-send`, which uses it, sends {} events per second', median('sender', 'depth 16', 'ratePerS')],
  ],
  'lib/send/README.md': [
    ['`ingest-send` with these numbers sends {} events per second', median('sender', 'depth 16', 'ratePerS')],
  ],
};

/** The parts of pages in which each number with a unit must belong to a statement. */
const MEASURED: readonly (readonly [string, string, string])[] = [
  ['README.md', '## How it compares', '## Limits'],
  ['bench/README.md', '## Measured', '## The gate'],
  ['bench/README.md', '## Why the gateway reads HTTP itself', ''],
];

const NUMBER = String.raw`\d[\d,]*(?:\.\d+)?|–`;
const WITH_UNIT = new RegExp(String.raw`(?:${NUMBER})\s?(?:µs|ms|kB|MB|bytes|events/s|/s|times)(?!\w)`, 'g');

/** A line break may stand for a space, except in a row of a table. */
const patternOf = (text: string): RegExp =>
  new RegExp(
    text
      .replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
      .replaceAll(' ', text.startsWith('|') ? ' +' : String.raw`\s+`)
      .replaceAll('ANY', '.*')
      .replaceAll(String.raw`\{\}`, `(${NUMBER})`),
    'dg',
  );

const read = (path: string): string => readFileSync(new URL(path, ROOT), 'utf8');

/** Returns the page with the figures of bench/figures.json. */
function withFigures(path: string, page: string): string {
  let result = page;
  for (const [text, ...figures] of STATEMENTS[path] ?? []) {
    const found = [...result.matchAll(patternOf(text))];
    assert.equal(found.length, 1, `${path} states ${found.length} times: ${text}`);
    const spans = found[0]?.indices?.slice(1) ?? [];
    assert.equal(spans.length, figures.length, text);
    for (const [at, span] of [...spans.entries()].reverse()) {
      const [start = 0, end = 0] = span ?? [];
      result = result.slice(0, start) + (figures[at]?.() ?? '') + result.slice(end);
    }
  }
  return result;
}

describe('a published figure', () => {
  for (const path of Object.keys(STATEMENTS))
    it(`in ${path} is the one of bench/figures.json`, () => {
      const page = read(path);
      const wanted = withFigures(path, page);
      if (process.env['FIGURES'] === 'write') writeFileSync(new URL(path, ROOT), wanted);
      else assert.equal(page, wanted);
    });

  for (const [path, from, to] of MEASURED)
    it(`has a run, under "${from}" of ${path}`, () => {
      const page = read(path);
      const start = page.indexOf(from);
      let part = page.slice(start, to === '' ? undefined : page.indexOf(to, start));
      assert.ok(start >= 0 && part.length > 0);
      for (const [text] of STATEMENTS[path] ?? []) part = part.replaceAll(patternOf(text), '');
      assert.deepEqual(part.match(WITH_UNIT) ?? [], []);
    });

  it('needs rounds of which none is void', () => {
    const figures = { p99Ms: { median: 4.12345, low: 4, high: 5, count: 2 } };
    const label = { label: 'gateway', figures, rounds: 2, voids: [] };
    const summary = { name: 'case', aim: '', labels: [label], comparisons: [] };
    assert.deepEqual(figuresOf(summary), { 'gateway p99Ms': { median: 4.123, low: 4, high: 5 } });
    const late = { ...summary, labels: [label, { ...label, label: 'late', voids: ['3 answers 503'] }] };
    assert.equal(figuresOf(late), 'late has void rounds');
  });

  it('is the median of all rounds, of a commit without changes', () => {
    for (const [name, { rounds, commit, date, command }] of Object.entries(measurements)) {
      const benchCase = CASES.find((one) => one.name === name);
      assert.equal(rounds, benchCase === undefined ? 1 : roundsWanted(benchCase), name);
      assert.match(commit, /^[0-9a-f]{12}$/, name);
      assert.ok(Date.parse(date) > 0 && command !== '', name);
    }
  });
});

describe('a picture', () => {
  it('of costs is drawn from bench/figures.json, at saturation and at ordinary rates', () => {
    const chart = costChart(measurements);
    if (chart === undefined) return;
    for (const name of ['saturation', 'ordinary'])
      assert.ok(chart.includes(`medians of ${measurements[name]?.rounds} rounds`));
    assert.equal(read('.github/images/cost.svg'), chart);
  });

  it('of the status page is the one whose figures were measured, and these are healthy', () => {
    const run = measurements['status-page'];
    if (run === undefined) return;
    const picture = readFileSync(new URL('.github/images/status-page.png', ROOT));
    assert.equal(createHash('sha256').update(picture).digest('hex'), run.sha256);
    assert.ok((figure('status-page', 'gateway p99Ms')?.median ?? Infinity) < 20);
    assert.ok(Math.abs((figure('status-page', 'gateway ratePerS')?.median ?? 0) / 1_000 - 1) < 0.05);
  });
});
