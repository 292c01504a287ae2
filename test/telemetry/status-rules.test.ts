// Runs the rules of the status page over samples of each situation, as the page records them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { poll, problems, TILES, type Tile, well } from '../support/status-rules.ts';
import { pageMetrics, SITUATIONS, type Situation } from './page-metrics.ts';

/** Situations follow each other in one history, an hour apart. */
let startedMs = 0;

/** Polls the situation each second. */
function polled(situation: Situation, seconds = 30, after = 0): void {
  if (after === 0) startedMs += 3_600_000;
  const { unready: reason, reasons } = situation;
  const parts = reasons && { unavailable: Object.keys(reasons), reasons };
  const ready = reason === undefined ? { status: 'ready', ...parts } : { status: 'unavailable', reason };
  for (let second = after; second <= after + seconds; second += 1)
    poll(situation.program ?? 'gateway', ready, pageMetrics(second, situation), startedMs + second * 1000);
}

const tile = (label: string): Tile => {
  const found = (TILES['gateway'] ?? []).find((one) => one.label === label);
  assert.ok(found, label);
  return found;
};
const level = ({ rules }: Tile): string | undefined => problems().find(({ name }) => rules.includes(name))?.level;

describe('the rules of the status page', () => {
  for (const [name, situation] of Object.entries(SITUATIONS))
    it(`recognize: ${name}`, () => {
      polled(situation, 75);
      const [problem, ...others] = problems().filter(({ isConsequence }) => !isConsequence);
      assert.deepEqual(
        others.map(({ word: other }) => other),
        situation.beside ?? [],
      );
      const shown = problem ?? { word: 'LIVE', level: 'good', text: well() };
      const [word, wanted, reason] = situation.shows;
      assert.deepEqual([shown.word, shown.level], [word, wanted], shown.text);
      assert.match(shown.text.replaceAll('\u00a0', ' '), reason);
    });

  it('show each healthy tile without a color, and a landed rate that is exact between readings', () => {
    polled({}, 31);
    for (const one of TILES['gateway'] ?? []) assert.equal(level(one), undefined, one.label);
    assert.equal(tile('Landed').figure(), 2_000);
    assert.equal(tile('Consumers').figure(), 3);
    assert.equal(tile('p99 of POST /events').figure().toFixed(3), '0.195', 'within its bucket');
    poll('gateway', { status: 'ready' }, pageMetrics(1), startedMs + 32_000);
    assert.ok(!(tile('Accepted').figure() < 0), 'after a restart');
  });

  it('name the reason of an error of the network in words', () => {
    for (const [code, words] of Object.entries({
      ...{ ECONNREFUSED: 'connection refused', ENOTFOUND: 'unknown host name', ETIMEDOUT: 'no connection in time' },
      ...{ EAI_AGAIN: 'the host name cannot be looked up', EHOSTUNREACH: 'no route to the host' },
      ...{ ENETUNREACH: 'no route to the network', ECONNRESET: 'the connection was closed' },
      EPIPE: 'the connection was closed',
    })) {
      polled({ unready: `connect ${code} 10.0.0.1:6379` });
      assert.equal(problems()[0]?.text, `Redis: ${words} (10.0.0.1:6379).`);
    }
  });

  it('color a tile only while its own figure is bad', () => {
    for (const [slow, color] of [
      [0.2, 'bad'],
      [0.05, 'warn'],
      [0.005, undefined],
    ] as const) {
      polled({ slow });
      const p99 = tile('p99 of POST /events');
      assert.deepEqual([level(p99), p99.figure() > 0.2], [color, slow > 0.01]);
    }
  });

  it('do not say that no limit is set while Redis does not report it', () => {
    polled(SITUATIONS['Redis down'] ?? {});
    assert.doesNotMatch(tile('Queue memory').note(), /no limit/);
    polled({ samples: { ingest_queue_memory_limit_bytes: 0 } });
    assert.match(tile('Queue memory').note(), /no limit is set/);
  });

  it('call landing stopped only after a whole window without it', () => {
    const stopped = { landed: 0, unlanded: () => 500 };
    polled(stopped, 5);
    assert.deepEqual(problems(), []);
    polled(stopped, 25, 6);
    assert.equal(problems()[0]?.word, 'NOT LANDING');
  });

  it('forget a stop of landing as soon as events land', () => {
    polled({ landed: 0, unlanded: () => 500 });
    assert.equal(problems()[0]?.word, 'NOT LANDING');
    polled({ unlanded: () => 500 }, 12, 31);
    assert.deepEqual(problems(), []);
  });
});
