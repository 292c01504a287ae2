import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { costChart, dataOf } from '../../bench/report/cost-chart.ts';

const ROOT = new URL('../../', import.meta.url);
const PICTURE = new URL('.github/images/cost.svg', ROOT);

const PEERS: Readonly<Record<string, string>> = {
  'nginx with Lua': 'nginx',
  Fastify: 'fastify',
  'an empty `node:https` server': 'floor',
};

/** Matches phrases such as `0.83 times the CPU time of nginx with Lua` and captures the ratio and the peer. */
const FIGURE = new RegExp(`(\\d+\\.\\d+) times the CPU time of (${Object.keys(PEERS).join('|')})`, 'g');

function quoted(text: string): readonly (readonly [string, number])[] {
  return [...text.matchAll(FIGURE)].map(([, ratio, peer = '']) => [PEERS[peer] ?? '', Number(ratio)] as const);
}

describe('the chart of the cost of an event', () => {
  const data = {
    ratios: { nginx: 0.83, fastify: 0.6, floor: 0.97, 'floor with Redis': 0.7 },
    ...{ saturationUs: 31, lowRateUs: 84 },
  };
  const machine = {
    ...{ date: '2026-11-24T00:00:00.000Z', commit: '1', cpu: 'x', cores: 2, node: 'v26', redis: '7.0' },
    ...{ rounds: 5, seconds: 3 },
  };

  it('holds its data, has a bar for each peer and one for each gateway, and runs no script', () => {
    const chart = costChart(data, machine);
    assert.deepEqual(dataOf(chart), data);
    assert.equal(chart.match(/<rect class="(own|peer)"/g)?.length, 6);
    assert.match(chart, />1\.20</, 'nginx is 1 / 0.83');
    assert.doesNotMatch(chart, /script|NaN|https?:(?!\/\/www\.w3\.org\/2000\/svg)/);
  });

  it('contains the figures that the README quotes', () => {
    assert.deepEqual(quoted('takes 0.83 times the CPU time of nginx with Lua'), [['nginx', 0.83]]);
    const figures = quoted(readFileSync(new URL('README.md', ROOT), 'utf8'));
    const committed = existsSync(PICTURE) ? dataOf(readFileSync(PICTURE, 'utf8')).ratios : {};
    for (const [peer, ratio] of figures) assert.equal(ratio, committed[peer], peer);
  });
});
