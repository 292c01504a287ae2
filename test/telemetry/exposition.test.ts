// The two formats of /metrics, and which one a scrape gets.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Registry } from 'prom-client';
import { exposition, prefersOpenMetrics } from '../../lib/telemetry/exposition.ts';
import { CounterFamily, Gauge, HistogramFamily } from '../../lib/telemetry/instruments.ts';
import { processRegistry } from '../../lib/telemetry/process-registry.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** A registry with one metric of each kind. */
function sampleRegistry(): Registry {
  const registry = new Registry();
  const counter = new CounterFamily(registry, 'some_events_total', 'Events, "quoted" and \\ escaped.');
  counter.counter({ kind: 'a"b\\c\nd' }).add(3);
  new Gauge(registry, 'some_memory_bytes', 'Memory.').read(() => Number.POSITIVE_INFINITY);
  const clock = new VirtualClock();
  const delay = new HistogramFamily(registry, 'some_delay_seconds', 'Delay.', [0.5, 1], clock).distribution();
  delay.observe(0.25);
  delay.exemplify(0.25, `00-${TRACE}-b7ad6b7169203331-01`);
  delay.observe(2);
  return registry;
}

describe('the OpenMetrics text', () => {
  it('has units, counters under _total, bounds as float numbers, exemplars with their trace, and an end', async () => {
    const at = (new VirtualClock().epochMs() / 1000).toFixed(3);
    const { contentType, text } = await exposition(sampleRegistry(), true);
    assert.equal(contentType, 'application/openmetrics-text; version=1.0.0; charset=utf-8');
    assert.equal(
      text,
      [
        '# TYPE some_events counter',
        '# HELP some_events Events, \\"quoted\\" and \\\\ escaped.',
        'some_events_total{kind="a\\"b\\\\c\\nd"} 3',
        '# TYPE some_memory_bytes gauge',
        '# UNIT some_memory_bytes bytes',
        '# HELP some_memory_bytes Memory.',
        'some_memory_bytes +Inf',
        '# TYPE some_delay_seconds histogram',
        '# UNIT some_delay_seconds seconds',
        '# HELP some_delay_seconds Delay.',
        `some_delay_seconds_bucket{le="0.5"} 1 # {trace_id="${TRACE}"} 0.25 ${at}`,
        'some_delay_seconds_bucket{le="1.0"} 1',
        'some_delay_seconds_bucket{le="+Inf"} 2',
        'some_delay_seconds_sum 2.25',
        'some_delay_seconds_count 2',
        '# EOF',
        '',
      ].join('\n'),
    );
  });

  it('writes numbers that are no finite ones, a unit at the end of a name alone, and _total once', async () => {
    const registry = new Registry();
    new Gauge(registry, 'some_seconds_left', 'Left.').readEach(() => [
      { labels: { le: 1, of: 'a', number: 1 }, value: Number.NEGATIVE_INFINITY },
      { labels: {}, value: Number.NaN },
      { labels: { of: 2 }, value: 0 },
    ]);
    new CounterFamily(registry, 'some_total_things_total', 'Things.').counter().add();
    new Gauge(registry, 'some_gauge_total', 'Total.').read(() => 1);
    const { text } = await exposition(registry, true);
    assert.deepEqual(text.split('\n'), [
      ...['# TYPE some_seconds_left gauge', '# HELP some_seconds_left Left.'],
      ...['some_seconds_left{le="1.0",of="a",number="1"} -Inf', 'some_seconds_left NaN', 'some_seconds_left{of="2"} 0'],
      ...['# TYPE some_total_things counter', '# HELP some_total_things Things.', 'some_total_things_total 1'],
      ...['# TYPE some_gauge_total gauge', '# HELP some_gauge_total Total.', 'some_gauge_total 1'],
      ...['# EOF', ''],
    ]);
  });

  it('has every metric of a process, and leaves the plain text as it was', async () => {
    const registry = processRegistry();
    const lines = (text: string, pattern: RegExp): readonly string[] => text.match(pattern) ?? [];
    const before = await exposition(registry, false);
    const { text } = await exposition(registry, true);
    const after = await exposition(registry, false);
    assert.equal(before.contentType, 'text/plain; version=0.0.4; charset=utf-8');
    const names = /^# (?:HELP|TYPE) .*$/gm;
    assert.deepEqual(lines(after.text, names), lines(before.text, names));
    assert.equal(lines(text, /^# TYPE /gm).length, lines(before.text, /^# TYPE /gm).length);
    assert.match(text, /^# TYPE process_cpu_seconds counter$/m);
    assert.match(text, /^process_cpu_seconds_total \d/m);
    assert.match(text, /^ingest_build_info\{version="[^"]+",revision="[^"]*",node="v\d+[^"]*"\} 1$/m);
    assert.ok(text.endsWith('\n# EOF\n'));
  });

  it('leaves the plain text without exemplars', async () => {
    const { text } = await exposition(sampleRegistry(), false);
    assert.match(text, /^some_delay_seconds_bucket\{le="0.5"\} 1$/m);
    assert.match(text, /^some_delay_seconds_bucket\{le="1"\} 1$/m);
    assert.match(text, /^# TYPE some_events_total counter$/m);
  });
});

describe('a scrape', () => {
  const OF_PROMETHEUS =
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
  const cases: readonly (readonly [accept: string | undefined, openMetrics: boolean])[] = [
    [undefined, false],
    ['', false],
    ['*/*', false],
    ['text/plain', false],
    ['application/json', false],
    [OF_PROMETHEUS, true],
    ['application/openmetrics-text', true],
    ['Application/OpenMetrics-Text; Version=1.0.0', true],
    ['application/openmetrics-text; version=1.0.0; escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3', true],
    ['application/openmetrics-text ; version=1.0.0 ; q=0.5 , text/plain ; q=0.5', true],
    ['application/openmetrics-text;q=0.5,application/json;q=0.9', true],
    ['application/openmetrics-text;q=0.1,application/openmetrics-text;q=0.9,text/plain;q=0.5', true],
    ['application/openmetrics-text;q=0.5,text/plain;q=0.9,text/plain;q=0.1', false],
    ['application/openmetrics-text;version=0.0.1', false],
    ['application/openmetrics-text;version=1.0.0;q=0', false],
    ['application/openmetrics-text;version=1.0.0;q=x', false],
    ['application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.9', false],
  ];
  for (const [accept, openMetrics] of cases)
    it(`gets ${openMetrics ? 'OpenMetrics' : 'the plain text'} for the field Accept ${JSON.stringify(accept ?? 'missing')}`, () => {
      assert.equal(prefersOpenMetrics(accept), openMetrics);
    });
});
