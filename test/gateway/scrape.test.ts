import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Scrape } from '../../lib/gateway/scrape.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe('a scrape', () => {
  it('makes its text five times a second at most, and all who wait share one that is made after they asked', async () => {
    const clock = new VirtualClock();
    let made = 0;
    const scrape = new Scrape(() => Promise.resolve((made += 1)), clock);
    const given: number[] = [];
    const ask = (): void => void scrape.text().then((text) => given.push(text));
    ask();
    ask();
    await clock.advance(0);
    assert.deepEqual(given, [1, 1]);
    ask();
    await clock.advance(199);
    ask();
    assert.deepEqual(given, [1, 1]);
    await clock.advance(1);
    assert.deepEqual(given, [1, 1, 2, 2]);
    await clock.advance(200);
    ask();
    await clock.advance(0);
    assert.deepEqual(given, [1, 1, 2, 2, 3]);
    assert.equal(made, 3);
  });
});
