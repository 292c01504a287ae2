import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { UnreadAnswers } from '../../lib/http/unread-answers.ts';

const budget = (holderMax: number, totalMax: number): UnreadAnswers<string> =>
  new UnreadAnswers<string>({ holderMax, totalMax });

describe('over the limit of unread answers', () => {
  it('the connection of that holder closes that has been behind for longest', () => {
    const unread = budget(100, 1_000);
    assert.equal(unread.waits('other', 'q', 90), undefined);
    assert.equal(unread.waits('a', 'p', 40), undefined);
    assert.equal(unread.waits('b', 'p', 40), undefined);
    assert.equal(unread.waits('c', 'p', 40), 'a');
    assert.equal(unread.waits('b', 'p', 70), 'b');
  });

  it('in total, the connection closes that has been behind for longest of all', () => {
    const unread = budget(100, 150);
    assert.equal(unread.waits('a', 'p', 90), undefined);
    assert.equal(unread.waits('b', 'q', 70), 'a');
  });

  it('the only connection stays open', () => {
    const unread = budget(100, 150);
    assert.equal(unread.waits('a', 'p', 5_000), undefined);
    assert.equal(unread.waits('a', 'p', 6_000), undefined);
  });

  it('a connection that had caught up is the last to close', () => {
    const unread = budget(100, 1_000);
    unread.waits('a', 'p', 40);
    unread.waits('b', 'p', 40);
    unread.waits('a', 'p', 0);
    unread.waits('a', 'p', 40);
    assert.equal(unread.waits('c', 'p', 40), 'b');
  });

  it('a connection is not closed for reading a part of its answer', () => {
    const unread = budget(100, 1_000);
    unread.waits('a', 'p', 50);
    unread.waits('b', 'p', 50);
    assert.equal(unread.waits('a', 'p', 20), undefined);
    assert.equal(unread.waits('c', 'p', 30), undefined);
  });
});
