import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { UnreadAnswers } from '../../lib/http/unread-answers.ts';

const budget = (holderMax: number, totalMax: number): UnreadAnswers<string> =>
  new UnreadAnswers<string>({ holderMax, totalMax });

describe('where more waits than may', () => {
  it('the connection of that holder goes that has been behind for longest', () => {
    const unread = budget(100, 1_000);
    assert.equal(unread.waits('other', 'q', 90), undefined);
    assert.equal(unread.waits('a', 'p', 40), undefined);
    assert.equal(unread.waits('b', 'p', 40), undefined);
    assert.equal(unread.waits('c', 'p', 40), 'a');
    assert.equal(unread.waits('b', 'p', 70), 'b');
    assert.equal(unread.bytes, 130);
  });

  it('for all holders together, the one goes that has been behind for longest of all', () => {
    const unread = budget(100, 150);
    assert.equal(unread.waits('a', 'p', 90), undefined);
    assert.equal(unread.waits('b', 'q', 70), 'a');
    assert.equal(unread.bytes, 70);
  });

  it('a lone connection stays, however much waits for it', () => {
    const unread = budget(100, 150);
    assert.equal(unread.waits('a', 'p', 5_000), undefined);
    assert.equal(unread.waits('a', 'p', 6_000), undefined);
  });

  it('one that has caught up counts anew, behind those that have not', () => {
    const unread = budget(100, 1_000);
    unread.waits('a', 'p', 40);
    unread.waits('b', 'p', 40);
    unread.waits('a', 'p', 0);
    unread.waits('a', 'p', 40);
    assert.equal(unread.waits('c', 'p', 40), 'b');
    for (const one of ['a', 'c']) unread.waits(one, 'p', 0);
    assert.equal(unread.bytes, 0);
  });

  it('one that takes some of its answer does not go for that', () => {
    const unread = budget(100, 1_000);
    unread.waits('a', 'p', 50);
    unread.waits('b', 'p', 50);
    assert.equal(unread.waits('a', 'p', 20), undefined);
    assert.equal(unread.waits('c', 'p', 30), undefined);
    assert.equal(unread.bytes, 100);
  });
});
