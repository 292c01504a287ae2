// Runs the rules of the status page over samples of each situation, as the page records them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pageMetrics, SITUATIONS, type Situation } from './page-metrics.ts';

interface Problem {
  readonly name: string;
  readonly level: string;
  readonly word: string;
  readonly text: string;
}
interface Tile {
  readonly label: string;
  readonly figure: () => number;
  readonly note: () => string;
  readonly rules: readonly string[];
}
interface Page {
  readonly now: { program: string; ready: unknown };
  readonly problems: () => readonly Problem[];
  readonly well: () => string;
  readonly TILES: Readonly<Record<string, readonly Tile[]>>;
  readonly parse: (text: string) => unknown;
  readonly record: (ms: number, figures: unknown) => void;
  readonly figuresOf: (families: unknown, ms: number) => unknown;
}

// The page's modules are JavaScript, which browsers run, without types.
const modules = ['status-figures.js', 'status-rules.js'].map(
  (name) => new URL(`../../lib/telemetry/${name}`, import.meta.url).href,
);
const [figures, rules] = await Promise.all(modules.map((url) => import(url) as Promise<object>));
const page = { ...figures, ...rules } as Page;
/** Situations follow each other in one history, an hour apart. */
let startedMs = 0;

/** Polls the situation each second. */
function polled(situation: Situation, seconds = 30, after = 0): void {
  if (after === 0) startedMs += 3_600_000;
  page.now.program = situation.program ?? 'gateway';
  page.now.ready =
    situation.unready === undefined ? { status: 'ready' } : { status: 'unavailable', reason: situation.unready };
  for (let second = after; second <= after + seconds; second += 1) {
    const ms = startedMs + second * 1000;
    page.record(ms, page.figuresOf(page.parse(pageMetrics(second, situation)), ms));
  }
}

const tile = (label: string): Tile => {
  const found = (page.TILES[page.now.program] ?? []).find((one) => one.label === label);
  assert.ok(found, label);
  return found;
};
const level = ({ rules }: Tile): string | undefined => page.problems().find(({ name }) => rules.includes(name))?.level;

describe('the rules of the status page', () => {
  for (const [name, situation] of Object.entries(SITUATIONS))
    it(`recognize: ${name}`, () => {
      polled(situation);
      const [problem] = page.problems();
      const shown = problem ?? { word: 'LIVE', level: 'good', text: page.well() };
      const [word, wanted, reason] = situation.shows;
      assert.deepEqual([shown.word, shown.level], [word, wanted], shown.text);
      assert.match(shown.text.replaceAll('\u00a0', ' '), reason);
    });

  it('show each healthy tile without a color, and a landed rate that is exact between readings', () => {
    polled({}, 31);
    for (const one of page.TILES['gateway'] ?? []) assert.equal(level(one), undefined, one.label);
    assert.equal(tile('Landed').figure(), 2_000);
    assert.equal(tile('Consumers').figure(), 3);
  });

  it('color a tile only while its own figure is bad', () => {
    polled({ slow: 0.2 });
    assert.equal(level(tile('p99 of POST /events')), 'bad');
    assert.ok(tile('p99 of POST /events').figure() > 0.2);
    polled({ slow: 0.05 });
    assert.equal(level(tile('p99 of POST /events')), 'warn');
    polled({ slow: 0.005 });
    assert.equal(level(tile('p99 of POST /events')), undefined);
    assert.ok(tile('p99 of POST /events').figure() < 0.2);
  });

  it('do not say that no limit is set while Redis does not report it', () => {
    polled(SITUATIONS['Redis down'] ?? {});
    assert.doesNotMatch(tile('Queue memory').note(), /no limit/);
    polled({ samples: { ingest_queue_memory_limit_bytes: 0 } });
    assert.match(tile('Queue memory').note(), /no limit is set/);
  });

  it('forget a stop of landing as soon as events land', () => {
    polled({ landed: 0, unlanded: () => 500 });
    assert.equal(page.problems()[0]?.word, 'NOT LANDING');
    polled({ unlanded: () => 500 }, 12, 31);
    assert.deepEqual(page.problems(), []);
  });
});
